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

from msgspec import Struct

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
    loaded, problems, _ = _inspected(found, cache)
    return loaded, problems


def examine(found: Found, *, cache: Path | None = None) -> tuple[Loaded | None, tuple[Problem, ...]]:
    """The same for `validate`: literals that look like credentials are problems too, even if the profile is usable."""
    loaded, problems, document = _inspected(found, cache)
    if loaded:
        return loaded, _in_order((*problems, *_leaks(asdict(loaded.profile), loaded.positions, loaded.label)))
    if document:
        problems = _in_order((*problems, *_leaks(document.root, document, document.file)))
    return None, problems


def _inspected(found: Found, cache: Path | None) -> "tuple[Loaded | None, tuple[Problem, ...], Document | None]":
    """The document is for who looks at a profile that cannot be used; there is none when the text is no mapping."""
    label = shown(found.file)
    text, problems = read(found.file)
    if text is None:
        return None, tuple(problems), None
    if cache is None:
        return _checked(found, text, label, None)
    from acp_launch.profile.cache import recall

    known = recall(cache, found.file, text)
    if known is None:
        return _checked(found, text, label, cache)
    return Loaded(found, *known, label), (), None


def _checked(
    found: Found, text: str, label: str, cache: Path | None
) -> "tuple[Loaded | None, tuple[Problem, ...], Document | None]":
    from acp_launch.document.tree import parse
    from acp_launch.profile.check import check

    document, problems = parse(text, label)
    if document is None:
        return None, _discreet(problems), None
    checked = check(document)
    everything = _discreet(_in_order((*problems, *checked.problems)))
    if checked.profile is None or errors(everything):
        return None, everything, document
    if cache is not None and not everything:
        from acp_launch.profile.cache import keep

        keep(cache, found.file, text, checked.profile, document.places())
    return Loaded(found, checked.profile, document, label, everything), everything, document


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


def _leaks(root: Mapping[str, Any], positions: Positions, label: str) -> Iterator[Problem]:
    from acp_launch.profile.leaks import leaks
    from acp_launch.secret.credential import masked

    for leak in leaks(root):
        line, column = positions.locate(leak.path, offset=leak.offset)
        yield Problem(label, line, column, masked(dotted(leak.path)), leak.message, leak.fix, leak.severity)


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
