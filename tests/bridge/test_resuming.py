"""Elevated sessions with a server's real process: over a shim, over HTTP, and from one to the other."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from acp_launch.bridge import relay, shim
from acp_launch.bridge.seat import ShimConnection
from acp_launch.bridge.servers import RunningServers, ServerNeeds, running
from acp_launch.plan.model import Origin, RemotePlan, ServerPlan, Value
from tests.bridge.fronted import INITIALIZE, Answer, Json, Wire
from tests.bridge.test_servers import Told, plan
from tests.looped import looped
from tests.patience import PATIENCE

PLAN = replace(plan("notes"), session_elevation="on")
TOUCH: Json = {"name": "touch", "arguments": {"uri": "test://one"}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
HELLO: Json = {
    **INITIALIZE,
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
}


@asynccontextmanager
async def launched(only: ServerPlan = PLAN) -> AsyncIterator[tuple[RunningServers, Told]]:
    told = Told()
    needs = ServerNeeds(secrets={}, directories=(), max_line=1 << 20, hurry=asyncio.Event())
    async with asyncio.timeout(60), running([only], needs, told) as inner:
        assert await inner.servers.up(only)
        yield inner, told


class Agent:
    """The agent's end of a connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._next = 0

    async def ask(self, method: str, **params: object) -> tuple[Json, list[Json]]:
        """The answer, and the notifications that came before it."""
        self._next += 1
        self.tell({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        before: list[Json] = []
        while "method" in (said := await self.hears()):
            before.append(said)
        assert said["id"] == self._next
        return said, before

    def tell(self, *messages: Json) -> None:
        """Write messages, in one chunk."""
        self._writer.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def hears(self) -> Json:
        line = await asyncio.wait_for(self._reader.readline(), PATIENCE)
        assert line, "the connection has ended"
        return dict(json.loads(line))

    async def rest(self) -> bytes:
        """What still comes until the end."""
        return await asyncio.wait_for(self._reader.read(), PATIENCE)

    async def introduce(self) -> Json:
        """Do the handshake; the server's capabilities."""
        hello, _ = await self.ask("initialize", **HELLO["params"])
        self.tell(INITIALIZED)
        return dict(hello["result"]["capabilities"])

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def shimmed(inner: RunningServers) -> AsyncIterator[Agent]:
    """Connect by a real shim, which is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(Path(shim.__file__)), str(inner.listener.path), "notes"),
        env={"ACP_LAUNCH_SEAT": inner.listener.token},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        agent = Agent(process.stdout, process.stdin)
        assert (await agent.introduce())["experimental"] == {"session-elevation": {"catchup": True}}
        yield agent
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def seated(inner: RunningServers, name: str) -> AsyncIterator[Agent]:
    """Connect without a shim; the handshake is the caller's."""
    ours, its = socket.socketpair()
    ours.setblocking(False)
    inner.servers.on_shim(ShimConnection(name, ours))
    agent = Agent(*await asyncio.open_connection(sock=its))
    try:
        yield agent
    finally:
        await agent.close()


class Http:
    """A session of HTTP with the same server."""

    def __init__(self, inner: RunningServers, wires: AsyncExitStack) -> None:
        self._inner, self._wires = inner, wires
        self.session = ""

    async def begin(self) -> None:
        self._http = await self._inner.http()
        answer = await self.post(HELLO)
        self.session = answer.headers["mcp-session-id"]
        assert (await self.post(INITIALIZED)).status == 202

    async def wire(self) -> Wire:
        wire = Wire(*await asyncio.open_connection("127.0.0.1", self._http.port), self._http.port)
        self._wires.callback(wire.close)
        return wire

    def headers(self) -> dict[str, Any]:
        path = self._http.address("notes").partition(str(self._http.port))[2]
        return {
            "path": path,
            "authorization": f"Bearer {self._http.token('notes')}",
            "mcp_session_id": self.session or None,
        }

    async def post(self, message: Json) -> Answer:
        return await (await self.wire()).post(message, **self.headers())

    async def ask(self, method: str, **params: object) -> Json:
        answer = await self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return dict(answer.messages[-1])

    async def listen(self) -> Wire:
        wire = await self.wire()
        wire.send(wire.request("GET", **self.headers()))
        assert (await wire.head())[0] == 200
        return wire


async def touch(opened: Agent) -> Json:
    """Make the server send an event; the event."""
    _, (event,) = await opened.ask("tools/call", **TOUCH)
    return event


def text(answer: Json) -> str:
    return str(answer["result"]["content"][0]["text"])


@looped
async def test_a_session_goes_from_a_shim_over_http_to_a_shim_with_its_process_and_subscriptions() -> None:
    """M-53, M-56: the connection that had it is silenced at once."""
    async with launched() as (inner, _), AsyncExitStack() as wires, shimmed(inner) as first:
        begun, _ = await first.ask("session/start")
        session = begun["result"]["sessionId"]
        assert len(session) == len("s_") + 32
        await first.ask("resources/subscribe", uri="test://one")
        seen, missed = await touch(first), await touch(first)
        pid = text((await first.ask("tools/call", name="pid"))[0])

        http = Http(inner, wires)
        await http.begin()
        assert text(await http.ask("tools/call", name="pid")) != pid
        last = seen["params"]["sessionEventId"]
        said = await http.ask("session/resume", sessionId=session, lastSessionEventId=last)
        assert said["result"] == {"resumed": True, "catchup": True}
        assert await first.rest() == b""
        assert text(await http.ask("tools/call", name="pid")) == pid
        stream = await http.listen()
        assert json.loads((await stream.event())["data"]) == missed
        await http.ask("tools/call", **TOUCH)
        third = json.loads((await stream.event())["data"])
        assert third["params"]["sessionEventId"] == f"{session}.000000000003"

        async with shimmed(inner) as last_one:
            asked = {"sessionId": session, "lastSessionEventId": missed["params"]["sessionEventId"]}
            said, _ = await last_one.ask("session/resume", **asked)
            assert said["result"] == {"resumed": True, "catchup": True}
            assert await last_one.hears() == third
            assert text((await last_one.ask("tools/call", name="pid"))[0]) == pid
            assert (await touch(last_one))["params"]["sessionEventId"].endswith(".000000000004")
            gone = await http.post({"jsonrpc": "2.0", "id": 9, "method": "ping"})
            assert gone.status == 404, "its session of HTTP has ended with the connection"
            (standing,) = inner.servers.standings()
            assert (standing.state, standing.closed) == ("ready", False)


@looped
async def test_a_session_waits_for_an_agent_that_was_killed() -> None:
    """And what the agent had asked is answered to no other connection."""
    async with launched() as (inner, _):
        async with shimmed(inner) as first:
            begun, _ = await first.ask("session/start")
            pid = text((await first.ask("tools/call", name="pid"))[0])
        async with shimmed(inner) as second:
            said, _ = await second.ask("session/resume", **begun["result"])
            assert said["result"] == {"resumed": True, "catchup": False}
            assert text((await second.ask("tools/call", name="pid"))[0]) == pid
            assert (await second.ask("session/end", **begun["result"]))[0]["result"] == {}


@looped
async def test_what_is_written_together_with_a_resume_is_of_the_resumed_conversation() -> None:
    """The connection moves in the midst of a chunk."""
    async with launched() as (inner, _), seated(inner, "notes") as first, seated(inner, "notes") as second:
        await first.introduce()
        begun, _ = await first.ask("session/start")
        pid = text((await first.ask("tools/call", name="pid"))[0])
        await second.introduce()
        assert text((await second.ask("tools/call", name="pid"))[0]) != pid
        call = {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "pid"}}
        wanted = {"jsonrpc": "2.0", "id": "resume", "method": "session/resume", "params": begun["result"]}
        second.tell(call, wanted, {**call, "id": "y"}, {**call, "id": "z"})
        said = [await second.hears() for _ in range(4)]
        assert [each["id"] for each in said] == ["x", "resume", "y", "z"]
        assert "was left for another session" in said[0]["error"]["message"]
        assert [text(each) for each in said[2:]] == [pid, pid]
        assert await first.rest() == b""


@looped
async def test_a_session_that_no_connection_resumes_ends_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "AWAY", 0.0)
    async with launched() as (inner, told):
        async with shimmed(inner) as first:
            begun, _ = await first.ask("session/start")
        await told.until("stopping", "stopped", "starting")
        async with shimmed(inner) as second:
            said, _ = await second.ask("session/resume", **begun["result"])
            assert (said["error"]["code"], said["error"]["data"]) == (-32010, {"reason": "unknown_session"})


