"""
Our ends of a child's pipes, in the event loop.

Raw os.read and os.write: asyncio's streams stop at 64 KiB lines and its subprocess transports wait for pipes to end.
Nothing is read ahead: what nobody asks for stays in the pipe, so a slow reader slows the writer down instead of
filling our memory. stderr is the exception, it is read always (C-2).
"""

import asyncio
import errno
import os
from collections.abc import Callable

from acp_launch.process.spawn import Spawned
from acp_launch.process.tail import Tail
from acp_launch.secret.streams import Redacting

CHUNK = 64 * 1024  # bytes: what a pipe holds, and less than makes malloc ask the kernel for memory each time
LINGER = 0.5  # seconds a pipe may stay silent and open after the child's death; a grandchild may hold it for ever
LEFTOVER = 1024 * 1024  # bytes still read after that: more than a pipe holds, less than a flood
TURN = 8  # chunks read without a look at what else the loop has to do


class Output:
    """The child's stdout, to be read chunk by chunk."""

    def __init__(self, spawned: Spawned) -> None:
        self._spawned = spawned
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._waiter: asyncio.Future[None] | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._leftover: int | None = None  # bytes; counted once nothing more is waited for
        self._in_a_row = 0

    @property
    def has_reader(self) -> bool:
        return self._lock.locked()

    async def read(self) -> bytes:
        """The next chunk as soon as there is one; b"" at the end."""
        async with self._lock:
            while (chunk := self._take()) is None:
                self._in_a_row = 0
                await self._readable()
            self._in_a_row += 1
            if self._in_a_row % TURN == 0:
                await asyncio.sleep(0)
            return chunk

    def child_died(self) -> None:
        self._giving_up = self._loop.call_later(LINGER, self._give_up)

    def close(self) -> None:
        if self._giving_up:
            self._giving_up.cancel()
        if self._spawned.stdout >= 0:
            self._loop.remove_reader(self._spawned.stdout)
        self._spawned.close("stdout")
        self._wake()

    def _take(self) -> bytes | None:
        """A chunk, b"" at the end, None when one has to wait."""
        if self._spawned.stdout < 0 or (self._leftover is not None and self._leftover <= 0):
            return b""
        try:
            chunk = os.read(self._spawned.stdout, CHUNK)
        except BlockingIOError:
            return None if self._leftover is None else b""
        if self._leftover is not None:
            self._leftover -= len(chunk)
        return chunk

    async def _readable(self) -> None:
        self._waiter = self._loop.create_future()
        self._loop.add_reader(self._spawned.stdout, self._wake)
        try:
            await self._waiter
        finally:
            if self._spawned.stdout >= 0:  # else its number may be another file's by now
                self._loop.remove_reader(self._spawned.stdout)

    def _give_up(self) -> None:
        self._leftover = LEFTOVER
        self._wake()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Input:
    """The child's stdin. Whole writes never mix: a cancelled one is completed by the next."""

    def __init__(self, spawned: Spawned) -> None:
        self._spawned = spawned
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._waiter: asyncio.Future[None] | None = None
        self._owed = b""  # what is left of a write that was cancelled half way

    async def write(self, payload: bytes) -> None:
        """Return when the pipe has taken everything.

        Raises:
            BrokenPipeError: nobody will ever read it, or we closed it ourselves.
        """
        async with self._lock:
            if self._owed:
                await self._write_all(self._owed, owed=len(self._owed))
            await self._write_all(payload, owed=0)

    def close(self) -> None:
        if self._spawned.stdin >= 0:
            self._loop.remove_writer(self._spawned.stdin)
        self._spawned.close("stdin")
        self._wake()

    async def _write_all(self, payload: bytes, *, owed: int) -> None:
        """Of a payload that nobody has seen the beginning of, nothing is owed when we are cancelled."""
        rest = memoryview(payload)
        self._owed = b""
        try:
            while rest:
                if (taken := self._put(rest)) == 0:
                    await self._writable()
                rest = rest[taken:]
        except asyncio.CancelledError:
            if owed or len(rest) < len(payload):
                self._owed = bytes(rest)
            raise

    def _put(self, rest: memoryview) -> int:
        if self._spawned.stdin < 0:
            raise BrokenPipeError(errno.EPIPE, "its stdin is closed")
        try:
            return os.write(self._spawned.stdin, rest)
        except BlockingIOError:
            return 0

    async def _writable(self) -> None:
        self._waiter = self._loop.create_future()
        self._loop.add_writer(self._spawned.stdin, self._wake)
        try:
            await self._waiter
        finally:
            if self._spawned.stdin >= 0:
                self._loop.remove_writer(self._spawned.stdin)

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Errors:
    """
    The child's stderr, drained from the first moment to the last into a tail and, if given, a log.

    Neither ever gets a secret: the redactor comes before the tail cuts lines and the log takes chunks.
    """

    def __init__(self, spawned: Spawned, log: Callable[[bytes], None] | None) -> None:
        self.tail = Tail()
        self._spawned = spawned
        self._log = log
        self._redacting = Redacting()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(spawned.stderr, self._take)

    def child_died(self) -> None:
        """Take its last words now: all it wrote is in the pipe. The rest is for grandchildren to fill.

        They may go on with what the child began, so the stream does not end here.
        """
        taken = 0
        while taken < LEFTOVER and (got := self._take()):
            taken += got
        self._keep(self._redacting.cover())

    def close(self) -> None:
        if self._spawned.stderr >= 0:
            self._loop.remove_reader(self._spawned.stderr)
        self._spawned.close("stderr")
        self._keep(self._redacting.end())

    def _take(self) -> int:
        """How many bytes there were."""
        if self._spawned.stderr < 0:
            return 0
        try:
            chunk = os.read(self._spawned.stderr, CHUNK)
        except BlockingIOError:
            return 0
        if chunk:
            self._keep(self._redacting.feed(chunk))
        else:
            self.close()
        return len(chunk)

    def _keep(self, chunk: bytes) -> None:
        self.tail.feed(chunk)
        if self._log is None or not chunk:
            return
        try:
            self._log(chunk)
        except (OSError, ValueError) as error:  # the disk is full, the file is closed: draining matters more
            self._log = None
            self.tail.feed(f"\nacp-launch: the log stops here, it cannot be written: {error}\n".encode())
