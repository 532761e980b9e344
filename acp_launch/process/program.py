"""What a supervised server is started from, with its secrets revealed."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class Program(Struct, frozen=True):
    """`argv` begins with an absolute path; `env` is the whole environment. It shows nothing but its name.

    That is the server's in the profile, or `github#2` for a second process of it.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path

    def __repr__(self) -> str:
        return f"Program({self.name!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:  # msgspec's own has every field
        return [("name", self.name)]
