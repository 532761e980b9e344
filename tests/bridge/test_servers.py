"""The servers of a launch and a person's wish for new ones, without an agent; with one: tests/seat."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_launch.bridge.process import StartTimes
from acp_launch.bridge.seat import ShimConnection
from acp_launch.bridge.servers import ServerNeeds, Servers, running
from acp_launch.plan.model import Origin, StdioPlan, Value
from acp_launch.process.lifecycle import Change
from acp_launch.profile.model import Restart
from tests.bridge.observing import Silent
from tests.looped import looped
from tests.patience import PATIENCE

SERVERS = Path(__file__).parents[1] / "servers"
SERVER = SERVERS / "polite.py"


def plan(name: str, temper: str = "polite") -> StdioPlan:
    args = tuple(Value((arg,), Origin("test")) for arg in ("-I", "-S", str(SERVERS / f"{temper}.py")))
    return StdioPlan(name=name, command=Path(sys.executable), args=args, env={}, cwd=Path("/"))


async def forever() -> None:
    await asyncio.Event().wait()


class Told(list[Change], Silent):
    """What the servers tell, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self._news = asyncio.Event()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def changed(self, change: Change) -> None:
        self.append(change)
        self._news.set()

    async def until(self, *states: str) -> None:
        """These are the last ones that were told."""
        while [change.state for change in self[-len(states) :]] != list(states):
            self._news.clear()
            await self._news.wait()


@asynccontextmanager
async def served(*plans: StdioPlan) -> AsyncIterator[tuple[Servers, Told]]:
    """All are up; what they tell."""
    told, hurry = Told(), asyncio.Event()
    needs = ServerNeeds(secrets={}, directories=(), max_line=1 << 20, hurry=hurry)
    async with asyncio.timeout(PATIENCE), running(plans, needs, told) as inner:
        for each in plans:
            assert await inner.servers.up(each)
        yield inner.servers, told
        hurry.set()


def told_of(told: Sequence[Change], server: str) -> list[str]:
    return [change.state for change in told if change.server == server]


@looped
async def test_only_the_server_that_is_named_is_restarted() -> None:
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


@looped
async def test_once_they_are_being_stopped_none_is_restarted() -> None:
    only = plan("only")
    async with served(only) as (servers, told):
        servers.stopping()
        servers.restart("only")
        assert await servers.up(only), "its process is not about to be ended"
        assert told_of(told, "only") == ["starting"]
    assert told_of(told, "only") == ["starting", "stopping", "stopped"]


@looped
async def test_an_unknown_server_cannot_be_restarted() -> None:
    async with served(plan("only")) as (servers, told):
        with pytest.raises(KeyError, match=r"^'onyl'$"):
            servers.restart("onyl")
        assert told_of(told, "only") == ["starting"]


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}


def visit(servers: Servers, name: str) -> socket.socket:
    """An agent opens a server and begins its handshake; its end of the connection."""
    ours, its = socket.socketpair()
    ours.setblocking(False)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    servers.on_shim(ShimConnection(name, ours))
    its.sendall(json.dumps(hello).encode() + b"\n")
    return its


@looped
async def test_when_the_agent_is_gone_the_process_that_waits_for_the_next_one_is_what_there_is() -> None:
    """It was "stopped" for ever, and a status line counted it as down."""
    only = plan("only")
    async with served(only) as (servers, told):
        agent = visit(servers, "only")
        await told.until("starting", "ready")
        first = told[-1]
        assert [(each.state, each.after) for each in servers.standings()] == [("ready", first.after)]
        agent.close()
        await told.until("ready", "stopping", "stopped", "starting")
        assert told[-1].pid != first.pid
        (now,) = servers.standings()
        assert (now.state, now.after, now.tools, now.opened) == ("starting", None, None, True)
        again = visit(servers, "only")
        await told.until("starting", "ready")
        assert servers.standings()[0].state == "ready"
        again.close()


