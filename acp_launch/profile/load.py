"""
A found file becomes a checked profile, or one error with every Problem.

`Loaded` needs no more than the profile and a way to look up lines, so that validated profiles can be kept and used
again without parsing: what parses, checks and examines is imported where it is needed.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from acp_launch.document.keypath import KeyPath
from acp_launch.document.nodes import Place, Plain
from acp_launch.errors import ProfileError
from acp_launch.problem import Problem, errors
from acp_launch.profile.discover import PARENT, Found
from acp_launch.profile.layers import Layer, Part, ordered
from acp_launch.profile.model import Profile
from acp_launch.profile.reading import reading
from acp_launch.profile.text import read, shown
from acp_launch.settings.grounds import grounds, lies_in

if TYPE_CHECKING:
    from acp_launch.document.tree import Document

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
    seen = _seen(found, cache)
    return seen.loaded, seen.problems


def examine(found: Found, *, cache: Path | None = None) -> tuple[Loaded | None, tuple[Problem, ...]]:
    """The same for `validate`: whatever looks like a credential is a problem too, even if the profile is usable. A file
    that is only there to be extended lacks nothing, whatever it lacks."""
    seen = _seen(found, cache)
    leaks = seen.leaks
    if leaks is None:
        from acp_launch.profile.exposed import exposed

        leaks = exposed(seen.parts)
    problems = ordered((*seen.problems, *leaks), (part.layer for part in seen.parts))
    if found.file.name.startswith(PARENT):
        from acp_launch.profile.understand import ADD

        problems = tuple(problem for problem in problems if not problem.fix.startswith(ADD))
    return seen.loaded, problems


class _Seen(Struct, frozen=True):
    """What became of a profile: `parts` are its files as far as they can be read; no leaks when nobody has looked for
    them yet."""

    loaded: Loaded | None = None
    problems: tuple[Problem, ...] = ()
    parts: tuple[Part, ...] = ()
    leaks: tuple[Problem, ...] | None = None


def _seen(found: Found, cache: Path | None) -> _Seen:
    if cache is not None and lies_in(cache, grounds(found.project)):
        cache = None  # an entry says what a text means, and this one may be of somebody's making
    if cache is not None:
        from acp_launch.profile.cache import recall

        if known := recall(cache, found):
            label, layers = shown(found.file), known.layers
            loaded = Loaded(found, known.profile, known.positions, label, (), layers, known.merged)
            return _Seen(loaded, (), tuple(map(Part, layers)), known.leaks)
    return _anew(found, cache)


def _anew(found: Found, cache: Path | None) -> _Seen:
    with reading.file(shown(found.file)):
        return _understood(found, cache)


def _understood(found: Found, cache: Path | None) -> _Seen:
    from acp_launch.profile.gather import gather
    from acp_launch.profile.understand import together, understand

    gathered = gather(found, understand)
    made = together(gathered)
    problems = _discreet(ordered(made.problems, gathered.layers))
    if made.profile is None or made.document is None or errors(problems):
        return _Seen(None, problems, gathered.parts)
    document, label = made.document, shown(found.file)
    loaded = Loaded(found, made.profile, document, label, problems, gathered.layers, document.root)
    if cache is None or problems:
        return _Seen(loaded, problems, gathered.parts)
    return _Seen(loaded, problems, gathered.parts, _kept(cache, loaded, gathered.parts, document))


def _kept(cache: Path, loaded: Loaded, parts: tuple[Part, ...], document: "Document") -> tuple[Problem, ...]:
    """Remember the profile, but never a text that gives a credential away: caches are copied. The credentials."""
    from acp_launch.profile.cache import Known, Written, keep
    from acp_launch.profile.exposed import exposed

    leaks = exposed(parts)
    if not errors(leaks):
        keep(cache, loaded.found, parts, Known(loaded.profile, Written(document.places()), loaded.merged, leaks))
    return leaks


def _discreet(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Without the credentials they quote: a person may have written one where something else belongs."""
    if not problems:
        return ()
    from acp_launch.secret.credential import masked

    return tuple(
        each._replace(path=masked(each.path), message=masked(each.message), fix=masked(each.fix)) for each in problems
    )
