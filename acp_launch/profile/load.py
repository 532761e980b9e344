"""
A found file becomes a checked profile, or one error with every Problem.

`Loaded` needs no more than the profile and a way to look up lines, so that validated profiles can be kept and used
again without parsing: what parses, checks and examines is imported where it is needed.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from acp_launch.document.cache import JsonCache
from acp_launch.document.nodes import Place, Plain
from acp_launch.document.shape import build
from acp_launch.errors import ProfileError
from acp_launch.problem import KeyPath, Problem, errors
from acp_launch.profile.discover import PARENT, Found, read, shown
from acp_launch.profile.gather import gather
from acp_launch.profile.layers import Extends, Layer, ParsedLayer, ordered
from acp_launch.profile.model import Profile
from acp_launch.profile.progress import progress
from acp_launch.settings.load import grounds, lies_in

if TYPE_CHECKING:
    from acp_launch.document.yaml import Document

__all__ = ["Loaded", "Positions", "examine", "inspect", "load", "read", "shown"]


class Positions(Protocol):
    """Where each value of a profile is written."""

    def where(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> Place:
        """File, line and column: see `Document.where`."""

    def locate(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> tuple[int, int]:
        """Line and column alone; which file they are in, only `where` says."""


class Loaded(Struct, frozen=True):
    """
    `problems` are warnings; `label` is the file as messages name it.

    `layers` are all files the profile is made of, in merge order and as they were read: parents, the profile itself,
    its overlay. `merged` is what they say together, without `extends`, before any reference is filled in.
    """

    found: Found
    profile: Profile
    positions: Positions
    label: str
    problems: tuple[Problem, ...] = ()
    layers: tuple[Layer, ...] = ()
    merged: Mapping[str, Plain] = {}


def load(found: Found, *, cache: Path | None = None) -> Loaded:
    """Read, parse and check. `cache` is the directory of profiles that were checked before, None to do without.

    Raises:
        ProfileError: with every problem, warnings included, when at least one is an error.
    """
    loaded, problems = inspect(found, cache=cache)
    if loaded is None:
        raise ProfileError(problems)
    return loaded


def inspect(found: Found, *, cache: Path | None = None) -> tuple[Loaded | None, tuple[Problem, ...]]:
    """The same for those who look at many files: problems are an answer, not an exception."""
    seen = _inspection(found, cache)
    return seen.loaded, seen.problems


def examine(found: Found, *, cache: Path | None = None) -> tuple[Loaded | None, tuple[Problem, ...]]:
    """The same for `validate`: whatever looks like a credential is a problem too, even if the profile is usable. A file
    that is only there to be extended lacks nothing, whatever it lacks."""
    seen = _inspection(found, cache)
    leaks = seen.leaks
    if leaks is None:
        from acp_launch.profile.parse import exposed

        leaks = exposed(seen.parts)
    problems = ordered((*seen.problems, *leaks), (part.layer for part in seen.parts))
    if found.file.name.startswith(PARENT):
        from acp_launch.profile.parse import ADD

        problems = tuple(problem for problem in problems if not problem.fix.startswith(ADD))
    return seen.loaded, problems


class _Inspection(Struct, frozen=True):
    """What became of a profile: `parts` are its files as far as they can be read; no leaks when nobody has looked for
    them yet."""

    loaded: Loaded | None = None
    problems: tuple[Problem, ...] = ()
    parts: tuple[ParsedLayer, ...] = ()
    leaks: tuple[Problem, ...] | None = None


def _inspection(found: Found, cache: Path | None) -> _Inspection:
    if cache is not None and _is_foreign(cache, found.project):
        cache = None  # an entry says what a text means, and this one may be of somebody's making
    if cache is not None and (known := recall(cache, found)):
        label, layers = shown(found.file), known.layers
        loaded = Loaded(found, known.profile, known.positions, label, (), layers, known.merged)
        return _Inspection(loaded, (), tuple(map(ParsedLayer, layers)), known.leaks)
    return _anew(found, cache)


@functools.cache
def _is_foreign(cache: Path, project: Path) -> bool:
    return lies_in(cache, grounds(project))


def _anew(found: Found, cache: Path | None) -> _Inspection:
    with progress.file(shown(found.file)):
        return _understood(found, cache)


def _understood(found: Found, cache: Path | None) -> _Inspection:
    from acp_launch.profile.gather import gather
    from acp_launch.profile.parse import merge_layers, parse_layer

    gathered = gather(found, parse_layer)
    made = merge_layers(gathered)
    problems = _discreet(ordered(made.problems, gathered.layers))
    if made.profile is None or made.document is None or errors(problems):
        return _Inspection(None, problems, gathered.parts)
    document, label = made.document, shown(found.file)
    loaded = Loaded(found, made.profile, document, label, problems, gathered.layers, document.root)
    if cache is None or problems:
        return _Inspection(loaded, problems, gathered.parts)
    return _Inspection(loaded, problems, gathered.parts, _kept(cache, loaded, gathered.parts, document))


def _kept(cache: Path, loaded: Loaded, parts: tuple[ParsedLayer, ...], document: "Document") -> tuple[Problem, ...]:
    """Remember the profile, but never a text that gives a credential away: caches are copied. The credentials."""
    from acp_launch.profile.parse import exposed

    leaks = exposed(parts)
    if not errors(leaks):
        keep(
            cache,
            loaded.found,
            parts,
            CachedProfile(loaded.profile, CachedPositions(document.places()), loaded.merged, leaks),
        )
    return leaks


def _discreet(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Without the credentials they quote: a person may have written one where something else belongs."""
    if not problems:
        return ()
    from acp_launch.secret.detect import masked

    return tuple(
        each._replace(path=masked(each.path), message=masked(each.message), fix=masked(each.fix)) for each in problems
    )


