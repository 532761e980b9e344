"""
stdout as bytes, never blocking the event loop on a full pipe.

A blocked write would make us deaf to Ctrl-C and to deadlines, and making stdout non-blocking would change it for
every process that shares it. So we ask the kernel first, and write no more than it can take at once (PIPE_BUF).
"""

import asyncio
import os
import select
import stat

from acp_launch.errors import LaunchError

SIGPIPE = 13
JOINED = 1 << 20  # bytes


class OutputClosed(LaunchError):  # noqa: N818 - it reads as what happened
    """Raised when whoever read our stdout is gone; the exit code is what a shell shows for SIGPIPE."""

    exit_code = 128 + SIGPIPE


class Outlet:
    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self.is_terminal = os.isatty(descriptor)
        self._pending: list[bytes | memoryview] = []
        self._one_at_a_time = asyncio.Lock()
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._piece = 1 << 20 if regular else select.PIPE_BUF
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def write(self, *pieces: bytes | memoryview) -> None:
        """Take pieces that belong together; they leave with the next `drain`."""
        self._pending += pieces

    async def drain(self) -> None:
        """Write everything that was taken, waiting for the reader where it is slow.

        Raises:
            OutputClosed: nobody reads any more.
            LaunchError: the disk is full, or another failure of the file behind stdout.
        """
        async with self._one_at_a_time:  # the pump and the end of a turn both drain: no line within another
            self._join()
            while self._pending:
                await self._send(memoryview(self._pending.pop(0)))

    def _join(self) -> None:
        """Many small pieces become one write; a copy of 48 MB would not pay."""
        if sum(map(len, self._pending)) <= JOINED:
            self._pending = [b"".join(self._pending)]

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
