"""The end of the time that a run may take, wherever it comes; the clock is turned by hand. Signals: tests/cli."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from acp_launch.engine.loop import Interrupts
from acp_launch.engine.run import outside_budget
from acp_launch.errors import AuthRequired, RunExpired, Stopped, WaitExpired
from acp_launch.session.connection import ACP_MODE, Budget, Connection, connect, negotiate
from acp_launch.session.events import AnyEvent, WaitingEvent
from tests.session.recording import Agent, Recorder
from tests.transport.memory import pair
from tests.turnedclock import turned

LONGER = "if it needs longer: a longer --timeout"


def now() -> float:
    return asyncio.get_running_loop().time()


def goes_on() -> bool:
    """Whether this task, which was cancelled, is as good as any other."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() == 0


class Limits(Recorder):
    """Keeps the deadlines that are told."""

    def describe(self, event: AnyEvent) -> Iterator[tuple[str, Any]]:
        if isinstance(event, WaitingEvent):
            yield "waiting", (event.seconds, event.limit)
        else:
            yield from super().describe(event)


@turned
async def test_a_run_that_takes_longer_than_it_may_is_ended_wherever_it_is() -> None:
    interrupts = Interrupts(budget=Budget(2))
    with pytest.raises(RunExpired) as caught:
        await interrupts.watch(asyncio.sleep(10))
    assert (caught.value.message, caught.value.exit_code) == ("the run took longer than --timeout 2s", 124)
    assert now() == pytest.approx(2)
    assert goes_on()


@turned
async def test_a_signal_between_two_stories_ends_the_second_one() -> None:
    """A host whose agent has just ended waits for the next request without a limit."""
    interrupts = Interrupts()
    interrupts._loop = asyncio.get_running_loop()
    await interrupts.watch(asyncio.sleep(0))
    interrupts.stopping()
    interrupts.interrupt()
    with pytest.raises(Stopped) as caught:
        await interrupts.watch(asyncio.Event().wait())
    assert caught.value.exit_code == 130


@pytest.fixture(autouse=True)
def as_users_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is ours, so the tests need no patience."""
    monkeypatch.setattr("acp_launch.waits.FIRST_NOTICE", 3.0)


@turned
async def test_a_wait_for_the_agent_is_named_and_so_is_the_deadline_that_runs() -> None:
    recorder = Limits()
    ours, theirs = pair()
    interrupts = Interrupts(budget=Budget(10))

    async def met() -> None:
        async with connect(ours, recorder, max_line=1000, budget=interrupts.budget) as connection:
            await negotiate(connection, limit=120)

    async def hear() -> None:
        await Agent(theirs).hears("initialize")

    hearing = asyncio.create_task(hear())
    with pytest.raises(RunExpired) as caught:
        await interrupts.watch(met())
    await hearing
    said = "no answer to initialize from the agent within --timeout 10s"
    assert (caught.value.message, caught.value.fix) == (said, f"{ACP_MODE}; {LONGER}")
    assert recorder.of("waiting") == [(3, 10), (9, 10)]
    assert now() == pytest.approx(10)
    assert goes_on()


@turned
async def test_a_program_that_printed_something_is_quoted_and_the_limit_is_the_users_all_the_same() -> None:
    ours, theirs = pair()
    interrupts = Interrupts(budget=Budget(10))

    async def met() -> None:
        async with connect(ours, Recorder(), max_line=1000, budget=interrupts.budget) as connection:
            await negotiate(connection, limit=120)

    await theirs.write(b"Welcome!\n")
    with pytest.raises(RunExpired) as caught:
        await interrupts.watch(met())
    assert caught.value.detail == ("it printed: Welcome!",)


@turned
async def test_a_wait_with_less_time_of_its_own_ends_by_itself() -> None:
    recorder = Limits()
    ours, _ = pair()
    interrupts = Interrupts(budget=Budget(10))

    async def met() -> None:
        async with connect(ours, recorder, max_line=1000, budget=interrupts.budget) as connection:
            await negotiate(connection, limit=5)

    with pytest.raises(WaitExpired, match="no answer to initialize from the agent within 5 s"):
        await interrupts.watch(met())
    assert recorder.of("waiting") == [(3, 5)]


@turned
async def test_a_turn_is_asked_to_end_and_not_torn_away() -> None:
    asked: list[float] = []
    interrupts = Interrupts(budget=Budget(2))

    async def turn() -> str:
        with interrupts.turn(lambda: None, lambda: asked.append(now())):
            await asyncio.sleep(3)
            return "the end"

    assert await interrupts.watch(turn()) == "the end"
    assert asked == pytest.approx([2])
    assert interrupts.budget.is_spent


@turned
async def test_what_comes_after_the_story_is_not_counted_and_the_next_one_goes_on_with_what_is_left() -> None:
    interrupts = Interrupts(budget=Budget(5))
    await interrupts.watch(asyncio.sleep(3))
    await asyncio.sleep(100)
    began = now()
    with pytest.raises(RunExpired):
        await interrupts.watch(asyncio.sleep(100))
    assert now() - began == pytest.approx(2)


@turned
async def test_a_person_who_logs_in_takes_the_time_it_takes() -> None:
    interrupts = Interrupts(budget=Budget(5))

    async def log_in(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        await asyncio.sleep(100)

    async def opened() -> None:
        await asyncio.sleep(3)
        await outside_budget(log_in, interrupts.budget)(cast(Connection, None), AuthRequired("log in"), is_second=False)
        await asyncio.sleep(100)

    with pytest.raises(RunExpired):
        await interrupts.watch(opened())
    assert now() == pytest.approx(3 + 100 + 2)


@turned
async def test_without_a_limit_nothing_ends() -> None:
    interrupts = Interrupts()
    await interrupts.watch(asyncio.sleep(1_000_000))
    assert interrupts.budget.clamped(3, 120) == 120
