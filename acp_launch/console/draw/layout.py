"""Wrapped text, tables and code blocks: styled segments in, lines of a terminal out."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

if TYPE_CHECKING:
    from rich.syntax import ANSISyntaxTheme

Span = tuple[str, Style]
Line = list[Segment]


def wrap_spans(spans: Sequence[Span], width: int) -> Iterator[Line]:
    """Yield lines no wider than `width`, without the spaces at the breaks; a longer word is cut."""
    start = 0
    text = "".join(piece for piece, _ in spans)
    ends = list(accumulate(len(piece) for piece, _ in spans))
    for paragraph in text.split("\n"):
        for begin, end in _breaks(paragraph, max(1, width)):
            yield list(_cut(spans, ends, start + begin, start + end))
        start += len(paragraph) + 1


def _breaks(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield where each line begins and ends."""
    begin, length = 0, len(text)
    is_narrow = text.isascii() or cell_len(text) == length  # each character takes one column
    while True:
        limit = begin + (width if is_narrow else _count_fitting(text, begin, width))
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


def _count_fitting(text: str, begin: int, width: int) -> int:
    """Return how many characters fit, at least one."""
    rows = chop_cells(text[begin : begin + width], width)
    return max(1, len(rows[0]) if rows else 1)


def _cut(spans: Sequence[Span], ends: Sequence[int], begin: int, end: int) -> Iterator[Segment]:
    """Yield the characters from `begin` to `end`; `ends` holds the end of each span."""
    for number in range(bisect_right(ends, begin), len(spans)):
        text, style = spans[number]
        at = ends[number] - len(text)
        if at >= end:
            return
        if part := text[max(begin - at, 0) : end - at]:
            yield Segment(part, style)


# A table: columns as wide as their content, narrower on a narrow terminal; cells are wrapped.


GAP = 2  # columns between two cells
NARROWEST = 4  # of a column; if that does not fit, each row is a paragraph
RULE = Style(dim=True)


class Cell(Struct, frozen=True):
    spans: list[Span]
    is_right: bool = False  # aligned to the right

    @property
    def width(self) -> int:
        return sum(cell_len(text) for text, _ in self.spans)


Row = Sequence[Cell]


def grid_lines(head: Row, body: Sequence[Row], width: int) -> Iterator[Line]:
    widths = _widths([head, *body], width)
    if not widths:
        for row in (head, *body):
            yield from wrap_spans(_paragraph(row), width)
        return
    yield from _row(head, widths)
    yield [Segment("─" * (sum(widths) + GAP * (len(widths) - 1)), RULE)]
    for row in body:
        yield from _row(row, widths)


def _widths(rows: Sequence[Row], width: int) -> list[int]:
    """Return the width of each column; an empty list if they do not fit. The widest are narrowed first."""
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
    cells = [list(wrap_spans(cell.spans, width)) for cell, width in zip(row, widths, strict=False)]
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


# A block of code: its colours are the terminal's own, and lines are neither padded nor framed. pygments is imported
# for the first block that names a language, and its lexers only if there are colours.


# Of the terminal's own colours, those that can be read on a light and on a dark background.
THEME = {
    "Comment": Style(dim=True, italic=True),
    "Comment.Preproc": Style(color="cyan"),
    "Keyword": Style(color="magenta"),
    "Keyword.Type": Style(color="cyan"),
    "Operator.Word": Style(color="magenta"),
    "Name.Builtin": Style(color="cyan"),
    "Name.Function": Style(bold=True),
    "Name.Class": Style(bold=True),
    "Name.Namespace": Style(bold=True),
    "Name.Decorator": Style(color="cyan"),
    "Name.Tag": Style(color="magenta"),
    "Name.Attribute": Style(color="cyan"),
    "Literal.String": Style(color="green"),
    "Literal.Number": Style(color="cyan"),
    "Generic.Deleted": Style(color="red"),
    "Generic.Inserted": Style(color="green"),
    "Generic.Heading": Style(bold=True),
    "Generic.Subheading": Style(color="magenta"),
    "Generic.Error": Style(color="red"),
    "Generic.Emph": Style(italic=True),
    "Generic.Strong": Style(bold=True),
}
TAB = 4  # columns


def code_lines(code: str, language: str, console: Console, width: int) -> Iterator[Line]:
    """Yield each line, wrapped if it is longer than `width`."""
    code = code.expandtabs(TAB).removesuffix("\n")
    lexer = _languages().get(language.lower()) if language and console.color_system and not console.no_color else None
    if lexer in (None, "text"):
        for line in code.split("\n"):
            yield from [[Segment(line)]] if cell_len(line) <= width else _fold(Text(line), console, width)
        return
    for text in _highlight(code, str(lexer)).split("\n", allow_blank=True):
        yield from [list(text.render(console))] if text.cell_len <= width else _fold(text, console, width)


def _fold(text: Text, console: Console, width: int) -> Iterator[Line]:
    return (list(row.render(console)) for row in text.wrap(console, max(1, width), overflow="fold"))


def _highlight(code: str, lexer: str) -> Text:
    from rich.syntax import Syntax

    text = Syntax(code, lexer, theme=_theme()).highlight(code)
    text.rstrip()
    return text


@cache
def _theme() -> "ANSISyntaxTheme":
    from rich.syntax import ANSISyntaxTheme

    return ANSISyntaxTheme({tuple(name.split(".")): style for name, style in THEME.items()})


@cache
def _languages() -> dict[str, str]:
    """Return every name of a language, without plugins: searching for them takes longer than showing the code."""
    from pygments.lexers import get_all_lexers  # type: ignore[import-untyped]

    return {alias: aliases[0] for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases}


def is_language(name: str) -> bool:
    return name.lower() in _languages()
