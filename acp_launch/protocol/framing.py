"""Cut a byte stream into lines, however the pipe happened to chunk it (ACP v1 "transports", stdio)."""

from collections.abc import Iterator

from acp_launch.errors import RemoteProtocolError


class LineTooLong(RemoteProtocolError):  # noqa: N818 - it reads as what happened
    """Raised when the other side sends more than the limit without a newline."""


class LineFramer:
    """Bytes in, lines out, in time linear in the bytes: a long line is joined once, when its newline comes."""

    def __init__(self, *, limit: int) -> None:
        """`limit` is the longest line we will hold, in bytes, newline excluded."""
        self._limit = limit
        self._parts: list[bytes] = []
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
        line = b"".join(self._parts)
        self._parts, self._held = [], 0  # before the line goes out: else a long one is held twice
        yield line
        tail = rest.pop()
        for line in rest:
            if len(line) > self._limit:
                self._refuse()
            yield line
        self._hold(tail)

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        if self._held > self._limit:
            self._parts, self._held = [], 0
            self._refuse()
        if part:
            self._parts.append(part)

    def _refuse(self) -> None:
        raise LineTooLong(
            f"the agent sent a line of more than {self._limit:,} bytes",
            fix="if the agent is right, raise the cap: ACP_LAUNCH_MAX_LINE=<bytes>",
        )
