"""
What is said above a question, in the rows that a screen has for it.

All of it stands in its usual order where it fits. Where it does not, all of it is said first and scrolls away, and what
matters is said again, each detail cut to the rows there are: so what a person decides about is on the screen, however
much an agent has to say of it.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct
from rich.cells import cell_len

from acp_launch.session.person import Tone

FALLBACK = (80, 24)
LEAST = 3  # rows, on the smallest screen: who asks for what, with which tool, the first argument
TAB = 8
INDENT = "      "
ALL = "All that the agent says of it, and below it what matters:"
Row = tuple[str, Tone]


class Detail(Struct, frozen=True):
    """
    Lines that belong together. `weight` is what comes first where there is no room for all: the lightest does. `short`
    is the first line where that has to do in one row.
    """

    lines: tuple[Row, ...]
    weight: int
    short: str = ""


def said(details: Sequence[Detail], columns: int, rows: int) -> Iterator[Row]:
    """What to say, line by line, above a question: `rows` are left for it. The first detail is its heading."""
    whole = list(chain.from_iterable(detail.lines for detail in details))
    if sum(needed(text, columns) for text, _ in whole) <= rows:
        yield from whole
        return
    heading, *others = details
    yield ALL, "dim"
    yield from chain.from_iterable(detail.lines for detail in others)
    yield from _brief([heading, *sorted(others, key=lambda detail: detail.weight)], columns, max(rows, LEAST))


def screen() -> tuple[int, int]:
    """Columns and rows of the terminal that questions are asked on, or those of most."""
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except OSError:  # it is gone
        return FALLBACK
    return columns or FALLBACK[0], rows or FALLBACK[1]


def needed(text: str, columns: int) -> int:
    """The rows that a text takes at most, whether it is broken at words or anywhere."""
    rows = 0
    for line in text.expandtabs(TAB).split("\n"):
        used, here = 0, 1
        for word in line.split(" "):
            size = cell_len(word)
            if used and used + size > columns:
                used, here = 0, here + 1
            here += max(0, size - 1) // columns
            used += (size - 1) % columns + 2 if size else 1
        rows += max(here, -(-cell_len(line) // columns))
    return rows


def _brief(details: Sequence[Detail], columns: int, rows: int) -> Iterator[Row]:
    """At most `rows` rows, in which as much as there is room for is told of each detail."""
    is_counted = len(details) > rows > LEAST  # how many are left out, where there is a row for that
    shown = details[: rows - is_counted]
    broken = [[row for line in detail.lines for row in _broken(line, columns)] for detail in shown]
    shares = _shares([len(each) for each in broken], rows - is_counted)
    for detail, each, share in zip(shown, broken, shares, strict=True):
        if share == 1 < len(each):
            text, tone = detail.lines[0]
            yield _fitted((detail.short or text).partition("\n")[0], columns), tone
        else:
            yield from _cut(each, share, columns)
    if is_counted:
        yield _fitted(f"{INDENT}[... {len(details) - len(shown)} more of what it says, above ...]", columns), "dim"


def _shares(sizes: Sequence[int], rows: int) -> list[int]:
    """One row for each; what is left goes to whom it matters most, and to the heading last."""
    shares = [1] * len(sizes)
    spare = rows - len(sizes)
    for place in (*range(1, len(sizes)), 0):
        more = min(spare, sizes[place] - 1)
        shares[place] += more
        spare -= more
    return shares


def _cut(rows: Sequence[Row], share: int, columns: int) -> Iterator[Row]:
    """Two rows or more, one of them a word about the others. Of three the last is the end: what a command does last
    counts as much."""
    if len(rows) <= share:
        yield from rows
        return
    head, tail = rows[: max(1, share - 2)], rows[-1:] if share > 2 else []
    yield from head
    yield _fitted(f"{INDENT}[... {len(rows) - len(head) - len(tail)} more rows, above ...]", columns), "dim"
    yield from tail


def _fitted(text: str, columns: int) -> str:
    """In one row; what is cut ends so."""
    return text if cell_len(text) <= columns else f"{_pieces(text, columns - 1)[0]}…"


def _broken(line: Row, columns: int) -> list[Row]:
    """No row but the first begins where ours do."""
    text, tone = line
    found: list[Row] = []
    for part in text.expandtabs(TAB).split("\n"):
        first, *rest = _pieces(part, columns)
        indent = INDENT if columns > 4 * len(INDENT) else " "
        further = _pieces("".join(rest), columns - len(indent)) if rest else []
        found += [(first, tone), *((f"{indent}{piece}", tone) for piece in further)]
    return found


def _pieces(text: str, columns: int) -> list[str]:
    """Each of at most so many columns, and of one mark at least."""
    pieces, used = [""], 0
    for mark in text:
        size = cell_len(mark)
        if used + size > columns and pieces[-1]:
            pieces.append("")
            used = 0
        pieces[-1] += mark
        used += size
    return pieces
