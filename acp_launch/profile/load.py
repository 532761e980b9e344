"""
Loading of a profile: a found file becomes a `Loaded` profile, or one error with every Problem.

Profiles without problems are cached with the place of every value, so a later start needs no parser: the modules that
parse, check and look for credentials are imported only on a miss.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace as with_

from acp_launch.document.cache import JsonCache
from acp_launch.document.nodes import Place, Plain
from acp_launch.document.shape import build
from acp_launch.errors import ProfileError
from acp_launch.problem import KeyPath, Problem, errors
from acp_launch.profile.discover import PARENT, Found, read, shown
from acp_launch.profile.gather import gather
from acp_launch.profile.layers import Extends, Layer, ParsedLayer, ordered
from acp_launch.profile.lockfile import Lock
from acp_launch.profile.lockfile import read as read_lock
from acp_launch.profile.model import Profile
from acp_launch.profile.progress import progress
from acp_launch.profile.values import LITERAL
from acp_launch.settings.load import grounds, lies_in

if TYPE_CHECKING:
    from acp_launch.document.yaml import Document

__all__ = ["Loaded", "Positions", "examine", "inspect", "load", "read", "shown"]


class Positions(Protocol):
    """The place of each value of a profile."""

    def where(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> Place:
        """Return file, line and column; see `Document.where`."""

    def locate(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> tuple[int, int]:
        """Return line and column without the file; see `where`."""


class Loaded(Struct, frozen=True):
    """
    A checked profile. `problems` are warnings; `label` is the file's name in messages.

    `layers` are all files of the profile in merge order, as they were read: parents, the profile itself, its overlay.
    `merged` is their merged content, without `extends`, before references are filled in. A file at a path of `vacant`
    would be one of them.
    """

    found: Found
    profile: Profile
    positions: Positions
    label: str
    problems: tuple[Problem, ...] = ()
    layers: tuple[Layer, ...] = ()
    merged: Mapping[str, Plain] = {}
    vacant: tuple[Path, ...] = ()
    lock: Lock | None = None  # what the project's lock file says of the profile


def load(found: Found, *, cache: Path | None = None) -> Loaded:
    """Read, parse and check a profile. `cache` is the cache directory; None to work without one.

    Raises:
        ProfileError: with every problem, warnings included, if at least one is an error.
    """
    loaded, problems = inspect(found, cache=cache)
    if loaded is None:
        raise ProfileError(problems)
    return loaded


def inspect(found: Found, *, cache: Path | None = None) -> tuple[Loaded | None, tuple[Problem, ...]]:
    """Load like `load`, but return problems instead of raising; for callers that look at many files."""
    seen = _inspection(found, cache)
    return seen.loaded, seen.problems


def examine(found: Found, *, cache: Path | None = None) -> tuple[Loaded | None, tuple[Problem, ...]]:
    """Load for `validate`: text that looks like a credential is a problem too, even if the profile is usable. In a file
    that is only a parent of others, a missing key is not a problem."""
    seen = _inspection(found, cache)
    leaks = seen.leaks
    if leaks is None:
        from acp_launch.profile.parse import exposed

        leaks = exposed(seen.parts)
    told = {(each.file, each.line, each.column) for each in seen.problems if each.message == LITERAL}
    leaks = tuple(each for each in leaks if (each.file, each.line, each.column) not in told)
    problems = ordered((*seen.problems, *leaks), (part.layer for part in seen.parts))
    if found.file.name.startswith(PARENT):
        from acp_launch.profile.parse import ADD

        problems = tuple(problem for problem in problems if not problem.fix.startswith(ADD))
    return seen.loaded, problems


class _Inspection(Struct, frozen=True):
    """The result of loading. `parts` are the files that could be read; `leaks` is None if they were not looked for."""

    loaded: Loaded | None = None
    problems: tuple[Problem, ...] = ()
    parts: tuple[ParsedLayer, ...] = ()
    leaks: tuple[Problem, ...] | None = None


def _inspection(found: Found, cache: Path | None) -> _Inspection:
    seen = _without_lock(found, cache)
    lock, problems = read_lock(found)
    if problems:
        return with_(seen, loaded=None, problems=(*seen.problems, *problems))
    return with_(seen, loaded=with_(seen.loaded, lock=lock)) if seen.loaded and lock is not None else seen


def _without_lock(found: Found, cache: Path | None) -> _Inspection:
    if cache is not None and _is_foreign(cache, found.project):
        cache = None  # the project could have written the entry
    if cache is not None and (known := recall(cache, found)):
        label, layers = shown(found.file), known.layers
        loaded = Loaded(found, known.profile, known.positions, label, (), layers, known.merged, known.vacant)
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
    layers, vacant = gathered.layers, gathered.vacant
    loaded = Loaded(found, made.profile, document, label, problems, layers, document.root, vacant)
    if cache is None or problems:
        return _Inspection(loaded, problems, gathered.parts)
    return _Inspection(loaded, problems, gathered.parts, _kept(cache, loaded, gathered.parts, document))


def _kept(cache: Path, loaded: Loaded, parts: tuple[ParsedLayer, ...], document: "Document") -> tuple[Problem, ...]:
    """Cache the profile, unless its text contains a credential, since caches get copied. Returns its credentials."""
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
    """Mask credentials that problems quote: one may stand where another value belongs."""
    if not problems:
        return ()
    from acp_launch.secret.detect import masked

    return tuple(
        each._replace(path=masked(each.path), message=masked(each.message), fix=masked(each.fix)) for each in problems
    )


# The cache of profiles without problems; see `document.cache`. An entry is used only if `gather` finds the same files
# again, each with the same text. So a new file where a parent is searched, an overlay, or a changed link is a miss.
Table = dict[KeyPath, tuple[str, int, int, int, int, int | None]]  # as document.yaml.Places
CODE = ("profile/*.py", *(f"secret/{name}.py" for name in ("reference", "detect", "value")))


class CachedPositions(Struct, frozen=True):
    """The places of the values of a cached profile; answers as its `Document` did."""

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
    """The cache entry of a profile without problems. `leaks` are warnings of `validate`."""

    profile: Profile
    positions: CachedPositions
    merged: Mapping[str, Plain]
    leaks: tuple[Problem, ...]
    layers: tuple[Layer, ...] = ()
    vacant: tuple[Path, ...] = ()


def recall(directory: Path, found: Found) -> CachedProfile | None:
    """Return the cached profile; None for a miss."""
    return _json_cache(directory).recall(found.file, _written(found.file), partial(_restored, found))


def keep(directory: Path, found: Found, parts: Sequence[ParsedLayer], known: CachedProfile) -> None:
    """Cache a profile, if the directory is writable. Files are numbered in the entry, because their names in messages
    depend on the working directory."""
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
    """Convert a path to text that JSON can hold, for comparison; a file's name may not be valid text."""
    return ascii(str(file))


def _json_cache(directory: Path) -> JsonCache:
    return JsonCache(directory / "profiles", CODE)


def _restored(found: Found, answer: Any) -> CachedProfile:
    """Rebuild a cached profile. Raises what `JsonCache.recall` takes for a miss."""
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
    positions = CachedPositions(table)
    return CachedProfile(profile, positions, answer["merged"], leaks, gathered.layers, gathered.vacant)
