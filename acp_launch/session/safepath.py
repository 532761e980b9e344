"""
Opens files within given directories and nowhere else, even if another process swaps directories for links.

A path is resolved first, including links, and must then lie below one of the roots (C-70). The resolved path is opened
by `descent`, never through a link. Roots themselves may be reached through links, because the user named them.

Only regular files: FIFOs, sockets and devices are not opened, and neither are files of /proc, which include our own
memory and environment if a session lives in `/`.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from acp_launch.descent import FILE, NO_LINK, descend
from acp_launch.protocol import jsonrpc
from acp_launch.session.events import Refusal, invalid
from acp_launch.settings.load import grounds, lies_in


class Denied(Refusal):
    """Raised for a path that is not allowed, although it could be opened."""


class PinnedPath(Struct, frozen=True):
    """The target of a path: `names` below `root`, none of them a link when it was resolved."""

    root: Path
    names: tuple[str, ...]
    shown: str  # the path in the session's own spelling of its directory

    @property
    def real(self) -> Path:
        return self.root.joinpath(*self.names)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return both names of the file, because rules may use either."""
        return tuple(dict.fromkeys((self.shown, str(self.real))))


def resolve(path: str, roots: Iterable[tuple[Path, Path]]) -> PinnedPath:
    """Resolve a path. Each of `roots` is a directory as the session spells it, with its real path.

    Raises:
        Refusal: it is not absolute, not a valid path, or changed while it was resolved.
        Denied: it leads outside all roots, whether it exists or not.
    """
    real = Path(_resolve(_check(path)))
    for root, base in roots:
        if real.is_relative_to(base):
            below = real.relative_to(base)
            return PinnedPath(base, below.parts, str(root / below))
    raise outside(path)


def outside(path: str) -> Denied:
    return Denied(jsonrpc.INVALID_PARAMS, f'"{path}" is outside the directories of this session')


def pin_named(path: Path, roots: Iterable[Path]) -> PinnedPath | None:
    """Resolve a path that the user named, in the project that it lies in, or the one of `roots`; None if in neither.

    Raises:
        Denied: a link leads out of there. A repository or an agent may have laid it.
    """
    given = Path(os.path.abspath(path))  # noqa: PTH100 - links stay
    around = (*(root for root in roots if root in given.parents), *grounds(given.parent))
    ground = next((each for each in around if lies_in(each, [each])), None)  # a home is none: it is the user's
    return None if ground is None else resolve(str(given), [(ground, Path(os.path.realpath(ground)))])


def open_named(path: Path, roots: Iterable[Path], how: int = os.O_RDONLY) -> int:
    """Open a file that the user named; the rest as `pin_named`."""
    pinned = pin_named(path, roots)
    if pinned is None or not pinned.names:
        return os.open(path, how)
    with parent(pinned) as (directory, name):
        return os.open(name, how | NO_LINK, dir_fd=directory)


def _resolve(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError as error:  # a link that vanished while it was read
        reason = (error.strerror or str(error)).lower()
        raise Refusal(jsonrpc.INTERNAL_ERROR, f'cannot find "{path}": {reason}') from None


def _check(path: str) -> str:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # half a surrogate pair
        raise invalid('"path" is not valid text for a path') from None
    if "\0" in path:
        raise invalid('"path" holds a NUL character')
    if not Path(path).is_absolute():
        raise invalid(f'"path" must be absolute, not "{path}"')
    return path


@contextmanager
def parent(pinned: PinnedPath, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the directory of the file. Yields its descriptor and the file's name in it."""
    if not pinned.names:
        raise invalid(f'"{pinned.shown}" is a directory, not a file')
    directory = descend(pinned.root, pinned.names[:-1], make=0o777 if make else None)
    try:
        yield directory, pinned.names[-1]
    finally:
        os.close(directory)


@contextmanager
def open_regular(directory: int, name: str, pinned: PinnedPath, how: int = os.O_RDONLY) -> Iterator[BinaryIO]:
    """Open the file for reading, if it is a regular one: checked before it is opened, and again after."""
    require_regular(os.stat(name, dir_fd=directory, follow_symlinks=False), pinned)
    descriptor = os.open(name, FILE | how, dir_fd=directory)
    try:
        require_regular(os.fstat(descriptor), pinned)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def require_regular(status: os.stat_result, pinned: PinnedPath) -> None:
    """Check that this is the status of a regular file.

    Raises:
        Refusal: it is not.
    """
    if stat.S_ISDIR(status.st_mode):
        raise invalid(f'"{pinned.shown}" is a directory, not a file')
    if not stat.S_ISREG(status.st_mode):
        raise invalid(f'"{pinned.shown}" is not a regular file')
    if status.st_dev == _proc():
        raise Denied(jsonrpc.INVALID_PARAMS, f'"{pinned.shown}" is generated by the kernel')


def _proc() -> int | None:
    """Return the device number of /proc, or None without /proc."""
    try:
        return os.stat("/proc/self").st_dev  # noqa: PTH116
    except OSError:
        return None
