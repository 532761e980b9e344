"""
Bytes through descriptors in the event loop, pushed instead of awaited: no task, no future, no waiter per read.

For what sits between two processes, where the way of a small message is what costs. Both ends take a pipe or a socket,
as a descriptor that does not block or as a `Lent`. It stays its owner's: close the flow first, then the descriptor.
Callbacks may close, pause or send; after `close` none is called any more.
"""

import asyncio
import os
import socket
import stat
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

CHUNK = 64 * 1024  # bytes per read: what a pipe holds, and less than makes malloc ask the kernel for memory each time
TURN = 4  # reads or writes before everybody else in the loop has a turn
LAST_WORDS = 1024 * 1024  # bytes a dead writer may have left: more than a pipe holds, less than a flood
HIGH = 1024 * 1024  # bytes kept for a slow reader, past which whoever produces them should pause
LOW = 256 * 1024  # bytes left when it is asked to go on: the reader does not run dry meanwhile
GATHERED = 64  # pieces per write; IOV_MAX is 1024 everywhere, 16 by POSIX's leave


class Lent:
    """
    A pipe or a socket that another process has lent us, and goes on using: made by `lend`, ours to close.

    Reading and writing never wait, although whether a descriptor blocks belongs to all that share it: of a pipe we have
    a description of our own where the platform has /proc, at a socket each call says so itself. Where neither is
    possible the description is made not to block until it is closed.
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
        """A second time is nothing."""
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
        except OSError:  # no /proc; another user's pipe; one that is not read any more
            self._was_blocking = os.get_blocking(descriptor)
            os.set_blocking(descriptor, False)
            return descriptor
        os.close(descriptor)
        return own


def lend(descriptor: int, *, reads: bool) -> Lent | None:
    """Take over a descriptor that another process has passed to us; None, and closed, if nothing flows through it."""
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
    """Reads as it comes: `took` gets each chunk, `ended` is called once when nothing more can come."""

    def __init__(self, source: int | Lent, took: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._descriptor = source if isinstance(source, int) else source.fileno()
        self._receive = partial(os.read, source) if isinstance(source, int) else source.read
        self._took, self._ended = took, ended
        self._loop = asyncio.get_running_loop()
        self._is_open, self._is_listening = True, False
        self.resume()

    def pause(self) -> None:
        """Leave what comes where it is, so that its writer has to wait."""
        if self._is_listening:
            self._is_listening = False
            self._loop.remove_reader(self._descriptor)

    def resume(self) -> None:
        if self._is_open and not self._is_listening:
            self._is_listening = True
            self._loop.add_reader(self._descriptor, self._readable)

    def drain(self, limit: int = LAST_WORDS) -> None:
        """The writer is dead: take what it left, even while paused, and close without a word of the end.

        At most about `limit` bytes: others may hold the pipe, and go on filling it.
        """
        while self._is_open and limit > 0 and (chunk := self._read()):
            limit -= len(chunk)
            self._took(chunk)
        self.close()

    def close(self) -> None:
        self.pause()
        self._is_open = False

    def _readable(self) -> None:
        for _ in range(TURN):
            chunk = self._read()
            if chunk is None:
                return
            if not chunk:
                self.close()
                self._ended()
                return
            self._took(chunk)
            if not self._is_listening or len(chunk) < CHUNK // 8:  # most likely that was all
                return

    def _read(self) -> bytes | None:
        """A chunk; b"" at the end; None when there is nothing now."""
        try:
            return self._receive(CHUNK)
        except BlockingIOError:
            return None
        except OSError:  # ECONNRESET: it died with something of ours unread. Whatever it is, nothing more comes
            return b""


class Outflow:
    """
    Writes at once as far as the reader takes it, and keeps the rest, in order.

    `drained` is called when what is kept falls to `LOW`, and when nothing is left of it; `broken` once, and not from
    within `send`, when the reader is gone. What is sent after that is dropped.
    """

    def __init__(self, sink: int | Lent, drained: Callable[[], None], broken: Callable[[], None]) -> None:
        self.held = 0  # bytes kept
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
        return self.held > HIGH

    def send(self, data: bytes) -> None:
        """Never waits. What is kept of `data` is not copied."""
        if not (self._is_open and data):
            return
        if self._is_gathering:
            self._keep(memoryview(data))
            return
        taken = 0 if self._kept else self._write(data)
        if taken is None:
            self._fail()
        elif taken < len(data):
            self._keep(memoryview(data)[taken:])

    def gather(self) -> None:
        """Keep what is sent until `release`: many small pieces become one write, and wake the reader once."""
        self._is_gathering = not self._kept

    def release(self) -> None:
        if not self._is_gathering:
            return
        self._is_gathering, before = False, self.held
        if not self._flush():
            self._fail()
            return
        if self._kept:
            self._loop.add_writer(self._descriptor, self._writable)
        if before > LOW >= self.held:
            self._drained()

    def close(self) -> None:
        """Drop what is kept."""
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
        if before > LOW >= self.held or not self.held:
            self._drained()

    def _flush(self) -> bool:
        """Write what is kept as far as it is taken, or a turn's worth of it; False when the reader is gone."""
        for _ in range(TURN):
            if not self._kept:
                break
            taken = self._write_kept()
            if taken is None:
                return False
            if not taken:
                break
            self._drop(taken)
        return True

    def _drop(self, taken: int) -> None:
        """Forget what has been written, and where the next write begins."""
        self.held -= taken
        while taken:
            first = self._kept.popleft()
            if len(first) > taken:
                self._kept.appendleft(first[taken:])
                return
            taken -= len(first)

    def _write(self, data: bytes) -> int | None:
        """How much was taken; None when the reader is gone."""
        try:
            return self._send(data)
        except BlockingIOError:
            return 0
        except OSError:  # EPIPE, ECONNRESET. Whatever it is, nothing more goes
            return None

    def _write_kept(self) -> int | None:
        try:
            return self._sendv(list(islice(self._kept, GATHERED)))
        except BlockingIOError:
            return 0
        except OSError:
            return None
