"""What is written to stdout or stderr while the screen is ours: it goes above what is drawn, line by line."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Above(io.TextIOBase):
    """Stands in for a stream that is a terminal; whoever asks is told so."""

    def __init__(self, write: Callable[[str], None], encoding: str) -> None:
        self._write = write
        self._begun = ""
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        lines, end, rest = (self._begun + text).rpartition("\n")
        self._begun = rest
        if end:
            self._write(lines + end)
        return len(text)

    def finish(self) -> None:
        """Let go of a last line without an end."""
        if self._begun:
            self.write("\n")


@contextmanager
def streams_above(write: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, what is written to `sys.stdout` and `sys.stderr` is given to `write` as whole lines.

    A stream that is no terminal stays what it is: somebody keeps a log there.
    """
    before = sys.stdout, sys.stderr
    put = [Above(write, stream.encoding) if stream is not None and stream.isatty() else None for stream in before]
    sys.stdout, sys.stderr = (new or old for new, old in zip(put, before, strict=True))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in put:
            if stream is not None:
                stream.finish()
