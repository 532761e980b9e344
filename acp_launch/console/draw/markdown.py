"""
Markdown that grows: cut into finished pieces, typeset into lines of a terminal, and shown as a message.

A piece is finished at a blank line outside of code, unless the next line continues the same list. A piece never
becomes longer than LIMIT: a longer one is cut at the end of a line, and the next piece begins with the lines it needs
to be read the same way, the first line of its code block or the head of its table. So the unfinished part is always
small, and each character is read a bounded number of times.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from acp_launch.console.draw import layout
from acp_launch.console.draw.layout import Line, Span, wrapped
from acp_launch.console.draw.outside import inline, prose
from acp_launch.console.stderr import is_harmless

LIMIT = 4096  # characters of one piece
ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)])(\s|$)")
DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")  # below the head of a table


class Piece(Struct, frozen=True):
    """A finished part of a text."""

    text: str
    goes_on: bool  # it continues a piece that was cut


class Growing:
    """Cuts a growing text into pieces."""

    def __init__(self) -> None:
        self._done: list[Piece] = []
        self._lines: list[str] = []  # of the unfinished piece, with the lines repeated from the cut one
        self._length = 0  # of its new lines
        self._line: list[str] = []  # the beginning of its next line, in chunks
        self._line_length = 0
        self._goes_on = False
        self._begin_with = ""  # the lines that the next piece would repeat
        self._fence = ""
        self._is_list = False
        self._is_blank = False  # whether the last line was blank

    @property
    def goes_on(self) -> bool:
        """Return whether the unfinished part continues a piece that was cut."""
        return self._goes_on

    def add(self, text: str) -> None:
        """Add a chunk of any length."""
        *whole, last = text.split("\n")
        for line in whole:
            self._begin(line)
            self._end_line()
        if last:
            self._begin(last)

    def take(self) -> list[Piece]:
        """Return the pieces finished since the last call."""
        done, self._done = self._done, []
        return done

    def rest(self) -> list[Piece]:
        """Return all that is left, and begin a new text."""
        if self._length + self._line_length:
            self._lines += self._line
            self._finish()
        self._lines, self._line, self._line_length = [], [], 0
        self._begin_with, self._fence, self._goes_on, self._is_blank = "", "", False, False
        return self.take()

    def tail(self, limit: int, lines: int) -> str:
        """Return the unfinished end: about `limit` characters at most, and `lines` lines if each has its own row."""
        has_rows = self._fence or self._is_list or self._begin_with
        text = "".join([*(self._lines[-lines:] if has_rows else self._lines), *self._line])
        if len(text) <= limit:
            is_whole = not has_rows or len(self._lines) <= lines
            return text if is_whole else self._begin_with + text
        cut = text.find("\n", len(text) - limit) + 1
        if not cut or len(text) - cut < limit // 2:  # no line end there, or too late
            cut = text.find(" ", len(text) - limit) + 1 or len(text) - limit
        return self._begin_with + text[cut:]

    def _begin(self, text: str) -> None:
        """Add to the next line. A line that is too long is cut, at a space if it has one."""
        if self._is_blank and not self._is_list and text.strip():  # the line begins another piece
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
        """Update the state for this line, which may be the first of another piece."""
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
        """Return whether the line continues the list before the blank line."""
        return self._is_list and (line.startswith(("  ", "\t")) or ITEM.match(line) is not None)

    def _open(self, line: str, bare: str) -> None:
        """Enter a block of code or a table."""
        mark = bare[0]
        fence = bare[: len(bare) - len(bare.lstrip(mark))] if mark in "`~" else ""
        if len(fence) >= 3 and (mark == "~" or mark not in bare[len(fence) :]):
            self._fence, self._begin_with = fence, line
        elif "|" in bare and self._lines and "|" in self._lines[-1] and DELIMITER.match(bare):
            self._begin_with = self._lines[-1] + line
        elif "|" not in bare:
            self._begin_with = ""  # the table has ended

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
# rich also renders Markdown, but takes four times as long for a long answer and thirty times as long for a table, and
# drops tokens that it does not know.


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
INDENT = "  "  # before code

Tokens = Sequence[Token]


class Typesetter:
    """Turns Markdown tokens into lines."""

    def __init__(self, console: Console, *, coloured: bool) -> None:
        """`coloured` is whether code is highlighted."""
        self._console, self._coloured = console, coloured

    def lines(self, tokens: Tokens, width: int, *, apart: bool = True) -> Iterator[Line]:
        """Yield the lines of all blocks; with `apart`, blank lines separate them."""
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
        return wrapped(spans(block), width)  # a paragraph, or a token we do not know: nothing is left out

    def _heading(self, block: Tokens, width: int) -> Iterator[Line]:
        return wrapped(spans(block, HEADINGS.get(block[0].tag, HEADING)), width)

    def _code(self, block: Tokens, width: int) -> Iterator[Line]:
        info = block[0].info.strip()
        if info and not layout.is_language(info):  # the info may be any text, which must not be lost
            yield from ([Segment(INDENT), *line] for line in wrapped([(info, RULE)], width - len(INDENT)))
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
        "heading_open": _heading,
        "fence": _code,
        "code_block": _code,
        "hr": _rule,
        "blockquote_open": _quote,
        "bullet_list_open": _bullets,
        "ordered_list_open": _numbers,
        "table_open": _table,
    }


def _blocks(tokens: Tokens) -> Iterator[Tokens]:
    """Yield each whole block."""
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
    """Return the text of a block, each part with its style."""
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
    """Return the target of a link, unless it is the text that the link shows."""
    if shown == target:
        return []
    return [(" (", PLAIN), (target, TARGET), (")", PLAIN)]


# A finished piece of a message.
#
# Nothing in it is hidden or active: HTML and images are shown as source, a link shows its target, no hyperlink escape
# is
# written, and an entity for a control character is as visible as the character would be.


PARSER = MarkdownIt().enable(["strikethrough", "table"]).disable(["html_block", "html_inline", "image"])
NESTED = 16  # levels of blocks; a few levels deeper the parser stops, and drops the rest
NEWLINE = Segment.line()


class Block:
    """A piece of Markdown that rich can render."""

    def __init__(self, text: str, *, coloured: bool = True) -> None:
        """`text` is as the agent sent it; `coloured` is whether code is highlighted."""
        self._text, self._coloured = text, coloured

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = prose(self._text)
        tokens = PARSER.parse(text)
        if any(token.level > NESTED for token in tokens):
            yield Text(text)
            return
        _make_harmless(tokens)
        for line in Typesetter(console, coloured=self._coloured).lines(tokens, options.max_width):
            yield from line
            yield NEWLINE


def _make_harmless(tokens: Iterable[Token]) -> None:
    """Make text harmless again after parsing, because an entity may stand for any character."""
    for token in tokens:
        if not is_harmless(token.content):
            token.content = prose(token.content)
        if "href" in token.attrs:
            token.attrs["href"] = inline(str(token.attrs["href"]))
        if token.children:
            _make_harmless(token.children)


# A message of the agent as it grows: finished pieces are returned, the rest is drawn.


COLOURED = 4  # pieces per frame that are highlighted
Draw = Callable[[str, bool], RenderableType]  # renders a piece of text, highlighted or not


def _markdown(text: str, coloured: bool) -> RenderableType:
    return Block(text, coloured=coloured)


class Talk:
    """A growing message. `draw` renders each of its pieces."""

    def __init__(self, draw: Draw = _markdown) -> None:
        self._draw = draw
        self._growing = Growing()
        self._begun = False  # whether a piece of this message was returned already

    def add(self, text: str) -> None:
        self._growing.add(text)

    def take(self) -> list[RenderableType]:
        """Return the pieces finished since the last call, to be printed for good."""
        return list(self._blocks(self._growing.take()))

    def rest(self) -> list[RenderableType]:
        """Return all that is left of the message; the next text begins a new one."""
        left = list(self._blocks(self._growing.rest()))
        self._begun = False
        return left

    def _blocks(self, pieces: Sequence[Piece]) -> Iterable[RenderableType]:
        """Render the pieces. Of a flood only the end is highlighted, because the rest scrolls by unread."""
        for left, piece in zip(range(len(pieces), 0, -1), pieces, strict=True):
            if not piece.text.strip():
                continue
            if self._begun and not piece.goes_on:
                yield Text()
            self._begun = True
            yield self._draw(piece.text, left <= COLOURED)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the unfinished end, as much as the screen can hold."""
        tail = self._growing.tail(options.size.width * options.size.height, options.size.height)
        if not tail.strip():
            return
        if self._begun and not self._growing.goes_on:
            yield Text()
        yield self._draw(tail, True)
