"""A block of code on a terminal: its colours are the terminal's own, its lines are not filled up or framed."""

from collections.abc import Iterable, Iterator
from functools import cache

from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_all_lexers, get_lexer_by_name  # type: ignore[import-untyped]
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

THEME = "ansi_dark"  # named colours only: readable on a light terminal too
TAB = 4  # columns
PLAIN = Style()


def lines(code: str, language: str, console: Console, width: int) -> Iterator[list[Segment]]:
    """Each line, wrapped where it is longer than `width`."""
    lexer = _lexer(language) if console.color_system and not console.no_color else None
    coloured = _coloured(code, lexer) if lexer else ([Segment(line, PLAIN)] for line in _split(code))
    for line in coloured:
        if sum(segment.cell_length for segment in line) <= width:
            yield line
        else:
            yield from _wrapped(line, console, width)


def _coloured(code: str, lexer: Lexer) -> Iterator[list[Segment]]:
    theme = Syntax.get_theme(THEME)
    line: list[Segment] = []
    for kind, text in lexer.get_tokens(code):
        style = theme.get_style_for_token(kind)
        first, *others = text.split("\n")
        if first:
            line.append(Segment(first, style))
        for other in others:
            yield line
            line = [Segment(other, style)] if other else []
    if line:
        yield line


def _split(code: str) -> Iterable[str]:
    return code.expandtabs(TAB).removesuffix("\n").split("\n")


def _wrapped(line: list[Segment], console: Console, width: int) -> Iterator[list[Segment]]:
    text = Text.assemble(*((segment.text, segment.style or PLAIN) for segment in line), end="")
    for row in text.wrap(console, max(1, width), overflow="fold"):
        yield list(row.render(console))


@cache
def _languages() -> dict[str, str]:
    """Every name of a language, without the plugins: looking for those takes longer than showing the code."""
    return {alias: aliases[0] for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases}


def is_language(name: str) -> bool:
    return name.lower() in _languages()


@cache
def _known(name: str) -> Lexer:
    lexer: Lexer = get_lexer_by_name(name, stripnl=False, tabsize=TAB)
    return lexer


def _lexer(language: str) -> Lexer | None:
    name = _languages().get(language.lower())
    return None if name in (None, "text") else _known(name)
