"""
Processes left behind by launches that died together with their guards, and the processes of a launch as a tree.

`clear` finds dead launches by their records, ends their processes and removes their containers. A process in a record
is touched only while its time of start is the recorded one; any other process only if its environment carries the
launch's id, or it descends from one of those. Several may clean up at once: the one that locks a record does it, the
others leave it alone.

A guard that is stopped protects nothing and ends nothing, so its launch counts as dead: the guard is continued, and
what it has not ended soon is ended here, itself included.

`launch_tree` is what `ps` shows.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.errors import LaunchError
from acp_launch.plan.written import make_safe_environment, refuse_written
from acp_launch.private import take_lock
from acp_launch.process import cgroup, prepare
from acp_launch.process.code import changed_code
from acp_launch.process.containers import ContainerEngine, LaunchContainers, list_containers, remove_containers
from acp_launch.process.guard_process import LaunchProcesses, end
from acp_launch.process.records import Connection, Known, RecordedLaunch, files, read
from acp_launch.process.table import Process, PsutilTable, block_until_gone, boot_id, pid_namespace
from acp_launch.process.tree import send
from acp_launch.waits import stretch

if TYPE_CHECKING:
    import psutil

GUARD_TIMEOUT = stretch(3.0)  # to stop; it needs at most two for everything

# running: its launcher lives. ending: only its guard lives, and is not stopped. dead: neither lives, here and since the
# machine was started. foreign: of another container. over: of an earlier start of the machine.
LaunchState = Literal["running", "ending", "dead", "foreign", "over"]


class LeftProcess(Struct, frozen=True):
    """A process that was left behind; `name` is from the record, or the program's."""

    name: str
    pid: int


