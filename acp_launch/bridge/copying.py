"""
The shim's copy loop, for a stdin and stdout that cannot be passed to the seat.

It holds one chunk for each direction, so that a slow reader slows the other side down. It ends when the seat or the
agent's reader does. After the agent has closed our stdin, or the seat has hung up, it passes on what still comes, until
nothing has moved for a while.
"""

import posix
import select
import time
from _socket import SHUT_WR, socket

CHUNK_BYTES = 65536  # what a pipe holds
LINGER_SECONDS = 0.8  # without a byte after either end; with our own exit one second
GONE = select.POLLERR | select.POLLHUP


def _is_pipe(descriptor: int) -> bool:
    """Tell whether it is a pipe or a socket. Files never block, and a terminal's mode is not ours to change."""
    return posix.fstat(descriptor).st_mode & 0o170000 in (0o010000, 0o140000)  # S_IFMT: S_IFIFO, S_IFSOCK


def _read(source: int) -> "bytes | None":
    """Read a chunk: empty at the end, None if there is nothing now."""
    try:
        return posix.read(source, CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _write(sink: int, held: bytes) -> "bytes | None":
    """Write what can be written; return the rest, None if the reader is gone."""
    try:
        return held[posix.write(sink, held) :] if held else held
    except BlockingIOError:
        return held
    except OSError:
        return None


class CopyLoop:
    def __init__(self, seat: "socket", beginning: bytes) -> None:
        """`beginning` is sent to the seat before the agent's bytes."""
        seat.setblocking(False)
        self.seat, self.number = seat, seat.fileno()
        self.inward, self.outward = beginning, b""  # bytes for the seat, and for the agent
        self.tells_end = _is_pipe(1)  # poll always reports that a pipe's reader is gone
        self.has_input = True  # the agent has not closed our stdin
        self.has_hung_up = False  # the seat has closed the connection, or our side of it is closed for writing
        self.deadline = None  # type: float | None

    def run(self) -> None:
        """Copy until either side has ended."""
        for descriptor in (0, 1):
            if _is_pipe(descriptor):
                posix.set_blocking(descriptor, False)
        while self._step(self._wait()):
            if not (self.has_input or self.inward or self.has_hung_up):
                self._end_input()

    def _wait(self) -> "dict[int, int]":
        """Poll for events. A descriptor we would not serve now is left out, because poll reports its end endlessly."""
        poll = select.poll()
        if self.has_input and not self.inward:
            poll.register(0, select.POLLIN)
        if self.outward or self.tells_end:
            poll.register(1, select.POLLOUT if self.outward else 0)
        if not (self.has_hung_up and self.outward):
            wanted = (0 if self.outward else select.POLLIN) | (select.POLLOUT if self.inward else 0)
            poll.register(self.number, wanted)
        left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic()) * 1000
        return dict(poll.poll(left))

    def _step(self, ready: "dict[int, int]") -> bool:
        """Move bytes; return False at the end, or if nothing has moved for too long."""
        if not ready or ready.get(1, 0) & GONE:
            return False
        if 0 in ready:
            self.inward = _read(0) or b""
            self.has_input = bool(self.inward)
        if self.number in ready and not self.outward:
            chunk = _read(self.number)
            if chunk == b"":
                return False
            self.outward = chunk or b""
        rest = None if ready.get(self.number, 0) & GONE else _write(self.number, self.inward)
        self.inward = rest or b""
        if rest is None:
            self.has_input, self.has_hung_up = False, True
        passed = _write(1, self.outward)
        self.outward = passed or b""
        if not self.has_input:
            self.deadline = time.monotonic() + LINGER_SECONDS
        return passed is not None

    def _end_input(self) -> None:
        """Pass on the end of our stdin."""
        self.has_hung_up = True
        try:
            self.seat.shutdown(SHUT_WR)
        except OSError:  # macOS, if the seat has gone already
            return
