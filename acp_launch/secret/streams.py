"""Redacting streams: bytes that come in pieces, and our own stdout and stderr."""

import sys
from collections.abc import Iterable
from typing import Any, BinaryIO, TextIO, cast

from acp_launch.secret.needles import Span, joined
from acp_launch.secret.redact import Redactor, redactor
from acp_launch.secret.value import MASK

LEAST = 3  # bytes of a form's beginning; fewer end many a text
SHOWN = 5  # bytes of a form that may be seen where a stream ends: one less than the shortest secret has
_DATA_MASK = MASK.encode()


class Redacting:
    """Redacts bytes however they were cut: what comes out is what `Redactor.data` makes of the whole.

    Held back is what may still become a form, so never more than the longest of them. (A form that only our own `***`
    and its neighbours make up is no secret shown, and is not looked for.) What is held when the stream ends, or may
    have ended, is a form that was cut: nobody reads more than its first `SHOWN` bytes.
    """

    def __init__(self, source: Redactor = redactor) -> None:
        self._redactor = source
        self._pending = b""
        self._covered = 0  # bytes at the beginning of `_pending` that belong to a mask which is already out

    def feed(self, data: bytes) -> bytes:
        """As much as can be said of `data`, and of what was held back before it."""
        tables = self._redactor.tables
        if tables is None:
            return data
        window, covered = self._pending + data, self._covered
        kept = len(window) - tables.data.held(window)
        spans = tables.data.spans(window)
        if covered:
            spans = joined([(0, covered), *spans])
        self._pending = window[kept:]
        self._covered = max([0, *(end - kept for begin, end in spans if begin < max(kept, covered))])
        return _masked(window, spans, kept, is_covered=covered > 0) if spans else window[:kept]

    def cover(self) -> bytes:
        """A mask for what is held back, in case nothing follows; what does follow of that form stays hidden.

        Under `LEAST` bytes it goes on being held: too little to say that there was something.
        """
        if len(self._pending) < LEAST or self._covered == len(self._pending):
            return b""
        has_mask, self._covered = self._covered > 0, len(self._pending)
        return b"" if has_mask else _DATA_MASK

    def end(self) -> bytes:
        """The last of it: what was held back, hidden if it is more than `SHOWN` bytes of a form."""
        last = self.cover() if len(self._pending) > SHOWN else self._pending[self._covered :]
        self._pending, self._covered = b"", 0
        return last


def _masked(window: bytes, spans: list[Span], stop: int, *, is_covered: bool) -> bytes:
    """The first `stop` bytes; the first span is without a mask when it has one already."""
    pieces, at = [], 0
    for begin, end in spans:
        if begin >= stop:
            break
        pieces += [window[at:begin], b"" if is_covered and begin == 0 else _DATA_MASK]
        at = end
    return b"".join([*pieces, window[at:stop]])


class _Wrapped:
    """Everything of a stream but `write`, which its children define."""

    def __init__(self, stream: Any, source: Redactor) -> None:
        self._stream = stream
        self._redactor = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)


class _Bytes(_Wrapped):
    def write(self, written: Any) -> int:
        self._stream.write(self._redactor.data(bytes(written)))
        return len(written)


class _Text(_Wrapped):
    """Each write by itself: nothing can be held back where the next words may be a question."""

    def write(self, written: Any) -> int:
        """The length of what was given, as callers compare it with that."""
        self._stream.write(self._redactor.text(written) if isinstance(written, str) else written)
        return len(written)

    @property
    def buffer(self) -> BinaryIO:
        return cast(BinaryIO, _Bytes(self._stream.buffer, self._redactor))


def discreet(stream: TextIO, source: Redactor = redactor) -> TextIO:
    """`stream`, where no write shows a secret; `stream` itself if it is that already."""
    return stream if isinstance(stream, _Text) else cast(TextIO, _Text(stream, source))


def install() -> None:
    """Let all we say pass the redactor: print, tracebacks, typer and rich write to these."""
    sys.stdout, sys.stderr = (stream and discreet(stream) for stream in (sys.stdout, sys.stderr))
