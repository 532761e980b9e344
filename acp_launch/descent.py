"""
The way to a file that is written, or read for others: it leads nowhere that a repository, an agent or a user of this
machine has laid a link to.

`parent` opens the directory of a file, name by name, each below the one before and never through a link, also if one
is put there. `pin` decides before where the walk begins:

    a path that the user or acp-launch chose    links are resolved first; in a project none may lead out of it
    `below` a directory                         no link counts, and `..` neither

`grounds` and `lies_in` say what a project is: others can write there.
"""

import errno
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
FILE = NO_LINK | os.O_NONBLOCK | os.O_NOCTTY
# O_PATH, which Linux has, allows passing through a directory that may not be listed.
_DIRECTORY = NO_LINK | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)


class LinkError(OSError):
    """Raised for a path that leads through a link which must not be followed."""


# Projects: others can write there, so nothing that lies in one can speak for the user. An environment variable
# (`ACP_LAUNCH_*_DIR`, `XDG_*`, `HOME`) may put a directory of acp-launch into a project.
BATCHES = "batches"  # in `.acp-launch`: directories of batches, also of a batch that is the user's own


def grounds(start: Path) -> Iterator[Path]:
    """Return the project directories among a directory and its parents: with `.git`, a file in worktrees, or a
    `.acp-launch` that holds more than our directories of batches. A link that leads nowhere marks one, too."""
    at = os.fspath(start)
    while True:  # as texts, which is five times as fast
        if os.path.lexists(f"{at}{os.sep}.git") or _holds_profiles(f"{at}{os.sep}.acp-launch"):
            yield Path(at)
        at, below = os.path.dirname(at), at  # noqa: PTH120
        if at == below:
            return


def _holds_profiles(holder: str) -> bool:
    if not os.path.lexists(holder):
        return False
    try:
        is_ours = os.listdir(holder) == [BATCHES]  # noqa: PTH208
    except OSError:
        return True
    return not is_ours or any(map(os.path.islink, (holder, f"{holder}{os.sep}{BATCHES}")))


def lies_in(directory: Path, projects: Iterable[Path]) -> bool:
    """Whether `directory` lies in one of the projects after links are resolved. A home that is a project does not
    count: it is the user's."""
    target = real(directory)
    return any(target.is_relative_to(root) for root in _without_home(map(real, projects)))


def projects_around(path: Path) -> list[Path]:
    """Return the projects that a path lies in, as it is written and as its directory resolves; not the user's home.

    The outermost is the last.
    """
    directories = dict.fromkeys((path.parent, real(path.parent)))
    found = dict.fromkeys(real(ground) for each in directories for ground in grounds(each))
    return sorted(_without_home(found), key=lambda root: -len(root.parts))


def _without_home(roots: Iterable[Path]) -> Iterator[Path]:
    return (root for root in roots if not _is_home(root))


def _is_home(root: Path) -> bool:
    """Whether a project is the user's home, or holds the one that the user database has. One that HOME alone names is
    not believed deeper in a project: the project may have set it."""
    home = named_home()
    return (home is not None and root == real(home)) or root in _registered_homes()


def named_home() -> Path | None:
    """Return the home that HOME names; None without an absolute one."""
    home = os.environ.get("HOME", "")
    return Path(home) if os.path.isabs(home) else None  # noqa: PTH117 - "~" of pathlib asks the user database


