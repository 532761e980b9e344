"""Cut a byte stream into lines, however the pipe happened to chunk it (ACP v1 "transports", stdio)."""

from collections.abc import Iterator

from acp_launch.errors import RemoteProtocolError

LONG = 1024 * 1024  # bytes


class LineTooLong(RemoteProtocolError):  # noqa: N818 - it reads as what happened
    """Raised when the other side sends more than the limit without a newline."""


class LineFramer:
    """Bytes in, lines out, in time linear in the bytes.

    A line is joined once, when its newline comes. A long one is gathered in one place instead: the many pieces of it
    would leave holes in our memory that nothing else fits into.
    """

    def __init__(self, *, limit: int) -> None:
        """`limit` is the longest line we will hold, in bytes, newline excluded."""
        self._limit = limit
        self._parts: list[bytes] = []
        self._long = bytearray()
        self._held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield each line `chunk` completes, without its newline.

        Raises:
            LineTooLong: after the lines before it were yielded.
        """
        first, *rest = chunk.split(b"\n")
        self._hold(first)
        if not rest:
            return
        yield self._whole()
        tail = rest.pop()
        for line in rest:
            if len(line) > self._limit:
                self._refuse()
            yield line
        self._hold(tail)

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        if self._held > self._limit:
            self._forget()
            self._refuse()
        if self._held > LONG:
            self._long += b"".join([*self._parts, part])
            self._parts = []
        elif part:
            self._parts.append(part)

    def _whole(self) -> bytes:
        """The line that is held, and no longer: else a long one is held twice."""
        line = bytes(self._long) if self._long else b"".join(self._parts)
        self._forget()
        return line

    def _forget(self) -> None:
        self._parts, self._long, self._held = [], bytearray(), 0

    def _refuse(self) -> None:
        raise LineTooLong(
            f"the agent sent a line of more than {self._limit:,} bytes",
            fix="if the agent is right, raise the cap: ACP_LAUNCH_MAX_LINE=<bytes>",
        )
