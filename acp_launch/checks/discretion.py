"""
What is fit for a bug report: the home directory is `~`, and the user has no name. Pure.

A name that many have (root, ubuntu) tells nothing and stays: it is a word of many paths.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ANYBODY = frozenset(
    ("root", "user", "users", "admin", "node", "app", "build", "runner", "ubuntu", "debian", "vscode", "home", "work")
)
SHORTEST = 3  # characters of a name; a shorter one is a part of too many words
NOBODY = "USER"
END = r"(?![\w.-])"  # `/home/me` is not the beginning of `/home/me2`


class Discretion:
    def __init__(self, homes: Iterable[str], users: Iterable[str]) -> None:
        """`homes` are the home directory's names (it may be a link); `users` those of the user."""
        longest_first = sorted({home.rstrip("/\\") for home in homes} - {""}, key=len, reverse=True)
        self._homes = [re.compile(f"(')?{re.escape(home)}{END}(?(1)(/))?") for home in longest_first]
        names = sorted({re.escape(name) for name in users if len(name) >= SHORTEST and name.lower() not in ANYBODY})
        self._users = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(names)})(?![A-Za-z0-9])") if names else None

    def text(self, text: str) -> str:
        for home in self._homes:
            text = home.sub(_tilde, text)
        return self._users.sub(NOBODY, text) if self._users else text

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
