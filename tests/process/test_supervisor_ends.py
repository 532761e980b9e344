"""However and whenever a supervised server is to end, or a person has it started anew: it does, and nothing is left."""

import asyncio
import shlex
import signal
from collections.abc import Awaitable, Callable

import pytest

from acp_launch.process.lifecycle import BY_HAND, Change
from acp_launch.process.tree import Exit, StopOutcome
from acp_launch.profile.model import Restart

from .liveness import Liveness, program
from .supervising import HandClock, Watched, alive_of, already_set, kill, sh, supervised

CAT = ["/bin/cat"]
NEVER = Restart(policy="never")
Reach = Callable[[Watched, HandClock], Awaitable[None]]


async def nothing(watched: Watched, clock: HandClock) -> None:
    """It has not run yet."""


async def starting(watched: Watched, clock: HandClock) -> None:
    await watched.until("started")


async def ready(watched: Watched, clock: HandClock) -> None:
    await watched.until("started")
    watched.supervisor.ready()


async def resting(watched: Watched, clock: HandClock) -> None:
    await watched.until("started")
    kill(watched)
    await watched.until("lost: resting")


async def resting_long_since(watched: Watched, clock: HandClock) -> None:
    """Its tree is gone and its backoff runs."""
    await resting(watched, clock)
    await clock.is_set.wait()


async def condemned(watched: Watched, clock: HandClock) -> None:
    await watched.until("started")
    watched.supervisor.condemn("is wedged")


async def stopping(watched: Watched, clock: HandClock) -> None:
    await watched.until("started")
    wish = asyncio.create_task(watched.supervisor.stop())
    await watched.until("stopping")
    wish.cancel()
    await asyncio.wait({wish})


async def failed(watched: Watched, clock: HandClock) -> None:
    await watched.until("started")
    kill(watched)
    await watched.until("lost: failed")


async def stopped(watched: Watched, clock: HandClock) -> None:
    """By its policy: it exits with status 0."""
    await watched.until("started")
    watched.children[0].close_stdin()
    await watched.until("lost: stopped")


# What it takes to get to a state, and what was told by then.
REACHES: dict[str, tuple[Reach, list[str]]] = {
    "declared": (nothing, []),
    "starting": (starting, ["starting", "started"]),
    "ready": (ready, ["starting", "started", "ready"]),
    "condemned": (condemned, ["starting", "started"]),
    "resting": (resting, ["starting", "started", "resting", "lost: resting"]),
    "resting long since": (resting_long_since, ["starting", "started", "resting", "lost: resting"]),
    "stopping": (stopping, ["starting", "started", "stopping"]),  # and not yet "ending"
}
FINAL: dict[str, tuple[Reach, Restart, list[str]]] = {
    "failed": (failed, NEVER, ["starting", "started", "failed", "lost: failed"]),
    "stopped": (stopped, Restart(), ["starting", "started", "stopped", "lost: stopped"]),
}
RENEWED: dict[str, tuple[Reach, Restart, list[str]]] = {
    **{state: (*REACHES[state][:1], NEVER, [*REACHES[state][1], "ending"]) for state in ("starting", "ready")},
    "resting": (resting, Restart(), REACHES["resting"][1]),
    **FINAL,
}


@pytest.mark.parametrize("state", REACHES)
@supervised
async def test_stopped_in_any_state_it_ends_stopped_with_nothing_left(state: str) -> None:
    reach, story = REACHES[state]
    clock = HandClock()
    watched = Watched(CAT, clock=clock)
    task = None if state == "declared" else asyncio.create_task(watched.supervisor.run())
    await reach(watched, clock)
    outcomes = await asyncio.gather(watched.supervisor.stop(), watched.supervisor.stop())
    assert outcomes[0] is outcomes[1] is await watched.supervisor.stop()
    if task:
        await task
    await watched.supervisor.run()  # that it is not wanted any more was said
    asks = [] if state in ("declared", "resting", "resting long since", "stopping") else ["stopping"]
    ends = ["ending"] if task and "resting" not in state else []
    assert watched.story == [*story, *asks, *ends, "stopped", "lost: stopped"]
    assert (outcomes[0].exit is None) == (state == "declared")
    assert outcomes[0].survivors == ()
    assert (watched.supervisor.child, watched.supervisor.pid, clock.rings_in) == (None, None, [])
    assert not await watched.supervisor.up()


@pytest.mark.parametrize("state", ["starting", "condemned", "resting", "resting long since", "stopping"])
@supervised
async def test_cancelled_in_any_state_it_ends_stopped_with_nothing_left(state: str, alive: Liveness) -> None:
    reach, story = REACHES[state]
    clock = HandClock()
    watched = Watched(program("deaf", "stubborn"), env=alive.env, clock=clock)
    open_still: list[int] = []
    watched.on_lost = lambda change: open_still.append(watched.children[0].spawned.stdout)
    task = asyncio.create_task(watched.supervisor.run())
    await reach(watched, clock)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert watched.story == [*story, "stopped", "lost: stopped"]
    assert open_still[0] >= 0, "its pipes were open when it was lost"
    assert (watched.supervisor.child, clock.rings_in) == (None, [])
    assert not await watched.supervisor.up()
    await watched.supervisor.stop()
    alive.assert_all_dead()


