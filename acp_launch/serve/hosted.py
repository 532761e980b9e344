"""
A host as the agent of an editor: one line to it for each session, together a `Transport`.

A front of a host enters one session (host/wire.py), and an editor opens several with one agent. Messages pass as they
are, but for what the two say to each other besides ACP: how a session is entered, the questions about tool calls, and
what an observer is told. The host starts its agent again when it is wanted; its sessions are then entered again here.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from acp_launch.errors import AgentError, LaunchError, first
from acp_launch.host.front import Told, show
from acp_launch.host.wire import ASK, EVENT, FOLLOW, META, Entrance, SocketTransport, understood
from acp_launch.launch.loop import Interrupts
from acp_launch.launch.run import Ending, Launch, SessionNeeds, Story, converse
from acp_launch.launch.servers import LaunchServers
from acp_launch.plan.model import LaunchPlan
from acp_launch.protocol import acp, edits, jsonrpc
from acp_launch.protocol.conversation import ELICITATION
from acp_launch.protocol.jsonrpc import Envelope, LineFramer, as_line
from acp_launch.rpc import TransportClosed
from acp_launch.serve.face import CANCEL
from acp_launch.serve.session import chosen
from acp_launch.session.observer import Observer
from acp_launch.session.person import ToolQuestion

ENTERING = {"session/new", "session/load", "session/resume"}
CLOSE, PERMISSION = "session/close", "session/request_permission"
UPDATE = b'{"jsonrpc":"2.0","method":"session/update"'
T = TypeVar("T")
ROOM = 1024 * 1024  # bytes for the editor that wait; then the host is not read
OURS = "acp-launch/"  # prefix of the ids of our own requests
OF_HOST = ("server", "standing")  # events of the host as a whole


class _Session(Struct):
    sessionId: str = ""  # noqa: N815 - as on the wire


class _Cancelled(Struct):
    requestId: Raw  # noqa: N815


class _Client(Struct):
    elicitation: Raw | None = None


class _Initialize(Struct):
    clientCapabilities: _Client = msgspec.field(default_factory=_Client)  # noqa: N815


_session, _cancelled = msgspec.json.Decoder(_Session), msgspec.json.Decoder(_Cancelled)
_initialize = msgspec.json.Decoder(_Initialize)


class _Line:
    """A line to the host, which enters one session at the most."""

    def __init__(self, line: socket.socket, framer: LineFramer) -> None:
        self.socket, self.framer = line, framer
        self.transport = SocketTransport(line, "has ended")
        self.session_id = ""
        self.entry = b""  # the params with which its session was entered
        self.is_lost = False  # its agent has ended since
        self.is_ready = False  # the host has answered `initialize`, and what enters the session again
        self.waiting: list[bytes] = []  # until then


class _Asked(Struct, frozen=True):
    """A request of the host: its line and id there, and what the editor was asked instead."""

    line: _Line
    id: Raw
    options: Sequence[object] | None = None  # of a question about a tool call


class HostedAgent:
    """Made by `hosted_agent`."""

    def __init__(
        self,
        knock: Callable[[], socket.socket],
        observer: Observer,
        tasks: asyncio.TaskGroup,
        max_line: int,
    ) -> None:
        self._knock, self._observer = knock, observer
        self._tasks, self._max_line = tasks, max_line
        self._lines: list[_Line] = []
        self._framer = LineFramer(limit=max_line)
        self._greeting = b""  # the editor's params of `initialize`
        self._can_elicit = False
        self._sent: dict[bytes, tuple[_Line, str, str]] = {}  # requests to the host: line, method, session id
        self._asked: dict[bytes, _Asked] = {}
        self._number = 0
        self._out: deque[bytes] = deque()
        self._size = 0
        self._has_out, self._has_room = asyncio.Event(), asyncio.Event()
        self._has_room.set()
        self._is_over = False

    # The transport.

    async def read(self) -> bytes:
        while not self._out:
            if self._is_over:
                return b""
            self._has_out.clear()
            await self._has_out.wait()
        chunk = b"".join(self._out)
        self._out.clear()
        self._size = 0
        self._has_room.set()
        return chunk

    async def write(self, data: bytes) -> None:
        if self._is_over:
            raise TransportClosed("nothing more can be sent: the host has ended")
        for line in self._framer.feed(data):
            message = jsonrpc.decode(line)
            assert message is not None, "only messages are written"
            await self._from_editor(message, line)

    async def close(self) -> None:
        for line in self._lines:
            await line.transport.close()

    def end(self) -> None:
        """End all lines."""
        self._has_room.set()
        for line in self._lines:
            _shut(line)

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        return "has ended with its host", ()

    # From the editor.

    async def _from_editor(self, message: Envelope, line: bytes) -> None:
        if message.method is UNSET:
            await self._answered_by_editor(message, line)
            return
        method = str(message.method)
        if method == CANCEL:
            await self._withdrawn_by_editor(message.params, line)
            return
        session_id = (jsonrpc.read(_session, message.params) or _Session()).sessionId
        if method == CLOSE and (left := self._entered_by(session_id)) is not None:
            self._leave(left)
            if message.id is not UNSET:
                self._up(jsonrpc.result(message.id, {}))
            return
        if method == "initialize":
            self._greeting = bytes(message.params)
            said = jsonrpc.read(_initialize, message.params) or _Initialize()
            self._can_elicit = said.clientCapabilities.elicitation is not None
            line = self._greeted(line)
        if message.id is UNSET and session_id and self._entered_by(session_id) is None:
            return  # no line has entered that session
        front = await self._routed(method, session_id, message.params)
        if message.id is not UNSET:
            self._sent[bytes(message.id)] = front, method, session_id
        await self._send(front, line, is_first=method == "initialize")

    async def _routed(self, method: str, session_id: str, params: Raw) -> _Line:
        """Return the line for a request, or a notification."""
        front = self._entered_by(session_id)
        if method == "initialize":
            return self._opened()
        if method in ENTERING:
            front = front or await self._free()
            front.entry, front.is_lost = bytes(params), False
        elif front is None:
            return self._lines[0] if self._lines else await self._free()
        elif front.is_lost:
            await self._enter_again(front)
        return front

    async def _withdrawn_by_editor(self, params: Raw, line: bytes) -> None:
        found = jsonrpc.read(_cancelled, params)
        sent = self._sent.get(bytes(found.requestId)) if found else None
        if sent is not None:
            await self._send(sent[0], line)

    def _greeted(self, line: bytes) -> bytes:
        """Return the editor's `initialize`: a front that can be asked anything says that it knows elicitation."""
        path = ("params", "clientCapabilities")
        return edits.with_members(edits.without(line, path, ["elicitation"]), path, b'"elicitation":{"form":{}}')

    async def _enter_again(self, front: _Line) -> None:
        """Have the host open a session again, whose agent has ended; what comes meanwhile waits."""
        front.is_lost = front.is_ready = False
        entry = msgspec.json.decode(front.entry, type=dict[str, Raw])
        id = self._own(front, "session/resume", front.session_id)
        again = jsonrpc.request(id, "session/resume", {**entry, "sessionId": front.session_id})
        await self._send(front, again, is_first=True)

    def _entered_by(self, session_id: str) -> _Line | None:
        """Return the line that has entered this session."""
        return next((line for line in self._lines if session_id and line.session_id == session_id), None)

    def _leave(self, front: _Line) -> None:
        """Leave a session; it stays open in the host, where others may have it, too."""
        self._lines.remove(front)
        _shut(front)
        for number in [number for number, (line, _, _) in self._sent.items() if line is front]:
            del self._sent[number]
            if not number.startswith(f'"{OURS}'.encode()):
                self._up(jsonrpc.error(Raw(number), jsonrpc.CANCELLED, "the session was closed"))
        self._withdraw(front, None)

    async def _free(self) -> _Line:
        """Return a line that has entered no session."""
        front = next((line for line in self._lines if not line.entry), None)
        if front is None:
            front = self._opened()
            greeting = jsonrpc.request(self._own(front, "initialize"), "initialize", Raw(self._greeting))
            await self._send(front, self._greeted(greeting), is_first=True)
        return front

    def _opened(self) -> _Line:
        front = _Line(self._knock(), LineFramer(limit=self._max_line))
        self._lines.append(front)
        self._tasks.create_task(self._read(front))
        return front

    def _own(self, front: _Line, method: str, session_id: str = "") -> Raw:
        """Return the id of a request of ours."""
        self._number += 1
        id = Raw(f'"{OURS}{self._number}"'.encode())
        self._sent[bytes(id)] = front, method, session_id
        return id

    async def _send(self, front: _Line, line: bytes, *, is_first: bool = False) -> None:
        if not (front.is_ready or is_first):
            front.waiting.append(line)
            return
        await front.transport.write(as_line(line))

    async def _answered_by_editor(self, message: Envelope, line: bytes) -> None:
        asked = self._asked.pop(bytes(message.id), None) if message.id is not UNSET else None
        if asked is None:
            return
        if asked.options is not None and message.result is not UNSET:
            line = jsonrpc.result(asked.id, msgspec.to_builtins(chosen(message.result, asked.options)))
        await self._send(asked.line, edits.with_id(line, asked.id))

    # From the host.

    async def _read(self, front: _Line) -> None:
        try:
            while chunk := await front.transport.read():
                for line in front.framer.feed(chunk):
                    await self._from_host(front, line)
                await self._has_room.wait()
        except (TransportClosed, LaunchError, jsonrpc.LineTooLong) as error:
            self._observer.note(f"a line to the host has ended: {error}")
        finally:
            front.socket.close()
            if front in self._lines:  # it was not left
                self._is_over = True
                self._has_out.set()

    async def _from_host(self, front: _Line, line: bytes) -> None:
        if line.startswith(UPDATE):
            self._up(line)
            return
        message = jsonrpc.decode(line)
        if message is None:
            return
        if message.method is UNSET:
            await self._answered_by_host(front, message, line)
        elif message.id is not UNSET:
            await self._asked_by_host(front, message, line)
        elif message.method == EVENT:
            told = msgspec.json.decode(message.params, type=Told)
            if told.name not in OF_HOST or self._lines[:1] == [front]:  # each line is told of the servers
                show(self._observer, told)
        elif message.method == CANCEL:
            self._withdraw(front, jsonrpc.read(_cancelled, message.params))
        else:
            self._up(line)

    async def _answered_by_host(self, front: _Line, message: Envelope, line: bytes) -> None:
        id = bytes(message.id) if isinstance(message.id, Raw) else b""
        if id not in self._sent:
            return
        _, method, session_id = self._sent.pop(id)
        is_ours = id.startswith(f'"{OURS}'.encode())
        if method == "initialize":
            await self._begin(front)
        elif method in ENTERING:
            await self._entered(front, message, session_id, is_again=is_ours)
        elif message.error is not UNSET and isinstance(understood(jsonrpc.fault(message.error)), AgentError):
            front.is_lost = bool(front.entry)
        if not is_ours:
            self._up(line)

    async def _entered(self, front: _Line, message: Envelope, session_id: str, *, is_again: bool) -> None:
        if message.result is not UNSET:
            opened = jsonrpc.read(_session, message.result) or _Session()
            front.session_id = session_id or opened.sessionId
            await self._send(front, jsonrpc.request(self._own(front, FOLLOW), FOLLOW, {}), is_first=True)
        elif not is_again:
            front.entry = b""
        if is_again:
            await self._begin(front)

    async def _begin(self, front: _Line) -> None:
        """Send what has waited."""
        front.is_ready = True
        waiting, front.waiting = front.waiting, []
        for line in waiting:
            await self._send(front, line)

    async def _asked_by_host(self, front: _Line, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        id = message.id.copy()
        if message.method == ELICITATION and not self._can_elicit:
            await self._send(front, jsonrpc.result(id, {"action": "cancel"}))
            return
        self._number += 1
        number = Raw(str(self._number).encode())
        if message.method != ASK:
            self._asked[bytes(number)] = _Asked(front, id)
            self._up(edits.with_id(line, number))
            return
        asked = acp.mapping(acp.decoded(message.params))
        question = msgspec.convert(asked.get("question"), ToolQuestion)
        params = {"sessionId": front.session_id, "toolCall": question.call, "options": question.options}
        self._asked[bytes(number)] = _Asked(front, id, question.options)
        self._up(jsonrpc.request(number, PERMISSION, params))

    def _withdraw(self, front: _Line, wanted: _Cancelled | None) -> None:
        """Take questions to the editor back: the one that is named, or all."""
        for number, asked in list(self._asked.items()):
            if asked.line is front and (wanted is None or bytes(asked.id) == bytes(wanted.requestId)):
                del self._asked[number]
                self._up(jsonrpc.notification(CANCEL, {"requestId": Raw(number)}))

    def _up(self, line: bytes) -> None:
        self._out.append(as_line(line))
        self._size += len(line)
        if self._size > ROOM:
            self._has_room.clear()
        self._has_out.set()


def _shut(line: _Line) -> None:
    with suppress(OSError):  # the host is gone
        line.socket.shutdown(socket.SHUT_RDWR)


class HostedLaunch(Launch):
    """A launch whose agent is a host."""

    def __init__(
        self,
        plan: LaunchPlan,
        needs: SessionNeeds,
        observer: Observer,
        interrupts: Interrupts,
        servers: LaunchServers,
        find: Callable[[], Callable[[], socket.socket]],
    ) -> None:
        """Prepare it. `find` gives what connects to the host, or raises AgentError."""
        super().__init__(plan, needs, observer, interrupts, servers)
        self._find = find

    async def meet(self, story: Story[T], ending: Ending) -> T:
        """Run `story` with connections to the host."""
        connect, interrupts = self._find(), self.interrupts
        try:
            async with asyncio.TaskGroup() as tasks:
                agent = HostedAgent(connect, self.observer, tasks, self.needs.max_line)
                try:
                    told = converse(self.plan, self.needs, agent, self.observer, story, interrupts)
                    return await interrupts.watch(told)
                finally:
                    agent.end()
        except BaseExceptionGroup as failures:
            raise first(failures) from None


def entering(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the params that open a session, for a host; `name` is the session's in the store."""
    entrance = msgspec.to_builtins(Entrance(name=name, can_ask=True))
    return {**params, "_meta": {**acp.mapping(params.get("_meta")), META: entrance}}
