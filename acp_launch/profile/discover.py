"""
The search for a profile by its name (docs/profiles.md "Where profiles are found"). The first hit wins:

    a path (has a separator, or ends in .yaml or .yml)
    .acp-launch/NAME.yaml in the working directory and each parent up to the repository root
    profiles/NAME.yaml in the user's configuration directory
    the built-in profiles

A profile that another one extends is searched the same way, but from the directory of that other profile, so it means
the same wherever the command is typed. NAME.local.yaml is the overlay of NAME and not a profile; _NAME.yaml is only a
parent of other profiles, and is not listed. `find` does not check that a path exists; `read` does, and returns the
text of a file.
"""

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

import acp_launch
from acp_launch.document.nodes import MAX_SIZE, decode
from acp_launch.errors import StateError, UsageError
from acp_launch.problem import Problem, about, did_you_mean, ours
from acp_launch.settings.model import Settings

# ruff: noqa: PTH110, PTH112, PTH113 - in a directory we may not enter, `exists` and its like of pathlib raise
# Flags that open a file without waiting, also if it is a pipe.
_SAFELY = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def read(file: Path) -> tuple[str | None, list[Problem]]:
    """Read a profile's file; None and the problem if that fails."""
    try:
        if not file.is_file():
            return None, [_not_a_file(file)]
        with open(os.open(file, _SAFELY), "rb") as stream:  # noqa: PTH123 - a pipe put in its place would not block
            content = stream.read(MAX_SIZE + 1) or b""  # one more than allowed, so that `decode` sees it is too long
    except OSError as fault:
        return None, [about(shown(file), f"cannot be read: {fault.strerror or fault}")]
    return decode(content, shown(file))


def _not_a_file(file: Path) -> Problem:
    if file.is_dir():
        return about(shown(file), "this is a directory, not a profile", "name a .yaml file in it")
    if file.exists():
        return about(shown(file), "this is not a regular file", "copy it into one")
    return about(shown(file), "no such file", "acp-launch list shows all profiles")


def shown(file: Path) -> str:
    """Name a file for messages: relative to the working directory if it lies below it."""
    try:
        below = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - a list asks for each of its profiles
    except OSError:  # the working directory is gone
        return str(file)
    path = os.path.abspath(file)  # noqa: PTH100
    return path[len(below) :] or "." if os.path.join(path, "").startswith(below) else str(file)  # noqa: PTH118


HOLDER = ".acp-launch"
SUFFIXES = (".yaml", ".yml")
LOCK = "lock.yaml"  # of a project, and not a profile
OVERLAY = ".local"  # ends the stem of a file that overlays the profile next to it
MAX_NAMED = 50  # profiles in a message
PARENT = "_"  # begins the name of a file that is only a parent of other profiles
Origin = Literal["path", "project", "user", "built-in"]


class Found(Struct, frozen=True):
    """
    A profile's file. `project` is the value of `${project}`; `shadowed_by` is the file that wins over this one; `user`
    is the directory of the user's own profiles, where the names that this one extends are searched too.
    """

    name: str
    file: Path
    project: Path
    origin: Origin
    shadowed_by: Path | None = None
    user: Path | None = None

    @property
    def called(self) -> str:
        """How a command names it: by its name, or by its path if the name does not lead to it."""
        return shown(self.file) if self.origin == "path" else self.name


def here() -> Path:
    """Return the current directory.

    Raises:
        StateError: it no longer exists.
    """
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise StateError("the directory you are in no longer exists", fix="cd somewhere else") from None


def find(name: str, *, start: Path, settings: Settings) -> Found:
    """Find a profile by its name or path. `start` is the directory the command was typed in.

    Raises:
        UsageError: there is no such profile. The error lists the places and the known names.
    """
    if not name or "\0" in name:
        raise UsageError("the profile's name is empty", fix="acp-launch list")
    if overlaid := overlaid_by(name):
        raise UsageError(f'"{name}" is an overlay, not a profile', fix=f"name the profile: {overlaid}")
    user = users(settings)
    if "/" in name or os.sep in name or name.endswith(SUFFIXES):
        path = Path(os.path.normpath(start / os.path.expanduser(name)))  # noqa: PTH111 - pathlib raises
        return replace(_at_path(path), user=user)
    for directory, origin, project in _places(start, user):
        if file := _file_of(directory, name):
            return Found(name, file, project, origin, user=user)
    raise _unknown(name, start, settings)


def users(settings: Settings) -> Path:
    """Return the directory of the user's own profiles."""
    return settings.config / "profiles"


def overlaid_by(name: str) -> str:
    """Return the profile that an overlay belongs to, given the overlay's name or path; empty for any other name."""
    stem = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
    overlaid = stem.removesuffix(OVERLAY)
    return "" if overlaid == stem else f"{overlaid}{name[len(stem) :]}"


def candidates(name: str, file: Path, *, user: Path | None) -> Iterator[tuple[Path, Origin]]:
    """Yield the paths that `name` can mean in `file`, nearest first; never `file` itself."""
    real = os.path.realpath(file)
    for directory, origin in within_reach(file, user=user):
        for suffix in SUFFIXES:
            other = directory / f"{name}{suffix}"
            if os.path.realpath(other) != real:
                yield other, origin


def within_reach(file: Path, *, user: Path | None) -> Iterator[tuple[Path, Origin]]:
    """Yield the directories whose profiles a file may name, nearest first. The user's own never name a project's."""
    origin = origin_of(file, "path", user=user)
    if origin == "path":
        yield from ((directory / HOLDER, "project") for directory in _upwards(_project_of(file)))
    if origin != "built-in" and user is not None:
        yield user, "user"
    yield built_in(), "built-in"


def origin_of(file: Path, otherwise: Origin, *, user: Path | None) -> Origin:
    """Return the origin of a file by its path; `otherwise` if it is neither the user's nor built in."""
    path = str(file)  # `is_relative_to` takes ten times as long, and a list asks for each of its profiles
    if user is not None and path.startswith(f"{user}{os.sep}"):
        return "user"
    return "built-in" if path.startswith(f"{built_in()}{os.sep}") else otherwise


def boundary(file: Path) -> Path:
    """Return the directory that a project's file must not leave: its repository, else its project."""
    return repository_of(file.parent) or project_of(_project_of(file))


def repository_of(directory: Path) -> Path | None:
    """Return the repository a directory belongs to; None if it is not in one."""
    return next(filter(_is_repository, (directory, *directory.parents)), None)


def names_within_reach(file: Path, *, user: Path | None) -> list[str]:
    """List the names that a file could extend."""
    reached = within_reach(file, user=user)
    return sorted({each.stem for directory, _ in reached for each in _profiles(directory) if each != file})


def join_names(names: Sequence[str]) -> str:
    """Join the names of profiles for a message; a project may have thousands."""
    more = f", or {len(names) - MAX_NAMED:,} more that acp-launch list shows" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _project_of(file: Path) -> Path:
    return file.parent.parent if file.parent.name == HOLDER else file.parent


def _file_of(directory: Path, name: str) -> Path | None:
    files = (directory / f"{name}{suffix}" for suffix in SUFFIXES)
    return next((file for file in files if os.path.isfile(file) and not _is_lock(file)), None)


def _is_lock(file: Path) -> bool:
    return file.name == LOCK and file.parent.name == HOLDER


def parents(*, start: Path, settings: Settings) -> list[Found]:
    """List the files near `start` that are only parents of other profiles."""
    return [found for found in _everything(start, settings) if found.name.startswith(PARENT)]


def discover(*, start: Path, settings: Settings) -> list[Found]:
    """List every profile that can be named from `start`, the nearest first, including shadowed ones."""
    everything = [found for found in _everything(start, settings) if not found.name.startswith(PARENT)]
    winners = {found.name: found.file for found in reversed(everything)}
    return [
        found if winners[found.name] == found.file else replace(found, shadowed_by=winners[found.name])
        for found in everything
    ]


def _everything(start: Path, settings: Settings) -> Iterator[Found]:
    user = users(settings)
    for directory, origin, project in _places(start, user):
        yield from (Found(file.stem, file, project, origin, user=user) for file in _profiles(directory))


def project_of(start: Path) -> Path:
    """Return the project of a directory: its nearest parent that holds `.acp-launch` or a repository, else itself."""
    for directory in _upwards(start):
        if os.path.isdir(directory / HOLDER) or _is_repository(directory):
            return directory
    return start


@cache
def built_in() -> Path:
    """Return the directory of the built-in profiles: in the installed package, or next to it in a checkout."""
    package = Path(acp_launch.__file__).parent
    installed = package / "profiles"
    return installed if installed.is_dir() else package.parent / "profiles"


def _at_path(file: Path) -> Found:
    if file.parent.name == HOLDER:
        return Found(file.stem, file, _project_of(file), "path")
    return Found(file.stem, file, repository_of(file.parent) or file.parent, "path")


def _places(start: Path, user: Path) -> Iterator[tuple[Path, Origin, Path]]:
    for directory in _upwards(start):
        yield directory / HOLDER, "project", directory
    project = project_of(start)
    yield user, "user", project
    yield built_in(), "built-in", project


def _upwards(start: Path) -> Iterator[Path]:
    """Yield `start` and its parents up to the repository root; outside of a repository up to the home directory."""
    directories = [start, *start.parents]
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - it stays "~" without a home, and Path.home raises
    stop = next(filter(_is_repository, directories), home)
    for directory in directories:
        yield directory
        if directory == stop:
            return


def _is_repository(directory: Path) -> bool:
    return os.path.exists(directory / ".git")  # a file in worktrees and submodules


def _profiles(directory: Path) -> list[Path]:
    """List the profiles of a directory, without overlays."""
    files = (file for suffix in SUFFIXES for file in directory.glob(f"*{suffix}") if os.path.isfile(file))
    found = (file for file in files if not file.stem.endswith(OVERLAY) and not _is_lock(file))
    return sorted(found, key=lambda file: (file.stem, SUFFIXES.index(file.suffix)))


def _unknown(name: str, start: Path, settings: Settings) -> UsageError:
    names = sorted({found.name for found in discover(start=start, settings=settings)})
    hint = did_you_mean(name, names)
    looked = [f"looked in {directory}" for directory, _, _ in _places(start, users(settings))]
    if " " in name:  # a prompt without a profile before it
        fix = f"the profile comes first: {ours('run', 'demo', name)}"
        return UsageError(f'no profile named "{name}"', fix=fix)
    fix = (
        f"use one of {join_names(names)}; or give a file by its path: ./{name}.yaml" if names else "give a file's path"
    )
    return UsageError(f'no profile named "{name}"{hint}', fix=fix, detail=looked)
