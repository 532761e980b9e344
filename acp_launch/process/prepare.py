"""
What this process must be before its first child: set once, here, and undone only to become another program.

- Child subreaper (Linux): descendants that daemonise come back to us instead of to init, so we can end them.
- Room for file descriptors: three for each child; the soft limit is often 256 or 1024.
- SIGCHLD not ignored: inherited as ignored, it would make the kernel discard every exit status.
- The baseline: existing children are not ours, and are never listed, signalled or reaped. Their orphans, which come to
  us as well, are not signalled either (tree.py).
"""

import itertools
import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

from acp_launch.errors import Exhausted
from acp_launch.process.table import IS_LINUX as IS_LINUX
from acp_launch.process.table import Process
from acp_launch.process.table import table as table

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_OURS, _CHILD = 15, 8  # descriptors of a launch, and of each child: pipes, its log, a pidfd, the agent's seat
FEW_DESCRIPTORS = _OURS + 4 * _CHILD  # an agent with a few servers
_DESCRIPTORS = 10_240  # macOS accepts no more (OPEN_MAX); a hard limit may be a billion, which slows programs down

_baseline: frozenset[Process] | None = None
_soft_limit_before: int | None = None


def prepare() -> None:
    """Make this process fit to have children; cheap if done already."""
    global _baseline
    if _baseline is not None:
        return
    listing = table()
    _baseline = frozenset(seen for pid in listing.children(os.getpid()) if (seen := listing.read(pid)))
    _make_room()
    ignored = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    become_subreaper()


def require_descriptors(children: int = 0) -> None:
    """Refuse if too few files can be open for so many children: later, even ending them takes some.

    Raises:
        Exhausted: the limit of this process is too low.
    """
    _make_room()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    needed = max(FEW_DESCRIPTORS, _OURS + _CHILD * children)
    if limit != resource.RLIM_INFINITY and limit < needed:
        what = f"at most {limit} files can be open at a time, and this takes {needed}"
        raise Exhausted(what, fix="raise the limit with `ulimit -n`; above its hard limit, that takes root")


def undo() -> None:
    """Restore our original state, because this process is about to become another program."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(ignored, signal.SIG_DFL)
    if _baseline is not None:
        give_back_limit(os.getpid())
        become_subreaper(on=False)


def baseline() -> frozenset[Process]:
    """Return the children this process had before `prepare`."""
    return _baseline or frozenset()


def give_back_limit(pid: int) -> None:
    """Give the child our original limit: programs that use select(), or close every possible
    descriptor, suffer from a high one. Linux only; elsewhere the child keeps ours."""
    if _soft_limit_before is None or not IS_LINUX:
        return

    try:
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(_soft_limit_before, hard), hard))
    except (ProcessLookupError, PermissionError):
        return  # it is gone, or runs as another user: neither needs it


def limit_words() -> str:
    """Return what gives a shell our original limit, and what it starts; empty if ours is that."""
    return "" if _soft_limit_before is None else f"ulimit -S -n {_soft_limit_before}; "


def _make_room() -> None:
    global _soft_limit_before

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    _soft_limit_before = soft


def become_subreaper(*, on: bool = True) -> None:
    """Become a subreaper, or stop being one."""
    prctl(_SET_CHILD_SUBREAPER, int(on))


def prctl(option: int, value: int | bytes) -> None:
    """Call prctl(2), which is Linux's; elsewhere, and in a Python without ctypes, nothing happens."""
    if IS_LINUX:
        with suppress(ImportError):
            import ctypes

            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


@contextmanager
def without_subreaper() -> Iterator[None]:
    """Let orphans go to init, or to another subreaper above us, for the length of the block."""
    if _baseline is not None:
        become_subreaper(on=False)
    try:
        yield
    finally:
        if _baseline is not None:
            become_subreaper()


# The mark in the environment of everything we start, which most of its descendants inherit. It says to which launch a
# process belongs, and from which of our processes it descends, even after all its parents are gone and it has left
# every group and session. A program that cleans the environment of its children removes it. Linux shows it (to the same
# user), macOS does not.


MARK_VARIABLE = "ACP_LAUNCH_ID"  # ID.SERIAL

_serials = itertools.count(1)


@cache
def launch_id() -> str:
    """Return the id of this process's launch, unique and created once."""
    return os.urandom(8).hex()


def fresh_mark() -> str:
    """Return the mark for one more process."""
    return f"{launch_id()}.{next(_serials)}"


def mark_of(pid: int) -> str | None:
    """Return the mark of a living process; None if it has none or it cannot be read."""
    if not IS_LINUX:
        return None
    beginning = f"\0{MARK_VARIABLE}=".encode()
    _, found, rest = (b"\0" + environment_of(pid)).partition(beginning)
    return rest.partition(b"\0")[0].decode(errors="replace") if found else None


def has_our_mark(pid: int) -> bool:
    """Whether a living process shows the mark of this very launch."""
    return (mark_of(pid) or "").startswith(f"{launch_id()}.")


def environment_of(pid: int) -> bytes:
    """Return the environment, NUL-separated; empty if it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 - called for every process
            return file.readall()
    except OSError:
        return b""