@looped
async def test_a_server_is_silent_until_it_has_answered_anything() -> None:
    mute = plan("mute", "mute")
    async with served() as (servers, told):
        servers.add(mute)
        await told.until("starting")
        assert servers.standings()[0].silent
    async with served(plan("only")) as (servers, told):
        assert not servers.standings()[0].silent


@looped
async def test_a_process_that_is_ending_is_not_that_of_the_next_session() -> None:
    """A host's next prompt failed while the servers of the one before were still ending."""
    only = plan("only", "stubborn")
    async with served(only) as (servers, told):
        agent = visit(servers, "only")
        await told.until("starting", "ready")
        agent.close()
        await told.until("ready", "stopping")
        assert await servers.up(only)
        assert told_of(told, "only") == ["starting", "ready", "stopping"]
        assert told_of(told, "only#2") == ["starting"]
        assert servers.patience(only) > 0
        again = visit(servers, "only")
        await told.until("starting", "ready")
        assert told[-1].server == "only#2", "it is the process that was waited for"
        again.close()


@looped
async def test_a_process_that_has_failed_in_one_session_is_not_that_of_the_next() -> None:
    only = replace(plan("only", "quitter"), restart=Restart(policy="never"))
    async with served(only) as (servers, told):
        agent = visit(servers, "only")
        await told.until("starting", "ready")
        agent.sendall(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"state","arguments":{}}}\n')
        await told.until("ready", "stopped")
        assert await servers.up(only)
        assert told_of(told, "only#2") == ["starting"]
        agent.close()


@pytest.mark.parametrize(
    ("begun", "first", "asked", "now", "own"),
    [
        pytest.param(10, 11, 45, 45.5, 1.5, id="it was up long before the agent came"),
        pytest.param(10, None, 45, 45.5, 0.5, id="it says nothing before it is asked"),
        pytest.param(10, 15, 12, 15.25, 5.25, id="the agent came while it was starting"),
        pytest.param(10, None, 4, 13, 3, id="it was started again, and asked at once"),
        pytest.param(10, 12, 4, 13, 3, id="it was started again, and said something first"),
    ],
)
def test_the_time_of_a_start_leaves_out_what_the_server_waited_for_its_agent(
    begun: float, first: float | None, asked: float, now: float, own: float
) -> None:
    times = StartTimes(begun, first or 0.0, asked, messages=1 if first is None else 2)
    assert times.own(now) == own


@looped
async def test_a_server_that_waited_for_its_agent_is_not_said_to_have_been_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The agent comes ten seconds after it was up: a person took so long to say that it is to be started again."""
    loop, later = asyncio.get_running_loop(), 0.0
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + later)
    only = plan("only")
    async with served(only) as (servers, told):
        later = 10.0
        agent = visit(servers, "only")
        await told.until("starting", "ready")
        assert told[-1].after is not None
        assert told[-1].after < later
        agent.close()


@looped
async def test_other_plans_may_be_taken_while_the_servers_run() -> None:
    """What the agent has not opened yet is started anew, or gone; a connection to what is gone is closed."""
    same, changed, gone, added = plan("same"), plan("changed"), plan("gone"), plan("added")
    async with served(same, changed, gone) as (servers, told):
        now = replace(changed, env={"WORD": Value(("now",), Origin("test"))})
        await servers.reload([same, now, added], {}, {})
        for each in (same, now, added):
            assert await servers.up(each)
        assert told_of(told, "same") == ["starting"]
        assert told_of(told, "changed") == ["starting", "stopping", "stopped", "starting"]
        assert told_of(told, "gone") == ["starting", "stopping", "stopped"]
        assert told_of(told, "added") == ["starting"]
        assert [each.server for each in servers.standings()] == ["same", "changed", "added"]
        assert set(servers.names) == {"same", "changed", "added"}
        ours, its = socket.socketpair()
        with ours, its:
            servers.on_shim(ShimConnection("gone", ours))
            assert its.recv(1) == b""
