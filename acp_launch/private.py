"""
Files for the user alone, whatever the umask: read within bounds, written whole or not at all.

Whoever reads sees the old content or the new one, never half; whoever writes and fails leaves the old one.
"""

import errno
import os
import stat
import sys
from io import BufferedReader, FileIO
from pathlib import Path

_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Unfit(Exception):  # noqa: N818 - it reads as what it is
    """Raised for a file that is not what it should be; the text continues a sentence that begins with its path."""


def read_bounded(path: Path, most: int) -> tuple[bytes, int] | None:
    """The content and the permission bits; None when there is no such file.

    Raises:
        Unfit: it is no regular file, or holds more than `most` bytes.
        OSError: it cannot be read.
    """
    try:
        file = BufferedReader(FileIO(path, opener=_without_waiting))
    except FileNotFoundError:
        return None
    with file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise Unfit("is not a regular file")
        content = file.read(most + 1)
    if len(content) > most:
        raise Unfit(f"is larger than {most} bytes")
    return content, stat.S_IMODE(mode)


def _without_waiting(path: str, flags: int) -> int:
    """For a writer, should it be a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def make_private(directory: Path) -> None:
    """Create `directory` and what is missing above it, each with mode 0700; one that exists stays as it is.

    Raises:
        OSError: it cannot be created, or something else has its name.
    """
    if directory.is_dir():
        return
    make_private(directory.parent)
    try:
        directory.mkdir(0o700)
    except FileExistsError:
        if not directory.is_dir():  # else another process was faster
            raise
        return
    directory.chmod(0o700)


def is_private(directory: Path) -> bool:
    """Whether it is a directory of the user's, no link, that nobody else may enter."""
    try:
        seen = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and stat.S_IMODE(seen.st_mode) == 0o700


def create(path: Path, content: bytes, *, is_shared: bool = False) -> None:
    """Write a new file, down to the disk; nothing is left of it when that fails. A shared one is as the umask has it.

    Raises:
        FileExistsError: something has the name.
        OSError: it cannot be written.
    """
    descriptor = os.open(path, _MAKE, 0o666 if is_shared else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if sys.platform != "win32" and not is_shared:
                os.fchmod(descriptor, 0o600)  # past a umask that takes from the owner too
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def real(path: Path) -> Path:
    """Where links lead, as far as they do."""
    return Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for links that lead to each other


def replace(path: Path, content: bytes) -> None:
    """Put `content` in the place of the file at `path`; where that is a link, of the file it leads to."""
    target = real(path)
    fresh = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(8).hex()}")
    create(fresh, content)
    try:
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync(target.parent)


def _sync(directory: Path) -> None:
    """Make the new name last. Not every file system can (EINVAL); the file itself is whole and in place by now."""
    if sys.platform == "win32":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
