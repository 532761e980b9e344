"""
One MCP session of an agent that speaks HTTP (2025-03-26 to 2025-11-25). Sans-IO.

A conversation has one line in each direction; HTTP has many streams. So each message of the server gets a stream: an
answer goes to the stream of its request, progress to the stream of the request that owns the token, the server's own
requests, their cancellations and its log messages to that of the newest call, and everything else to the stream that
the client opens with GET, or waits for one within bounds. No message goes to two streams.

A stream cannot be resumed, because connections within one machine do not break. What it would have carried after its
end is dropped, but its request is not cancelled.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import UNSET, Raw, Struct, field

from acp_launch.mcp.message import CALL, CANCELLED, INITIALIZE, LOG, PROGRESS, reported_token, wanted_token
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import NULL, Envelope, key

CALLS = frozenset({CALL, "prompts/get", "resources/read", "completion/complete"})
REPLAYED = ("session/resume", "session/end")  # requests after which notifications are sent again, or not at all
MAX_WAITING, MAX_WAITING_BYTES = 1000, 4 * 1024 * 1024  # messages for a stream opened with GET
ALIVE = b": keep-alive\n\n"  # a comment, for clients and proxies that give up a silent connection


class HttpReply(Protocol):
    """The answer to one HTTP request. When the client is gone, nothing is sent any more."""

    is_gone: bool  # the client has closed the connection

    @property
    def is_full(self) -> bool:
        """Whether the client is too slow for what it is sent."""

    def answer(self, status: int, body: bytes = b"") -> None:
        """Send a whole answer; the body is JSON."""

    def open(self, session: str) -> None:
        """Begin a stream of events of this session."""

    def write(self, event: bytes) -> None: ...

    def end(self) -> None:
        """End the stream of events."""


def refuse(reply: HttpReply, status: int, code: int, why: str, *, id: Raw = NULL, data: object = None) -> None:
    """Answer a request with an error."""
    reply.answer(status, jsonrpc.error(id, code, why, data))


def event(message: bytes) -> bytes:
    """Write a message as an event. A carriage return would end its line; in JSON it can only be a blank."""
    return b"event: message\ndata: %b\n\n" % message.replace(b"\r", b" ").replace(b"\n", b" ")


class Post(Struct, eq=False):
    """The requests in the body of one POST; `reply` is None if the client is gone."""

    reply: HttpReply | None
    waiting: set[bytes] = field(default_factory=set)  # requests without an answer
    tokens: set[bytes] = field(default_factory=set)  # their progress tokens
    is_call: bool = False


class HttpSession:
    """A session and its streams; `id` is for the client's header, `send` takes messages for the server."""

    def __init__(self, id: str, send: Callable[[bytes], None]) -> None:
        self.id = id
        self.is_refused = False  # the server has refused the handshake
        self.has_listened = False  # the client has opened a stream with GET
        self._send = send
        self._listening: HttpReply | None = None  # the stream opened with GET
        self._posts: list[Post] = []  # those with an open request, the oldest first
        self._owners: dict[bytes, Post] = {}  # by the keys of open requests
        self._kept: list[tuple[bool, bytes]] = []  # for a stream opened with GET: is it a request, line
        self._opening = b""  # the key of `initialize`, until it is answered

    @property
    def replies(self) -> list[HttpReply]:
        """The HTTP requests that are being answered."""
        replies = [*(post.reply for post in self._posts), self._listening]
        return [reply for reply in replies if reply is not None]

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the client has no answer yet."""
        return bool(self._owners)

    # The client.

    def post(self, line: bytes, reply: HttpReply) -> None:
        """Take the body of a POST."""
        parts = jsonrpc.batch(line)
        lines = [line] if parts is None else parts
        messages = [message for part in lines if (message := jsonrpc.decode(part)) is not None]
        is_whole = all(message.method is not UNSET or message.id is not UNSET for message in messages)
        if not messages or len(messages) < len(lines) or not is_whole:
            refuse(reply, 400, jsonrpc.PARSE_ERROR, "the body is not a JSON-RPC message")
            return
        if any(message.method in REPLAYED for message in messages):
            self._kept = [(is_request, kept) for is_request, kept in self._kept if is_request]
        asked = [message for message in messages if message.method is not UNSET and message.id is not UNSET]
        if asked:
            self._ask(asked, reply)
        for part in lines:
            self._send(part)
        if not asked:
            reply.answer(202)

    def _ask(self, asked: Sequence[Envelope], reply: HttpReply) -> None:
        post = Post(reply)
        self._posts.append(post)
        reply.open(self.id)
        for message in asked:
            assert message.id is not UNSET
            id = key(message.id)
            older = self._owners.get(id)
            if older is not None and older is not post:  # an answer could not tell them apart
                older.waiting.discard(id)
                self._finish(older)
            self._owners[id] = post
            post.waiting.add(id)
            post.is_call = post.is_call or message.method in CALLS
            if (token := wanted_token(message.params)) is not None:
                post.tokens.add(key(token))
            if message.method == INITIALIZE:
                self._opening = id

    def listen(self, reply: HttpReply) -> None:
        """Take a GET; an older stream ends."""
        if self._listening is not None:
            self._listening.end()
        self._listening, self.has_listened = reply, True
        reply.open(self.id)
        for _, line in self._kept:
            reply.write(event(line))
        self._kept = []

    def lose(self, reply: HttpReply) -> None:
        """Note that the client has closed the connection. Its request goes on."""
        if reply is self._listening:
            self._listening = None
        for post in self._posts:
            if post.reply is reply:
                post.reply = None

    def beat(self) -> None:
        """Show every client that its connection is alive; called now and then."""
        for reply in self.replies:
            if not reply.is_full:
                reply.write(ALIVE)

    # The server.

    def receive(self, line: bytes) -> None:
        """Take a line of the server."""
        parts = jsonrpc.batch(line)
        for part in [line] if parts is None else parts:
            if (message := jsonrpc.decode(part)) is None:
                continue
            if message.method is not UNSET:
                self._pass_on(message, part)
            elif message.id is not UNSET:
                self._answer(key(message.id), part, is_error=message.result is UNSET)

    def _answer(self, id: bytes, line: bytes, *, is_error: bool) -> None:
        if id == self._opening:
            self._opening, self.is_refused = b"", is_error
        post = self._owners.pop(id, None)
        if post is None:
            return
        post.waiting.discard(id)
        if post.reply is not None:
            post.reply.write(event(line))
        self._finish(post)

    def _finish(self, post: Post) -> None:
        """Forget a POST whose requests are all answered."""
        if post.waiting:
            return
        self._posts.remove(post)
        if post.reply is not None:
            post.reply.end()

    def _pass_on(self, message: Envelope, line: bytes) -> None:
        reply = self._stream_for(message) or self._listening
        if reply is not None:
            reply.write(event(line))
        elif (
            len(self._kept) < MAX_WAITING and sum(len(kept) for _, kept in self._kept) + len(line) <= MAX_WAITING_BYTES
        ):
            self._kept.append((message.id is not UNSET, line))
        elif message.id is not UNSET:
            unheard = "the agent does not listen for requests of the server"
            self._send(jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, unheard))

    def _stream_for(self, message: Envelope) -> HttpReply | None:
        """Return the stream of a POST that gets a message; None if it is for the stream opened with GET."""
        if message.method == PROGRESS:
            token = reported_token(message.params)
            return next((post.reply for post in self._posts if token is not None and key(token) in post.tokens), None)
        if message.id is UNSET and message.method not in (LOG, CANCELLED):
            return None
        able = [post for post in self._posts if post.reply is not None]
        newest = next((post for post in reversed(able) if post.is_call), able[-1] if able else None)
        return None if newest is None else newest.reply

    def end(self, why: str) -> None:
        """End the session: every open request is answered with an error, and every stream is closed."""
        for id in list(self._owners):
            self._answer(id, jsonrpc.error(Raw(id), jsonrpc.SERVER_LOST, why), is_error=True)
        if self._listening is not None:
            self._listening.end()
            self._listening = None
