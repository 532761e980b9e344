"""
Bytes through descriptors in the event loop, pushed instead of awaited: no task, no future, no waiter for each read.

For the path between two processes, where the cost of a small message counts. `Inflow` and `Outflow` take a pipe or a
socket, as a non-blocking descriptor or as a `Lent`. The descriptor stays its owner's: close the flow first, then the
descriptor. Callbacks may close, pause or send; after `close` none is called. A `Link` is one side of a
conversation at work: lines in and out of a pipe or a socket, by one of each.
"""

import asyncio
import os
import select
import socket
import stat
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from msgspec import Struct

from acp_launch.protocol.jsonrpc import Envelope, LineFramer, LineTooLong

CHUNK_BYTES = 64 * 1024  # the size of a pipe, and less than makes malloc ask the kernel for memory each time
TURN_CHUNKS = 4  # reads or writes before the rest of the event loop has a turn
MAX_LEFT_BYTES = 1024 * 1024  # by a dead writer: more than a pipe holds, less than a flood
HIGH_BYTES = 1024 * 1024  # held for a slow reader; beyond that the producer should pause
LOW_BYTES = 256 * 1024  # left when the producer may continue, so that the reader does not run dry
MAX_PIECES = 64  # per write; IOV_MAX is 1024 on all platforms, 16 according to POSIX


