"""The servers of a launch and a person's wish for new ones, without an agent; with one: tests/seat."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acp_launch.bridge.servers import Needs, Servers, running
from acp_launch.plan.model import Origin, StdioPlan, Value
from acp_launch.process.change import Change

SERVER = Path(__file__).parents[1] / "servers" / "polite.py"
PATIENCE = 20.0  # seconds


def plan(name: str) -> StdioPlan:
    args = tuple(Value((arg,), Origin("test")) for arg in ("-I", "-S", str(SERVER)))
    return StdioPlan(name=name, command=Path(sys.executable), args=args, env={}, cwd=Path("/"))


async def forever() -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def served(*plans: StdioPlan) -> AsyncIterator[tuple[Servers, list[Change]]]:
    """All are up; what they tell."""
    told: list[Change] = []
    needs = Needs(
        secrets={},
        directories=(),
        max_line=1 << 20,
        changed=told.append,
        listed=lambda: None,
        tell=forever,
        note=lambda text: None,
        waiting=lambda what, seconds, limit: None,
        log=lambda name: lambda chunk: None,
        log_end=lambda name: None,
        hurry=asyncio.Event(),
    )
    async with asyncio.timeout(PATIENCE), running(plans, needs) as inner:
        for each in plans:
            assert await inner.servers.up(each)
        yield inner.servers, told


def told_of(told: list[Change], server: str) -> list[str]:
    return [change.state for change in told if change.server == server]


def test_only_the_server_that_is_named_is_restarted() -> None:
    async def use() -> None:
        one, other = plan("one"), plan("other")
        async with served(one, other) as (servers, told):
            servers.restart("one")
            assert await servers.up(one)
            assert await servers.up(other)
            assert told_of(told, "one") == ["starting", "resting", "starting"]
            assert told_of(told, "other") == ["starting"]
            first, wish, second = (change for change in told if change.server == "one")
            assert wish == Change(
                server="one",
                state="resting",
                budget=5,
                after=wish.after,
                exit="was restarted by the user",
                retry=0,
                by_hand=True,
            )
            assert first.pid != second.pid
            assert [(each.state, each.restarts) for each in servers.standings()] == [("starting", 0)] * 2
        assert told_of(told, "one")[3:] == ["stopping", "stopped"]

    asyncio.run(use())


def test_once_they_are_being_stopped_none_is_restarted() -> None:
    async def use() -> None:
        only = plan("only")
        async with served(only) as (servers, told):
            servers.stopping()
            servers.restart("only")
            assert await servers.up(only), "its process is not about to be ended"
            assert told_of(told, "only") == ["starting"]
        assert told_of(told, "only") == ["starting", "stopping", "stopped"]

    asyncio.run(use())


def test_a_server_nobody_has_cannot_be_restarted() -> None:
    async def use() -> None:
        async with served(plan("only")) as (servers, told):
            with pytest.raises(KeyError, match=r"^'onyl'$"):
                servers.restart("onyl")
            assert told_of(told, "only") == ["starting"]

    asyncio.run(use())