@looped
async def test_without_the_setting_the_server_is_asked_itself() -> None:
    """The bytes pass, and its answer is that it knows no such method."""
    async with launched(plan("notes")) as (inner, _), seated(inner, "notes") as agent:
        assert "experimental" not in await agent.introduce()
        refused, _ = await agent.ask("session/start")
        assert refused["error"]["code"] == -32601


# Towards a server.


@pytest.mark.whole
@looped
async def test_a_remote_server_that_has_sessions_goes_on_after_its_connection_was_cut() -> None:
    """M-28, M-53: our own HTTP server is such a server. Process and subscriptions are the same, and events go on."""
    async with launched() as (there, _), AsyncExitStack() as stack:
        http = await there.http()
        here = Origin("test")
        token = Value((f"Bearer {http.token('notes')}",), here)
        url = Value((http.address("notes"),), here)
        remote = RemotePlan(
            name="web", type="http", url=url, headers={"Authorization": token}, session_elevation="probe"
        )
        inner, _ = await stack.enter_async_context(launched(remote))
        agent = await stack.enter_async_context(seated(inner, "web"))
        await agent.introduce()
        await agent.ask("resources/subscribe", uri="test://one")
        pid = text((await agent.ask("tools/call", name="pid"))[0])
        while (last := await touched(agent)) is None:
            pass  # the session is begun a moment after the handshake
        assert (last := await touched(agent)) is not None
        for session in list(http.sessions.values()):
            http.end(session, "the connection is cut")
        assert text((await agent.ask("tools/call", name="pid"))[0]) == pid
        seen = await touched(agent)
        assert seen is not None
        assert seen.partition(".")[0] == last.partition(".")[0]
        assert seen > last


