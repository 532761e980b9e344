"""
A name becomes a file (DESIGN §4 "Discovery"). First hit wins:

    a path (has a separator, or ends in .yaml or .yml)
    .acp-launch/NAME.yaml in the working directory and each parent up to the repository root
    profiles/NAME.yaml in the user's configuration directory
    the built-in profiles

Nothing is read here but directory listings, and a path is taken at its word: `load` finds out whether it exists.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

import acp_launch
from acp_launch.errors import UsageError
from acp_launch.settings.model import Settings

HOLDER = ".acp-launch"
SUFFIXES = (".yaml", ".yml")
Origin = Literal["path", "project", "user", "built-in"]


class Found(Struct, frozen=True):
    """`project` is what `${project}` means; `shadowed_by` the file that wins over this one."""

    name: str
    file: Path
    project: Path
    origin: Origin
    shadowed_by: Path | None = None


def find(name: str, *, start: Path, settings: Settings) -> Found:
    """`start` is the directory the command was typed in.

    Raises:
        UsageError: no such profile; says where it looked and what is there.
    """
    if not name or "\0" in name:
        raise UsageError("a profile's name cannot be empty", fix="acp-launch list")
    if _is_path(name):
        return _at_path(Path(os.path.normpath(start / os.path.expanduser(name))))  # noqa: PTH111 - pathlib raises
    for directory, origin, project in _places(start, settings):
        for suffix in SUFFIXES:
            if _holds((file := directory / f"{name}{suffix}").is_file):
                return Found(name, file, project, origin)
    raise _unknown(name, start, settings)


def discover(*, start: Path, settings: Settings) -> list[Found]:
    """Every profile that can be named from here, the nearest first, with those that others shadow."""
    everything: list[Found] = []
    winners: dict[str, Path] = {}
    for directory, origin, project in _places(start, settings):
        for file in _profiles(directory):
            found = Found(file.stem, file, project, origin)
            everything.append(replace(found, shadowed_by=winners.get(file.stem)))
            winners.setdefault(file.stem, file)
    return everything


def project_of(start: Path) -> Path:
    """The project a directory belongs to: the nearest one above that holds `.acp-launch` or a repository."""
    for directory in _upwards(start):
        if _holds((directory / HOLDER).is_dir) or _is_repository(directory):
            return directory
    return start


def built_in() -> Path:
    """The profiles that come with acp-launch: inside the installed package, or beside it in a checkout."""
    package = Path(acp_launch.__file__).parent
    installed = package / "profiles"
    return installed if installed.is_dir() else package.parent / "profiles"


def _is_path(name: str) -> bool:
    return "/" in name or os.sep in name or name.endswith(SUFFIXES)


def _at_path(file: Path) -> Found:
    if file.parent.name == HOLDER:
        return Found(file.stem, file, file.parent.parent, "path")
    repository = next(filter(_is_repository, file.parents), file.parent)
    return Found(file.stem, file, repository, "path")


def _places(start: Path, settings: Settings) -> Iterator[tuple[Path, Origin, Path]]:
    for directory in _upwards(start):
        yield directory / HOLDER, "project", directory
    project = project_of(start)
    yield settings.config / "profiles", "user", project
    yield built_in(), "built-in", project


def _upwards(start: Path) -> Iterator[Path]:
    """`start` and its parents up to the repository root; outside of a repository up to the home directory."""
    directories = [start, *start.parents]
    stop = next(filter(_is_repository, directories), _home())
    for directory in directories:
        yield directory
        if directory == stop:
            return


def _is_repository(directory: Path) -> bool:
    return _holds((directory / ".git").exists)  # a file in worktrees and submodules


def _holds(test: Callable[[], bool]) -> bool:
    try:
        return test()
    except OSError:  # a directory we may not enter holds nothing we could use
        return False


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # no HOME and no entry in the user database
        return None


def _profiles(directory: Path) -> list[Path]:
    found = (file for suffix in SUFFIXES for file in directory.glob(f"*{suffix}") if _holds(file.is_file))
    return sorted(found, key=lambda file: (file.stem, SUFFIXES.index(file.suffix)))


def _unknown(name: str, start: Path, settings: Settings) -> UsageError:
    from difflib import get_close_matches

    names = sorted({found.name for found in discover(start=start, settings=settings)})
    nearest = get_close_matches(name, names, 1)
    hint = f'; did you mean "{nearest[0]}"?' if nearest else ""
    looked = [f"looked in {directory}" for directory, _, _ in _places(start, settings)]
    if " " in name:  # a prompt without a profile before it
        import shlex

        fix = f"the profile comes first: acp-launch run demo {shlex.quote(name)}"
        return UsageError(f'no profile named "{name}"', fix=fix)
    fix = f"there is {', '.join(names)}; a file is given by its path: ./{name}.yaml" if names else "give a file's path"
    return UsageError(f'no profile named "{name}"{hint}', fix=fix, detail=looked)
