"""A person has a server started anew: whatever became of it, there is a new process, and the old one is gone."""

import asyncio
import shlex
import signal
from collections.abc import Awaitable, Callable

import pytest

from acp_launch.process.lifecycle import BY_HAND, Change
from acp_launch.process.tree import Exit
from acp_launch.profile.model import Restart

from .liveness import Liveness, program
from .supervising import HandClock, Watched, alive_of, already_set, kill, sh, supervised

CAT = ["/bin/cat"]
NEVER = Restart(policy="never")

Reach = Callable[[Watched], Awaitable[None]]


async def starting(watched: Watched) -> None:
    await watched.until("started")


async def ready(watched: Watched) -> None:
    await watched.until("started")
    watched.supervisor.ready()


async def resting(watched: Watched) -> None:
    await watched.until("started")
    kill(watched)
    await watched.until("lost: resting")


async def failed(watched: Watched) -> None:
    await watched.until("started")
    kill(watched)
    await watched.until("lost: failed")


async def stopped(watched: Watched) -> None:
    """By its policy: it exits with status 0."""
    await watched.until("started")
    watched.children[0].close_stdin()
    await watched.until("lost: stopped")


ENDING = ["ending", "resting", "lost: resting"]
REACHES: dict[str, tuple[Reach, Restart, list[str]]] = {
    "starting": (starting, NEVER, ["starting", "started", *ENDING]),
    "ready": (ready, NEVER, ["starting", "started", "ready", *ENDING]),
    "resting": (resting, Restart(), ["starting", "started", *["resting", "lost: resting"] * 2]),
    "failed": (failed, NEVER, ["starting", "started", "failed", "lost: failed", "resting", "lost: resting"]),
    "stopped": (stopped, Restart(), ["starting", "started", "stopped", "lost: stopped", "resting", "lost: resting"]),
}


async def echoes(watched: Watched) -> bool:
    """The process there is now does its work."""
    await watched.children[-1].write(b"are you there\n")
    return await watched.children[-1].read() == b"are you there\n"


@pytest.mark.parametrize("state", REACHES)
@supervised
async def test_renewed_in_any_state_there_is_a_new_process_at_once_and_the_old_one_is_gone(state: str) -> None:
    reach, restart, story = REACHES[state]
    clock = HandClock()  # stands still: no pause would ever be over
    watched = Watched(CAT, restart=restart, clock=clock)
    watched.on_started = lambda child: ends.append([each.exit for each in watched.children[:-1]])
    ends: list[list[Exit | None]] = []
    async with watched.running():
        await reach(watched)
        watched.supervisor.renew()
        await watched.until("started", 2)
        assert await echoes(watched)
        watched.supervisor.ready()
        wish = watched.changes[-3]
        assert (wish.state, wish.exit, wish.by_hand, wish.retry) == ("resting", BY_HAND, True, 0)
        assert [(change.by_hand, change.restarts) for change in watched.changes[-2:]] == [(True, 0)] * 2
        await watched.supervisor.stop()
    assert watched.story == [
        *story, "starting", "started", "ready", "stopping", "ending", "stopped", "lost: stopped",
    ]  # fmt: skip
    was_killed = state in ("resting", "failed")
    assert ends == [[], [Exit(None, signal.SIGKILL) if was_killed else Exit(0, None)]]
    assert clock.rings_in == []


@pytest.mark.parametrize("state", REACHES)
@supervised
async def test_cancelled_right_after_the_wish_nothing_is_left(state: str, alive: Liveness) -> None:
    reach, restart, _ = REACHES[state]
    watched = Watched(["/bin/sh", "-c", f"{shlex.join(program('deaf', 'stubborn'))} & exec cat"],
                      env=alive.env, restart=restart, clock=HandClock())  # fmt: skip
    task = asyncio.create_task(watched.supervisor.run())
    await reach(watched)
    watched.supervisor.renew()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert watched.story[-2:] == ["stopped", "lost: stopped"]
    watched.supervisor.renew()
    assert watched.story[-1] == "lost: stopped"
    alive.assert_all_dead()


@pytest.mark.parametrize("state", ["failed", "stopped"])
@supervised
async def test_what_is_final_waits_without_a_timer_and_is_silent_about_its_stop(state: str) -> None:
    reach, restart, story = REACHES[state]
    clock = HandClock()
    watched = Watched(CAT, restart=restart, clock=clock)
    async with watched.running() as task:
        await reach(watched)
        clock.move(3600)
        assert clock.rings_in == []
        assert not task.done()
        outcome = await watched.supervisor.stop()
        assert task.done()
    assert outcome.exit is not None
    assert watched.story == story[:-2]


@supervised
async def test_a_process_that_heeds_nothing_is_ended_by_the_whole_ladder_before_the_next_is_started(
    alive: Liveness,
) -> None:
    watched = Watched(program("deaf", "stubborn"), env=alive.env, grace=0.05)
    found: list[list[int]] = []
    watched.on_started = lambda child: found.append(alive_of(alive))
    async with watched.running():
        await asyncio.to_thread(alive.hear, "stubborn")
        watched.supervisor.renew()
        await watched.until("started", 2)
        await asyncio.to_thread(alive.hear, "stubborn")
        assert watched.children[0].exit == Exit(None, signal.SIGKILL)
        assert watched.children[0].ending is not None
        assert watched.children[0].ending.result().steps == ("stdin closed", "SIGTERM", "SIGKILL")
        await watched.supervisor.stop(already_set())
    assert found == [[], [0]]
    alive.assert_all_dead()


@supervised
async def test_a_wish_during_the_end_of_a_crashed_tree_starts_the_next_when_that_is_gone(alive: Liveness) -> None:
    script = shlex.join(program("deaf", "stubborn"))
    watched = Watched(sh(f"{script}; true"), env=alive.env, clock=HandClock())
    found: list[list[int]] = []
    watched.on_started = lambda child: found.append(alive_of(alive))

    def wish(change: Change) -> None:
        if not change.by_hand and change.state == "resting":
            asyncio.get_running_loop().call_soon(watched.supervisor.renew)

    watched.on_lost = wish
    async with watched.running():
        await asyncio.to_thread(alive.hear, "stubborn")
        kill(watched)
        await watched.until("started", 2)
        await watched.supervisor.stop(already_set())
    assert found == [[], [0]]
    assert watched.story[2:6] == ["resting", "lost: resting"] * 2
