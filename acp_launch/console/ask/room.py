"""
The text above a question, fitted to the rows of the screen.

If everything fits, it is shown in its usual order. Otherwise everything is printed first and scrolls away, and the
important details are printed again, each cut to the rows it gets. So the facts for the decision are on the screen,
however much text the agent sends.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct
from rich.cells import cell_len

from acp_launch.console.stdout import fit
from acp_launch.session.observer import Tone

FALLBACK = (80, 24)
LEAST = 3  # rows, on the smallest screen: the question, the tool, the first argument
TAB = 8
INDENT = "      "
BAR = "    | "  # before the further rows of a line
ROOMY = 12  # rows of a screen with space around a question
ALL = "Everything the agent sent, and below it the main points:"
Row = tuple[str, Tone]


class Detail(Struct, frozen=True):
    """
    Lines that belong together. If there is no room for all details, the least `weight` comes first. `short` replaces
    the first line if the detail gets only one row.
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
    yield from _brief([heading, *sorted(others, key=lambda detail: detail.weight)], columns, max(rows, LEAST))


def _fits(lines: Sequence[Row], columns: int, rows: int) -> bool:
    for text, _ in lines:
        rows -= len(break_lines(text, columns))
        if rows < 0:
            return False
    return True


def screen() -> tuple[int, int]:
    """Return columns and rows of the terminal on stderr, or common ones if they are not known."""
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except OSError:  # the terminal is gone
        return FALLBACK
    return columns or FALLBACK[0], rows or FALLBACK[1]


def is_roomy() -> bool:
    """Return whether the screen has space around a question."""
    return screen()[1] >= ROOMY


def _brief(details: Sequence[Detail], columns: int, rows: int) -> Iterator[Row]:
    """Yield at most `rows` rows, shared among the details."""
    is_counted = len(details) > rows > LEAST  # one row says how many are left out
    shown = details[: rows - is_counted]
    begun = [list(islice(_rows(detail.lines, columns), rows + 1)) for detail in shown]
    shares = _shares([len(each) for each in begun], rows - is_counted)
    for detail, each, share in zip(shown, begun, shares, strict=True):
        if share == 1 < len(each):
            text, tone = detail.lines[0]
            yield fit((detail.short or text).partition("\n")[0], columns), tone
        elif len(each) <= share:
            yield from each
        else:
            yield from _cut(detail, each, share, columns)
    if is_counted:
        yield fit(f"{INDENT}[... {len(details) - len(shown)} more details, above ...]", columns), "dim"


def _shares(sizes: Sequence[int], rows: int) -> list[int]:
    """Give each detail one row; further rows go to the most important details first, and to the heading last."""
    shares = [1] * len(sizes)
    spare = rows - len(sizes)
    for place in (*range(1, len(sizes)), 0):
        more = min(spare, sizes[place] - 1)
        shares[place] += more
        spare -= more
    return shares


def _cut(detail: Detail, begun: Sequence[Row], share: int, columns: int) -> Iterator[Row]:
    """Yield two or more rows of a detail, one of them a note about the rest. From three rows on the last ones show its
    end, because the end of a command matters as much."""
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

    The rows after the first of a line are barred, so that words of others never stand where a line of ours begins.
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
    fitting = text[:columns] if text.isascii() else _pieces(text[: columns + 1], columns)[0]
    if len(fitting) >= len(text) or columns < 1:
        return (text, "") if len(fitting) >= len(text) else (text[:1], text[1:])
    at = text.rfind(" ", 0, len(fitting) + 1)
    word = text[at + 1 :].partition(" ")[0]
    if not text[: max(at, 0)].strip() or cell_len(word[: columns + 1]) > columns - len(BAR):
        return fitting, text[len(fitting) :]
    return text[:at], text[at + 1 :]


def _pieces(text: str, columns: int) -> list[str]:
    """Split `text` into pieces of at most `columns`, each with at least one character."""
    if text.isascii():  # the fast path for most texts
        width = max(1, columns)
        return [text[at : at + width] for at in range(0, len(text), width)] or [""]
    pieces, used = [""], 0
    for mark in text:
        size = cell_len(mark)
        if used + size > columns and pieces[-1]:
            pieces.append("")
            used = 0
        pieces[-1] += mark
        used += size
    return pieces
