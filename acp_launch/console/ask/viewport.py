"""
The text above a question, fitted to the rows of the screen.

If everything fits, it is shown in its usual order. Otherwise everything is printed first and scrolls away, and the
important details are printed again, each cut to the rows it gets. So the facts for the decision are on the screen,
however much text the agent sends.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from acp_launch.console.stdout import cells, fit
from acp_launch.session.events import Tone

FALLBACK = (80, 24)
MIN_ROWS = 3  # on the smallest screen: the question, the tool, the first argument
TAB = 8
INDENT = "      "
BAR = "    | "  # before the further rows of a line
ROOMY = 12  # rows of a screen with space around a question
ALL = "Everything the agent sent, and below it the main points:"
Row = tuple[str, Tone]


class Detail(Struct, frozen=True):
    """
    Lines that belong together. If there is no room for all details, the least `weight` comes first. `short` replaces
    the first line of the heading if that does not fit into one row.
    """

    lines: tuple[Row, ...]
    weight: int
    short: str = ""


def lines_above(details: Sequence[Detail], columns: int, rows: int) -> Iterator[Row]:
    """Yield the lines to print above a question, which leaves `rows` for them. The first detail is its heading."""
    whole = [(_expand_tabs(text), tone) for detail in details for text, tone in detail.lines]
    if _fits(whole, columns, rows):
        yield from whole
        return
    heading, *others = details
    yield ALL, "dim"
    yield from whole[len(heading.lines) :]
    yield from _brief([heading, *sorted(others, key=lambda detail: detail.weight)], columns, max(rows, MIN_ROWS))


def _fits(lines: Sequence[Row], columns: int, rows: int) -> bool:
    for text, _ in lines:
        rows -= len(break_lines(text, columns))
        if rows < 0:
            return False
    return True


def screen() -> tuple[int, int]:
    """Return columns and rows of the terminal on stderr."""
    return terminal_size(sys.stderr.fileno)


def terminal_size(fileno: Callable[[], int]) -> tuple[int, int]:
    """Return columns and rows of a terminal by its descriptor, or common ones if they are not known."""
    try:
        columns, rows = os.get_terminal_size(fileno())
    except OSError:  # the terminal is gone
        return FALLBACK
    return columns or FALLBACK[0], rows or FALLBACK[1]


def is_roomy() -> bool:
    """Return whether the screen has space around a question."""
    return screen()[1] >= ROOMY


def _brief(details: Sequence[Detail], columns: int, rows: int) -> Iterator[Row]:
    """Yield at most `rows` rows: one for each detail, and the others for the first that need them but the heading."""
    heading, *others = details
    text, tone = heading.lines[0]
    yield (text if cells(text) <= columns else fit(heading.short, columns)), tone
    shown = others[: rows - 1]
    spare = rows - 1 - len(shown)
    for detail in shown:
        begun = list(islice(_rows(detail.lines, columns), spare + 2))
        more = min(spare, len(begun) - 1)
        spare -= more
        yield from begun if len(begun) <= more + 1 else _cut(detail, begun, more + 1, columns)


def _cut(detail: Detail, begun: Sequence[Row], share: int, columns: int) -> Iterator[Row]:
    """Yield some rows of a detail, one of them a note about the rest. From three rows on the last ones show its end,
    because the end of a command matters as much."""
    if share == 1:
        text, tone = detail.lines[0]
        yield fit(text.partition("\n")[0], columns), tone
        return
    end = max(0, min(2, share - 2))
    yield from begun[: share - 1 - end]
    yield fit(f"{INDENT}[... more lines, above ...]", columns), "dim"
    last = list(_rows(detail.lines[-2:], columns))
    yield from last[len(last) - end :]


def _expand_tabs(text: str) -> str:
    """Replace tabs by spaces, because terminals disagree on the width of a tab."""
    return "\n".join(line.expandtabs(TAB) for line in text.split("\n"))


def _rows(lines: Sequence[Row], columns: int) -> Iterator[Row]:
    return ((row, tone) for text, tone in lines for row in break_lines(text, columns))


def break_lines(text: str, columns: int) -> list[str]:
    """Break a text at its words into rows of at most `columns`; only a word that is wider than a row is cut.

    The rows after the first of a line are barred, so that foreign words never stand where our line begins.
    """
    bar = BAR if columns > 4 * len(BAR) else BAR.strip() + " "
    rows = []
    for line in _expand_tabs(text).split("\n"):
        row, rest = _first(line, columns)
        rows.append(row)
        while rest:
            row, rest = _first(rest, columns - len(bar))
            rows.append(bar + row)
    return rows


def _first(text: str, columns: int) -> tuple[str, str]:
    """Return the first row of a line, and the rest of it."""
    fitting = _head(text, columns)
    if len(fitting) >= len(text) or columns < 1:
        return fitting, text[len(fitting) :]
    at = text.rfind(" ", 0, len(fitting) + 1)
    word = text[at + 1 :].partition(" ")[0]
    if not text[: max(at, 0)].strip() or cells(word[: columns + 1]) > columns - len(BAR):
        return fitting, text[len(fitting) :]
    return text[:at], text[at + 1 :]


def _head(text: str, columns: int) -> str:
    """Return as many characters as fit, at least one."""
    kept = text[: max(1, columns)]
    while cells(kept) > columns and len(kept) > 1:
        kept = kept[:-1]
    return kept
