"""
A `Check`: one line of doctor's report. Also its exit code, and `Anonymizer`, which makes a report fit for a bug report.

Pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from acp_launch.errors import LaunchError, MachineError, ProblemsError
from acp_launch.problem import Problem

Verdict = Literal["ok", "warning", "problem"]
MACHINE = MachineError.exit_code
# Exit codes in the order of a run: profile, trust, machine, agent, protocol, login, servers.
STAGES = (2, 7, 3, 4, 5, 6, 8)


class Check(Struct, frozen=True, kw_only=True):
    """
    One line of doctor's report.

    `name` is the kind of thing that was checked (`server`), `subject` which one. `text` and `detail` may quote
    untrusted text; `fix` is a command or one edit. `code` is the exit code that a run would end with, 0 unless this is
    a problem. `facts` are the findings as data.
    """

    name: str
    subject: str = ""
    verdict: Verdict = "ok"
    text: str
    fix: str = ""
    detail: tuple[str, ...] = ()
    code: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


def ok(name: str, subject: str, text: str, **facts: Any) -> Check:
    return Check(name=name, subject=subject, text=text, facts=facts)


def warning(name: str, subject: str, text: str, fix: str, **facts: Any) -> Check:
    return Check(name=name, subject=subject, verdict="warning", text=text, fix=fix, facts=facts)


def problem(name: str, subject: str, text: str, fix: str, code: int = MACHINE, /, **facts: Any) -> Check:
    return Check(name=name, subject=subject, verdict="problem", text=text, fix=fix, code=code, facts=facts)


def of_problem(name: str, subject: str, found: Problem, code: int) -> Check:
    """Turn a Problem into a check; a warning has no exit code."""
    head = ": ".join(filter(None, (found.place, found.path, found.message)))
    if found.severity == "warning":
        return warning(name, subject, head, found.fix)
    return problem(name, subject, head, found.fix, code)


def of_error(name: str, error: LaunchError) -> list[Check]:
    """Turn an error into checks: one for each of its problems, else a single one."""
    code = error.exit_code
    if isinstance(error, ProblemsError):
        return [of_problem(name, "", found, code) for found in error.problems]
    text, fix, detail = error.message, error.fix, error.detail
    return [Check(name=name, verdict="problem", text=text, fix=fix, detail=detail, code=code)]


def exit_code(checks: Iterable[Check]) -> int:
    """Return the exit code of the first stage at which a run would stop; 0 if it would not."""
    codes = {check.code for check in checks}
    return next((code for code in STAGES if code in codes), max(codes, default=0))


# User names that do not identify a person. They stay as they are, because they are part of many paths.
COMMON_NAMES = frozenset(
    ("root", "user", "users", "admin", "node", "app", "build", "runner", "ubuntu", "debian", "vscode", "home", "work")
)
MIN_NAME_CHARS = 3  # a shorter one is a part of too many words
ANONYMOUS = "USER"
END = r"(?![\w.-])"  # `/home/me` is not the beginning of `/home/me2`


class Anonymizer:
    """Removes the home directory and the user's name from a report, so that it can be attached to a bug report."""

    def __init__(self, homes: Iterable[str], users: Iterable[str]) -> None:
        """`homes` are the home directory's names (it may be a link); `users` the user's."""
        longest_first = sorted({home.rstrip("/\\") for home in homes} - {""}, key=len, reverse=True)
        self._homes = [re.compile(f"(')?{re.escape(home)}{END}(?(1)(/))?") for home in longest_first]
        names = sorted(
            {re.escape(name) for name in users if len(name) >= MIN_NAME_CHARS and name.lower() not in COMMON_NAMES}
        )
        self._users = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(names)})(?![A-Za-z0-9])") if names else None

    def text(self, text: str) -> str:
        """Replace them in a text: the home directory by `~`, the name by `USER`."""
        for home in self._homes:
            text = home.sub(_tilde, text)
        return self._users.sub(ANONYMOUS, text) if self._users else text

    def tree(self, value: Any) -> Any:
        """Replace them in JSON data, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.tree(key): self.tree(each) for key, each in value.items()}
        return [self.tree(each) for each in value] if isinstance(value, Sequence) else value


def _tilde(home: re.Match[str]) -> str:
    """Write `~` outside of quotes, since a shell expands it only there: `'/home/me/a b'` becomes `~/'a b'`."""
    return "~/'" if home[1] and home[2] else f"{home[1] or ''}~"
