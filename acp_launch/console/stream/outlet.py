"""
stdout as bytes, never blocking the event loop on a full pipe.

A blocked write would make us deaf to Ctrl-C and to deadlines, and making stdout non-blocking would change it for
every process that shares it. So we ask the kernel first, and write no more than it can take at once (PIPE_BUF).
"""

import asyncio
import os
import select
import stat

from msgspec import Struct

from acp_launch.errors import LaunchError

SIGPIPE = 13
JOINED = 1 << 20  # bytes


class OutputClosed(LaunchError):  # noqa: N818 - it reads as what happened
    """Raised when whoever read our stdout is gone; the exit code is what a shell shows for SIGPIPE."""

    exit_code = 128 + SIGPIPE


class _Long(Struct, frozen=True):
    """Text that is too long to be held as bytes, too; what is before `at` has left."""

    text: str
    at: int

    def __len__(self) -> int:
        return len(self.text) - self.at

    def cut(self) -> "tuple[bytes, bytes | _Long]":
        """Its next piece, and what is left then."""
        end = self.at + JOINED
        return self.text[self.at : end].encode(), _left(self.text, end)


def _left(text: str, at: int) -> bytes | _Long:
    return _Long(text, at) if len(text) - at > JOINED else text[at:].encode()


class Outlet:
    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self.is_terminal = os.isatty(descriptor)
        self._pending: list[bytes | memoryview | _Long] = []
        self._one_at_a_time = asyncio.Lock()
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._piece = 1 << 20 if regular else select.PIPE_BUF
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def write(self, *pieces: bytes | memoryview) -> None:
        """Take pieces that belong together; they leave with the next `drain`."""
        self._pending += pieces

    def write_text(self, text: str) -> None:
        """The same for text; a long one is encoded piece by piece as it leaves, so that it is not held twice."""
        self._pending.append(_left(text, 0))

    async def drain(self) -> None:
        """Write everything that was taken, waiting for the reader where it is slow.

        Raises:
            OutputClosed: nobody reads any more.
            LaunchError: the disk is full, or another failure of the file behind stdout.
        """
        async with self._one_at_a_time:  # the pump and the end of a turn both drain: no line within another
            self._join()
            while self._pending:
                await self._send(self._next())

    def _next(self) -> memoryview:
        first = self._pending.pop(0)
        if not isinstance(first, _Long):
            return memoryview(first)
        piece, rest = first.cut()
        self._pending.insert(0, rest)
        return memoryview(piece)

    def _join(self) -> None:
        """Many small pieces become one write; a copy of 48 MB would not pay."""
        if sum(map(len, self._pending)) <= JOINED:
            # None of them is a _Long then.
            self._pending = [b"".join(self._pending)]  # type: ignore[arg-type]

    async def _send(self, data: memoryview) -> None:
        try:
            while data:
                if not self._poll.poll(0):
                    await self._writable()
                data = data[self._put(data[: self._piece]) :]
        except asyncio.CancelledError:
            self._pending.insert(0, data)  # half a line may be out already: the rest goes before anything else
            raise

    def _put(self, piece: memoryview) -> int:
        try:
            return os.write(self._descriptor, piece)
        except BlockingIOError:  # somebody else made it non-blocking
            return 0
        except BrokenPipeError:
            raise OutputClosed("stdout was closed") from None
        except OSError as error:
            raise LaunchError(f"cannot write to stdout: {error.strerror}") from None

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._descriptor)
