"""A launch as the tree of its processes, as it is now: what `ps` shows."""

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.process import prepare
from acp_launch.process.leftovers import Standing, remains, standing
from acp_launch.process.measure import measure
from acp_launch.process.records import Known, Launch
from acp_launch.process.table import Table

GUARD = "guard"
SHIM = str(Path("acp_launch", "bridge", "shim.py"))  # the end of its path, whichever installation it belongs to


class Member(Struct, frozen=True, kw_only=True):
    """`name` is what it is for acp-launch: of a child its own, `shim NAME` where an agent holds a server (`shim NAME,
    copying` where no descriptors can be passed), else empty.

    `age` in seconds, `memory` resident bytes.
    """

    name: str
    command: str
    pid: int
    age: float
    memory: int
    restarts: int
    children: "tuple[Member, ...]"


class Gone(Struct, frozen=True):
    """A child that has no process at the moment; `restarts` as its last one counted them."""

    name: str
    restarts: int


class Family(Struct, frozen=True, kw_only=True):
    """`root` is the launcher; None when it is dead, and `members` is what is left.

    `ended` are the children that had a process and have none now: a server that rests before its next start, has
    failed, or has done its work.
    """

    profile: str
    verb: str
    standing: Standing
    root: Member | None
    members: tuple[Member, ...]
    ended: tuple[Gone, ...] = ()


def family(launch: Launch) -> Family | None:
    """None for a launch that has no process on this machine any more."""
    names = {child.identity: child for child in launch.children}
    names |= {guard.identity: Known(guard.pid, guard.started, GUARD) for guard in launch.guards}
    kind = standing(launch)
    if kind == "running":
        return _running(launch, names)
    if kind in ("over", "foreign"):
        return None
    members = _left(launch, names)
    if not members:
        return None
    return Family(profile=launch.profile, verb=launch.verb, standing=kind, root=None, members=members)


_Names = dict[tuple[int, float], Known]


def _running(launch: Launch, names: _Names) -> Family | None:
    root = _member(prepare.table(), launch.launcher.pid, names, {launch.launcher.pid})
    if root is None:
        return None
    return Family(
        profile=launch.profile,
        verb=launch.verb,
        standing="running",
        root=root,
        members=root.children,
        ended=tuple(Gone(over.name, over.restarts) for over in launch.ended),
    )


def _left(launch: Launch, names: _Names) -> tuple[Member, ...]:
    table = prepare.table()
    alive = remains(launch).alive()
    pids = {seen.pid for seen in alive}
    shown: set[int] = set()
    tops = [seen.pid for seen in alive if seen.parent not in pids]
    return tuple(member for pid in tops for member in _members(table, pid, names, shown))


def _member(table: Table, pid: int, names: _Names, shown: set[int]) -> Member | None:
    """With its descendants; each process is shown once, whatever became of its parents meanwhile."""
    seen, measured = table.read(pid), measure(pid)
    if seen is None or seen.is_dead or measured is None:
        return None
    shown.add(pid)
    known = names.get((seen.pid, seen.started))
    below = [_members(table, child, names, shown) for child in table.children(pid) if child not in shown]
    return Member(
        name=known.name if known else _shim(pid),
        command=measured.command,
        pid=pid,
        age=measured.age,
        memory=measured.memory,
        restarts=known.restarts if known else 0,
        children=tuple(member for members in below for member in members),
    )


def _members(table: Table, pid: int, names: _Names, shown: set[int]) -> list[Member]:
    """One, and beside a guard what is below it: that it stands in between is of no interest to a reader."""
    member = _member(table, pid, names, shown)
    if member is None:
        return []
    return [replace(member, children=()), *member.children] if member.name == GUARD else [member]


def _shim(pid: int) -> str:
    """`shim NAME` when it is one of ours, by how agents are told to start it; else nothing."""
    match _argv(pid):
        case [*_, program, _, name] if program.endswith(SHIM):
            return f"shim {name}{', copying' if _copies(pid) else ''}"
    return ""


def _copies(pid: int) -> bool:
    """Whether it could not lend its stdin to the launcher: one that could has nothing there any more (Linux)."""
    try:
        return os.readlink(f"/proc/{pid}/fd/0") != os.devnull  # noqa: PTH115
    except OSError:
        return False


def _argv(pid: int) -> list[str]:
    """Nothing of a process that is gone or not ours to look at."""
    if prepare.IS_LINUX:
        try:
            written = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return []
        return written.decode(errors="replace").split("\0")[:-1]
    import psutil

    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []
