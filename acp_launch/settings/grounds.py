"""
Where the people of a project may write: nothing that lies there can speak for the user.

A variable of the environment (`ACP_LAUNCH_*_DIR`, `XDG_*`, `HOME`) may lead a directory of ours into a project. What is
kept in it then came with the project, or could have.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

MARKS = (".git", ".acp-launch")  # a file in worktrees and submodules


def grounds(start: Path) -> Iterator[Path]:
    """The projects around a directory, itself included."""
    return (directory for directory in (start, *start.parents) if any(_is_there(directory / mark) for mark in MARKS))


def lies_in(directory: Path, projects: Iterable[Path]) -> bool:
    """Whether `directory` lies in one of them, wherever links lead. A home that is a project is the user's."""
    real, home = _real(directory), _home()
    roots = map(_real, projects)
    return any(real.is_relative_to(root) and not (home and home.is_relative_to(root)) for root in roots)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a directory we may not enter
        return False


def _home() -> Path | None:
    """As the system knows it: HOME may be what leads us astray."""
    try:
        import pwd
    except ImportError:
        return _real(Path.home())
    try:
        return _real(Path(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:  # a container's user may have no name, and then no home that we can be sure of
        return None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
