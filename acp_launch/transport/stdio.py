"""A child's stdin and stdout as a transport."""

import asyncio

from acp_launch.process.child import Child
from acp_launch.transport.base import TransportClosed

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