class Lent:
    """A pipe or a socket that another process lends us and continues to use: created by `lend`, closed by us.

    Reading and writing never wait, although blocking is a property that all sharers of a pipe or socket have in common.
    Of a pipe we have our own description where the platform has /proc; at a socket each call says so itself. If neither
    is possible, the description is made non-blocking until it is closed.
    """

    def __init__(self, descriptor: int, *, reads: bool) -> None:
        self._socket: socket.socket | None = None
        self._was_blocking = False
        self._descriptor = descriptor
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            self._socket = socket.socket(fileno=descriptor)
        else:
            self._descriptor = self._own(descriptor, os.O_RDONLY if reads else os.O_WRONLY)

    def fileno(self) -> int:
        return self._descriptor

    def read(self, size: int) -> bytes:
        if self._socket is None:
            return os.read(self._descriptor, size)
        return self._socket.recv(size, socket.MSG_DONTWAIT)

    def write(self, data: bytes) -> int:
        if self._socket is None:
            return os.write(self._descriptor, data)
        return self._socket.send(data, socket.MSG_DONTWAIT)

    def writev(self, pieces: "Sequence[Any]") -> int:
        if self._socket is None:
            return os.writev(self._descriptor, pieces)
        return self._socket.sendmsg(pieces, (), socket.MSG_DONTWAIT)

    def close(self) -> None:
        """Close it. Closing it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if self._socket is not None:
            self._socket.close()
        elif descriptor >= 0:
            if self._was_blocking:
                os.set_blocking(descriptor, True)
            os.close(descriptor)

    def _own(self, descriptor: int, access: int) -> int:
        try:
            own = os.open(f"/proc/self/fd/{descriptor}", access | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # no /proc; another user's pipe; one that has no reader any more
            self._was_blocking = os.get_blocking(descriptor)
            os.set_blocking(descriptor, False)
            return descriptor
        os.close(descriptor)
        return own


def lend(descriptor: int, *, reads: bool) -> Lent | None:
    """Take over a descriptor that another process has passed to us.

    Returns None, and closes it, if it is not a stream.
    """
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or (stat.S_ISSOCK(mode) and _is_stream(descriptor)):
            return Lent(descriptor, reads=reads)
    except OSError:
        pass
    os.close(descriptor)
    return None


def _is_stream(descriptor: int) -> bool:
    duplicate = socket.socket(fileno=os.dup(descriptor))
    with duplicate:
        return duplicate.type == socket.SOCK_STREAM


class Inflow:
    """Reads as data comes: `on_chunk` gets each chunk, `on_end` is called once when nothing more can come."""

    def __init__(self, source: int | Lent, on_chunk: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._descriptor = source if isinstance(source, int) else source.fileno()
        self._receive = partial(os.read, source) if isinstance(source, int) else source.read
        self._on_chunk, self._on_end = on_chunk, on_end
        self._loop = asyncio.get_running_loop()
        self._is_open, self._is_listening = True, False
        self.resume()

    def pause(self) -> None:
        """Leave the data where it is, so that its writer has to wait."""
        if self._is_listening:
            self._is_listening = False
            self._loop.remove_reader(self._descriptor)

    def resume(self) -> None:
        if self._is_open and not self._is_listening:
            self._is_listening = True
            self._loop.add_reader(self._descriptor, self._readable)

    def drain(self, limit: int = MAX_LEFT_BYTES) -> None:
        """Take what a dead writer left, even while paused, and close without calling `ended`.

        At most about `limit` bytes: other processes may hold the pipe and continue to fill it.
        """
        while self._is_open and limit > 0 and (chunk := self._read()):
            limit -= len(chunk)
            self._on_chunk(chunk)
        self.close()

    def close(self) -> None:
        self.pause()
        self._is_open = False

    def _readable(self) -> None:
        for _ in range(TURN_CHUNKS):
            chunk = self._read()
            if chunk is None:
                return
            if not chunk:
                self.close()
                self._on_end()
                return
            self._on_chunk(chunk)
            if not self._is_listening or len(chunk) < CHUNK_BYTES // 8:  # most likely that was all
                return

    def _read(self) -> bytes | None:
        """Return a chunk; b"" at the end; None if there is nothing now."""
        try:
            return self._receive(CHUNK_BYTES)
        except BlockingIOError:
            return None
        except OSError:  # ECONNRESET: it died with our data unread. After any error nothing more comes
            return b""


class Outflow:
    """Writes at once as far as the reader takes it, and holds the rest, in order.

    `drained` is called when the held bytes fall to `LOW_BYTES`, and when none are left; `broken` once, and not from
    within `send`, when the reader is gone. Data sent after that is dropped.
    """

    def __init__(self, sink: int | Lent, drained: Callable[[], None], broken: Callable[[], None]) -> None:
        self.held = 0  # bytes
        self._descriptor = sink if isinstance(sink, int) else sink.fileno()
        self._send = partial(os.write, sink) if isinstance(sink, int) else sink.write
        self._sendv = partial(os.writev, sink) if isinstance(sink, int) else sink.writev
        self._drained, self._broken = drained, broken
        self._loop = asyncio.get_running_loop()
        self._kept: deque[memoryview] = deque()
        self._is_open, self._is_gathering = True, False
        self._breaking: asyncio.Handle | None = None

    @property
    def is_full(self) -> bool:
        return self.held > HIGH_BYTES

    def send(self, data: bytes) -> None:
        """Send `data`. Never waits, and does not copy the part that it holds."""
        if not (self._is_open and data):
            return
        if self._is_gathering:
            self._keep(memoryview(data))
            return
        taken = 0 if self._kept else _taken(self._send, data)
        if taken is None:
            self._fail()
        elif taken < len(data):
            self._keep(memoryview(data)[taken:])

    def cork(self) -> None:
        """Hold everything sent until `uncork`: many small pieces become one write, and wake the reader once."""
        self._is_gathering = not self._kept

    def uncork(self) -> None:
        if not self._is_gathering:
            return
        self._is_gathering, before = False, self.held
        if not self._flush():
            self._fail()
            return
        if self._kept:
            self._loop.add_writer(self._descriptor, self._writable)
        if before > LOW_BYTES >= self.held:
            self._drained()

    def close(self) -> None:
        """Drop the held bytes."""
        self._stop()
        if self._breaking is not None:
            self._breaking.cancel()

    def _fail(self) -> None:
        self._stop()
        self._breaking = self._loop.call_soon(self._broken)

    def _stop(self) -> None:
        self._is_open = False
        if self._kept:
            self._loop.remove_writer(self._descriptor)
            self._kept.clear()
            self.held = 0

    def _keep(self, rest: memoryview) -> None:
        if not (self._kept or self._is_gathering):
            self._loop.add_writer(self._descriptor, self._writable)
        self._kept.append(rest)
        self.held += len(rest)

    def _writable(self) -> None:
        before = self.held
        if not self._flush():
            self._stop()
            self._broken()
            return
        if not self._kept:
            self._loop.remove_writer(self._descriptor)
        if before > LOW_BYTES >= self.held or not self.held:
            self._drained()

    def _flush(self) -> bool:
        """Write held bytes as far as the reader takes them, at most one turn's worth. False if the reader is gone."""
        for _ in range(TURN_CHUNKS):
            if not self._kept:
                break
            taken = _taken(self._sendv, list(islice(self._kept, MAX_PIECES)))
            if taken is None:
                return False
            if not taken:
                break
            self._drop(taken)
        return True

    def _drop(self, taken: int) -> None:
        """Forget the written bytes, and advance to the next write."""
        self.held -= taken
        while taken:
            first = self._kept.popleft()
            if len(first) > taken:
                self._kept.appendleft(first[taken:])
                return
            taken -= len(first)


