"""One side of a conversation at work: lines in and out of a pipe or a socket."""

import select
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from acp_launch.process.flow import CHUNK_BYTES, Inflow, Lent, Outflow
from acp_launch.protocol.jsonrpc import Envelope, LineFramer, LineTooLong


class LinkEnd(Struct, frozen=True):
    """The reason why a link ended. `why` is a verb phrase: "has closed its output"."""

    why: str
    is_fault: bool = False  # the peer broke the protocol, and is not read any further


class LinkUser(ABC):
    """What a link calls."""

    @abstractmethod
    def receive(self, line: bytes) -> None:
        """Take a line, without its end. If it raises, `fail` gets the error, and the other lines still come."""

    @abstractmethod
    def over(self, end: LinkEnd) -> None:
        """Note that nothing more can come or go. Called once."""

    @abstractmethod
    def room(self) -> None:
        """Note that a slow reader has taken the held bytes."""

    @abstractmethod
    def fail(self, error: Exception) -> None:
        """Note a failure of ours to handle a line."""

    @abstractmethod
    def burst(self, is_on: bool) -> None:
        """Called with True before several lines that came in one chunk, and with False after them."""


class QuickWay(NamedTuple):
    """A way past `receive`. Lines that `passes` lets pass, as it returns what they say, go to `forward`, joined."""

    passes: Callable[[bytes], Envelope | None]
    forward: Callable[[bytes, Sequence[Envelope]], None]


NO_WAY = QuickWay(lambda line: None, lambda lines, messages: None)


class Link:
    """Both directions of one side of a conversation: lines in, lines out, without blocking.

    It reads `source` and writes `sink`, which may be one descriptor; both stay open when the link is closed.
    """

    def __init__(
        self, source: int | Lent, sink: int | Lent, user: LinkUser, way: QuickWay = NO_WAY, *, max_line: int
    ) -> None:
        self._source = source
        self.serve(user, way)
        self._framer = LineFramer(limit=max_line)
        self._max_line = max_line
        self._is_closed = self._is_told = self.is_paused = False
        self._out = Outflow(sink, lambda: self._user.room(), lambda: self._end(LinkEnd("no longer reads")))
        self._in = Inflow(source, self._took, lambda: self._end(LinkEnd("has closed its output")))

    def serve(self, user: LinkUser, way: QuickWay = NO_WAY) -> None:
        """Give what comes from now on, also what has come in the same chunk, to this user."""
        self._user, (self._passes, self._forward) = user, way

    def shorten(self, way: QuickWay) -> None:
        """Let lines take this way past the user."""
        self._passes, self._forward = way

    @property
    def is_full(self) -> bool:
        """Whether too many bytes are held for it; their sender should wait for `room`."""
        return self._out.is_full

    @property
    def held(self) -> int:
        """The bytes that the peer has not taken yet."""
        return self._out.held

    @property
    def has_hung_up(self) -> bool:
        """Whether the peer has closed the connection; checked now and then, as a paused link gets no event for that."""
        poll = select.poll()
        poll.register(self._source, 0)
        return bool(poll.poll(0))

    def send(self, line: bytes, messages: Sequence[Envelope] = ()) -> None:
        """Send a line; what it says is for links that read it."""
        if len(line) < CHUNK_BYTES:
            self._out.send(line + b"\n")
            return
        self._out.send(line)  # a long line is not copied just to append its end
        self._out.send(b"\n")

    def gather(self) -> None:
        """Collect what is sent until `release`, and write it at once."""
        self._out.gather()

    def release(self) -> None:
        self._out.release()

    def pause(self) -> None:
        self.is_paused = True
        self._in.pause()

    def resume(self) -> None:
        self.is_paused = False
        self._in.resume()

    def drain(self) -> None:
        """Read what the peer had written before it ended."""
        self._in.drain()

    def close(self) -> None:
        self._is_closed = True
        self._in.close()
        self._out.close()

    def _took(self, chunk: bytes) -> None:
        if chunk.count(b"\n") < 2:
            self._cut(chunk)
            return
        self._user.burst(True)
        try:
            self._cut(chunk)
        finally:
            self._user.burst(False)

    def _cut(self, chunk: bytes) -> None:
        passing, messages = list[bytes](), list[Envelope]()
        try:
            for line in self._framer.feed(chunk):
                if self._is_closed:
                    return
                if (message := self._passes(line)) is not None:
                    passing.append(line)
                    messages.append(message)
                    continue
                self._send_on(passing, messages)
                self._handle(line)
            self._send_on(passing, messages)
        except LineTooLong:
            self._send_on(passing, messages)
            self._in.close()  # the rest of that line may look like a message
            self._end(LinkEnd(f"has sent a line of more than {self._max_line:,} bytes", is_fault=True))

    def _send_on(self, passing: list[bytes], messages: list[Envelope]) -> None:
        if passing:
            self._forward(b"\n".join(passing), messages)
            passing.clear()
            messages.clear()

    def _handle(self, line: bytes) -> None:
        try:
            self._user.receive(line)
        except Exception as error:
            self._user.fail(error)

    def _end(self, over: LinkEnd) -> None:
        if not (self._is_told or self._is_closed):
            self._is_told = True
            self._user.over(over)
