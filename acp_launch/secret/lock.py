"""
One writer at a time, among all processes and threads: the kernel lets go of the lock when its holder dies, however.

The lock file holds nothing and is never deleted: whoever waits for a file that is deleted meanwhile would wait for
nobody, or two would hold one lock.
"""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Not through a link somebody left in its place, and not stuck on a pipe of that name.
_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_AGAIN = 0.02  # seconds between two looks at a lock that is not waited for in the kernel


@contextmanager
def locked(path: Path, patience: float | None = None) -> Iterator[None]:
    """Hold the lock file at `path`, made if need be, while the block runs.

    Without `patience` it waits for ever: call it where that is fine.

    Raises:
        TimeoutError: others held it for `patience` seconds.
        OSError: there is no such directory, it is not ours to write, or its file system has no locks. As with every
            error here, `filename` is the lock file.
    """
    descriptor = _opened(path)  # not inherited: a child that outlives us holds nothing
    try:
        _wait(descriptor, path, patience)
        try:
            yield
        finally:
            _let_go(descriptor)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, _FLAGS)
    if sys.platform != "win32" and os.fstat(descriptor).st_mode & 0o600 != 0o600:
        os.fchmod(descriptor, 0o600)  # a umask took it away from ourselves, too: nobody could open it again
    return descriptor


def _wait(descriptor: int, path: Path, patience: float | None) -> None:
    try:
        if patience is None:
            _take(descriptor)
        else:
            _poll(descriptor, patience)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _poll(descriptor: int, patience: float) -> None:
    deadline = time.monotonic() + patience
    while not _is_taken(descriptor):
        if time.monotonic() >= deadline:
            raise TimeoutError(errno.ETIMEDOUT, f"others held it for {patience:g} s")
        time.sleep(_AGAIN)


def _take(descriptor: int) -> None:
    if sys.platform == "win32":
        _take_on_windows(descriptor)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _is_taken(descriptor: int) -> bool:
    """Take it now, if nobody holds it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # Windows says the latter
        return False
    return True


def _let_go(descriptor: int) -> None:
    """Closing is not enough: Windows lets go "at some time", and a child in the middle of its exec has a copy."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _take_on_windows(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError as error:  # it tries ten times, once a second, and then calls that a deadlock
                if error.errno != errno.EDEADLK:
                    raise
