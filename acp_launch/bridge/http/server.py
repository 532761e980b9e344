"""
The servers of a launch as streamable HTTP on 127.0.0.1, for agents that take MCP servers only that way.

Each server has its own address and token (gate.py). A session is a conversation of its own (session.py): a pair of
sockets, whose other end takes the place of a shim's connection. MCP 2026-07-28, which has no sessions, is not served:
an agent that asks for it gets an error, and begins with a handshake.

It is for one agent, which may still be broken or attacked: everything it can make us hold is bounded, and a
connection that fails ends alone.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import h11
from msgspec import UNSET

from acp_launch.bridge.http.gate import EVENTS, JSON, Head, RequestGate, RequestRefused, ServerKey, check_type
from acp_launch.bridge.http.session import HttpReply, HttpSession, refuse
from acp_launch.bridge.seat import ShimConnection
from acp_launch.mcp.message import DISCOVER, INITIALIZE, LEGACY_VERSIONS, MODERN_VERSIONS, UNSUPPORTED, is_stateless
from acp_launch.process.flow import Link, LinkEnd, LinkUser
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, NULL, Envelope, Mishaps

MAX_BACKLOG = 256  # connections that wait in the kernel
STRANGERS = 64  # connections that have not shown the token; the oldest is closed for a further one
SESSIONS = 32  # of one server, as each may be a process; the one that was idle longest is ended for a further one
HEAD = 32 * 1024  # bytes of a request's line and headers
MORE = 64 * 1024  # bytes that a client may send before it has the answer to its last request
ID_SLACK_BYTES = 64 * 1024  # by which a message may grow on its way, as its id is changed
SESSION, VERSION = "mcp-session-id", "mcp-protocol-version"
Headers = Sequence[tuple[str, str]]
OF_EVENTS = (("content-type", EVENTS), ("cache-control", "no-cache, no-transform"), ("x-accel-buffering", "no"))


class HttpLimits:
    """How long it waits, in seconds."""

    head = 10.0  # for the headers of a request, once its connection is open or its first byte has come
    body = 60.0  # for the body
    rest = 300.0  # for the next request on a connection
    beat = 15.0  # between two signs of life on a stream
    stall = 60.0  # for a client to read; then its connection is closed
    left = 120.0  # for a session whose client has closed the stream on which it listened


def make_keys(names: Iterable[str]) -> dict[str, ServerKey]:
    return {name: ServerKey(f"/{os.urandom(16).hex()}", os.urandom(24).hex()) for name in names}


class LoopbackServer:
    """Listens for the agent. Made by `http_server` only."""

    def __init__(
        self,
        keys: dict[str, ServerKey],
        on_shim: Callable[[ShimConnection], None],
        note: Callable[[str], None],
        *,
        port: int,
        max_line: int,
        limits: HttpLimits,
    ) -> None:
        self.port, self.max_line, self.limits = port, max_line, limits
        self.gate = RequestGate(keys, port)
        self.mishaps = Mishaps(note)
        self.sessions: dict[str, HttpConversation] = {}
        self._keys, self._on_shim, self._note = keys, on_shim, note
        self._loop = asyncio.get_running_loop()
        self._strangers: dict[HttpConnection, None] = {}  # connections that have not shown the token; the oldest first
        self._connections: dict[HttpConnection, None] = {}
        self._noted: set[int | str] = set()
        self._beat = self._loop.call_later(limits.beat, self._beats)

    def add(self, names: Iterable[str]) -> None:
        """Serve the servers that are not served yet, too."""
        self._keys.update(make_keys(name for name in names if name not in self._keys))

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}{self._keys[name].path}"

    def token(self, name: str) -> str:
        return self._keys[name].token

    def close(self) -> None:
        """Close all connections, and end all conversations."""
        self._beat.cancel()
        for session in list(self.sessions.values()):
            self.end(session, "the launch has ended")
        for connection in list(self._connections):
            connection.abort()

    def join(self, connection: "HttpConnection") -> None:
        """Count a new connection; the oldest of those without the token makes room for it."""
        self._connections[connection] = self._strangers[connection] = None
        if len(self._strangers) > STRANGERS:
            self.note_once("crowd", f"too many connections without a request ({STRANGERS}); closed the oldest")
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]  # at once: it is told of its end only after others that came with this one
            oldest.abort()

    def trust(self, connection: "HttpConnection") -> None:
        """Note that a connection has shown its token."""
        self._strangers.pop(connection, None)

    def leave(self, connection: "HttpConnection") -> None:
        self._connections.pop(connection, None)
        self._strangers.pop(connection, None)

    def note_once(self, kind: int | str, what: str) -> None:
        if kind not in self._noted:
            self._noted.add(kind)
            self._note(f"the launch's HTTP endpoint for MCP: {what}")

    def on_request(self, name: str, head: Head, body: bytes, reply: "HttpConnection") -> None:
        """Take a request for the server `name`, whose head was admitted."""
        if head.method == "POST":
            try:
                self._post(name, head, body, reply)
            except OSError as error:  # EMFILE, ENOMEM
                refuse(reply, 503, INTERNAL_ERROR, f"acp-launch cannot open a session: {error.strerror}")
            return
        session = self._session(name, head, reply, status=405)
        if session is None:
            return
        if head.method == "DELETE":
            self.end(session, "the client has ended the session")
            reply.answer(200)
        else:
            reply.owner, session.since = session, self._loop.time()
            session.talk.listen(reply)

    def end(self, session: "HttpConversation", why: str) -> None:
        """End a session, if it has not ended."""
        self.sessions.pop(session.talk.id, None)
        session.close(why)

    def _post(self, name: str, head: Head, body: bytes, reply: "HttpConnection") -> None:
        message = jsonrpc.decode(body)
        if _is_newer(message, head):
            _refuse_newer(message, reply)
            return
        is_opening = message is not None and message.method == INITIALIZE and message.id is not UNSET
        opens = is_opening and not head.get(SESSION)
        session = self._open(name, reply) if opens else self._session(name, head, reply, status=400)
        if session is not None:
            reply.owner, session.since, talk = session, self._loop.time(), session.talk
            session.when_room(lambda: None if reply.is_gone else talk.post(body, reply))

    def _session(self, name: str, head: Head, reply: HttpReply, *, status: int) -> "HttpConversation | None":
        """Return the session of a request; None if it was refused. Without a session it gets `status`."""
        id = head.get(SESSION)
        session = self.sessions.get(id or "")
        if id is None:
            code = METHOD_NOT_FOUND if status == 405 else INVALID_REQUEST
            refuse(reply, status, code, "the request has no Mcp-Session-Id")
        elif session is None or session.name != name:
            refuse(reply, 404, INVALID_REQUEST, "no session has this Mcp-Session-Id")
        else:
            return session
        return None

    def _open(self, name: str, reply: HttpReply) -> "HttpConversation | None":
        present = [session for session in self.sessions.values() if session.name == name]
        if len(present) >= SESSIONS:
            idle = [session for session in present if not session.talk.replies]
            if not idle:
                refuse(reply, 503, INTERNAL_ERROR, f"the client has {SESSIONS} sessions of this server open")
                return None
            self.end(min(idle, key=lambda session: session.since), "another session needs its place")
        session = HttpConversation(os.urandom(16).hex(), name, self, self._on_shim)
        self.sessions[session.talk.id] = session
        return session

    def _beats(self) -> None:
        """Show the clients that their connections are alive, and end idle and stalled ones."""
        self._beat = self._loop.call_later(self.limits.beat, self._beats)
        for connection in list(self._connections):
            connection.check()
        now = self._loop.time()
        for session in list(self.sessions.values()):
            if session.talk.replies or session.talk.is_waiting:
                session.since = now
                session.talk.beat()
            elif session.talk.has_listened and now - session.since >= self.limits.left:
                self.end(session, "the client has left the session")


@asynccontextmanager
async def http_server(
    keys: dict[str, ServerKey],
    on_shim: Callable[[ShimConnection], None],
    note: Callable[[str], None],
    *,
    max_line: int,
    limits: HttpLimits | None = None,
) -> AsyncIterator[LoopbackServer]:
    """Serve the servers that `keys` name; `note` gets what the user should know. `max_line` also limits a body.

    Raises:
        OSError: there is no port to listen on.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        made = LoopbackServer(keys, on_shim, note, port=port, max_line=max_line, limits=limits or HttpLimits())
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: HttpConnection(made), sock=listener, backlog=MAX_BACKLOG)
        try:
            yield made
        finally:
            server.close()
            made.close()


