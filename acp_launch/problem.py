"""
A `Problem`: one fault with its place and its fix. Every mistake that a user can make becomes one of these.

Also `KeyPath`, a place inside a profile, and `dotted`, the text of one; and the mark that begins acp-launch's own
lines. An agent's text stands on the same screen as notices and questions of acp-launch, and may imitate one
("acp-launch: type your keyring passphrase"). So text that comes from an agent, a server or a file has an escape in
place of this character, on a terminal and in every file or pipe that acp-launch writes its own lines to. Pure, and
imports little.
"""

import shlex
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from acp_launch.regex import regex

Severity = Literal["error", "warning"]


class Problem(NamedTuple):
    """A fault that the user can fix.

    `line` and `column` count from 1, as editors do; 0 means that the place is not known.
    `path` is the place in the profile (`mcp_servers.github.env.TOKEN`), empty for the file as a whole.
    `fix` is one command to run or one edit to make. None of the texts ever holds a secret's value.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    fix: str = ""
    severity: Severity = "error"

    @property
    def place(self) -> str:
        """Give `file:line:column` as far as it is known; it begins every message so that editors can jump there."""
        return ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])

    def __str__(self) -> str:
        flag = "warning" if self.severity == "warning" else ""
        head = ": ".join([*filter(None, (self.place, self.path, flag)), self.message])
        return f"{head}\n    fix: {self.fix}" if self.fix else head

    def as_json(self) -> dict[str, str | int]:
        """Give the problem as data, for `--json`."""
        return self._asdict()


def about(file: str, message: str, fix: str = "") -> Problem:
    """Build the problem of a file as a whole, or of a variable or an option."""
    return Problem(file, 0, 0, "", message, fix)


def ours(*words: str) -> str:
    """Build an acp-launch command for a fix, quoted for a shell; empty words are left out."""
    return shlex.join(["acp-launch", *filter(None, words)])


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems that stop a launch; the rest are warnings."""
    return [problem for problem in problems if problem.severity == "error"]


def summary(problems: Sequence[Problem], outcome: str) -> str:
    """Return `2 problems, 1 warning; nothing was started`; empty if there are only warnings."""
    wrong = len(errors(problems))
    warnings = len(problems) - wrong
    noted = f", {count(warnings, 'warning')}" if warnings else ""
    return f"{count(wrong, 'problem')}{noted}; {outcome}" if wrong else ""


def likeliest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known word that looks most like `word`; empty when none looks like it as much as `cutoff` (0 to 1)."""
    from difflib import get_close_matches  # only needed when there is a mistake

    return next(iter(get_close_matches(word, known, 1, cutoff)), "")


def count(number: int, noun: str) -> str:
    """Say how many: `1 line`, `2,000 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Build the end of a message about an unknown name; empty when no known name looks like it."""
    near = likeliest(word, known)
    return f'; did you mean "{near}"?' if near else ""


# The keys and list indexes that lead to a value of a profile.
KeyPath = tuple[str | int, ...]
_SIMPLE = regex(r"[A-Za-z0-9_-]+")


def dotted(path: KeyPath) -> str:
    """Write a path as text: `agent.args[0]`, `mcp_servers."my server".url`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if _SIMPLE.fullmatch(step) else '"' + step.replace('"', '\\"') + '"'
            text += f".{name}" if text else name
    return text


MARK = "▐"
COLUMNS = 2  # width of the mark and its space; continuation lines are indented as far
_VISIBLE = MARK.encode("unicode_escape").decode()


def marked(text: str) -> str:
    """Put the mark before `text`. Its further lines are indented, so that quoted text never begins a marked line."""
    return f"{MARK} {text}".replace("\n", "\n  ")


def unmarked(text: str) -> str:
    """Escape the mark in text of an agent, a server or a file, so that it cannot imitate acp-launch."""
    return text.replace(MARK, _VISIBLE)
