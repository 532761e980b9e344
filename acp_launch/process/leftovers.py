"""
What launches left behind that died together with their guard: found by their records, and ended.

A process a record names is touched only while its time of start is the recorded one; any other only if its environment
carries the launch's id, or it descends from one of those. Many may clean up at once: whoever locks a record does it,
the others leave it alone.

A guard that is stopped protects nothing and ends nothing, so its launch counts as dead: the guard is woken, and what it
has not ended soon is ended here, itself included.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct

from acp_launch.process import cgroup, marker, prepare
from acp_launch.process import table as boot
from acp_launch.process.measure import measure
from acp_launch.process.pidfd import block_until_gone
from acp_launch.process.records import Known, Launch, files, is_stillborn, read
from acp_launch.process.remains import Remains, end
from acp_launch.process.table import Process
from acp_launch.process.tree import send

PATIENCE = 3.0  # seconds for a guard that was stopped; it needs no more than two for all it has to do
NEWBORN = 60.0  # seconds a file may be without its first line; that is written within microseconds

# running: its launcher lives. ending: its guard does, and is not stopped. dead: neither, here and since the machine was
# started.
# foreign: of another container. over: of an earlier start of the machine.
Standing = Literal["running", "ending", "dead", "foreign", "over"]


class Left(Struct, frozen=True):
    """A process that was left behind; `name` is the record's, or the program's."""

    name: str
    pid: int


class Ended(Struct, frozen=True):
    """What was left of one launch, and who would not go."""

    profile: str
    verb: str
    processes: tuple[Left, ...]
    survivors: tuple[Left, ...]


def standing(launch: Launch) -> Standing:
    if launch.boot != boot.boot_id():
        return "over"
    if launch.namespace != boot.pid_namespace():
        return "foreign"
    if _living(launch.launcher):
        return "running"
    guards = [guard for known in launch.guards if (guard := _living(known))]
    return "ending" if any(not guard.is_stopped for guard in guards) else "dead"


def remains(launch: Launch) -> Remains:
    """What is left of a dead launch."""
    known = {process.identity for process in (*launch.children, *launch.seen)}
    return Remains(known, launch.id, launch.launcher.started, cgroup=cgroup.recorded(launch.cgroup, launch.id))


def clear(state: Path) -> list[Ended]:
    """End what dead launches have left behind, at most two seconds for each, and remove their records.

    Five seconds where a guard was stopped.
    Says nothing of those that left nothing. Costs one listing of a directory when there is no record.
    """
    return [ended for path in files(state) if path.name != marker.launch_id() and (ended := _clear(path))]


def names(launch: Launch, processes: list[Process]) -> tuple[Left, ...]:
    """With the names `ps` shows; to be asked for while they live."""
    known = {child.identity: child.name for child in launch.children}
    return tuple(Left(known.get((seen.pid, seen.started)) or _command(seen.pid), seen.pid) for seen in processes)


def _clear(path: Path) -> Ended | None:
    launch = read(path)
    if launch is None:
        _remove_stillborn(path)
        return None
    kind = standing(launch)
    if kind == "over":
        _remove(path)
    if kind != "dead":
        return None
    with _locked(path) as is_ours:
        return _end(launch) if is_ours else None


def _end(launch: Launch) -> Ended | None:
    left = remains(launch)
    before = left.alive()
    named = {each.pid: each for each in names(launch, before)}
    _rouse(launch.guards)
    found, survivors = end(left)
    if not survivors:
        _remove(launch.path)
        if left.cgroup:
            left.cgroup.remove()
    ended = list({(seen.pid, seen.started): seen for seen in (*before, *found)}.values())
    if not ended:
        return None
    return Ended(launch.profile, launch.verb, _lefts(ended, named), _lefts(survivors, named))


def _rouse(guards: Iterable[Known]) -> None:
    """They were stopped: let them do what they know best, and kill those that do not come to an end."""
    stopped = [guard for known in guards if (guard := _living(known))]
    for number in (signal.SIGCONT, signal.SIGKILL):
        for guard in stopped:
            send(guard, number)
        block_until_gone(stopped, within=PATIENCE)


def _lefts(processes: list[Process], named: dict[int, Left]) -> tuple[Left, ...]:
    return tuple(named.get(seen.pid) or Left("", seen.pid) for seen in processes)


def _living(known: Known | None) -> Process | None:
    seen = None if known is None else prepare.table().read(known.pid)
    return seen if seen and known and seen.started == known.started and not seen.is_dead else None


def _command(pid: int) -> str:
    measured = measure(pid)
    return measured.command if measured else ""


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether the record is there, and ours to act on, while the block runs. The kernel lets go of the lock when its
    holder dies. Where locks cannot be had, two may end the same processes, which harms nobody."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass
        yield path.exists()
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # the directory is not ours to write: whoever can will


def _remove_stillborn(path: Path) -> None:
    """A record without a first line, once it is certain that nobody is about to write it; nothing else."""
    try:
        if is_stillborn(path) and time.time() - path.lstat().st_mtime > NEWBORN:
            path.unlink()
    except OSError:
        return  # gone, or not ours to touch
