"""
A found file becomes a checked profile, or one error with every Problem.

`Loaded` needs no more than the profile and a way to look up lines, so that validated profiles can be kept and used
again without parsing: what parses, checks and examines is imported where it is needed.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, structs

from acp_launch.document.keypath import KeyPath, dotted
from acp_launch.errors import ProfileError
from acp_launch.problem import Problem, errors
from acp_launch.profile.discover import Found
from acp_launch.profile.model import Profile

if TYPE_CHECKING:
    from acp_launch.document.tree import Document


class Positions(Protocol):
    """Where each value of a profile is written."""

    def locate(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> tuple[int, int]:
        """See `Document.locate`."""


class Loaded(Struct, frozen=True):
    """`problems` are warnings; `label` is the file as messages name it."""

    found: Found
    profile: Profile
    positions: Positions
    label: str
    problems: tuple[Problem, ...] = ()


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
    """The same for `validate`: whatever looks like a credential is a problem too, even if the profile is usable."""
    seen = _seen(found, cache)
    return seen.loaded, _in_order((*seen.problems, *(_credentials(seen) if seen.leaks is None else seen.leaks)))


class _Seen(Struct, frozen=True):
    """What became of a file: no text when it cannot be read; no document when it is no mapping, or was known; no leaks
    when nobody has looked for them yet."""

    label: str
    loaded: Loaded | None = None
    problems: tuple[Problem, ...] = ()
    text: str = ""
    document: "Document | None" = None
    leaks: tuple[Problem, ...] | None = None

    @property
    def values(self) -> tuple[Mapping[str, Any], Positions] | None:
        """What the file says, as far as it says anything."""
        if self.loaded:
            return asdict(self.loaded.profile), self.loaded.positions
        return (self.document.root, self.document) if self.document else None


def _seen(found: Found, cache: Path | None) -> _Seen:
    label = shown(found.file)
    text, problems = read(found.file)
    if text is None:
        return _Seen(label, None, tuple(problems))
    if cache is None:
        return _checked(found, text, label, None)
    from acp_launch.profile.cache import recall

    known = recall(cache, found.file, text)
    if known is None:
        return _checked(found, text, label, cache)
    return _Seen(label, Loaded(found, *known, label), (), text)


def _checked(found: Found, text: str, label: str, cache: Path | None) -> _Seen:
    from acp_launch.document.tree import parse
    from acp_launch.profile.check import check

    document, problems = parse(text, label)
    if document is None:
        return _Seen(label, None, _discreet(problems), text)
    checked = check(document)
    everything = _discreet(_in_order((*problems, *checked.problems)))
    if checked.profile is None or errors(everything):
        return _Seen(label, None, everything, text, document)
    seen = _Seen(label, Loaded(found, checked.profile, document, label, everything), everything, text, document)
    if cache is None or everything:
        return seen
    leaks = _credentials(seen)
    if not errors(leaks):
        from acp_launch.profile.cache import keep  # never a text that gives a credential away: caches are copied

        keep(cache, found.file, text, checked.profile, document.places())
    return structs.replace(seen, leaks=leaks)


def _in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))


def _discreet(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Without the credentials they quote: a person may have written one where something else belongs."""
    if not problems:
        return ()
    from acp_launch.secret.credential import masked

    return tuple(
        replace(each, path=masked(each.path), message=masked(each.message), fix=masked(each.fix)) for each in problems
    )


def _credentials(seen: _Seen) -> tuple[Problem, ...]:
    return (*_leaks(seen), *_strays(seen))


def _leaks(seen: _Seen) -> Iterator[Problem]:
    if seen.values is None:
        return
    from acp_launch.profile.leaks import leaks
    from acp_launch.secret.credential import masked

    root, positions = seen.values
    for leak in leaks(root):
        line, column = positions.locate(leak.path, offset=leak.offset)
        yield Problem(seen.label, line, column, masked(dotted(leak.path)), leak.message, leak.fix, leak.severity)


def _strays(seen: _Seen) -> Iterator[Problem]:
    from acp_launch.profile.leaks import strays

    text = seen.text.removeprefix("\ufeff")  # as `parse` counts
    for (line, column), stray in strays(text, _told(seen)):
        yield Problem(seen.label, line, column, "", stray.message, stray.fix, stray.severity)


def _told(seen: _Seen) -> Iterator[tuple[tuple[int, int], int, str]]:
    """The literals that `_leaks` speaks of."""
    if seen.values is None:
        return
    from acp_launch.profile.leaks import literals

    root, positions = seen.values
    for path, offset, literal in literals(root):
        yield positions.locate(path, offset=offset), offset, literal


def read(file: Path) -> tuple[str | None, list[Problem]]:
    """The file's text, or why there is none."""
    from acp_launch.document.source import MAX_SIZE, decode

    try:
        if not file.is_file():
            return None, [_not_a_file(file)]
        with file.open("rb") as stream:
            content = stream.read(MAX_SIZE + 1)  # one more than allowed, so that `decode` sees it is too long
    except OSError as fault:
        return None, [Problem(shown(file), 0, 0, "", f"cannot be read: {fault.strerror or fault}", "")]
    return decode(content, shown(file))


def _not_a_file(file: Path) -> Problem:
    if file.is_dir():
        return Problem(shown(file), 0, 0, "", "this is a directory, not a profile", "name a .yaml file in it")
    if file.exists():
        return Problem(shown(file), 0, 0, "", "this is not a regular file", "copy it into one")
    return Problem(shown(file), 0, 0, "", "no such file", "acp-launch list shows the profiles there are")


def shown(file: Path) -> str:
    """Relative to the working directory when it is below it, as compilers print it."""
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):  # the working directory is gone; another drive on Windows
        return str(file)
    return str(file) if relative.startswith("..") else relative
