"""One line of what doctor finds. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from acp_launch.errors import LaunchError, MachineError, ProblemsError
from acp_launch.problem import Problem

Verdict = Literal["ok", "warning", "problem"]
MACHINE = MachineError.exit_code
# As a run meets them: the profile, its trust, the machine, the agent, its protocol, its login, the servers.
STAGES = (2, 7, 3, 4, 5, 6, 8)


class Check(Struct, frozen=True, kw_only=True):
    """
    `name` is what was looked at (`server`), `subject` which one of them. `text` and `detail` may hold a stranger's
    words, `fix` is a command or one edit.

    `code` is the exit code a run would end with: 0 unless this is a problem. `facts` are the same as data.
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
    """`found` as a line; what is only a warning has no exit code."""
    head = ": ".join(filter(None, (found.place, found.path, found.message)))
    if found.severity == "warning":
        return warning(name, subject, head, found.fix)
    return problem(name, subject, head, found.fix, code)


def of_error(name: str, error: LaunchError) -> list[Check]:
    """An error as lines: one, or one for each of its problems."""
    if isinstance(error, ProblemsError):
        return [of_problem(name, "", found, error.exit_code) for found in error.problems]
    return [
        Check(
            name=name,
            verdict="problem",
            text=error.message,
            fix=error.fix,
            detail=error.detail,
            code=error.exit_code,
        )
    ]


def exit_code(checks: Iterable[Check]) -> int:
    """That of the first stage at which a run would stop; 0 when it would not."""
    codes = {check.code for check in checks}
    return next((code for code in STAGES if code in codes), max(codes, default=0))


# What is fit for a bug report: the home directory is `~`, and the user has no name. Pure.
#
# A name that many have (root, ubuntu) tells nothing and stays: it is a word of many paths.


COMMON_NAMES = frozenset(
    ("root", "user", "users", "admin", "node", "app", "build", "runner", "ubuntu", "debian", "vscode", "home", "work")
)
SHORTEST = 3  # characters of a name; a shorter one is a part of too many words
ANONYMOUS = "USER"
END = r"(?![\w.-])"  # `/home/me` is not the beginning of `/home/me2`


class Anonymizer:
    def __init__(self, homes: Iterable[str], users: Iterable[str]) -> None:
        """`homes` are the home directory's names (it may be a link); `users` those of the user."""
        longest_first = sorted({home.rstrip("/\\") for home in homes} - {""}, key=len, reverse=True)
        self._homes = [re.compile(f"(')?{re.escape(home)}{END}(?(1)(/))?") for home in longest_first]
        names = sorted(
            {re.escape(name) for name in users if len(name) >= SHORTEST and name.lower() not in COMMON_NAMES}
        )
        self._users = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(names)})(?![A-Za-z0-9])") if names else None

    def text(self, text: str) -> str:
        for home in self._homes:
            text = home.sub(_tilde, text)
        return self._users.sub(ANONYMOUS, text) if self._users else text

    def tree(self, value: Any) -> Any:
        """Everything in JSON, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.tree(key): self.tree(each) for key, each in value.items()}
        return [self.tree(each) for each in value] if isinstance(value, Sequence) else value


def _tilde(home: re.Match[str]) -> str:
    """A shell expands `~` only outside of quotes: `'/home/me/a b'` is `~/'a b'`."""
    return "~/'" if home[1] and home[2] else f"{home[1] or ''}~"