# Profiles that were found without fault before, with the place of every value: see `document.cache`.
#
# An entry is used only if going from file to file leads to the very same ones again, each with the very same text. So a
# file that is new in a place where a parent is looked for, an overlay, or a link that leads elsewhere count as changes.


Table = dict[KeyPath, tuple[str, int, int, int, int, int | None]]  # see document.tree.Places
CODE = (
    "profile/*.py",
    *(f"secret/{name}.py" for name in ("reference", "environment", "credential", "shapes", "wording")),
)


class CachedPositions(Struct, frozen=True):
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


class CachedProfile(Struct, frozen=True):
    """What is kept of a profile without fault. `leaks` are warnings of `validate`."""

    profile: Profile
    positions: CachedPositions
    merged: Mapping[str, Plain]
    leaks: tuple[Problem, ...]
    layers: tuple[Layer, ...] = ()


def recall(directory: Path, found: Found) -> CachedProfile | None:
    """The profile that these files were found to be, if they were."""
    return _json_cache(directory).recall(found.file, _written(found.file), partial(_restored, found))


def keep(directory: Path, found: Found, parts: Sequence[ParsedLayer], known: CachedProfile) -> None:
    """Remember what `parts` were found to be, if the directory lets us. Files are told apart by their place here:
    how messages name them depends on where a command is typed."""
    labels = {part.layer.label: index for index, part in enumerate(parts)}
    answer = {
        "parts": [_part(part) for part in parts],
        "merged": known.merged,
        "places": [[list(path), labels[file], *rest] for path, (file, *rest) in known.positions.table.items()],
        "leaks": [[labels[leak.file], {**leak.as_json(), "file": ""}] for leak in known.leaks],
    }
    _json_cache(directory).keep(found.file, _written(found.file), answer)


def _part(part: ParsedLayer) -> list[Any]:
    return [_written(part.layer.file), part.layer.text, [extends.entry for extends in part.extends]]


def _written(file: Path) -> str:
    """A path that JSON can hold, for comparing: a file's name may be no text."""
    return ascii(str(file))


def _json_cache(directory: Path) -> JsonCache:
    return JsonCache(directory / "profiles", CODE)


def _restored(found: Found, answer: Any) -> CachedProfile:
    """Raises what `Shelf.recall` takes for a miss."""
    texts = {file: (text, entries) for file, text, entries in answer["parts"]}

    def known(layer: Layer) -> ParsedLayer:
        text, entries = texts[_written(layer.file)]
        if text != layer.text:
            raise ValueError("another text")
        return ParsedLayer(layer, tuple(Extends(entry) for entry in entries))

    gathered = gather(found, known)
    if gathered.problems or [_written(layer.file) for layer in gathered.layers] != list(texts):
        raise ValueError("other files")
    labels = [layer.label for layer in gathered.layers]
    table: Table = {tuple(path): (labels[file], *rest) for path, file, *rest in answer["places"]}
    if () not in table:
        raise ValueError("no places")
    leaks = tuple(Problem(**{**leak, "file": labels[index]}) for index, leak in answer["leaks"])
    profile = build(Profile, answer["merged"])
    return CachedProfile(profile, CachedPositions(table), answer["merged"], leaks, gathered.layers)
