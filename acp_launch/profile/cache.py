"""Profiles that were found without fault before, with the place of every value: see `document.cache`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.document.cache import Shelf, built
from acp_launch.document.keypath import KeyPath
from acp_launch.profile.model import Profile

Table = dict[KeyPath, tuple[int, int, int, int, int | None]]  # see document.Places
CODE = ("profile/*.py", "secret/reference.py", "secret/environment.py")


class Written(Struct, frozen=True):
    """Where each value of a kept profile is written; answers as the `Document` did."""

    table: Table

    def locate(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> tuple[int, int]:
        """See `Document.locate`."""
        known = path
        while known not in self.table:
            known = known[:-1]
        key_line, key_column, line, column, lead = self.table[known]
        if key or known != path:
            return key_line, key_column
        return line, column + (0 if lead is None or not offset else lead + offset)


def recall(directory: Path, file: Path, text: str) -> tuple[Profile, Written] | None:
    """The profile that `text` was found to be, if it was."""
    return _shelf(directory).recall(file, text, _restored)


def keep(directory: Path, file: Path, text: str, profile: Profile, table: Table) -> None:
    """Remember that `text` is `profile`, if the directory lets us."""
    places = [[list(path), *place] for path, place in table.items()]
    _shelf(directory).keep(file, text, {"profile": asdict(profile), "places": places})


def _shelf(directory: Path) -> Shelf:
    return Shelf(directory / "profiles", CODE)


def _restored(answer: Any) -> tuple[Profile, Written]:
    table: Table = {tuple(path): tuple(place) for path, *place in answer["places"]}
    return built(Profile, answer["profile"]), Written(table)
