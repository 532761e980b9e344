"""However and whenever a supervised server is to end: it does, it is told, and nothing is left."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from acp_launch.process.tree import Exit, StopOutcome

from .liveness import Liveness, program
from .supervising import HandClock, Watched, alive_of, kill, supervised

CAT = ["/bin/cat"]

# In every state: what it takes to get there, and the process that is there then.

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


REACHES: dict[str, tuple[Reach, list[str]]] = {
    "declared": (nothing, []),
    "starting": (starting, ["starting", "started"]),
    "ready": (ready, ["starting", "started", "ready"]),
    "condemned": (condemned, ["starting", "started"]),
    "resting": (resting, ["starting", "started", "resting", "lost: resting"]),
    "resting long since": (resting_long_since, ["starting", "started", "resting", "lost: resting"]),
    "stopping": (stopping, ["starting", "started", "stopping"]),  # and not yet "ending"
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


@pytest.mark.parametrize("state", [state for state in REACHES if state != "declared"])
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