class HttpConversation(LinkUser):
    """A session at work: a conversation with a server, and the requests that wait until the server reads again.

    `since` is the time at which it became idle.
    """

    def __init__(self, id: str, name: str, server: LoopbackServer, on_shim: Callable[[ShimConnection], None]) -> None:
        self.name = name
        self.talk = HttpSession(id, self.send)
        self.since = asyncio.get_running_loop().time()
        self._server = server
        self._waiting: deque[Callable[[], None]] = deque()
        self._line, its = socket.socketpair()
        for end_of_line in (self._line, its):
            end_of_line.setblocking(False)
        number = self._line.fileno()
        self._link: Link | None = Link(number, number, self, max_line=server.max_line + ID_SLACK_BYTES)
        on_shim(ShimConnection(name, its))

    def send(self, line: bytes) -> None:
        if self._link is not None:
            self._link.send(line.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in line else line)

    def when_room(self, then: Callable[[], None]) -> None:
        """Call `then` now, or when the server has read the held bytes."""
        if self._waiting or (self._link is not None and self._link.is_full):
            self._waiting.append(then)
        else:
            then()

    def resume(self) -> None:
        """Read the server again once no client is too slow for what it says."""
        if self._link is not None and not any(reply.is_full for reply in self.talk.replies):
            self._link.resume()

    def close(self, why: str) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
            self._line.close()
        waiting, self._waiting = self._waiting, deque()
        for then in waiting:
            then()
        self.talk.end(why)

    # What the link calls.

    def receive(self, line: bytes) -> None:
        self.talk.receive(line)
        if self.talk.is_refused:
            self._server.end(self, "the server has refused the handshake")
        elif self._link is not None and any(reply.is_full for reply in self.talk.replies):
            self._link.pause()

    def over(self, end: LinkEnd) -> None:
        self._server.end(self, "the server has gone")

    def fail(self, error: Exception) -> None:
        self._server.mishaps.add("the server", error)

    def on_burst(self, is_on: bool) -> None:
        """Do nothing: each message is for another stream."""

    def on_drained(self) -> None:
        while self._waiting and self._link is not None and not self._link.is_full:
            self._waiting.popleft()()