@cache
def _registered_homes() -> tuple[Path, ...]:
    """Return the home directory that the user database has, and its parents."""
    try:
        home = real(Path(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:  # a container's user may have no name
        return ()
    return (home, *home.parents)


def real(path: Path) -> Path:
    """Resolve links as far as they lead anywhere."""
    return Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for links that form a loop


def find_links(directories: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the directories whose real path differs, each with that."""
    named = ((directory, os.path.realpath(directory)) for directory in dict.fromkeys(directories))
    return tuple((spelled, truly) for spelled, truly in named if spelled != truly)


def pin(path: Path, below: Path | None = None, *, follow: bool = False) -> tuple[Path, tuple[str, ...]]:
    """Return a directory that exists, and the names below it that lead to the file.

    With `follow` a link in the place of the file counts as those before it do; else it is not looked at.

    Raises:
        LinkError: links lead out of a project that the path lies in; or there is `..` in a path `below` a directory.
    """
    if below is not None:
        names = os.fspath(path).removeprefix(f"{below}{os.sep}").split(os.sep)  # noqa: PTH206 - it is twice as fast
        if ".." in names or not names[0]:
            raise LinkError(errno.ELOOP, f"it leads out of {below}", str(path))
        return below, tuple(names)
    given = Path(os.path.abspath(path))  # noqa: PTH100 - links stay
    target = real(given) if follow else real(given.parent) / given.name
    projects = projects_around(given)
    if not all(target.is_relative_to(root) for root in projects):
        raise LinkError(errno.ELOOP, "a link leads out of the project", str(path))
    root = projects[-1] if projects else next(filter(os.path.isdir, target.parents), target)
    return root, target.relative_to(root).parts


@contextmanager
def parent(
    path: Path, below: Path | None = None, *, make: int | None = None, follow: bool = False
) -> Iterator[tuple[int, str]]:
    """Open the directory of a file; yield its descriptor, and the file's name in it; the rest as `pin`.

    `make` is the mode of directories that are missing; None if they are not made. Every OSError of the block names the
    file by its path.

    Raises:
        LinkError: as `pin`, or there is a link on the way.
        OSError: a directory cannot be opened, or made.
    """
    root, names = pin(path, below, follow=follow)
    if not names:
        raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    try:
        directory = descend(root, names[:-1], make=make)
        try:
            yield directory, names[-1]
        finally:
            os.close(directory)
    except OSError as error:
        if error.filename is not None and Path(error.filename).is_absolute():
            raise
        raise _about(error, path) from None


def open_file(path: Path, flags: int, mode: int = 0o600, *, below: Path | None = None) -> int:
    """Open a file by the way of `parent`; a link in its place is an error, and a pipe is not waited for."""
    with parent(path, below) as (directory, name):
        try:
            return os.open(name, FILE | flags, mode, dir_fd=directory)
        except OSError as error:
            raise _explain(error, directory, name) from None


def remove(path: Path, *, below: Path | None = None) -> None:
    """Remove a file, or a link as such, if it is there."""
    with suppress(FileNotFoundError), parent(path, below) as (directory, name):
        os.unlink(name, dir_fd=directory)


def remove_directory(path: Path) -> None:
    with parent(path) as (directory, name):
        os.rmdir(name, dir_fd=directory)


def descend(root: Path, names: Sequence[str], *, make: int | None = None) -> int:
    """Open the directory at the end of these names; the descriptor can only be walked from."""
    at = os.open(root, _DIRECTORY)
    for index, name in enumerate(names, 1):
        try:
            below = _step(at, name, make)
        except OSError as error:
            raise _about(_explain(error, at, name), root.joinpath(*names[:index])) from None
        finally:
            os.close(at)
        at = below
    return at


def _step(at: int, name: str, make: int | None) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=at)
    except FileNotFoundError:
        if make is None:
            raise
    except NotADirectoryError:
        if make is None:
            raise
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
    with suppress(FileExistsError):  # another process was faster: its directory is opened by the same rules
        os.mkdir(name, make, dir_fd=at)
        if make & ~stat.S_IMODE(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode) & 0o700:
            os.chmod(name, make, dir_fd=at)
    return os.open(name, _DIRECTORY, dir_fd=at)


def _about(error: OSError, path: Path) -> OSError:
    kind = LinkError if isinstance(error, LinkError) else OSError
    return kind(error.errno, error.strerror, str(path))


def _explain(error: OSError, at: int, name: str) -> OSError:
    """Say that a name is a link; the system's message would be another one."""
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            return LinkError(errno.ELOOP, "it is a link")
    return error
