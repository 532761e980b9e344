"""
What a profile would run, for somebody who decides whether to trust it; and what they have trusted.

The texts are a stranger's, who may want something to be overlooked: each takes one line, nothing in it is invisible,
and what is left out is counted.
"""

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from acp_launch.console.columns import columns
from acp_launch.console.sessions import cells
from acp_launch.console.stderr import DIM, RED, harmless, paint
from acp_launch.console.wouldrun import parts
from acp_launch.problem import KeyPath
from acp_launch.profile.model import Profile
from acp_launch.profile.trust import Acceptance, Standing, changes, shown

GREEN = "32"
LONGEST = 400  # lines of a diff, or of a content; what is more is counted
WIDEST = 20_000  # characters of a line; the same
NARROWEST = 20  # columns in which a text is still wrapped by us
FOREIGN_MARKS = 8  # characters that are named one by one
_GAP = re.compile(r" {9,}")  # that many could push what follows to where a line of its own would begin


def heading(standing: Standing) -> str:
    """What comes before a report."""
    return f"acp-launch: {_plain(standing.label)} would:"


def report(profile: Profile, found: Mapping[KeyPath, Path], standing: Standing) -> Iterator[str]:
    """Everything that would happen, and what is new since it was accepted; coloured for a terminal.

    `found` are the programs and directories of the profile that are there.
    """
    for doubt in standing.doubts:
        yield paint(f"  {_plain(doubt)}", RED)
    said = [*parts(profile, found, standing.now)]
    width = max(len(part.label) for part in said)
    for part in said:
        rows = _rows(f"  {part.label:{width}}  ", _plain(part.text))
        yield from (paint(row, RED) if part.is_potent else row for row in rows)
    if foreign := _foreign("".join([standing.label, *(part.text for part in said)])):
        yield paint(f"  look twice: not everything is in ASCII, and may look like something else: {foreign}", RED)
    if any(len(part.text) > WIDEST for part in said):
        yield paint("  look twice: not all of it is shown here; read the file before you accept it", RED)
    if standing.before is not None and standing.how == "changed":
        yield from _news(standing.before, standing.now)


def _rows(head: str, text: str) -> Iterator[str]:
    """On a terminal each further row has a mark before it, so that none passes for another part."""
    room = _columns() - len(head)
    if room < NARROWEST:
        yield head + text
        return
    row, taken = "", 0
    for mark in text:
        if taken + cells(mark) > room:
            yield head + row
            head, row, taken = f"{'':{len(head) - 2}}| ", "", 0
        row, taken = row + mark, taken + cells(mark)
    yield head + row


def _columns() -> int:
    """Of the terminal on stderr; 0 where it is something else."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 0
    except OSError:
        return 0


def _news(before: Acceptance, now: Sequence[str]) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(before.since))
    yield f"changed since you accepted it on {when}:"
    found = list(changes(before.lines, [str(shown(line)) for line in now]))
    for line in _cut(found):
        yield paint(f"  {_plain(_marked(line))}", RED if line.startswith("-") else GREEN)
    if not found:
        yield "  a credential that is written in it, which is not shown"


def _marked(line: str) -> str:
    """A line of a difference, with what its variable can do."""
    said = shown(line[2:])
    return f"{line[:2]}{said.path}, which {said.can}: {said.value}" if said.can else line


def _foreign(text: str) -> str:
    """The characters that are none of ASCII, by name: letters of other alphabets look like ours."""
    from unicodedata import name

    marks = sorted({mark for mark in text if not mark.isascii()})
    named = [f"U+{ord(mark):04X} {name(mark, '')}".strip() for mark in marks[:FOREIGN_MARKS]]
    more = [f"and {len(marks) - FOREIGN_MARKS} more"] if len(marks) > FOREIGN_MARKS else []
    return ", ".join([*named, *more])


def table(acceptances: Sequence[Acceptance]) -> str:
    """For `trust --list`."""
    rows = [
        (each.profile, each.project, each.file, time.strftime("%Y-%m-%d", time.localtime(each.since)))
        for each in acceptances
    ]
    return "\n".join(columns([tuple(map(_plain, row)) for row in rows]))


def _cut(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:LONGEST]
    if len(lines) > LONGEST:
        yield paint(f"… {len(lines) - LONGEST:,} more lines", DIM)


def _plain(text: str) -> str:
    """On one line, with everything in it to be seen."""
    seen = harmless(text[: 2 * WIDEST].replace("\r", "\\r"), keep="")
    seen = _GAP.sub(lambda gap: f" [{len(gap[0])} spaces] ", seen)[:WIDEST]
    return f"{seen} … and {len(text) - WIDEST:,} more characters" if len(text) > WIDEST else seen
