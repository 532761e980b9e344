"""A table of styled text: columns as wide as what they hold, narrower where the terminal is, cells wrapped."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from acp_launch.console.draw.spans import Line, Span, wrapped

GAP = 2  # columns between two cells
NARROWEST = 4  # a column; where that does not fit, each row is a paragraph
RULE = Style(dim=True)


class Cell(Struct, frozen=True):
    spans: list[Span]
    is_right: bool = False  # where it is aligned

    @property
    def width(self) -> int:
        return sum(cell_len(text) for text, _ in self.spans)


Row = Sequence[Cell]


def lines(head: Row, body: Sequence[Row], width: int) -> Iterator[Line]:
    widths = _widths([head, *body], width)
    if not widths:
        for row in (head, *body):
            yield from wrapped(_paragraph(row), width)
        return
    yield from _row(head, widths)
    yield [Segment("─" * (sum(widths) + GAP * (len(widths) - 1)), RULE)]
    for row in body:
        yield from _row(row, widths)


def _widths(rows: Sequence[Row], width: int) -> list[int]:
    """Of each column; none when they do not fit. The widest give way first."""
    columns = zip_longest(*rows)
    natural = [max(1, *(cell.width for cell in column if cell is not None)) for column in columns]
    room = width - GAP * (len(natural) - 1)
    if sum(natural) <= room:
        return natural
    if NARROWEST * len(natural) > room:
        return []
    limit = next(limit for limit in range(room, 0, -1) if sum(min(each, limit) for each in natural) <= room)
    return [min(each, limit) for each in natural]


def _row(row: Row, widths: Sequence[int]) -> Iterator[Line]:
    cells = [list(wrapped(cell.spans, width)) for cell, width in zip(row, widths, strict=False)]
    for parts in zip_longest(*cells, fillvalue=[]):
        line: Line = []
        for cell, part, width in zip(row, parts, widths, strict=False):
            padding = Segment(" " * (width - sum(segment.cell_length for segment in part)))
            line += [padding, *part] if cell.is_right else [*part, padding]
            line.append(Segment(" " * GAP))
        while line and not line[-1].text.strip():
            line.pop()
        yield line


def _paragraph(row: Row) -> list[Span]:
    spans: list[Span] = []
    for cell in row:
        spans += [*([(" | ", RULE)] if spans else []), *cell.spans]
    return spans
