"""Both directions of one side of a conversation: lines in, lines out, never blocking."""

import select
from collections.abc import Callable

from msgspec import Struct

from acp_launch.process.flow import CHUNK, Inflow, Lent, Outflow
from acp_launch.protocol.framing import LineFramer, LineTooLong


class Over(Struct, frozen=True):
    """Why a link is of no use any more; `why` completes "the server …" or "it …"."""

    why: str
    is_fault: bool = False  # it broke the rules, and is read no further


class Link:
    """Reads `source` and writes `sink`, which may be one descriptor; both stay open when this is closed.

    `line` gets each line without its end; `over` is called once, when nothing more can come or go. `room` is called
    when what was kept for a slow reader has been taken; `burst` with True before several lines that came in one piece,
    and with False after them. Should `line` raise, `broke` is told, and the other lines come all the same.
    """

    def __init__(
        self,
        source: int | Lent,
        sink: int | Lent,
        line: Callable[[bytes], None],
        over: Callable[[Over], None],
        room: Callable[[], None],
        burst: Callable[[bool], None],
        broke: Callable[[Exception], None],
        *,
        max_line: int,
    ) -> None:
        self._source, self._line, self._over, self._burst, self._broke = source, line, over, burst, broke
        self._framer = LineFramer(limit=max_line)
        self._max_line = max_line
        self._is_closed = self._is_told = self._is_paused = False
        self._out = Outflow(sink, room, lambda: self._end(Over("does not read any more")))
        self._in = Inflow(source, self._took, lambda: self._end(Over("has closed its output")))

    @property
    def is_full(self) -> bool:
        """More is kept for it than it should be; whoever produces that should wait for `room`."""
        return self._out.is_full

    @property
    def held(self) -> int:
        """Bytes it has not taken yet."""
        return self._out.held

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def has_hung_up(self) -> bool:
        """A paused link is not told of the other side's end, so somebody has to look now and then."""
        poll = select.poll()
        poll.register(self._source, 0)
        return bool(poll.poll(0))

    def send(self, line: bytes) -> None:
        if len(line) < CHUNK:
            self._out.send(line + b"\n")
            return
        self._out.send(line)  # not copied only for the sake of its end
        self._out.send(b"\n")

    def gather(self) -> None:
        """Let what is sent until `release` leave in one piece."""
        self._out.gather()

    def release(self) -> None:
        self._out.release()

    def pause(self) -> None:
        self._is_paused = True
        self._in.pause()

    def resume(self) -> None:
        self._is_paused = False
        self._in.resume()

    def drain(self) -> None:
        """The other end is dead: take what it had written."""
        self._in.drain()

    def close(self) -> None:
        self._is_closed = True
        self._in.close()
        self._out.close()

    def _took(self, chunk: bytes) -> None:
        if chunk.count(b"\n") < 2:
            self._cut(chunk)
            return
        self._burst(True)
        try:
            self._cut(chunk)
        finally:
            self._burst(False)

    def _cut(self, chunk: bytes) -> None:
        try:
            for line in self._framer.feed(chunk):
                if self._is_closed:
                    return
                self._handle(line)
        except LineTooLong:
            self._in.close()  # what follows is the rest of that line, and may look like one of its own
            self._end(Over(f"has sent a line of more than {self._max_line:,} bytes", is_fault=True))

    def _handle(self, line: bytes) -> None:
        try:
            self._line(line)
        except Exception as error:
            self._broke(error)

    def _end(self, over: Over) -> None:
        if not (self._is_told or self._is_closed):
            self._is_told = True
            self._over(over)
