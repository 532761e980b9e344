"""
One writer at a time, among all processes and threads: the kernel lets go of the lock when its holder dies, however.

The lock file holds nothing and is never deleted: whoever waits for a file that is deleted meanwhile would wait for
nobody, or two would hold one lock.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ALWAYS = os.O_RDWR | os.O_CREAT
# Not through a link somebody left in its place, and not stuck on a pipe of that name.
_FLAGS = _ALWAYS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, made if need be, while the block runs. Waits for ever: call it where that is fine.

    Raises:
        OSError: there is no such directory, it is not ours to write, or its file system has no locks.
    """
    descriptor = os.open(path, _FLAGS, 0o600)  # not inherited: a child that outlives us holds nothing
    try:
        _take(descriptor)
        try:
            yield
        finally:
            _let_go(descriptor)
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> None:
    if sys.platform == "win32":
        _take_on_windows(descriptor)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


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
        import errno
        import msvcrt

        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError as error:  # it tries ten times, once a second, and then calls that a deadlock
                if error.errno != errno.EDEADLK:
                    raise