def _taken(write: Callable[[Any], int], data: bytes | list[memoryview]) -> int | None:
    """Return how many bytes the reader took; None if it is gone."""
    try:
        return write(data)
    except BlockingIOError:
        return 0
    except OSError:  # EPIPE, ECONNRESET. After any error nothing more is written
        return None


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
    def on_drained(self) -> None:
        """Note that a slow reader has taken the held bytes."""

    @abstractmethod
    def fail(self, error: Exception) -> None:
        """Note that we failed to handle a line."""

    @abstractmethod
    def on_burst(self, is_on: bool) -> None:
        """Called with True before several lines that came in one chunk, and with False after them."""


class FastPath(NamedTuple):
    """A way past `receive`: lines of which `forward_fast` returns an envelope go to `forward`, joined."""

    forward_fast: Callable[[bytes], Envelope | None]
    forward: Callable[[bytes, Sequence[Envelope]], None]


NO_WAY = FastPath(lambda line: None, lambda lines, messages: None)


class Link:
    """Both directions of one side of a conversation: lines in, lines out, without blocking.

    It reads `source` and writes `sink`, which may be one descriptor; both stay open when the link is closed.
    """

    def __init__(
        self, source: int | Lent, sink: int | Lent, user: LinkUser, way: FastPath = NO_WAY, *, max_line: int
    ) -> None:
        self._source = source
        self.serve(user, way)
        self._framer = LineFramer(limit=max_line)
        self._max_line = max_line
        self._is_closed = self._is_told = self.is_paused = False
        self._out = Outflow(sink, lambda: self._user.on_drained(), lambda: self._end(LinkEnd("no longer reads")))
        self._in = Inflow(source, self._on_chunk, lambda: self._end(LinkEnd("has closed its output")))

    def serve(self, user: LinkUser, way: FastPath = NO_WAY) -> None:
        """Give what comes from now on, also what has come in the same chunk, to this user."""
        self._user, (self._passes, self._forward) = user, way

    def set_fast_path(self, way: FastPath) -> None:
        """Let lines take this way past the user."""
        self._passes, self._forward = way

    @property
    def is_full(self) -> bool:
        """Whether too many bytes are held for it; their sender should wait for `on_drained`."""
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

    def cork(self) -> None:
        """Collect lines until `uncork`, and write them at once."""
        self._out.cork()

    def uncork(self) -> None:
        self._out.uncork()

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

    def _on_chunk(self, chunk: bytes) -> None:
        if chunk.count(b"\n") < 2:
            self._cut(chunk)
            return
        self._user.on_burst(True)
        try:
            self._cut(chunk)
        finally:
            self._user.on_burst(False)

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
