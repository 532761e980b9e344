"""
Messages of the agent: Markdown that grows, set on a terminal.

A text is finished at a blank line outside of code, unless what follows still belongs to the same list. A piece never
becomes longer than LIMIT: a longer one is cut at the end of a line, and goes on in the next piece with what it needs
to be read the same, the first line of its code block or the head of its table. So the unfinished part is always small,
and each character is looked at a bounded number of times.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from msgspec import Struct
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from acp_launch.console.draw.sanitize import inline, prose
from acp_launch.console.draw.theme import Gap
from acp_launch.console.stderr import is_harmless
from acp_launch.regex import regex

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.syntax import ANSISyntaxTheme

MAX_PIECE_CHARS = 4096
ITEM = regex(r"\s*([-*+]|\d{1,9}[.)])(\s|$)")
DELIMITER = regex(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")  # below the head of a table


class Piece(Struct, frozen=True):
    text: str
    goes_on: bool  # where the piece before was cut


class Growing:
    def __init__(self) -> None:
        self._done: list[Piece] = []
        self._lines: list[str] = []  # of the unfinished piece, what it took over included
        self._length = 0  # of its new part
        self._line: list[str] = []  # the beginning of its next line, as it came
        self._line_length = 0
        self.goes_on = False  # whether the unfinished part follows a piece that was cut
        self._begin_with = ""  # what the next piece would need from this one
        self._fence = ""
        self._is_list = False
        self._is_blank = False  # whether the last line was

    def add(self, text: str) -> None:
        *whole, last = text.split("\n")
        for line in whole:
            self._begin(line)
            self._end_line()
        if last:
            self._begin(last)

    def take(self) -> list[Piece]:
        """What was finished since the last time."""
        done, self._done = self._done, []
        return done

    def rest(self) -> list[Piece]:
        """All that is left; the next text begins anew."""
        if self._length + self._line_length:
            self._lines += self._line
            self._finish()
        self._lines, self._line, self._line_length = [], [], 0
        self._begin_with, self._fence, self.goes_on, self._is_blank = "", "", False, False
        return self.take()

    def tail(self, limit: int, lines: int) -> str:
        """The unfinished end: about `limit` characters of it at most, and `lines` lines where each has its own row."""
        has_rows = self._fence or self._is_list or self._begin_with
        text = "".join([*(self._lines[-lines:] if has_rows else self._lines), *self._line])
        if len(text) <= limit:
            is_whole = not has_rows or len(self._lines) <= lines
            return text if is_whole else self._begin_with + text
        cut = text.find("\n", len(text) - limit) + 1
        if not cut or len(text) - cut < limit // 2:  # a line longer than that
            cut = text.find(" ", len(text) - limit) + 1 or len(text) - limit
        return self._begin_with + text[cut:]

    def _begin(self, text: str) -> None:
        """More of the next line; one that is too long is cut, at a space where it has one."""
        if self._is_blank and not self._is_list and text.strip():  # whatever the line will be, it is another piece
            self._finish()
            self._is_blank = False
        self._line.append(text)
        self._line_length += len(text)
        while self._line_length > MAX_PIECE_CHARS:
            line = "".join(self._line)
            cut = line.rfind(" ", MAX_PIECE_CHARS // 2, MAX_PIECE_CHARS) + 1 or MAX_PIECE_CHARS
            self._lines.append(line[:cut])
            self._line, self._line_length = [line[cut:]], len(line) - cut
            self._cut()

    def _end_line(self) -> None:
        line = "".join([*self._line, "\n"])
        self._line, self._line_length = [], 0
        self._read(line)
        self._lines.append(line)
        self._length += len(line)
        if self._length > MAX_PIECE_CHARS:
            self._cut()

    def _read(self, line: str) -> None:
        """What this line does to the piece; it may be the first of another one."""
        bare = line.strip()
        if self._fence:
            if bare.startswith(self._fence) and not bare.strip(self._fence[0]):
                self._fence = self._begin_with = ""
        elif not bare:
            self._is_blank, self._begin_with = True, ""
        else:
            if self._is_blank and not (
                self._is_list and (line.startswith(("  ", "\t")) or ITEM.match(line) is not None)
            ):
                self._finish()
            self._is_blank = False
            self._is_list = self._is_list or ITEM.match(line) is not None
            # A block of code, or a table.
            mark = bare[0]
            fence = bare[: len(bare) - len(bare.lstrip(mark))] if mark in "`~" else ""
            if len(fence) >= 3 and (mark == "~" or mark not in bare[len(fence) :]):
                self._fence, self._begin_with = fence, line
            elif "|" in bare and self._lines and "|" in self._lines[-1] and DELIMITER.match(bare):
                self._begin_with = self._lines[-1] + line
            elif "|" not in bare:
                self._begin_with = ""  # no row of a table any more

    def _finish(self) -> None:
        self._done.append(Piece("".join(self._lines), self.goes_on))
        self._lines, self._length, self.goes_on, self._is_list = [], 0, False, False

    def _cut(self) -> None:
        is_list = self._is_list
        self._finish()
        self._lines = [self._begin_with] if self._begin_with else []
        self.goes_on, self._is_list = True, is_list


# Wrapped text, tables and code blocks: styled segments in, lines of a terminal out.


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


PLAIN, RULE = Style(), Style(dim=True)
GAP = 2  # columns between two cells
MIN_COLUMN = 4  # if that does not fit, each row is a paragraph


class Cell(Struct, frozen=True):
    spans: list[Span]
    is_right: bool = False  # aligned to the right

    @property
    def width(self) -> int:
        return sum(cell_len(text) for text, _ in self.spans)


Row = Sequence[Cell]


def grid_lines(rows: Sequence[Row], width: int) -> Iterator[Line]:
    widths = _widths(rows, width)
    for number, row in enumerate(rows):
        yield from _row(row, widths) if widths else wrap_spans(_paragraph(row), width)
        if widths and not number:  # below the head
            yield [Segment("─" * (sum(widths) + GAP * (len(widths) - 1)), RULE)]


def _widths(rows: Sequence[Row], width: int) -> list[int]:
    """Return the width of each column; an empty list if they do not fit. The widest are narrowed first."""
    columns = zip_longest(*rows)
    natural = [max(1, *(cell.width for cell in column if cell is not None)) for column in columns]
    room = width - GAP * (len(natural) - 1)
    if sum(natural) <= room:
        return natural
    if MIN_COLUMN * len(natural) > room:
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
    "Keyword": Style(color="magenta"),
    "Operator.Word": Style(color="magenta"),
    "Name.Builtin": Style(color="cyan"),
    "Name.Function": Style(bold=True),
    "Name.Class": Style(bold=True),
    "Name.Decorator": Style(color="cyan"),
    "Name.Tag": Style(color="magenta"),
    "Literal.String": Style(color="green"),
    "Literal.Number": Style(color="cyan"),
    "Generic.Deleted": Style(color="red"),
    "Generic.Inserted": Style(color="green"),
    "Generic.Heading": Style(bold=True),
    "Generic.Subheading": Style(color="magenta"),
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


# Typesetting: Markdown tokens to lines of a terminal.
#
# rich also renders Markdown. A streamed answer of 100 KB takes 2.5 times as long through it, and 4.7 times
# in one piece. It fills lines up with spaces, cuts the cells of a narrow table, and drops what it does not know: the
# words after a code fence, blocks nested deeply.


HEADINGS = {"h1": Style(bold=True, underline=True), "h2": Style(bold=True)}
HEADING = Style(bold=True, italic=True)
MARKS = {
    "em": Style(italic=True),
    "strong": Style(bold=True),
    "s": Style(strike=True),
    "code": Style(color="cyan", bold=True),
}
LINK, TARGET = Style(color="bright_blue"), Style(color="blue", underline=True)
BULLET, BAR = Style(color="yellow", bold=True), Style(color="magenta")
INDENT = "  "  # of code

Tokens = Sequence["Token"]


class Typesetter:
    def __init__(self, console: Console, *, coloured: bool) -> None:
        """`coloured` is whether code is."""
        self._console, self._coloured = console, coloured

    def lines(self, tokens: Tokens, width: int, *, apart: bool = True) -> Iterator[Line]:
        """All blocks among `tokens`, `apart` by a blank line."""
        is_first = True
        for block in _blocks(tokens):
            lines = self._block(block, max(1, width))
            if apart and not is_first:
                yield []
            yield from lines
            is_first = False

    def _block(self, block: Tokens, width: int) -> Iterator[Line]:
        draw = self._DRAW.get(block[0].type)
        if draw is not None:
            return draw(self, block, width)
        return wrap_spans(spans(block), width)  # a paragraph, and whatever else there may be: nothing is left out

    def _draw_heading(self, block: Tokens, width: int) -> Iterator[Line]:
        return wrap_spans(spans(block, HEADINGS.get(block[0].tag, HEADING)), width)

    def _code(self, block: Tokens, width: int) -> Iterator[Line]:
        info = block[0].info.strip()
        if info and info.lower() not in _languages():  # it may say anything, and would be hidden
            yield from ([Segment(INDENT), *line] for line in wrap_spans([(info, RULE)], width - len(INDENT)))
        language = info if self._coloured else ""
        for line in code_lines(block[0].content, language, self._console, max(1, width - len(INDENT))):
            yield [Segment(INDENT), *line]

    def _rule(self, block: Tokens, width: int) -> Iterator[Line]:
        yield [Segment("─" * width, RULE)]

    def _quote(self, block: Tokens, width: int) -> Iterator[Line]:
        for line in self.lines(block[1:-1], width - 2):
            yield [Segment("│ ", BAR), *line]

    def _list(self, block: Tokens, width: int) -> Iterator[Line]:
        items = list(_blocks(block[1:-1]))
        first = int(block[0].attrs.get("start", 1))
        margin = len(str(first + len(items) - 1)) + 1
        for number, item in enumerate(items, first):
            mark = f"{number:>{margin}}. " if block[0].tag == "ol" else " • "
            for line in self.lines(item[1:-1], width - len(mark), apart=False):
                yield [Segment(mark, BULLET), *line]
                mark = " " * len(mark)

    def _table(self, block: Tokens, width: int) -> Iterator[Line]:
        rows: list[list[Cell]] = []
        for at, token in enumerate(block):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                style = HEADINGS["h2"] if token.tag == "th" else PLAIN
                is_right = "right" in str(token.attrs.get("style", ""))
                rows[-1].append(Cell(spans(block[at : at + 2], style), is_right))
        return grid_lines(rows, width)

    _DRAW: dict[str, Callable[["Typesetter", Tokens, int], Iterator[Line]]] = {  # noqa: RUF012
        "heading_open": _draw_heading,
        "fence": _code,
        "code_block": _code,
        "hr": _rule,
        "blockquote_open": _quote,
        "bullet_list_open": _list,
        "ordered_list_open": _list,
        "table_open": _table,
    }


def _blocks(tokens: Tokens) -> Iterator[Tokens]:
    depth = begin = 0
    for at, token in enumerate(tokens):
        depth += token.nesting
        if not depth:
            yield tokens[begin : at + 1]
            begin = at + 1


def spans(block: Tokens, style: Style = PLAIN) -> list[Span]:
    """The words of a block, each with its style."""
    found: list[Span] = []
    for token in block:
        if token.children:
            _inline(token.children, style, found)
        elif token.content:
            found.append((token.content, style))
    return found


def _inline(tokens: Tokens, style: Style, found: list[Span]) -> None:
    styles = [style]
    for token in tokens:
        if token.type == "text":
            found.append((token.content, styles[-1]))
        elif token.type in BREAKS:
            found.append((BREAKS[token.type], styles[-1]))
        elif token.type == "link_open":
            styles.append(styles[-1] + LINK)
            target, begun = str(token.attrs.get("href", "")), len(found)
        elif token.type == "link_close":
            styles.pop()
            found += _target("".join(text for text, _ in found[begun:]), target)
        elif token.nesting:
            styles = [*styles, styles[-1] + MARKS.get(token.tag, PLAIN)] if token.nesting == 1 else styles[:-1]
        else:
            found.append((token.content, styles[-1] + MARKS.get(token.tag, PLAIN)))


BREAKS = {"softbreak": " ", "hardbreak": "\n"}


def _target(shown: str, target: str) -> list[Span]:
    """Where a link leads, unless that is what it shows."""
    if shown == target:
        return []
    return [(" (", PLAIN), (target, TARGET), (")", PLAIN)]


# A piece of Markdown from an agent, on a terminal.
#
# Nothing in it is hidden or acts: HTML and images are shown as they are written, a link shows where it leads, no
# hyperlink escape is written, and an entity that names a control character is as visible as the character would be.


NESTED = 16  # blocks within blocks; the parser gives up a few levels deeper, and drops what it has not read
NEWLINE = Segment.line()


@cache
def parser() -> "MarkdownIt":
    return MarkdownIt().enable(["strikethrough", "table"]).disable(["html_block", "html_inline", "image"])


class Block:
    def __init__(self, text: str, coloured: bool = True) -> None:
        """`text` is as the agent sent it; `coloured` is whether code is."""
        self._text, self._coloured = text, coloured

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = prose(self._text)
        tokens = parser().parse(text)
        if any(token.level > NESTED for token in tokens):
            yield Text(text)
            return
        _make_harmless(tokens)
        for line in Typesetter(console, coloured=self._coloured).lines(tokens, options.max_width):
            yield from line
            yield NEWLINE


def _make_harmless(tokens: "Iterable[Token]") -> None:
    """Once more: an entity stands for any character."""
    for token in tokens:
        if not is_harmless(token.content):
            token.content = prose(token.content)
        if "href" in token.attrs:
            token.attrs["href"] = inline(str(token.attrs["href"]))
        if token.children:
            _make_harmless(token.children)


# A message of the agent as it grows: finished pieces are handed out, the rest is drawn.


COLOURED = 4  # pieces of one frame
Draw = Callable[[str, bool], RenderableType]  # the visible text of a piece, in colours or not


class MessageView:
    def __init__(self, draw: Draw = Block) -> None:
        self._draw = draw
        self._growing = Growing()
        self._new: list[str] = []  # chunks that came since the last look: joined, they cost less than one by one
        self._begun = False  # whether a piece of this message was handed out already

    def add(self, text: str) -> None:
        self._new.append(text)

    def _grow(self) -> Growing:
        if self._new:
            text, self._new = "".join(self._new), []
            self._growing.add(text)
        return self._growing

    def take(self) -> list[RenderableType]:
        """What was finished since the last time, to be printed for good."""
        return list(self._blocks(self._grow().take()))

    def rest(self) -> list[RenderableType]:
        """All that is left of the message; the next text begins another one."""
        left = list(self._blocks(self._grow().rest()))
        self._begun = False
        return left

    def _blocks(self, pieces: Sequence[Piece]) -> Iterable[RenderableType]:
        """Of a flood only the end is drawn in colours: the rest is not seen as it goes by, and they cost the most."""
        for left, piece in zip(range(len(pieces), 0, -1), pieces, strict=True):
            if not piece.text.strip():
                continue
            if self._begun and not piece.goes_on:
                yield Gap()
            self._begun = True
            yield self._draw(piece.text, left <= COLOURED)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The unfinished end, as much of it as the screen can hold."""
        tail = self._grow().tail(options.size.width * options.size.height, options.size.height)
        if not tail.strip():
            return
        if self._begun and not self._growing.goes_on:
            yield Text()
        yield self._draw(tail, True)
