"""One thing wrong, with its place and the way out. Everything a person can get wrong becomes one of these."""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

Severity = Literal["error", "warning"]


class Problem(NamedTuple):
    """A fault somebody can mend.

    `line` and `column` count from 1, as editors do; 0 means the place is not known.
    `path` is where in the profile (`mcp_servers.github.env.TOKEN`), empty for the file as a whole.
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
        """`file:line:column` as far as it is known; begins every message so that editors can jump there."""
        return ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])

    def __str__(self) -> str:
        where = [self.place] if self.place else []
        head = ": ".join([*where, *([self.path] if self.path else []), *self._flag(), self.message])
        return f"{head}\n    fix: {self.fix}" if self.fix else head

    def _flag(self) -> list[str]:
        return ["warning"] if self.severity == "warning" else []

    def as_json(self) -> dict[str, str | int]:
        """The same as data, for `--json`."""
        return self._asdict()


def ours(*words: str) -> str:
    """One of our commands for a fix, as a shell reads it; empty words are left out."""
    import shlex  # the rare path

    return shlex.join(["acp-launch", *filter(None, words)])


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Those that stop us; the rest are warnings."""
    return [problem for problem in problems if problem.severity == "error"]


def likeliest(word: str, known: Iterable[str]) -> str:
    """The one that looks most like `word`; empty when none looks like it."""
    from difflib import get_close_matches  # what has no mistakes does without

    return next(iter(get_close_matches(word, known, 1)), "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What a message about an unknown name ends with."""
    near = likeliest(word, known)
    return f'; did you mean "{near}"?' if near else ""


# Where something is inside a profile, and how a person reads it. Pure, and free of imports that cost.


KeyPath = tuple[str | int, ...]
_SIMPLE = re.compile(r"[A-Za-z0-9_-]+")


def dotted(path: KeyPath) -> str:
    """`agent.args[0]`, `mcp_servers."my server".url`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if _SIMPLE.fullmatch(step) else '"' + step.replace('"', '\\"') + '"'
            text += f".{name}" if text else name
    return text
