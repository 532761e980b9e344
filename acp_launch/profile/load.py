"""
Loading of a profile: a found file becomes a `Loaded` profile, or one error with every Problem.

Profiles without problems are cached with the place of every value, so a later start needs no parser: the modules that
parse, check and look for credentials are imported only on a miss.
"""

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace as with_

from acp_launch.document.cache import JsonCache
from acp_launch.document.nodes import Plain, Positions, Table, shorten
from acp_launch.document.shape import build
from acp_launch.errors import ProfileError
from acp_launch.problem import Problem, about, did_you_mean, errors, likeliest, ours
from acp_launch.profile import discover
from acp_launch.profile.discover import PARENT, Found, Origin, read, shown
from acp_launch.profile.layers import EXTENDS, Extends, Layer, LayerSet, ParsedLayer, ordered
from acp_launch.profile.lockfile import Lock
from acp_launch.profile.lockfile import read as read_lock
from acp_launch.profile.model import Profile
from acp_launch.profile.values import LITERAL
from acp_launch.settings.load import grounds, lies_in
from acp_launch.waits import reading

__all__ = ["Loaded", "examine", "inspect", "inspect_all", "load", "read", "shown"]


MAX_PARSED = 500  # profiles of a project that a list parses, in four seconds
MAX_PARSED_TEXT = 2 * 1024 * 1024  # characters of them, with all that they extend, in three
UNREAD = "it was not read, as the profiles of this project are too many or too large for a list"


class Loaded(Struct, frozen=True):
    """
    A checked profile. `problems` are warnings; `label` is the file's name in messages.

    `layers` are all files of the profile in merge order, as they were read: parents, the profile itself, its overlay.
    `merged` is their merged content, without `extends`, before references are filled in. A file at one of the
    `absent_paths` would be one of them.
    """

    found: Found
    profile: Profile
    positions: Positions
    label: str
    problems: tuple[Problem, ...] = ()
    layers: tuple[Layer, ...] = ()
    merged: Mapping[str, Plain] = {}
    absent_paths: tuple[Path, ...] = ()
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


def inspect_all(
    everything: Iterable[Found], *, cache: Path | None = None
) -> list[tuple[Found, Loaded | None, tuple[Problem, ...]]]:
    """Inspect the profiles of a list. Of a project's, which anyone may have written, it parses no more than the limits
    allow (`MAX_PARSED`, `MAX_PARSED_TEXT`); the problem of each other one that is not cached says so."""
    entries = []
    files = characters = 0
    for found in everything:
        parses = found.origin != "project" or (files < MAX_PARSED and characters < MAX_PARSED_TEXT)
        seen = _inspection(found, cache, parses=parses)
        if found.origin == "project" and parses and not seen.is_recalled:
            files, characters = files + 1, characters + sum(len(part.layer.text) for part in seen.parsed_layers)
        entries.append((found, seen.loaded, seen.problems))
    return entries


def is_unread(problems: Sequence[Problem]) -> bool:
    """Whether these are the problems of a profile that `inspect_all` has not read."""
    return [each.message for each in problems] == [UNREAD]


def examine(found: Found, *, cache: Path | None = None) -> tuple[Loaded | None, tuple[Problem, ...]]:
    """Load for `validate`: text that looks like a credential is a problem too, even if the profile is usable. In a file
    that is only a parent of others, a missing key is not a problem."""
    seen = _inspection(found, cache)
    leaks = seen.leaks
    if leaks is None:
        from acp_launch.profile.check import exposed

        leaks = exposed(seen.parsed_layers)
    told = {(each.file, each.line, each.column) for each in seen.problems if each.message == LITERAL}
    leaks = tuple(each for each in leaks if (each.file, each.line, each.column) not in told)
    problems = ordered((*seen.problems, *leaks), (part.layer for part in seen.parsed_layers))
    if found.file.name.startswith(PARENT):
        from acp_launch.profile.check import ADD

        problems = tuple(problem for problem in problems if not problem.fix.startswith(ADD))
    return seen.loaded, problems


class Inspection(Struct, frozen=True):
    """The result of loading. `parsed_layers` are the files that could be read; `leaks` is None if not looked for."""

    loaded: Loaded | None = None
    problems: tuple[Problem, ...] = ()
    parsed_layers: tuple[ParsedLayer, ...] = ()
    leaks: tuple[Problem, ...] | None = None
    is_recalled: bool = False


