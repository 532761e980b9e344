"""
The processes of this machine: a value for each, the tables they are read from, and descriptors that each mean one of
them; waiting on these is without an event loop.

Linux is read from /proc, without a library: it is read while a launch starts, and again and again while one ends. What
is shown to a user (`ps`, the names of leftovers) comes from psutil on every platform. Without pidfds (not Linux,
kernels before 5.3, no descriptor left) processes are polled every 10 ms.
"""

import os
import select
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EMFILE, ENFILE, ENOSYS, EPERM
from functools import cache
from pathlib import Path
from typing import Protocol

from msgspec import Struct

IS_LINUX: bool = sys.platform == "linux"  # /proc and the subreaper there; psutil and groups elsewhere
POLL_SECONDS = 0.01
NO_PIDFD = -1


class Process(Struct, frozen=True, eq=False):
    """One living process. Two are equal if pid *and* start time are: a pid alone is recycled.

    `started` is in the platform's own unit (clock ticks since boot on Linux, seconds since 1970 elsewhere) and is only
    ever compared. The other fields describe the moment it was read.
    """

    pid: int
    started: float
    parent: int
    group: int
    session: int
    is_stopped: bool = False
    is_dead: bool = False  # a zombie: only its parent's wait is missing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Process) and (self.pid, self.started) == (other.pid, other.started)

    def __ne__(self, other: object) -> bool:
        return not self == other  # the one of Struct compares identities

    def __hash__(self) -> int:
        return hash((self.pid, self.started))


class Table(Protocol):
    """The machine's processes, as far as we ask; created anew for every listing."""

    def read(self, pid: int) -> Process | None:
        """Return the process, or None if it does not exist."""

    def children(self, pid: int) -> list[int]:
        """Return the pids whose parent is `pid` now, zombies included."""

    def all(self) -> dict[int, Process]:
        """Return every visible process, by its pid."""


# Processes from /proc. Costs about 20 µs a process and imports nothing.


_STATE, _PARENT, _GROUP, _SESSION, _THREADS, _STARTED = 0, 1, 2, 3, 17, 19  # proc(5), counted after the name


class ProcTable:
    """Linux. `children` uses the kernel's own list (CONFIG_PROC_CHILDREN), and walks all of /proc only without it."""

    def __init__(self) -> None:
        self._by_parent: dict[int, list[int]] | None = None

    def read(self, pid: int) -> Process | None:
        text = _content(f"/proc/{pid}/stat")
        if not text:
            return None
        fields = text[text.rindex(b")") + 2 :].split()  # the name may hold spaces and brackets
        state = fields[_STATE]
        return Process(
            pid=pid,
            started=int(fields[_STARTED]),
            parent=int(fields[_PARENT]),
            group=int(fields[_GROUP]),
            session=int(fields[_SESSION]),
            is_stopped=state in b"Tt",
            # A main thread that ended before the others shows as Z too; such a process lives on.
            is_dead=state in b"ZX" and int(fields[_THREADS]) <= 1,
        )

    def all(self) -> dict[int, Process]:
        pids = [int(name) for name in _names("/proc") if name.isdigit()]
        return {pid: seen for pid in pids if (seen := self.read(pid))}

    def children(self, pid: int) -> list[int]:
        found: set[int] = set()
        threads = _names(f"/proc/{pid}/task")
        if not threads:
            return self._scan().get(pid, []) if _lives(pid) else []
        for thread in threads:
            text = _content(f"/proc/{pid}/task/{thread}/children")
            if text is None and os.path.exists(f"/proc/{pid}/task/{thread}"):  # noqa: PTH110
                return self._scan().get(pid, [])
            found.update(int(child) for child in (text or b"").split())
        return sorted(found)

    def _scan(self) -> dict[int, list[int]]:
        if self._by_parent is None:
            self._by_parent = {}
            for process in self.all().values():
                self._by_parent.setdefault(process.parent, []).append(process.pid)
        return self._by_parent


def _content(path: str) -> bytes | None:
    """Return the whole file, or None if its process has gone (also on ESRCH while reading)."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib would double the cost of a listing
            return file.readall()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _lives(pid: int) -> bool:
    """Whether it lives although /proc hides it: with `hidepid` a guard is hidden from us, its children are not."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


# Processes from psutil, for macOS and the BSDs.
#
# Weaker than Linux: without a child subreaper, a descendant that daemonised before our first listing is not found,
# unless it stayed in a process group we know.


class PsutilTable:
    """One pass over the machine when children are first asked for. psutil is imported only here."""

    def __init__(self) -> None:
        self._by_parent: dict[int, list[int]] | None = None

    def read(self, pid: int) -> Process | None:
        import psutil

        try:
            seen = psutil.Process(pid)
            with seen.oneshot():
                status = seen.status()
                return Process(
                    pid=pid,
                    started=seen.create_time(),
                    parent=seen.ppid(),
                    group=os.getpgid(pid),
                    session=os.getsid(pid),
                    is_stopped=status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP),
                    is_dead=status in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD),
                )
        except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError, PermissionError):
            return None

    def all(self) -> dict[int, Process]:
        import psutil

        return {pid: seen for pid in psutil.pids() if (seen := self.read(pid))}

    def children(self, pid: int) -> list[int]:
        return self._scan().get(pid, [])

    def _scan(self) -> dict[int, list[int]]:
        import psutil

        if self._by_parent is None:
            self._by_parent = {}
            for seen in psutil.process_iter(["ppid"]):
                self._by_parent.setdefault(seen.info["ppid"], []).append(seen.pid)
        return self._by_parent


def table() -> Table:
    """Return a fresh look at the processes of this machine."""
    return ProcTable() if IS_LINUX else PsutilTable()


# Descriptors that each mean one process, and waiting on many of them.


def open_pid(pid: int) -> int | None:
    """Return a pidfd for the process that has this pid now; None if there is no such process."""
    if not hasattr(os, "pidfd_open"):
        return NO_PIDFD
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError as error:
        if error.errno in (ENOSYS, EPERM, EMFILE, ENFILE):  # EPERM: older container sandboxes
            return NO_PIDFD
        raise


def open_process(process: Process) -> int | None:
    """Return a pidfd for exactly this process; None if it is gone, even if its pid is taken again."""
    descriptor = open_pid(process.pid)
    if descriptor is None or descriptor == NO_PIDFD:
        return descriptor
    if table().read(process.pid) == process:
        return descriptor
    os.close(descriptor)
    return None


@contextmanager
def open_all(processes: Iterable[Process]) -> Iterator[tuple[list[int], list[Process]]]:
    """Yield a pidfd for each living process, and the processes for which there is none."""
    descriptors: list[int] = []
    unwatchable: list[Process] = []
    try:
        for process in processes:
            descriptor = open_process(process)
            if descriptor == NO_PIDFD:
                unwatchable.append(process)
            elif descriptor is not None:
                descriptors.append(descriptor)
        yield descriptors, unwatchable
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def living(processes: Iterable[Process]) -> bool:
    """Whether any of them is still alive."""
    listing = table()
    now = [(listing.read(process.pid), process) for process in processes]
    return any(seen is not None and seen == process and not seen.is_dead for seen, process in now)


def block_until_gone(processes: Iterable[Process], *, within: float) -> None:
    """Wait until all of them have died, at most `within` seconds."""
    deadline = time.monotonic() + within
    with open_all(processes) as (descriptors, unwatchable):
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        left = len(descriptors)
        while left and (remaining := deadline - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(remaining * 1000):
                poll.unregister(descriptor)
                left -= 1
        while living(unwatchable) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


# The identity of this machine's current boot: a pid and a time of start mean nothing after the next one.


@cache
def boot_id() -> str:
    """Return an id that changes with every boot; empty if the platform has none."""
    if sys.platform == "darwin":
        import ctypes

        library = ctypes.CDLL(None)
        size = ctypes.c_size_t(64)
        value = ctypes.create_string_buffer(size.value)
        failed = library.sysctlbyname(b"kern.bootsessionuuid", value, ctypes.byref(size), None, 0)
        return "" if failed else value.value.decode(errors="replace")
    return read_text("/proc/sys/kernel/random/boot_id").strip()


@cache
def pid_namespace() -> str:
    """Return the pid namespace, within which pids are valid (Linux containers); empty where there is only one."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def read_text(path: str | Path) -> str:
    """Return the text of a file of the kernel; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - read at every start
            return file.read()
    except OSError:
        return ""
