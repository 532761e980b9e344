"""
Opening what lies beneath a directory and nothing else, whoever swaps directories for links meanwhile.

A path is resolved first, links and all, and must then lie below one of the roots (C-70). What was resolved is opened
name by name, each below the one before and never through a link. Roots may themselves be reached through links: the
user named them.

Only regular files: FIFOs, sockets and devices are not opened. Nor is what /proc makes up, where our own memory and
environment would be files, should a session live in `/`.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from acp_launch.protocol import jsonrpc
from acp_launch.session.service import Refusal, invalid

# Zero where a system has no such flag. A directory that may be passed through but not listed needs O_PATH.
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY = NO_LINK | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
_FILE = NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class Denied(Refusal):
    """Raised when it could be done, and may not."""


class Place(Struct, frozen=True):
    """Where a path leads: `names` below `root`, none of them a link when it was looked at."""

    root: Path
    names: tuple[str, ...]
    shown: str  # spelled as the session spells its directory

    @property
    def spellings(self) -> tuple[str, ...]:
        """Rules may speak of the file by either name."""
        return tuple(dict.fromkeys((self.shown, str(self.root.joinpath(*self.names)))))


def place(path: str, roots: Iterable[tuple[Path, Path]]) -> Place:
    """Each of `roots` is a directory as the session spells it, and what that really is.

    Raises:
        Refusal: it is not absolute, no path at all, or changed while it was followed.
        Denied: it leads out of all of them, whether it is there or not.
    """
    real = Path(_resolved(_checked(path)))
    for root, base in roots:
        if real.is_relative_to(base):
            below = real.relative_to(base)
            return Place(base, below.parts, str(root / below))
    raise Denied(jsonrpc.INVALID_PARAMS, f'"{path}" is outside the directories of this session')


def _resolved(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError as error:  # a link that is gone by the time it is read
        reason = (error.strerror or str(error)).lower()
        raise Refusal(jsonrpc.INTERNAL_ERROR, f'"{path}" could not be found: {reason}') from None


def _checked(path: str) -> str:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # half a surrogate pair
        raise invalid('"path" is not text that a path can be made of') from None
    if "\0" in path:
        raise invalid('"path" holds a NUL character')
    if not Path(path).is_absolute():
        raise invalid(f'"path" must be absolute, and "{path}" is not')
    return path


@contextmanager
def parent(place: Place, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The directory of the file, open, and the file's name in it."""
    if not place.names:
        raise invalid(f'"{place.shown}" is a directory, not a file')
    directory = _descend(place, make=make)
    try:
        yield directory, place.names[-1]
    finally:
        os.close(directory)


def _descend(place: Place, *, make: bool) -> int:
    at = os.open(place.root, _DIRECTORY)
    for name in place.names[:-1]:
        try:
            below = _below(at, name, make=make)
        finally:
            os.close(at)
        at = below
    return at


def _below(at: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=at)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # somebody was quicker: what they made is opened, or not, by the same rules
        os.mkdir(name, dir_fd=at)
    return os.open(name, _DIRECTORY, dir_fd=at)


@contextmanager
def opened(directory: int, name: str, place: Place, how: int = os.O_RDONLY) -> Iterator[BinaryIO]:
    """The file, to be read, if it is a regular one: looked at before it is opened, and again after."""
    regular(os.stat(name, dir_fd=directory, follow_symlinks=False), place)
    descriptor = os.open(name, _FILE | how, dir_fd=directory)
    try:
        regular(os.fstat(descriptor), place)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def regular(status: os.stat_result, place: Place) -> None:
    """
    Raises:
        Refusal: what has this status is something else than a regular file.
    """
    if stat.S_ISDIR(status.st_mode):
        raise invalid(f'"{place.shown}" is a directory, not a file')
    if not stat.S_ISREG(status.st_mode):
        raise invalid(f'"{place.shown}" is not a regular file')
    if status.st_dev == _proc():
        raise Denied(jsonrpc.INVALID_PARAMS, f'"{place.shown}" is made up by the kernel')


def _proc() -> int | None:
    """The device /proc is, where there is one."""
    try:
        return os.stat("/proc/self").st_dev  # noqa: PTH116
    except OSError:
        return None
