"""
The shim's copy loop, for a stdin and stdout that cannot be passed to the seat.

It holds one chunk for each direction, so that a slow reader slows the other side down. It ends when either side ends.
After the agent has closed our stdin, it still passes on what the server sends, until the server is silent for a while.
"""

import select
import sys
import time

if sys.platform != "win32":
    import posix
    from _socket import SHUT_WR, socket

CHUNK = 65536  # bytes, what a pipe holds
LINGER = 0.8  # seconds of silence after stdin has ended; in all after the seat has; with our own exit one second
GONE = select.POLLERR | select.POLLHUP
ENDED = GONE | getattr(select, "POLLRDHUP", 0)  # of a socket's one direction; Linux only


def _is_pipe(descriptor: int) -> bool:
    """Tell whether it is a pipe or a socket. Files never block, and a terminal's mode is not ours to change."""
    return posix.fstat(descriptor).st_mode & 0o170000 in (0o010000, 0o140000)  # S_IFMT: S_IFIFO, S_IFSOCK


class Direction:
    """One direction. `held` are bytes read but not yet written; `is_open` while more may come."""

    def __init__(self, source: int, sink: int, held: bytes) -> None:
        self.source, self.sink = source, sink
        self.held = memoryview(held)
        self.is_open = True
        self.written = 0  # bytes

    @property
    def is_hungry(self) -> bool:
        return self.is_open and not self.held

    def read(self) -> None:
        try:
            self.held = memoryview(posix.read(self.source, CHUNK))
        except BlockingIOError:
            return
        except OSError:
            self.held = memoryview(b"")
        self.is_open = bool(self.held)

    def write(self) -> bool:
        """Write held bytes; return False if the reader is gone."""
        try:
            written = posix.write(self.sink, self.held)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.held = self.held[written:]
        self.written += written
        return True

    def cut(self) -> None:
        self.held, self.is_open = memoryview(b""), False


class CopyLoop:
    def __init__(self, seat: "socket", beginning: bytes) -> None:
        """`beginning` is sent to the seat before the agent's bytes."""
        seat.setblocking(False)
        self.seat, self.number = seat, seat.fileno()
        self.inward = Direction(0, self.number, beginning)
        self.outward = Direction(self.number, 1, b"")
        self.tells_end = _is_pipe(1)  # poll always reports that a pipe's reader is gone
        self.poll = select.poll()
        self.wanted: tuple[int | None, ...] = ()  # the events polled on stdin, stdout and the seat
        self.deadline: float | None = None
        self.is_ending = False  # the agent has closed our stdin; unread bytes may be left in it
        self.is_shut = False  # our side of the connection to the seat is closed for writing
        self.has_hung_up = False  # the seat has closed the connection

    def run(self) -> None:
        """Copy until either side has ended."""
        for descriptor in (0, 1):
            if _is_pipe(descriptor):
                posix.set_blocking(descriptor, False)
        while self._step():
            pass

    def _step(self) -> bool:
        ready = self._wait()
        before = self.inward.written + self.outward.written
        if ready.get(1, 0) & GONE:
            return False
        self._read(ready)
        if self.inward.held and not self.inward.write():
            self._hung_up()
        if self.outward.held and not self.outward.write():
            return False
        self._see_to_the_end(moved=self.inward.written + self.outward.written > before)
        return (self.outward.is_open or bool(self.outward.held)) and not self._is_late()

    def _wait(self) -> dict[int, int]:
        """Poll for events. A descriptor we would not serve now is left out, because poll reports its end endlessly."""
        wanted = (self._of_agent(), self._of_its_reader(), self._of_seat())
        if wanted != self.wanted:
            self.wanted, self.poll = wanted, select.poll()
            for descriptor, events in zip((0, 1, self.number), wanted, strict=True):
                if events is not None:
                    self.poll.register(descriptor, events)
        left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic()) * 1000
        return dict(self.poll.poll(left))

    def _of_agent(self) -> "int | None":
        """Return the events to poll on our stdin: None for none, 0 for its end only."""
        if self.inward.is_hungry:
            return select.POLLIN
        return None if self.is_ending else ENDED & ~GONE

    def _of_its_reader(self) -> "int | None":
        if self.outward.held:
            return select.POLLOUT
        return 0 if self.tells_end else None

    def _of_seat(self) -> "int | None":
        if self.outward.is_hungry or not self.has_hung_up:
            wanted = select.POLLIN if self.outward.is_hungry else 0
            return wanted | (select.POLLOUT if self.inward.held else 0)
        return None

    def _read(self, ready: dict[int, int]) -> None:
        if 0 in ready and self.inward.is_hungry:
            self.inward.read()
        if ready.get(0, 0) & ENDED or not self.inward.is_open:
            self.is_ending = True
        if self.number not in ready:
            return
        if self.outward.is_hungry:
            self.outward.read()
        if ready[self.number] & GONE or not self.outward.is_open:
            self._hung_up()

    def _hung_up(self) -> None:
        """Note that the seat has closed the connection: its last bytes are still read, but nothing is sent any more."""
        if not self.has_hung_up:
            self.has_hung_up = self.is_ending = True
            self.deadline = time.monotonic() + LINGER
            self.inward.cut()

    def _see_to_the_end(self, *, moved: bool) -> None:
        """Pass on the end of our stdin, and prolong the deadline while bytes move."""
        if self.has_hung_up or not self.is_ending:
            return
        if moved or self.deadline is None:
            self.deadline = time.monotonic() + LINGER
        if not (self.inward.is_open or self.inward.held or self.is_shut):
            self.is_shut = True
            self._say_that_it_ended()

    def _say_that_it_ended(self) -> None:
        try:
            self.seat.shutdown(SHUT_WR)
        except OSError:  # macOS, if the seat has gone already
            self._hung_up()

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline
