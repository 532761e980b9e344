"""Styled text, broken into lines at spaces: what a paragraph is made of."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style

Span = tuple[str, Style]
Line = list[Segment]


def wrapped(spans: Sequence[Span], width: int) -> Iterator[Line]:
    """Lines no wider than `width`, without the spaces they were broken at; a word that is longer is cut."""
    start = 0
    text = "".join(piece for piece, _ in spans)
    ends = list(accumulate(len(piece) for piece, _ in spans))
    for paragraph in text.split("\n"):
        for begin, end in _breaks(paragraph, max(1, width)):
            yield list(_cut(spans, ends, start + begin, start + end))
        start += len(paragraph) + 1


def _breaks(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Where each line begins and ends."""
    begin, length = 0, len(text)
    is_narrow = text.isascii() or cell_len(text) == length  # each character takes one column
    while True:
        limit = begin + (width if is_narrow else _fitting(text, begin, width))
        if limit >= length:
            break
        end = text.rfind(" ", begin, limit + 1)
        if end <= begin:
            yield begin, limit
            begin = limit
        else:
            yield begin, end
            begin = end
        while begin < length and text[begin] == " ":
            begin += 1
    if begin < length or not length:
        yield begin, length


def _fitting(text: str, begin: int, width: int) -> int:
    """How many characters fit, at least one."""
    rows = chop_cells(text[begin : begin + width], width)
    return max(1, len(rows[0]) if rows else 1)


def _cut(spans: Sequence[Span], ends: Sequence[int], begin: int, end: int) -> Iterator[Segment]:
    """The characters from `begin` to `end`; each span's own end is in `ends`."""
    for number in range(bisect_right(ends, begin), len(spans)):
        text, style = spans[number]
        at = ends[number] - len(text)
        if at >= end:
            return
        if part := text[max(begin - at, 0) : end - at]:
            yield Segment(part, style)