@supervised
async def test_cancelled_before_its_first_step_it_can_be_stopped() -> None:
    watched = Watched(CAT)
    task = asyncio.create_task(watched.supervisor.run())
    task.cancel()
    await asyncio.wait({task})
    assert await watched.supervisor.stop() == StopOutcome(None, (), ())
    assert watched.story == ["stopped", "lost: stopped"]


@supervised
async def test_stopping_is_polite_and_a_server_that_obeys_ends_with_its_stdin(alive: Liveness) -> None:
    watched = Watched(program("polite"), env=alive.env)
    async with watched.running():
        await asyncio.to_thread(alive.hear, "polite")
        outcome = await watched.supervisor.stop()
    assert outcome.exit == Exit(0, None)
    assert outcome.steps == ("stdin closed",)
    assert (watched.last.state, watched.last.exit) == ("stopped", "exited with status 0")


@supervised
async def test_a_server_that_obeys_is_told_lost_at_once_although_its_daemon_takes_the_whole_ladder(
    alive: Liveness,
) -> None:
    watched = Watched(program("forker", "daemon"), env=alive.env, grace=0.05)
    found: list[int] = []
    watched.on_lost = lambda change: found.extend(alive_of(alive))
    async with watched.running():
        await asyncio.to_thread(alive.hear, "forker", "daemon")
        outcome = await watched.supervisor.stop()
    assert sorted(found) == [0, 1]
    assert outcome.steps == ("stdin closed", "SIGTERM", "SIGKILL")
    alive.assert_all_dead()


@supervised
async def test_a_stop_outlives_its_caller(alive: Liveness) -> None:
    watched = Watched(program("polite"), env=alive.env)
    async with watched.running():
        await asyncio.to_thread(alive.hear, "polite")
        wish = asyncio.create_task(watched.supervisor.stop())
        await watched.until("stopping")
        wish.cancel()
    assert watched.last.state == "stopped"


# A person has it started anew.


async def echoes(watched: Watched) -> bool:
    """The process there is now does its work."""
    await watched.children[-1].write(b"are you there\n")
    return await watched.children[-1].read() == b"are you there\n"


@pytest.mark.parametrize("state", RENEWED)
@supervised
async def test_renewed_in_any_state_there_is_a_new_process_at_once_and_the_old_one_is_gone(state: str) -> None:
    reach, restart, story = RENEWED[state]
    clock = HandClock()  # stands still: no pause would ever be over
    watched = Watched(CAT, restart=restart, clock=clock)
    watched.on_started = lambda child: ends.append([each.exit for each in watched.children[:-1]])
    ends: list[list[Exit | None]] = []
    async with watched.running():
        await reach(watched, clock)
        watched.supervisor.renew()
        await watched.until("started", 2)
        assert await echoes(watched)
        watched.supervisor.ready()
        wish = watched.changes[-3]
        assert (wish.state, wish.exit, wish.by_hand, wish.retry) == ("resting", BY_HAND, True, 0)
        assert [(change.by_hand, change.restarts) for change in watched.changes[-2:]] == [(True, 0)] * 2
        await watched.supervisor.stop()
    assert watched.story == [
        *(*story, "resting", "lost: resting", "starting", "started", "ready"),
        *("stopping", "ending", "stopped", "lost: stopped"),
    ]
    was_killed = state in ("resting", "failed")
    assert ends == [[], [Exit(None, signal.SIGKILL) if was_killed else Exit(0, None)]]
    assert clock.rings_in == []


@pytest.mark.parametrize("state", ["ready", "resting", "failed"])
@supervised
async def test_cancelled_right_after_the_wish_nothing_is_left(state: str, alive: Liveness) -> None:
    reach, restart, _ = RENEWED[state]
    clock = HandClock()
    script = f"{shlex.join(program('deaf', 'stubborn'))} & exec cat"
    watched = Watched(sh(script), env=alive.env, restart=restart, clock=clock)
    task = asyncio.create_task(watched.supervisor.run())
    await reach(watched, clock)
    watched.supervisor.renew()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert watched.story[-2:] == ["stopped", "lost: stopped"]
    watched.supervisor.renew()
    assert watched.story[-1] == "lost: stopped"
    alive.assert_all_dead()


@pytest.mark.parametrize("state", FINAL)
@supervised
async def test_what_is_final_waits_without_a_timer_and_is_silent_about_its_stop(state: str) -> None:
    reach, restart, story = FINAL[state]
    clock = HandClock()
    watched = Watched(CAT, restart=restart, clock=clock)
    async with watched.running() as task:
        await reach(watched, clock)
        clock.move(3600)
        assert clock.rings_in == []
        assert not task.done()
        outcome = await watched.supervisor.stop()
        assert task.done()
    assert outcome.exit is not None
    assert watched.story == story


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
