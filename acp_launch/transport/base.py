"""
How bytes travel between us and the other side. All that a session sees of a process.

Bytes, not messages: cutting them into lines is the protocol's part, and the chunks are whatever the pipe gave.
"""

from typing import Protocol


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