def _inspection(found: Found, cache: Path | None, *, parses: bool = True) -> Inspection:
    if cache is not None and _is_foreign(cache, found.project):
        cache = None  # the project could have written the entry
    seen = read_cache(cache, found) if cache is not None else None
    if seen is None and not parses:
        return Inspection(problems=(about(shown(found.file), UNREAD, ours("validate", found.called)),))
    seen = seen or _parse(found, cache)
    lock, problems = read_lock(found)
    if problems:
        return with_(seen, loaded=None, problems=(*seen.problems, *problems))
    return with_(seen, loaded=with_(seen.loaded, lock=lock)) if seen.loaded and lock is not None else seen


@functools.cache
def _is_foreign(cache: Path, project: Path) -> bool:
    return lies_in(cache, grounds(project))


def _parse(found: Found, cache: Path | None) -> Inspection:
    from acp_launch.profile.check import merge_layers, parse_layer

    def parse_in_time(layer: Layer) -> ParsedLayer:
        with reading.step(layer.label):
            return parse_layer(layer)

    gathered = gather(found, parse_in_time)
    layers, label = gathered.layers, shown(found.file)
    document, profile, said = merge_layers(gathered)
    problems = tuple(map(make_discreet, ordered(said, layers)))
    if profile is None or document is None or errors(problems):
        return Inspection(None, problems, gathered.parsed_layers)
    loaded = Loaded(found, profile, document.positions, label, problems, layers, document.root, gathered.absent_paths)
    if cache is None or problems:
        return Inspection(loaded, problems, gathered.parsed_layers)
    return Inspection(
        loaded, problems, gathered.parsed_layers, _keep_unless_leaky(cache, loaded, gathered.parsed_layers)
    )


def _keep_unless_leaky(cache: Path, loaded: Loaded, parts: tuple[ParsedLayer, ...]) -> tuple[Problem, ...]:
    """Cache the profile, unless its text contains a credential, since caches get copied. Returns its credentials."""
    from acp_launch.profile.check import exposed

    leaks = exposed(parts)
    if not errors(leaks):
        write_cache(cache, loaded, parts, leaks)
    return leaks


def make_discreet(problem: Problem) -> Problem:
    """Mask credentials that a problem quotes: one may stand where another value belongs."""
    from acp_launch.secret.detect import masked

    path, message, fix = map(masked, (problem.path, problem.message, problem.fix))
    return problem._replace(path=path, message=message, fix=fix)


# The cache of profiles without problems; see `document.cache`. An entry is used only if `gather` finds the same files
# again, each with the same text. So a new file where a parent is searched, an overlay, or a changed link is a miss.
CODE = ("profile/*.py", *(f"secret/{name}.py" for name in ("reference", "detect", "value")))


def read_cache(directory: Path, found: Found) -> Inspection | None:
    """Return the cached profile; None for a miss."""
    return _json_cache(directory).read(found.file, _path_text(found.file), partial(_restore, found))


def write_cache(directory: Path, loaded: Loaded, parts: Sequence[ParsedLayer], leaks: Iterable[Problem]) -> None:
    """Cache a profile, if the directory is writable. `leaks` are warnings of `validate`. Files are numbered in the
    entry, because their names in messages depend on the working directory."""
    labels = {part.layer.label: index for index, part in enumerate(parts)}
    answer = {
        "parts": [
            [_path_text(part.layer.file), part.layer.text, [each.entry for each in part.extends]] for part in parts
        ],
        "merged": loaded.merged,
        "places": [[list(path), labels[file], *rest] for path, (file, *rest) in loaded.positions.table.items()],
        "leaks": [[labels[leak.file], {**leak.as_json(), "file": ""}] for leak in leaks],
    }
    _json_cache(directory).write(loaded.found.file, _path_text(loaded.found.file), answer)


def _path_text(file: Path) -> str:
    """Convert a path to text that JSON can hold, for comparison; a file's name may not be valid text."""
    return ascii(str(file))


@functools.cache
def _json_cache(directory: Path) -> JsonCache:
    return JsonCache(directory / "profiles", CODE)


