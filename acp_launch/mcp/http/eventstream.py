"""
Server-sent events: the bytes of a stream become events, however they were cut (WHATWG HTML, "server-sent events").

Lines end with LF, CR or CRLF. An event without its empty line at the end of the stream is dropped.
"""

from collections.abc import Iterator

from msgspec import Struct

from acp_launch.protocol.jsonrpc import BOM, LineTooLong

_RETURN, _NEWLINE = b"\r\n"  # searching for a number is faster than for bytes


class ServerEvent(Struct, frozen=True):
    """One event. `id` is the latest of the stream, `retry` the pause that it asks for, in seconds."""

    kind: str
    data: bytes
    id: str
    retry: float | None


class EventStream:
    """Splits a stream into events. `limit` is the largest event accepted, in bytes."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # of the line so far
        self._held = 0  # bytes of the event so far, the unfinished line included
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
        for line in self._lines(chunk):
            if line:
                self._field(line)
                continue
            if self._is_pending:
                yield self._event()
            self._held = 0

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if self._after_return and chunk:
            self._after_return = False
            if chunk[0] == _NEWLINE:
                chunk = chunk[1:]
        if _RETURN in chunk:
            self._after_return = chunk[-1] == _RETURN
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *rest = chunk.split(b"\n")
        self._hold(first)
        if not rest:
            return
        last = rest.pop()
        yield self._whole()
        for line in rest:
            self._count(len(line))
            yield line
        self._hold(last)

    def _hold(self, part: bytes) -> None:
        if part:
            self._count(len(part))
            self._parts.append(part)

    def _count(self, size: int) -> None:
        self._held += size
        if self._held > self._limit:
            self._parts, self._data = [], []
            raise LineTooLong(f"an event of more than {self._limit:,} bytes")

    def _whole(self) -> bytes:
        line, self._parts = b"".join(self._parts), []
        if not self._has_begun:
            self._has_begun = True
            line = line.removeprefix(BOM)
        return line

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
