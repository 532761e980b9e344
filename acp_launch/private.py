"""
Files for the user alone: bounded reads, atomic writes, and locks between processes.

Files and directories get modes 0600 and 0700, whatever the umask is. A reader sees the old content or the new one,
never half of it; a writer that fails leaves the old one. `read_bounded` reads, `create` and `replace` write,
`locked` and `take_lock` take a lock file, and `make_digest` tells the names of files apart.
"""

import errno
import math
import os
import stat
import sys
import time
from _operator import _compare_digest
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path

try:
    from _blake2 import blake2b as blake2b  # hashlib and hmac would load OpenSSL: 4 ms
except ImportError:
    from hashlib import blake2b as blake2b
try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

compare_digest = _compare_digest  # what hmac gives
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def make_digest(*parts: str) -> str:
    """Return 32 hex digits that differ for different parts, also if an attacker chooses them. No part holds a NUL."""
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def hash_content(data: bytes) -> str:
    """Return the SHA-256 of a content, in hex."""
    return str(sha256(data).hexdigest())


class Unfit(Exception):  # noqa: N818 - it reads as what it is
    """Raised for a file of the wrong kind or size; the text continues a sentence that begins with its path."""


def read_bounded(path: Path, most: int) -> tuple[bytes, int] | None:
    """Return the content and the permission bits; None if the file does not exist.

    Raises:
        Unfit: it is not a regular file, or holds more than `most` bytes.
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
    """Open the file without waiting for a writer if it is a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def make_private(directory: Path) -> None:
    """Create `directory` and its missing parents, each with mode 0700; an existing directory keeps its mode.

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
    """Whether it is a directory (not a link) that belongs to the user and has mode 0700."""
    try:
        seen = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and stat.S_IMODE(seen.st_mode) == 0o700


def create(path: Path, content: bytes, *, is_shared: bool = False) -> None:
    """Write a new file and flush it to disk; a failure removes it again. A shared file gets the mode of the umask.

    Raises:
        FileExistsError: the name is taken.
        OSError: it cannot be written.
    """
    descriptor = os.open(path, _MAKE, 0o666 if is_shared else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if sys.platform != "win32" and not is_shared:
                os.fchmod(descriptor, 0o600)  # a umask may take rights from the owner too
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def real(path: Path) -> Path:
    """Resolve links as far as they lead anywhere."""
    return Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for links that form a loop


def sqlite_uri(path: Path) -> str:
    """Return the address of a file for SQLite. `Path.as_uri` of Python 3.14 imports an HTTP client."""
    escaped = str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file://{escaped}"


def replace(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace the content of the file at `path` atomically; if that is a link, the file that it leads to."""
    target = real(path)
    fresh = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(8).hex()}")
    create(fresh, content)
    try:
        if mode != 0o600:
            fresh.chmod(mode)
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync(target.parent)


def _sync(directory: Path) -> None:
    """Flush a directory to disk, so that a new name survives a crash.

    Not every file system can do that (EINVAL). The file itself is complete and in place by now.
    """
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


# Locks: one holder at a time among all processes and threads. The kernel releases the lock when its holder dies.
#
# A lock file is empty and is never deleted. If it were deleted, a process that waits for the deleted file would wait
# for ever, or two processes would hold one lock.

# Do not follow a planted link, and do not block on a pipe of that name.
_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_AGAIN = 0.02  # seconds between two attempts when the wait is bounded


@contextmanager
def locked(path: Path, patience: float | None = None) -> Iterator[int]:
    """Hold the lock file at `path` while the block runs; create the file if needed.

    Without `patience` the wait has no limit. Gives the open file: a program that inherits it holds the lock as well.

    Raises:
        TimeoutError: another process held it for `patience` seconds.
        OSError: the directory does not exist or is not writable, or its file system has no locks. As with every
            error here, `filename` is the lock file.
    """
    descriptor = _open_lock(path)  # not inherited, so a child that outlives this process does not hold it
    try:
        _wait_for(descriptor, path, patience)
        try:
            yield descriptor
        finally:
            _let_go(descriptor)
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    try:
        descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, _FLAGS)
    if sys.platform != "win32" and os.fstat(descriptor).st_mode & 0o600 != 0o600:
        os.fchmod(descriptor, 0o600)  # a umask took rights from the owner too: it could not be opened again
    return descriptor


def _wait_for(descriptor: int, path: Path, patience: float | None) -> None:
    deadline = time.monotonic() + (math.inf if patience is None else patience)
    try:
        if patience is None and sys.platform != "win32":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return
        while not take_lock(descriptor):
            if time.monotonic() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"another process held it for {patience:g} s")
            time.sleep(_AGAIN)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def take_lock(descriptor: int) -> bool:
    """Take the lock of an open file without waiting. False if another process holds it.

    Raises:
        OSError: its file system has no locks.
        ModuleNotFoundError: this system has no locks.
    """
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _let_go(descriptor: int) -> None:
    """Release the lock explicitly.

    Closing is not enough: Windows unlocks "at some time", and a child that is about to exec has a copy.
    """
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)