def _restore(found: Found, answer: Any) -> Inspection:
    """Rebuild a cached profile. Raises what `JsonCache.recall` takes for a miss."""
    texts = {file: (text, entries) for file, text, entries in answer["parts"]}

    def known(layer: Layer) -> ParsedLayer:
        text, entries = texts[_path_text(layer.file)]
        if text != layer.text:
            raise ValueError("another text")
        return ParsedLayer(layer, tuple(Extends(entry) for entry in entries))

    gathered = gather(found, known)
    layers, merged = gathered.layers, answer["merged"]
    if gathered.problems or [_path_text(layer.file) for layer in layers] != list(texts):
        raise ValueError("other files")
    labels = [layer.label for layer in layers]
    table: Table = {tuple(path): (labels[file], *rest) for path, file, *rest in answer["places"]}
    if () not in table:
        raise ValueError("no places")
    leaks = tuple(Problem(**{**leak, "file": labels[index]}) for index, leak in answer["leaks"])
    profile, positions = build(Profile, merged), Positions(table)
    loaded = Loaded(found, profile, positions, shown(found.file), (), layers, merged, gathered.absent_paths)
    return Inspection(loaded, (), tuple(map(ParsedLayer, layers)), leaks, is_recalled=True)


# The files of a profile in merge order: its parents, itself, and the user's overlay. `gather` reads them.
#
# Parents come before their children, one list from left to right. A file that several profiles extend is
# merged once, at its first place, so nothing that one parent changes is undone because another extends the same file.
#
# A name is resolved from the directory of the file that contains it, and never means that file itself; `discover`
# knows the places. A file of a project cannot lead out of the project, by its path or by a link. Each file is read
# once: the text that is checked, cached, and shown for a decision about trust is the text that was read here.


MAX_FILES = 64  # without the overlay
MAX_TEXT = 1024 * 1024  # characters in all files together, which take seconds to parse
MAX_VALUES = 20_000  # in all files together after alias expansion; a profile of a thousand servers has as many
MAX_PROBLEMS = 100  # entries that cannot be followed; after that the walk ends

ParseLayer = Callable[[Layer], ParsedLayer]


def gather(found: Found, parse_layer: ParseLayer) -> LayerSet:
    """Read the profile and all files that belong to it; `parse_layer` parses each text."""
    walk = _Walk(found, parse_layer)
    walk.profile()
    parts = walk.parsed_layers
    if len(parts) > 1:  # a list of profiles asks the kernel for few paths
        parts = [with_(part, real=os.path.realpath(part.layer.file)) for part in parts]
    return LayerSet(tuple(parts), tuple(walk.problems), tuple(walk.absent_paths))


