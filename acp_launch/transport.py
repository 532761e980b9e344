"""
How bytes travel between us and the other side. All that a session sees of a process.

Bytes, not messages: cutting them into lines is the protocol's part, and the chunks are whatever the pipe gave.
"""

import asyncio
from typing import Protocol

from acp_launch.process.child import Child


class TransportClosed(Exception):  # noqa: N818 - it reads as what happened
    """Raised by `write` when the other side takes nothing any more, or we closed our side."""


class Transport(Protocol):
    """Two directions that end on their own."""

    async def read(self) -> bytes:
        """The next chunk as it comes; b"" once the other side has ended."""

    async def write(self, data: bytes) -> None:
        """Return when the other side's buffer has taken all of it. Concurrent writes queue and never mix.

        Raises:
            TransportClosed: see there.
        """

    async def close(self) -> None:
        """End our sending side; reading goes on. A second time is nothing."""

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        """How the other side ended, as what follows a subject ("was killed by SIGKILL"), and its last stderr lines.

        Waits at most a second for the end to be known.
        """


# A child's stdin and stdout as a transport.


EXIT = 1.0  # seconds between the end of a child's output and its exit status; normally microseconds


class StdioTransport:
    """Does not own the child: whoever attached it stops it."""

    def __init__(self, child: Child) -> None:
        self._child = child

    async def read(self) -> bytes:
        return await self._child.read()

    async def write(self, data: bytes) -> None:
        try:
            await self._child.write(data)
        except BrokenPipeError as error:
            raise TransportClosed(f"nothing more can be sent: {error.strerror}") from error

    async def close(self) -> None:
        self._child.close_stdin()

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        try:
            async with asyncio.timeout(EXIT):
                how = str(await self._child.wait())
        except TimeoutError:
            how = "closed its output but is still running"
        return how, tuple(self._child.stderr_tail())