def _is_newer(message: Envelope | None, head: Head) -> bool:
    """Tell whether a request is of the era without sessions."""
    version = head.get(VERSION)
    if version is not None and version not in LEGACY_VERSIONS:
        return True
    return message is not None and message.method is not UNSET and is_stateless(message.params)


def _refuse_newer(message: Envelope | None, reply: HttpReply) -> None:
    """Refuse a request of that era, as a server does that has never heard of it: the client begins with a handshake."""
    id = NULL if message is None or message.id is UNSET else message.id
    if message is not None and message.method == DISCOVER:
        refuse(reply, 400, METHOD_NOT_FOUND, f"there is no {DISCOVER} here; begin with {INITIALIZE}", id=id)
        return
    said = f"MCP {MODERN_VERSIONS[0]} is not spoken here; begin with {INITIALIZE}"
    refuse(reply, 400, UNSUPPORTED, said, id=id, data={"supported": LEGACY_VERSIONS})


class HttpConnection(asyncio.Protocol):
    """One connection of the agent: request after request, each answered before the next one is looked at.

    It is the reply to the request that is being answered, `owner` the session that answers it.
    """

    def __init__(self, server: LoopbackServer) -> None:
        self.is_full = self.is_gone = False
        self.owner: HttpConversation | None = None
        self._server = server
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._head: Head | None = None
        self._is_bodiless = False  # the answer to HEAD
        self._name = ""  # of the MCP server that the request is for
        self._body: list[bytes] = []
        self._length = 0
        self._is_answering = False
        self._full_since = 0.0

    # Events of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server.join(self)
        self._wait(self._server.limits.head)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        if self._is_answering and len(self._wire.trailing_data[0]) + len(data) > MORE:
            self.abort()  # it does not wait for answers
            return
        try:
            self._wire.receive_data(data)
        except RuntimeError:  # after the end of a request that asked to close the connection
            self.abort()
            return
        self._advance()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport, self.is_gone = None, True
        self._wait(None)
        self._server.leave(self)
        if self.owner is not None:  # the client of a request has left
            self.owner.talk.lose(self)
            self.owner.since = self._loop.time()
            self.owner.resume()

    def pause_writing(self) -> None:
        self.is_full, self._full_since = True, self._loop.time()

    def resume_writing(self) -> None:
        self.is_full = False
        if self.owner is not None:
            self.owner.resume()

    def check(self) -> None:
        """Close the connection if its client has not read for too long; called now and then."""
        if self.is_full and self._loop.time() - self._full_since >= self._server.limits.stall:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # The answer.

    def answer(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        kind = [("content-type", JSON)] if body else []
        self._begin(status, [*kind, *headers, ("content-length", str(len(body)))])
        if body and not self._is_bodiless:
            self.write(body)
        self.end()

    def open(self, session: str) -> None:
        self._begin(200, [*OF_EVENTS, (SESSION, session)])

    def write(self, event: bytes) -> None:
        self._write(h11.Data(data=event))

    def end(self) -> None:
        self._write(h11.EndOfMessage())
        self._is_answering, self.owner = False, None
        if self._transport is None or self._transport.is_closing():  # h11 has not been told of the end then
            return
        if self._wire.our_state is h11.MUST_CLOSE or self._wire.their_state is not h11.DONE:
            self._transport.close()
            return
        self._wire.start_next_cycle()
        self._wait(self._server.limits.rest)
        self._loop.call_soon(self._advance)

    def _begin(self, status: int, headers: Headers) -> None:
        phrase = HTTPStatus(status).phrase.encode()
        self._write(h11.Response(status_code=status, headers=list(headers), reason=phrase))

    def _write(self, event: h11.Event) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        pieces = self._wire.send_with_data_passthrough(event)
        if pieces:
            self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(map(bytes, pieces)))

    # The request.

    def _advance(self) -> None:
        """Take what has come of the next request."""
        try:
            self._take_events()
        except Exception as error:  # the other connections go on
            self._server.mishaps.add("an HTTP request of the agent", error)
            self.abort()

    def _take_events(self) -> None:
        try:
            while self._transport is not None and not self._transport.is_closing() and not self._is_answering:
                event = self._wire.next_event()
                if event in (h11.NEED_DATA, h11.PAUSED):
                    break
                self._take(event)
        except h11.RemoteProtocolError as error:
            self._turn_away(error.error_status_hint or 400, "it is not valid HTTP")
        except RequestRefused as why:
            self._turn_away(why.status, str(why), *why.headers)

    def _take(self, event: Any) -> None:
        if isinstance(event, h11.Request):
            self._admit(event)
        elif isinstance(event, h11.Data):
            self._length += len(event.data)
            if self._length > self._server.max_line:
                raise RequestRefused(413, f"its body is larger than {self._server.max_line:,} bytes")
            self._body.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            self._hand_over()
        elif isinstance(event, h11.ConnectionClosed):
            self.abort()

    def _admit(self, request: h11.Request) -> None:
        self._is_bodiless = request.method == b"HEAD"
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers)
        head = Head(request.method.decode("latin-1"), request.target.decode("latin-1"), headers)
        self._name = self._server.gate.admit(head)
        if head.method == "POST":
            check_type(head)
        length = head.get("content-length")
        if length is not None and int(length) > self._server.max_line:
            raise RequestRefused(413, f"its body is larger than {self._server.max_line:,} bytes")
        self._server.trust(self)
        self._head, self._body, self._length = head, [], 0
        self._wait(self._server.limits.body)

    def _hand_over(self) -> None:
        head, body = self._head, b"".join(self._body)
        assert head is not None
        self._head, self._body = None, []
        self._wait(None)
        self._is_answering = True
        self._server.on_request(self._name, head, body, self)

    def _turn_away(self, status: int, why: str, *headers: tuple[str, str]) -> None:
        """Answer with an error and close the connection, as the rest of the request is not read."""
        self._server.note_once(status, f"a request was refused ({status}): {why}")
        if self._transport is None:
            return
        if self._wire.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = jsonrpc.error(NULL, INVALID_REQUEST, f"the request was refused: {why}")
            self.answer(status, body, [("connection", "close"), *headers])
        if self._transport is not None:
            self._transport.close()

    def _wait(self, seconds: float | None) -> None:
        """Close the connection if the next step of a request takes longer than this."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self._loop.call_later(seconds, self._late)

    def _late(self) -> None:
        if self._transport is not None:
            self._transport.abort() if self._wire.our_state is h11.IDLE else self._turn_away(408, "it came too slowly")
