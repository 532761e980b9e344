"""The changed lines between two texts, with a few lines around them: pure, and bounded in time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import eq
from typing import Literal

from msgspec import Struct

from acp_launch.problem import count

CONTEXT = 3  # lines around a change
COMPARED = 1_000_000  # pairs of lines; above that, the differing part is shown as replaced as a whole

Sign = Literal[" ", "-", "+", "…"]


class Line(Struct, frozen=True):
    """A line of a comparison. `number` counts from 1, in the old text for a removed line, else in the new one. "…" is a
    gap, and its text says how many lines are left out.
    """

    sign: Sign
    number: int
    text: str
    left: int = 0  # lines in the gap


class Changes(Struct, frozen=True):
    """The result of a comparison."""

    lines: tuple[Line, ...]
    added: int
    removed: int


def changes(old: str | None, new: str) -> Changes:
    """Compare two texts; `old` is None for a new file."""
    before, after = _lines(old or ""), _lines(new)
    lines = tuple(_hunk_lines(before, after))
    signs = [line.sign for line in lines]
    return Changes(lines, signs.count("+"), signs.count("-"))


def _lines(text: str) -> list[str]:
    """Split at line ends only: a form feed or another separator is part of a line."""
    return text.removesuffix("\n").split("\n") if text else []


def _hunk_lines(before: list[str], after: list[str]) -> Iterator[Line]:
    shown = 0  # lines of the old text done so far
    for group in _groups(before, after):
        if group[0][1] > shown:
            yield _gap(group[0][1] - shown)
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (Line(" ", number + 1, after[number]) for number in range(c, d))
            else:
                yield from (Line("-", number + 1, before[number]) for number in range(a, b))
                yield from (Line("+", number + 1, after[number]) for number in range(c, d))
        shown = group[-1][2]


def _gap(left: int) -> Line:
    return Line("…", 0, count(left, "line"), left)


def number_lines(made: Changes, most: int) -> tuple[list[tuple[Line, str]], int]:
    """
    Return at most `most` lines with their margins (number and sign), and how many more there are. Too many are folded
    to those that changed.
    """
    gutter = len(str(max((line.number for line in made.lines), default=0)))
    lines = made.lines if len(made.lines) <= most else [gap for run in _runs(made.lines) for gap in run]
    drawn = [(line, f"{line.number or '':>{gutter}} {line.sign} ") for line in lines[:most]]
    return drawn, max(0, len(lines) - most)


def _runs(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Yield the changed lines, and in place of each run of others one gap."""
    for is_changed, run in groupby(lines, lambda line: line.sign in "+-"):
        left = list(run)
        yield left if is_changed else [_gap(sum(line.left or 1 for line in left))]


Opcode = tuple[str, int, int, int, int]


def _groups(before: list[str], after: list[str]) -> list[list[Opcode]]:
    """Return the changed stretches, each with its context, as line numbers of the whole texts."""
    head = _same(before, after)
    tail = min(_same(before[::-1], after[::-1]), len(before) - head, len(after) - head)
    kept_head, kept_tail = min(head, CONTEXT), min(tail, CONTEXT)
    skipped = head - kept_head
    old = before[skipped : len(before) - tail + kept_tail]
    new = after[skipped : len(after) - tail + kept_tail]
    if old == new:
        return []
    found: Iterable[list[Opcode]] = [_whole_change(len(old), len(new), kept_head, kept_tail)]
    if len(old) * len(new) <= COMPARED:
        from difflib import SequenceMatcher  # most runs show no change

        found = SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT)
    return [[(tag, a + skipped, b + skipped, c + skipped, d + skipped) for tag, a, b, c, d in each] for each in found]


def _same(before: list[str], after: list[str]) -> int:
    """Count the lines that both begin with."""
    return [*map(eq, before, after), False].index(False)


def _whole_change(old: int, new: int, head: int, tail: int) -> list[Opcode]:
    a, b = old - tail, new - tail
    return [("equal", 0, head, 0, head), ("replace", head, a, head, b), ("equal", a, old, b, new)]
