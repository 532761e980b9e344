"""
A Markdown text that grows: which of it will not change any more.

It is finished at a blank line outside of code, unless what follows still belongs to the same list. A piece never
becomes longer than LIMIT: a longer one is cut at the end of a line, and goes on in the next piece with what it needs
to be read the same, the first line of its code block or the head of its table. So what is unfinished is always small,
and each character is looked at a bounded number of times.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from acp_launch.console.draw import layout
from acp_launch.console.draw.layout import Line, Span, wrap_spans
from acp_launch.console.draw.look import Gap
from acp_launch.console.draw.outside import inline, prose
from acp_launch.console.stderr import is_harmless
from acp_launch.regex import regex

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LIMIT = 4096  # characters of one piece
ITEM = regex(r"\s*([-*+]|\d{1,9}[.)])(\s|$)")
DELIMITER = regex(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")  # below the head of a table


class Piece(Struct, frozen=True):
    text: str
    goes_on: bool  # where the piece before was cut


class Growing:
    def __init__(self) -> None:
        self._done: list[Piece] = []
        self._lines: list[str] = []  # of the unfinished piece, what it took over included
        self._length = 0  # of what is new in it
        self._line: list[str] = []  # the beginning of its next line, as it came
        self._line_length = 0
        self._goes_on = False
        self._begin_with = ""  # what the next piece would need from this one
        self._fence = ""
        self._is_list = False
        self._is_blank = False  # whether the last line was

    @property
    def goes_on(self) -> bool:
        """Whether what is unfinished follows a piece that was cut."""
        return self._goes_on

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
        self._begin_with, self._fence, self._goes_on, self._is_blank = "", "", False, False
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
        while self._line_length > LIMIT:
            line = "".join(self._line)
            cut = line.rfind(" ", LIMIT // 2, LIMIT) + 1 or LIMIT
            self._lines.append(line[:cut])
            self._line, self._line_length = [line[cut:]], len(line) - cut
            self._cut()

    def _end_line(self) -> None:
        line = "".join([*self._line, "\n"])
        self._line, self._line_length = [], 0
        self._read(line)
        self._lines.append(line)
        self._length += len(line)
        if self._length > LIMIT:
            self._cut()

    def _read(self, line: str) -> None:
        """What this line does to the piece; it may be the first of another one."""
        bare = line.strip()
        if self._fence:
            self._close_fence(bare)
        elif not bare:
            self._is_blank, self._begin_with = True, ""
        else:
            if self._is_blank and not self._belongs(line):
                self._finish()
            self._is_blank = False
            self._is_list = self._is_list or ITEM.match(line) is not None
            self._open(line, bare)

    def _belongs(self, line: str) -> bool:
        """Whether it goes on with the list before the blank line."""
        return self._is_list and (line.startswith(("  ", "\t")) or ITEM.match(line) is not None)

    def _open(self, line: str, bare: str) -> None:
        """A block of code, or a table."""
        mark = bare[0]
        fence = bare[: len(bare) - len(bare.lstrip(mark))] if mark in "`~" else ""
        if len(fence) >= 3 and (mark == "~" or mark not in bare[len(fence) :]):
            self._fence, self._begin_with = fence, line
        elif "|" in bare and self._lines and "|" in self._lines[-1] and DELIMITER.match(bare):
            self._begin_with = self._lines[-1] + line
        elif "|" not in bare:
            self._begin_with = ""  # no row of a table any more

    def _close_fence(self, bare: str) -> None:
        if bare.startswith(self._fence) and not bare.strip(self._fence[0]):
            self._fence = self._begin_with = ""

    def _finish(self) -> None:
        self._done.append(Piece("".join(self._lines), self._goes_on))
        self._lines, self._length, self._goes_on, self._is_list = [], 0, False, False

    def _cut(self) -> None:
        is_list = self._is_list
        self._finish()
        self._lines = [self._begin_with] if self._begin_with else []
        self._goes_on, self._is_list = True, is_list


# Typesetting: Markdown tokens to lines of a terminal.
#
# rich also renders Markdown. A streamed answer of 100 KB takes 2.5 times as long through it, and 4.7 times
# in one piece. It fills lines up with spaces, cuts the cells of a narrow table, and drops what it does not know: the
# words after a code fence, blocks nested deeply.


PLAIN = Style()
HEADINGS = {"h1": Style(bold=True, underline=True), "h2": Style(bold=True)}
HEADING = Style(bold=True, italic=True)
MARKS = {
    "em": Style(italic=True),
    "strong": Style(bold=True),
    "s": Style(strike=True),
    "code": Style(color="cyan", bold=True),
}
LINK, TARGET = Style(color="bright_blue"), Style(color="blue", underline=True)
BULLET, BAR, RULE = Style(color="yellow", bold=True), Style(color="magenta"), Style(dim=True)
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
        kind = block[0].type
        draw = self._DRAW.get(kind)
        if draw is not None:
            return draw(self, block, width)
        return wrap_spans(spans(block), width)  # a paragraph, and whatever else there may be: nothing is left out

    def _draw_heading(self, block: Tokens, width: int) -> Iterator[Line]:
        return wrap_spans(spans(block, HEADINGS.get(block[0].tag, HEADING)), width)

    def _code(self, block: Tokens, width: int) -> Iterator[Line]:
        info = block[0].info.strip()
        if info and not layout.is_language(info):  # it may say anything, and would be hidden
            yield from ([Segment(INDENT), *line] for line in wrap_spans([(info, RULE)], width - len(INDENT)))
        language = info if self._coloured else ""
        for line in layout.code_lines(block[0].content, language, self._console, max(1, width - len(INDENT))):
            yield [Segment(INDENT), *line]

    def _rule(self, block: Tokens, width: int) -> Iterator[Line]:
        yield [Segment("─" * width, RULE)]

    def _quote(self, block: Tokens, width: int) -> Iterator[Line]:
        for line in self.lines(block[1:-1], width - 2):
            yield [Segment("│ ", BAR), *line]

    def _bullets(self, block: Tokens, width: int) -> Iterator[Line]:
        for item in _blocks(block[1:-1]):
            yield from self._item(item, " • ", width)

    def _numbers(self, block: Tokens, width: int) -> Iterator[Line]:
        items = list(_blocks(block[1:-1]))
        first = int(block[0].attrs.get("start", 1))
        margin = len(str(first + len(items) - 1)) + 1
        for number, item in enumerate(items, first):
            yield from self._item(item, f"{number:>{margin}}. ", width)

    def _item(self, item: Tokens, mark: str, width: int) -> Iterator[Line]:
        for line in self.lines(item[1:-1], width - len(mark), apart=False):
            yield [Segment(mark, BULLET), *line]
            mark = " " * len(mark)

    def _table(self, block: Tokens, width: int) -> Iterator[Line]:
        head, *body = ([_cell(row[at : at + 2]) for at in _cells(row)] for row in _rows(block))
        return layout.grid_lines(head, body, width)

    _DRAW: dict[str, Callable[["Typesetter", Tokens, int], Iterator[Line]]] = {  # noqa: RUF012
        "heading_open": _draw_heading,
        "fence": _code,
        "code_block": _code,
        "hr": _rule,
        "blockquote_open": _quote,
        "bullet_list_open": _bullets,
        "ordered_list_open": _numbers,
        "table_open": _table,
    }


def _blocks(tokens: Tokens) -> Iterator[Tokens]:
    """Each block among the tokens, whole."""
    depth = begin = 0
    for at, token in enumerate(tokens):
        depth += token.nesting
        if not depth:
            yield tokens[begin : at + 1]
            begin = at + 1


def _rows(table: Tokens) -> Iterator[Tokens]:
    begin = 0
    for at, token in enumerate(table):
        if token.type == "tr_open":
            begin = at
        elif token.type == "tr_close":
            yield table[begin:at]


def _cells(row: Tokens) -> Iterator[int]:
    return (at for at, token in enumerate(row) if token.type in ("th_open", "td_open"))


def _cell(tokens: Tokens) -> layout.Cell:
    style = HEADINGS["h2"] if tokens[0].tag == "th" else PLAIN
    return layout.Cell(spans(tokens, style), is_right="right" in str(tokens[0].attrs.get("style", "")))


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
    from markdown_it import MarkdownIt  # 62 modules: not before there is something to read

    return MarkdownIt().enable(["strikethrough", "table"]).disable(["html_block", "html_inline", "image"])


class Block:
    def __init__(self, text: str, *, coloured: bool = True) -> None:
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


# A message of the agent as it grows: what is finished is handed out, what is not is drawn.


COLOURED = 4  # pieces of one frame
Draw = Callable[[str, bool], RenderableType]  # what is seen of a piece of text, in colours or not


def _markdown(text: str, coloured: bool) -> RenderableType:
    return Block(text, coloured=coloured)


class MessageView:
    def __init__(self, draw: Draw = _markdown) -> None:
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