async def touched(agent: Agent) -> str | None:
    """Make the server send an event; its id, if it has one."""
    agent.tell({"jsonrpc": "2.0", "id": "touch", "method": "tools/call", "params": TOUCH})
    both = [await agent.hears(), await agent.hears()]  # they may come on two streams
    (event,) = (each for each in both if "method" in each)
    id = event["params"].get("sessionEventId")
    return None if id is None else str(id)


# Both modes over HTTP.


@looped
async def test_a_session_of_http_and_one_of_messages_are_resumed_side_by_side() -> None:
    """M-57: that of HTTP by its id, with the same server."""
    async with launched() as (inner, _), AsyncExitStack() as wires:
        plain, carrier, heir = (Http(inner, wires) for _ in range(3))
        for each in (plain, carrier, heir):
            await each.begin()
        begun = await carrier.ask("session/start")
        pids = []
        for each in (plain, carrier):
            await each.ask("resources/subscribe", uri="test://one")
            pids.append(text(await each.ask("tools/call", name="pid")))
        for each in (plain, carrier):
            await each.ask("tools/call", **TOUCH)
        stream = await plain.listen()
        assert "sessionEventId" not in json.loads((await stream.event())["data"])["params"]
        session = begun["result"]["sessionId"]
        said = await heir.ask("session/resume", sessionId=session, lastSessionEventId=f"{session}.{1:012}")
        assert said["result"] == {"resumed": True, "catchup": True}
        assert [text(await each.ask("tools/call", name="pid")) for each in (plain, heir)] == pids


@looped
async def test_a_session_of_http_is_not_resumed_by_messages_nor_the_other_way_round() -> None:
    """M-57."""
    async with launched() as (inner, _), AsyncExitStack() as wires:
        http = Http(inner, wires)
        await http.begin()
        for method in ("session/resume", "session/end"):
            refused = await http.ask(method, sessionId=http.session)
            assert refused["error"]["data"] == {"reason": "unknown_session"}
        begun = await http.ask("session/start")
        http.session = begun["result"]["sessionId"]
        assert (await http.post({"jsonrpc": "2.0", "id": 9, "method": "ping"})).status == 404
