"""An observer that remembers, an agent whose every word the test says, and both ends of a memory transport."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from acp_launch.process.lifecycle import Change
from acp_launch.profile.model import Approval
from acp_launch.protocol.conversation import Updated
from acp_launch.session.client import AcpSession
from acp_launch.session.connection import Connection, connect, negotiate
from acp_launch.session.events import (
    AnyEvent,
    Ask,
    CancelledEvent,
    FileEvent,
    InitializedEvent,
    NoteEvent,
    PermissionEvent,
    ResultEvent,
    ServersEvent,
    SessionEvent,
    TerminalEvent,
    UnaskedEvent,
    WaitingEvent,
)
from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.policy import Approve, Policy
from tests.oracle import Dialogue
from tests.patience import PATIENCE
from tests.transport.memory import MemoryTransport, pair

CAPABLE = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}}}
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


NAMES: dict[type, str] = {
    InitializedEvent: "negotiated",
    SessionEvent: "ready",
    PermissionEvent: "permission",
    FileEvent: "served",
    TerminalEvent: "served",
    Change: "server",
    ResultEvent: "ended",
}


@dataclass
class Recorder:
    """Everything a session told, in order."""

    told: list[tuple[str, Any]] = field(default_factory=list)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.room.set()

    async def has(self, kind: str, count: int) -> None:
        """Wait until so many things of that kind were told."""
        while len(self.of(kind)) < count:
            self.changed.clear()
            await self.changed.wait()

    def of(self, kind: str) -> list[Any]:
        return [what for told, what in self.told if told == kind]

    def update(self, update: Updated) -> None:
        body = json.loads(bytes(update.update))
        self.told.append(("replay" if update.replay else "update", body.get("n", update.kind)))
        self.changed.set()

    def show(self, event: AnyEvent) -> None:
        self.told += self.describe(event)
        self.changed.set()

    def describe(self, event: AnyEvent) -> Iterator[tuple[str, Any]]:
        match event:
            case UnaskedEvent():
                yield "unasked", (event.tool_call["toolCallId"], event.by)
            case CancelledEvent():
                yield "cancelled", [call["toolCallId"] for call in event.tool_calls]
                yield "grace", event.limit
            case WaitingEvent():
                yield "waiting", event.what
            case NoteEvent():
                yield "note", event.text
            case ServersEvent():
                yield f"standing {event.when}", tuple(event.servers)
            case _:
                yield NAMES[type(event)], event

    async def drain(self) -> None:
        await self.room.wait()


class Agent:
    """The other end of the wire; every line the client sends is judged by the oracle."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport
        self._dialogue = Dialogue()
        self._held = b""

    async def hears(self, method: str | None = None) -> dict[str, Any]:
        """The client's next message, which must be `method` if one is named."""
        while b"\n" not in self._held:
            chunk = await self._transport.read()
            assert chunk, "the client closed its side"
            self._held += chunk
        line, self._held = self._held.split(b"\n", 1)
        violations = self._dialogue.client(line + b"\n")
        assert not violations, violations
        message: dict[str, Any] = json.loads(line)
        assert method is None or message.get("method") == method, message
        return message

    async def hears_unjudged(self, mark: bytes) -> None:
        """Read until the client has written `mark`: an agent without valid ids has answers that cannot be judged."""
        heard = self._held
        while mark not in heard:
            chunk = await self._transport.read()
            assert chunk, "the client closed its side"
            heard += chunk
        self._held = b""

    async def says(self, *messages: dict[str, Any]) -> None:
        """All of them in one write, so that they arrive in one chunk."""
        lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
        for line in lines:
            self._dialogue.agent(line)
        await self._transport.write(b"".join(lines))

    async def writes(self, raw: bytes) -> None:
        await self._transport.write(raw)

    async def answers(self, request: dict[str, Any], result: object) -> None:
        await self.says({"id": request["id"], "result": result})

    async def refuses(self, request: dict[str, Any], code: int, message: str, **data: object) -> None:
        await self.says({"id": request["id"], "error": {"code": code, "message": message, **data}})

    async def dies(self, how: str, *last_words: str) -> None:
        await self._transport.die(how, last_words)


def update(session: str, n: object, kind: str = "agent_message_chunk") -> dict[str, Any]:
    """A numbered update of `session`."""
    body = {"sessionUpdate": kind, "n": n, "content": {"type": "text", "text": str(n)}}
    return {"method": "session/update", "params": {"sessionId": session, "update": body}}


def question(id: object, session: str = "s1", call: str = "c1", options: object = None) -> dict[str, Any]:
    params = {
        "sessionId": session,
        "toolCall": {"toolCallId": call, "title": f"Do {call}", "kind": "edit"},
        "options": OPTIONS if options is None else options,
    }
    return {"id": id, "method": "session/request_permission", "params": params}


@asynccontextmanager
async def connected(
    recorder: Recorder | None = None, *, max_line: int = 1 << 20
) -> AsyncIterator[tuple[Connection, Agent, Recorder]]:
    """A connection that has said nothing yet. The whole block is bounded."""
    recorder = recorder or Recorder()
    ours, theirs = pair()
    async with asyncio.timeout(PATIENCE), connect(ours, recorder, max_line=max_line) as connection:
        yield connection, Agent(theirs), recorder


@asynccontextmanager
async def negotiated(
    capabilities: object = None, *, default: Approval = "ask", approve: Approve | None = None, ask: Ask | None = None
) -> AsyncIterator[tuple[Connection, Agent, Recorder, AcpSession]]:
    """A connection after `initialize`, and a client that answers questions."""
    async with connected() as (connection, agent, recorder):
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        request = await agent.hears("initialize")
        result = {"protocolVersion": 1, "agentCapabilities": CAPABLE if capabilities is None else capabilities}
        await agent.answers(request, result)
        await handshake
        yield connection, agent, recorder, AcpSession(connection, name="n", gate=Gate(Policy(default, approve), ask))
