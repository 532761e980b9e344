"""
Markdown tokens → lines of a terminal.

rich has a renderer of Markdown too: a long answer takes four times as long through it, a table thirty times, and it
hides what it does not know.
"""

from collections.abc import Callable, Iterator, Sequence

from markdown_it.token import Token
from rich.console import Console
from rich.segment import Segment
from rich.style import Style

from acp_launch.console.draw import code, grid
from acp_launch.console.draw.spans import Line, Span, wrapped

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

Tokens = Sequence[Token]


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
        return wrapped(spans(block), width)  # a paragraph, and whatever else there may be: nothing is left out

    def _heading(self, block: Tokens, width: int) -> Iterator[Line]:
        return wrapped(spans(block, HEADINGS.get(block[0].tag, HEADING)), width)

    def _code(self, block: Tokens, width: int) -> Iterator[Line]:
        info = block[0].info.strip()
        if info and not code.is_language(info):  # it may say anything, and would be hidden
            yield from ([Segment(INDENT), *line] for line in wrapped([(info, RULE)], width - len(INDENT)))
        language = info if self._coloured else ""
        for line in code.lines(block[0].content, language, self._console, max(1, width - len(INDENT))):
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
        return grid.lines(head, body, width)

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


def _cell(tokens: Tokens) -> grid.Cell:
    style = HEADINGS["h2"] if tokens[0].tag == "th" else PLAIN
    return grid.Cell(spans(tokens, style), is_right="right" in str(tokens[0].attrs.get("style", "")))


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