class _Walk(Struct):
    """A depth-first walk. `trail` holds the files from the profile to the present one: real paths and labels."""

    found: Found
    parse_layer: ParseLayer
    parsed_layers: list[ParsedLayer] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    absent_paths: list[Path] = field(default_factory=list)
    trail: dict[str, str] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    files: int = 0
    characters: int = 0
    values: int = 0
    full: bool = False

    def profile(self) -> None:
        file = self.found.file
        text, problems = read(file)
        self.problems += problems
        if text is None:
            return
        origin = discover.origin_of(file, self.found.origin, user=self.found.user)
        self._visit(Layer(file=file, origin=origin, role="profile", label=shown(file), text=text))
        if origin != "built-in":
            self._overlay(origin)

    def _overlay(self, origin: Origin) -> None:
        """Read the overlay. One that exists must be readable, since the user would not notice that it was skipped."""
        file = self.found.file
        for suffix in discover.SUFFIXES:
            overlay = Path(f"{str(file).removesuffix(file.suffix)}{discover.OVERLAY}{suffix}")
            if not os.path.lexists(overlay):
                self.absent_paths.append(overlay)
                continue
            outside = _outside(overlay, file) if _is_bounded(origin) else None
            text, problems = (None, [about(shown(overlay), *outside)]) if outside else read(overlay)
            self.problems += problems
            if text is not None:
                layer = Layer(file=overlay, origin=origin, role="overlay", label=shown(overlay), text=text)
                below = (os.path.realpath(file),)
                self.parsed_layers.append(with_(self.parse_layer(layer), parents=below))

    def _visit(self, layer: Layer) -> None:
        part = self.parse_layer(layer)
        self.files += 1
        self.characters += len(layer.text)
        self.values += part.document.tree.size if part.document else 0
        if part.extends:
            real, parents = os.path.realpath(layer.file), list[str]()
            self.done.add(real)
            self.trail[real] = layer.label
            for extends in part.extends:
                if not self.full:
                    parents.append(self._follow(layer, extends))
            del self.trail[real]
            part = with_(part, parents=tuple(parents))
        self.parsed_layers.append(part)

    def _follow(self, child: Layer, extends: Extends) -> str:
        """Read a parent, unless it was read before; return its real path, empty if there is none."""
        target = self._target(child, extends)
        if target is None:
            return ""
        file, origin = target
        real = os.path.realpath(file)
        if real in self.trail:
            chain = " → ".join([*self.trail.values(), self.trail[real]])
            self._refuse(extends, f"this profile extends itself: {chain}", "remove one of these entries")
        elif real not in self.done and not self._is_too_much(extends):
            text, problems = read(file)
            for problem in problems:
                if problem.line:
                    self.problems.append(problem)
                else:
                    self._refuse(extends, f"{problem.file}: {problem.message}", problem.fix)
            if text is not None:
                self.done.add(real)
                self._visit(Layer(file=file, origin=origin, role="parent", label=shown(file), text=text))
        return real

    def _is_too_much(self, extends: Extends) -> bool:
        """Whether a limit is reached, which ends the walk."""
        self.full = self.files >= MAX_FILES or self.characters > MAX_TEXT or self.values > MAX_VALUES
        if self.full:
            most = f"{MAX_FILES} files, {MAX_TEXT // 1024} KiB and {MAX_VALUES:,} values"
            what = f"this profile extends too much: at most {most} are allowed in all"
            self._refuse(extends, what, "extend fewer or smaller files")
        return self.full

    def _target(self, child: Layer, extends: Extends) -> tuple[Path, Origin] | None:
        """Return the file that an entry means; None if there is a problem, which is recorded."""
        if extends.entry.startswith("."):
            return self._at_path(child, extends)
        nearer = list[Path]()
        for file, origin in discover.candidates(extends.entry, child.file, user=self.found.user):
            if not os.path.isfile(file):  # noqa: PTH113 - Path.is_file raises in a directory we may not enter
                nearer.append(file)
            elif _is_bounded(origin) and (outside := _outside(file, file)):
                self._refuse(extends, *outside)
                return None
            else:
                self.absent_paths += nearer
                return file, origin
        self._refuse(extends, *self._unknown(child, extends.entry))
        return None

    def _at_path(self, child: Layer, extends: Extends) -> tuple[Path, Origin] | None:
        file = Path(os.path.normpath(child.file.parent / extends.entry))
        outside = _outside(file, child.file) if _is_bounded(child.origin) else None
        if outside or not os.path.lexists(file):
            self._refuse(extends, *(outside or self._no_file(extends.entry, file)))
            return None
        otherwise: Origin = "project" if child.origin == "project" else "path"
        return file, discover.origin_of(file, otherwise, user=self.found.user)

    def _no_file(self, entry: str, file: Path) -> tuple[str, str]:
        suffix = next((suffix for suffix in discover.SUFFIXES if os.path.lexists(f"{file}{suffix}")), "")
        fix = f"write {entry}{suffix}" if suffix else "correct the path; it is relative to this file"
        return f'cannot find the file "{shorten(entry)}" to extend', fix

    def _unknown(self, child: Layer, name: str) -> tuple[str, str]:
        names = discover.names_within_reach(child.file, user=self.found.user)
        nearest = likeliest(name, names)
        known = f"use one of {discover.join_names(names)}; or ./NAME.yaml for a file beside this one"
        fix = f"write {nearest}" if nearest else known
        return f'no profile named "{shorten(name)}" to extend{did_you_mean(name, names)}', fix

    def _refuse(self, extends: Extends, message: str, fix: str) -> None:
        self.problems.append(extends.place.problem(EXTENDS, message, fix))
        self.full = self.full or len(self.problems) >= MAX_PROBLEMS


def _is_bounded(origin: Origin) -> bool:
    """Whether files of this origin must stay in their project. They are untrusted; the user's own may lead anywhere."""
    return origin in ("project", "path")


def _outside(file: Path, start: Path) -> tuple[str, str] | None:
    """Say why `file` cannot be used; None if it lies in the project of `start`."""
    project, real = os.path.realpath(discover.boundary(start)), os.path.realpath(file)
    if Path(real).is_relative_to(project):
        return None
    return f"{shown(file)} leads out of the project: {real} is not below {project}", "copy it into the project"
