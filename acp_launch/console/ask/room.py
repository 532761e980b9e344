"""
What is said above a question, in the rows that a screen has for it.

All of it stands in its usual order where it fits. Where it does not, all of it is said first and scrolls away, and what
matters is said again, each detail cut to the rows there are: so what a person decides about is on the screen, however
much an agent has to say of it.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

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
    whole = [(_untabbed(text), tone) for detail in details for text, tone in detail.lines]
    if _fits(whole, columns, rows):
        yield from whole
        return
    heading, *others = details
    yield ALL, "dim"
    yield from whole[len(heading.lines) :]
    yield from _brief([heading, *sorted(others, key=lambda detail: detail.weight)], columns, max(rows, LEAST))


def _fits(lines: Sequence[Row], columns: int, rows: int) -> bool:
    for text, _ in lines:
        rows -= needed(text, columns)
        if rows < 0:
            return False
    return True


def screen() -> tuple[int, int]:
    """Columns and rows of the terminal that questions are asked on, or those of most."""
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except OSError:  # it is gone
        return FALLBACK
    return columns or FALLBACK[0], rows or FALLBACK[1]


def needed(text: str, columns: int) -> int:
    """The rows that a text without tabs takes at most, whether it is broken at words or anywhere."""
    return sum(max(len(_pieces(line, columns)), _at_words(line, columns)) for line in text.split("\n"))


def _at_words(line: str, columns: int) -> int:
    rows, used = 1, 0
    for word in line.split(" "):
        *whole, last = _pieces(word, columns)
        if used and used + cell_len(word) > columns:
            rows, used = rows + 1, 0
        rows += len(whole)
        used = (0 if whole else used) + cell_len(last) + 1
    return rows


def _brief(details: Sequence[Detail], columns: int, rows: int) -> Iterator[Row]:
    """At most `rows` rows, in which as much as there is room for is told of each detail."""
    is_counted = len(details) > rows > LEAST  # how many are left out, where there is a row for that
    shown = details[: rows - is_counted]
    begun = [list(islice(_rows(detail.lines, columns), rows + 1)) for detail in shown]
    shares = _shares([len(each) for each in begun], rows - is_counted)
    for detail, each, share in zip(shown, begun, shares, strict=True):
        if share == 1 < len(each):
            text, tone = detail.lines[0]
            yield _fitted((detail.short or text).partition("\n")[0], columns), tone
        elif len(each) <= share:
            yield from each
        else:
            yield from _cut(detail, each, share, columns)
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


def _cut(detail: Detail, begun: Sequence[Row], share: int, columns: int) -> Iterator[Row]:
    """Two rows or more, one of them a word about the others. Of three and more the last are the end: what a command
    does last counts as much."""
    end = max(0, min(2, share - 2))
    yield from begun[: share - 1 - end]
    yield _fitted(f"{INDENT}[... more of it, above ...]", columns), "dim"
    last = [row for line in detail.lines[-2:] for row in _broken(line, columns)]
    yield from last[len(last) - end :]


def _untabbed(text: str) -> str:
    """Nobody agrees on how wide a tab is."""
    return "\n".join(line.expandtabs(TAB) for line in text.split("\n"))


def _fitted(text: str, columns: int) -> str:
    """In one row; what is cut ends so."""
    return text if cell_len(text) <= columns else f"{_pieces(text, columns - 1)[0]}…"


def _rows(lines: Sequence[Row], columns: int) -> Iterator[Row]:
    for line in lines:
        yield from _broken(line, columns)


def _broken(line: Row, columns: int) -> list[Row]:
    """No row but the first begins where ours do."""
    text, tone = line
    found: list[Row] = []
    for part in _untabbed(text).split("\n"):
        first, *rest = _pieces(part, columns)
        indent = INDENT if columns > 4 * len(INDENT) else " "
        further = _pieces("".join(rest), columns - len(indent)) if rest else []
        found += [(first, tone), *((f"{indent}{piece}", tone) for piece in further)]
    return found


def _pieces(text: str, columns: int) -> list[str]:
    """Each of at most so many columns, and of one mark at least."""
    if text.isascii():  # as most are, and some are long
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
