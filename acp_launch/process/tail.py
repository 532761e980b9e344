"""The last lines a process wrote to stderr, in bounded memory, however much it writes."""

from collections import deque

LINES = 50
LINE_LENGTH = 2_000  # bytes


class Tail:
    """Feed it chunks as they come. A carriage return ends a line as well: progress bars."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=LINES)
        self._open = b""  # the line that has no end yet

    def feed(self, chunk: bytes) -> None:
        *whole, rest = (self._open + chunk).replace(b"\r", b"\n").split(b"\n")
        self._lines.extend(line[:LINE_LENGTH] for line in whole[-LINES * 2 :] if line.strip())
        self._open = rest[:LINE_LENGTH]

    def lines(self) -> list[str]:
        """Oldest first, without their ends; empty lines are left out."""
        last = [self._open] if self._open.strip() else []
        return [line.decode(errors="replace") for line in [*self._lines, *last][-LINES:]]
