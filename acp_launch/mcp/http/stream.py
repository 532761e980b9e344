"""
One HTTP request to a remote server and what comes back on it, over its repetitions; and the events of such an answer.

Events are server-sent ones (WHATWG HTML, "server-sent events"): lines end with LF, CR or CRLF, and an event without its
empty line at the end of the stream is dropped. Sans-IO.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, Raw, Struct, field

from acp_launch.mcp.http.wire import MAX_PAUSE, NONE, Challenge, HttpRequest
from acp_launch.mcp.message import INITIALIZE
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import BOM, LineFramer, LineTooLong

Role = Literal["line", "listen", "endpoint", "probe", "health_check", "delete"]

RETRY_SECONDS = 1.0  # before a stream is asked for again, if the server does not say
AGAIN_AT_MOST = 30.0
MIN_RETRY_SECONDS = 0.25  # even if the server says less

_DATA = b"data: "
_RETURN, _NEWLINE = b"\r\n"  # searching for a number is faster than for bytes


class ServerEvent(Struct, frozen=True, gc=False):
    """One event. `id` is the latest of the stream, `retry` the pause that it asks for, in seconds."""

    kind: str
    data: bytes
    id: str
    retry: float | None


class EventStream:
    """Splits a stream into events. `limit` is the largest event accepted, in bytes; it holds twice that at most."""

    def __init__(self, *, limit: int) -> None:
        self._limit, self._framer = limit, LineFramer(limit=limit)
        self._size = 0  # bytes of the event so far
        self._has_begun = self._after_return = False
        self._kind, self._data = "", list[bytes]()
        self._id = ""
        self._retry: float | None = None
        self._is_pending = False

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield each event that `chunk` completes.

        Raises:
            LineTooLong: an event is larger than the limit.
        """
        for line in self._framer.feed(self._with_newlines(chunk)):
            text = line
            if not self._has_begun:
                self._has_begun, text = True, line.removeprefix(BOM)
            if not text:
                if self._is_pending:
                    yield self._event()
                self._size = 0
                continue
            self._size += len(text)
            if self._size > self._limit:
                self._data = []
                raise LineTooLong(f"an event of more than {self._limit:,} bytes")
            if text.startswith(_DATA):  # as nearly all do
                self._data.append(text[len(_DATA) :])
                self._is_pending = True
            else:
                self._field(text)

    def _with_newlines(self, chunk: bytes) -> bytes:
        if self._after_return and chunk:
            self._after_return = False
            if chunk[0] == _NEWLINE:
                chunk = chunk[1:]
        if _RETURN in chunk:
            self._after_return = chunk[-1] == _RETURN
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._kind = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self._retry = int(value) / 1000
            case _:
                return  # a comment, or a field that has no meaning
        self._is_pending = True

    def _event(self) -> ServerEvent:
        event = ServerEvent(self._kind or "message", b"\n".join(self._data), self._id, self._retry)
        self._kind, self._data, self._retry, self._is_pending = "", [], None, False
        return event


class HttpAnswer(Struct):
    """What has come of an HTTP answer so far."""

    status: int = 0  # 0: it has not begun
    kind: str = ""  # its content type
    events: EventStream | None = None  # else it has a body
    body: list[bytes] = field(default_factory=list)
    size: int = 0
    challenge: Challenge = NONE  # how the server wants a refused request to be authorized

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def take_body(self) -> bytes:
        body, self.body = b"".join(self.body), []
        return body


class RequestStream(Struct):
    """One HTTP request to the server, for at most one message of the agent."""

    number: int
    role: Role
    request: HttpRequest
    heard: float
    id: Raw | None = None  # of the message, while it waits for an answer
    method: str = ""
    is_stateless: bool = False
    answer: HttpAnswer = field(default_factory=HttpAnswer)
    begun: float = 0.0  # when it was last sent
    resumed: int = 0  # times in a row that resuming it brought nothing
    redirects: int = 0
    repeated: int = 0  # times that it was sent again after it had no effect
    retry: float | None = None  # the pause that the server asks for
    last_event: str = ""
    is_sent: bool = False  # the server may have seen it; else it still waits for a connection
    is_waiting: bool = False  # to be sent again, as it has had no effect so far
    is_resuming: bool = False
    is_cancelled: bool = False
    fix: str = ""  # what the user can do about its refusal
    finished: float | None = None  # since when everything on it is answered

    @property
    def is_introduction(self) -> bool:
        """Whether it holds the handshake of a session."""
        return self.id is not None and self.method == INITIALIZE and not self.is_stateless

    @property
    def was_effective(self) -> bool:
        """Whether the server may have acted on it, or nothing of it is awaited."""
        return self.role != "line" or self.is_resuming

    @property
    def is_unseen(self) -> bool:
        """Whether it is a message that the server certainly has not acted on."""
        return not self.was_effective and (self.is_waiting or not self.is_sent)

    def note_event(self, event: ServerEvent) -> None:
        """Note where to resume, and when."""
        if event.id:
            if event.id != self.last_event:
                self.resumed = 0
            self.last_event = event.id
        if event.retry is not None:
            self.retry = min(event.retry, MAX_PAUSE)

    def pause(self, now: float) -> float:
        """Count an attempt to have an event stream that has ended; return the seconds to wait before the next."""
        if self.role == "listen":
            self.resumed = 0 if now - self.begun > AGAIN_AT_MOST else self.resumed + 1
        growing = min(AGAIN_AT_MOST, RETRY_SECONDS * 2 ** (self.resumed - 1)) if self.resumed > 1 else 0.0
        if self.retry is None:
            return max(RETRY_SECONDS, growing)
        return max(MIN_RETRY_SECONDS, self.retry, growing if self.role == "listen" else 0.0)


def one_line(data: bytes) -> bytes:
    """Put a JSON text on one line; in JSON, line breaks occur only between tokens."""
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r", b" ").replace(b"\n", b" ")
    return data.removeprefix(BOM).strip()


def error_in(body: bytes) -> Raw | None:
    """Return the JSON-RPC error that a refusal holds, if any."""
    if not body.lstrip().startswith((b"{", BOM)):
        return None
    message = jsonrpc.decode(one_line(body))
    if message is None or message.error is UNSET or message.method is not UNSET:
        return None
    return message.error if bytes(message.error).startswith(b"{") else None
