"""
Profiles that were found without fault before, with the place of every value: see `document.cache`.

An entry is used only if going from file to file leads to the very same ones again, each with the very same text. So a
file that is new in a place where a parent is looked for, an overlay, or a link that leads elsewhere count as changes.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.document.cache import Shelf
from acp_launch.document.keypath import KeyPath
from acp_launch.document.nodes import Place, Plain
from acp_launch.document.shape import build
from acp_launch.problem import Problem
from acp_launch.profile.discover import Found
from acp_launch.profile.gather import gather
from acp_launch.profile.layers import Extends, Layer, Part
from acp_launch.profile.model import Profile

Table = dict[KeyPath, tuple[str, int, int, int, int, int | None]]  # see document.tree.Places
CODE = (
    "profile/*.py",
    *(f"secret/{name}.py" for name in ("reference", "environment", "credential", "shapes", "wording")),
)


class Written(Struct, frozen=True):
    """Where each value of a kept profile is written; answers as the `Document` did."""

    table: Table

    def where(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> Place:
        """See `Document.where`."""
        known = path
        while known not in self.table:
            known = known[:-1]
        file, key_line, key_column, line, column, lead = self.table[known]
        if key or known != path:
            return Place(key_line, key_column, file)
        return Place(line, column + (0 if lead is None or not offset else lead + offset), file)

    def locate(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> tuple[int, int]:
        """See `Document.locate`."""
        place = self.where(path, key=key, offset=offset)
        return place.line, place.column


class Known(Struct, frozen=True):
    """What is kept of a profile without fault. `leaks` are warnings of `validate`."""

    profile: Profile
    positions: Written
    merged: Mapping[str, Plain]
    leaks: tuple[Problem, ...]
    layers: tuple[Layer, ...] = ()


def recall(directory: Path, found: Found) -> Known | None:
    """The profile that these files were found to be, if they were."""
    return _shelf(directory).recall(found.file, _written(found.file), partial(_restored, found))


def keep(directory: Path, found: Found, parts: Sequence[Part], known: Known) -> None:
    """Remember what `parts` were found to be, if the directory lets us. Files are told apart by their place here:
    how messages name them depends on where a command is typed."""
    labels = {part.layer.label: index for index, part in enumerate(parts)}
    answer = {
        "parts": [_part(part) for part in parts],
        "merged": known.merged,
        "places": [[list(path), labels[file], *rest] for path, (file, *rest) in known.positions.table.items()],
        "leaks": [[labels[leak.file], {**leak.as_json(), "file": ""}] for leak in known.leaks],
    }
    _shelf(directory).keep(found.file, _written(found.file), answer)


def _part(part: Part) -> list[Any]:
    return [_written(part.layer.file), part.layer.text, [extends.entry for extends in part.extends]]


def _written(file: Path) -> str:
    """A path that JSON can hold, for comparing: a file's name may be no text."""
    return ascii(str(file))


def _shelf(directory: Path) -> Shelf:
    return Shelf(directory / "profiles", CODE)


def _restored(found: Found, answer: Any) -> Known:
    """Raises what `Shelf.recall` takes for a miss."""
    texts = {file: (text, entries) for file, text, entries in answer["parts"]}

    def known(layer: Layer) -> Part:
        text, entries = texts[_written(layer.file)]
        if text != layer.text:
            raise ValueError("another text")
        return Part(layer, tuple(Extends(entry) for entry in entries))

    gathered = gather(found, known)
    if gathered.problems or [_written(layer.file) for layer in gathered.layers] != list(texts):
        raise ValueError("other files")
    labels = [layer.label for layer in gathered.layers]
    table: Table = {tuple(path): (labels[file], *rest) for path, file, *rest in answer["places"]}
    if () not in table:
        raise ValueError("no places")
    leaks = tuple(Problem(**{**leak, "file": labels[index]}) for index, leak in answer["leaks"])
    profile = build(Profile, answer["merged"])
    return Known(profile, Written(table), answer["merged"], leaks, gathered.layers)