class ClearedLaunch(Struct, frozen=True):
    """The processes left of one launch, and the survivors; and the containers of its `engine`."""

    profile: str
    verb: str
    processes: tuple[LeftProcess, ...]
    survivors: tuple[LeftProcess, ...]
    id: str = ""
    engine: str = ""
    containers: LaunchContainers = LaunchContainers()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of it, for sure."""
        return not self.survivors and self.containers.is_over


def launch_state(launch: RecordedLaunch) -> LaunchState:
    if launch.boot != boot_id():
        return "over"
    if launch.namespace != pid_namespace():
        return "foreign"
    if _living(launch.launcher):
        return "running"
    guards = [guard for known in launch.guards if (guard := _living(known))]
    return "ending" if any(not guard.is_stopped for guard in guards) else "dead"


def launch_processes(launch: RecordedLaunch) -> LaunchProcesses:
    group = cgroup.recorded(launch.cgroup, launch.id)
    return LaunchProcesses(launch.known, launch.id, launch.launcher.started, cgroup=group)


def clear(state: Path) -> list[ClearedLaunch]:
    """End what dead launches left behind, at most two seconds for each, and remove their records.

    Five seconds if a guard was stopped, and as long for an engine of containers. Launches that left nothing are not in
    the result. Costs one listing of a directory if there is no record.
    """
    failing: dict[str, str] = {}  # engines, asked no more, and why
    others = (path for path in files(state) if path.name != prepare.launch_id())
    return [ended for path in others if (ended := _clear(path, failing))]


def names(launch: RecordedLaunch, processes: list[Process]) -> tuple[LeftProcess, ...]:
    """Return the processes with their names in `ps`. Call this while they live."""
    known = {child.identity: child.name for child in launch.children}
    return tuple(LeftProcess(known.get((seen.pid, seen.started)) or _command(seen.pid), seen.pid) for seen in processes)


def _clear(path: Path, failing: dict[str, str]) -> ClearedLaunch | None:
    launch = read(path)
    kind = launch_state(launch) if launch else None
    if launch is None or kind not in ("dead", "over"):
        return None
    with _locked(path) as is_ours:
        if not is_ours:
            return None
        ended, survivors = _end_processes(launch) if kind == "dead" else ((), ())
        containers = LaunchContainers(why=failing.get(launch.engine, ""))
        if not containers.why:
            containers = _ask_engine(launch, remove_containers)
        if containers.why:
            failing[launch.engine] = containers.why
        if not survivors and containers.is_over:
            _remove(path)
    if not ended and containers == LaunchContainers():
        return None
    return ClearedLaunch(launch.profile, launch.verb, ended, survivors, launch.id, launch.engine, containers)


def _end_processes(launch: RecordedLaunch) -> tuple[tuple[LeftProcess, ...], tuple[LeftProcess, ...]]:
    """End the processes of a launch. Returns them, and the survivors."""
    left = launch_processes(launch)
    before = left.alive()
    named = {each.pid: each for each in names(launch, before)}
    _wake_guards(launch.guards)
    found, survivors = end(left)
    if not survivors and left.cgroup:
        left.cgroup.remove()
    ended = list({(seen.pid, seen.started): seen for seen in (*before, *found)}.values())
    return _lefts(ended, named), _lefts(survivors, named)


def find_containers(launch: RecordedLaunch, state: LaunchState) -> LaunchContainers:
    """Return the containers that a launch in this state has left behind."""
    return _ask_engine(launch, list_containers) if state in ("dead", "over") else LaunchContainers()


def _ask_engine(launch: RecordedLaunch, ask: Callable[[ContainerEngine, str], LaunchContainers]) -> LaunchContainers:
    """Ask the engine of a dead launch, if it had one, with the variables of this process."""
    program = Path(launch.engine)
    if not program.is_absolute():
        return LaunchContainers()
    try:
        refuse_written(program)
        return ask(ContainerEngine(launch.engine, make_safe_environment()), launch.id)
    except LaunchError as error:  # an agent may have written it
        return LaunchContainers(why=str(error))


def _wake_guards(guards: Iterable[Known]) -> None:
    """Continue guards that were stopped, so that they end everything, and kill those that do not finish."""
    stopped = [guard for known in guards if (guard := _living(known))]
    for number in (signal.SIGCONT, signal.SIGKILL):
        for guard in stopped:
            send(guard, number)
        block_until_gone(stopped, within=GUARD_TIMEOUT)


def _lefts(processes: list[Process], named: dict[int, LeftProcess]) -> tuple[LeftProcess, ...]:
    return tuple(named.get(seen.pid) or LeftProcess("", seen.pid) for seen in processes)


def _living(known: Known) -> Process | None:
    seen = prepare.table().read(known.pid)
    return seen if seen and seen.started == known.started and not seen.is_dead else None


def _command(pid: int) -> str:
    import psutil

    try:
        return psutil.Process(pid).name()
    except psutil.Error:  # it has ended, or may not be inspected
        return ""


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock the record for the block. Yields whether it exists and the lock is ours.

    The kernel releases the lock if its holder dies. Without lock support two may end the same processes, which is
    harmless.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            is_ours = take_lock(descriptor)
        except OSError:
            is_ours = True
        yield is_ours and path.exists()
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # the directory is not ours to write; a process with the right to it will remove it


# A launch as the tree of its processes, as it is now: the view of `ps`.


GUARD = "guard"
SHIM = str(Path("acp_launch", "bridge", "shim.py"))  # the end of its path in every installation


class TreeProcess(Struct, frozen=True, kw_only=True):
    """A process of a launch. `name` is its role: of a child its own name, `shim NAME` where an agent holds a server.

    `shim NAME, copying` if descriptors cannot be passed; empty for other processes. `age` in seconds, `memory` resident
    bytes.
    """

    name: str
    command: str
    pid: int
    age: float
    memory: int
    restarts: int
    children: "tuple[TreeProcess, ...]"
    is_confined: bool = False
    is_contained: bool = False  # the client of an engine
    has_old_code: bool = False  # what it was started from has changed since


class LaunchTree(Struct, frozen=True, kw_only=True):
    """The tree of a launch. `root` is the launcher, or None if it is dead: `members` and `containers` survive it."""

    launch: RecordedLaunch
    state: LaunchState
    root: TreeProcess | None
    members: tuple[TreeProcess, ...]
    containers: LaunchContainers = LaunchContainers()

    @property
    def ended(self) -> tuple[Known, ...]:
        """Return the children that had a process and have none now: a server that waits for its next start, has failed,
        or has finished its work.
        """
        return self.launch.ended if self.root else ()

    @property
    def remote(self) -> list[Connection]:
        """Return the connections to remote servers that are not over."""
        return [each for each in self.launch.connections if self.root and each.state != "stopped"]


def launch_tree(launch: RecordedLaunch) -> LaunchTree | None:
    """Return the tree of a launch, or None if it has no process on this machine any more, and no container."""
    kind, snapshot = launch_state(launch), _Snapshot(launch)
    root: TreeProcess | None = None
    members: tuple[TreeProcess, ...] = ()
    if kind == "running" and (root := snapshot.member(launch.launcher.pid)) is not None:
        members = root.children
    elif kind in ("ending", "dead"):
        alive = launch_processes(launch).alive()
        pids = {seen.pid for seen in alive}
        members = snapshot.members(seen.pid for seen in alive if seen.parent not in pids)
    containers = find_containers(launch, kind)
    if root is None and not members and containers.is_over:
        return None
    return LaunchTree(launch=launch, state=kind, root=root, members=members, containers=containers)


class _Snapshot:
    """The processes of this machine at one moment, with the names that a launch has for its own."""

    def __init__(self, launch: RecordedLaunch) -> None:
        guards = (Known(guard.pid, guard.started, GUARD) for guard in launch.guards)
        self._known = {known.pid: known for known in (*launch.children, *guards) if _living(known)}
        self._boxed = {boxed.identity for boxed in launch.boxed}
        self._clients = {client.identity for client in launch.clients}
        self._code = launch.code
        self._table = PsutilTable()
        self._shown: set[int] = set()

    def member(self, pid: int) -> TreeProcess | None:
        """Return a process with its descendants.

        Each process appears once, whatever happened to its parents.
        """
        import psutil

        self._shown.add(pid)
        known = self._known.get(pid)
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1:
                    return None
                return TreeProcess(
                    name=known.name if known else _shim(process),
                    command=process.name(),
                    pid=pid,
                    age=max(0.0, time.time() - process.create_time()),
                    memory=process.memory_info().rss,
                    restarts=known.restarts if known else 0,
                    children=self.members(self._table.children(pid)),
                    is_confined=known is not None and known.identity in self._boxed,
                    is_contained=known is not None and known.identity in self._clients,
                    has_old_code=known is not None and bool(changed_code(self._code.get(known.identity, ()))),
                )
        except psutil.Error:
            return None

    def members(self, pids: Iterable[int]) -> tuple[TreeProcess, ...]:
        """Return the processes with their descendants; in place of a guard
        its children, because users do not need it."""
        found: list[TreeProcess] = []
        for pid in pids:
            member = None if pid in self._shown else self.member(pid)
            if member and member.name == GUARD:
                found += [replace(member, children=()), *member.children]
            elif member:
                found.append(member)
        return tuple(found)


def _shim(process: "psutil.Process") -> str:
    """Return `shim NAME` for one of our shims, known by how agents are told to start it; else an empty text."""
    match process.cmdline():
        case [*_, program, _, name] if program.endswith(SHIM):
            return f"shim {name}{', copying' if _copies(process.pid) else ''}"
    return ""


def _copies(pid: int) -> bool:
    """Whether a shim could not lend its stdin to the launcher: one that could has replaced it (Linux)."""
    try:
        return os.readlink(f"/proc/{pid}/fd/0") != os.devnull  # noqa: PTH115
    except OSError:
        return False
