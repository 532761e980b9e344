"""
Everything that came of one spawned process, however it hides.

Agents are wrappers around wrappers, and put servers into groups and sessions of their own, so neither the pid nor its
group is enough. A tree is: the process; its descendants; every process it was ever seen to have, although its parent
is gone; and, on Linux, the orphans that came to their subreapers: to our guards, or to us when there is none. Nothing
is signalled unless pid *and* start time match what was listed, and, but for children of the guards, never anything in
our own session.

An orphan belongs to the tree whose mark it carries (marker.py). Where that cannot be read, or was scrubbed, it belongs
to the tree whose session it is still in. One that left its session too, and whose parents died before we looked, could
be anybody's: it is left alone while other trees live, and the last tree to end takes it along.

Where this process had children before it spawned any (a wrapper started them and then became us), orphans of theirs
come to us as well, and to the first process of a container anybody's. There an orphan must prove that it is ours: by
its mark, by a session of ours, or by having been seen below what we spawned. A child of our own that scrubs its
environment, leaves its session and loses its parents before anybody looked is spared then.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from acp_launch.process import marker, pidfd, prepare, spawn
from acp_launch.process.pidfd import block_until_gone
from acp_launch.process.spawn import STATUS_LOST, Spawned, is_unreaped, live
from acp_launch.process.table import Process, Table

_met: set[Process] = set()  # who was seen below what we spawned, and lives as far as we know


class Tree:
    """The tree of `spawned`; `alive` looks again each time, and remembers."""

    def __init__(self, spawned: Spawned) -> None:
        self.spawned = spawned
        self._seen: set[Process] = set()
        self._sessions = {spawned.pid}  # it was started in a session of its own

    @property
    def leader(self) -> int:
        return self.spawned.pid

    def alive(self) -> list[Process]:
        """Every living process of the tree, parents before children where that is known."""
        table = prepare.table()
        found: dict[int, Process] = {}
        _walk(table, self._roots(table), found)
        # After the walk: what was orphaned while we walked has come to us by now.
        _walk(table, (orphan for orphan in adopted(table) if self._is_ours(orphan)), found)
        self._seen = set(found.values())
        self._sessions |= {process.session for process in found.values()}
        _met.difference_update(self._seen)  # equal, but perhaps of another session by now
        _met.update(self._seen)
        return list(found.values())

    def alive_for_sure(self) -> list[Process]:
        """Like `alive`; only believes in an empty list when it sees it twice, because the kernel may leave out a
        process whose sibling exits at that moment (proc(5), "children")."""
        return self.alive() or self.alive()

    def reap(self) -> None:
        """Fetch the status of those that died and are children of ours."""
        self.spawned.poll()
        reap_adopted()

    def _roots(self, table: Table) -> list[Process]:
        first = table.read(self.spawned.pid)
        ours = [first] if first and first.started == self.spawned.started else []
        seen_now = [table.read(old.pid) for old in self._seen]
        return ours + [process for process in seen_now if process is not None and process in self._seen]

    def _is_ours(self, orphan: Process) -> bool:
        if orphan in self._seen:
            return True
        others = [spawned for spawned in live() if spawned is not self.spawned]
        mark = marker.mark_of(orphan.pid)
        if mark == self.spawned.mark or any(mark == other.mark for other in others):
            return mark == self.spawned.mark
        return orphan.session in self._sessions or (not others and not _is_stranger(orphan))


def _walk(table: Table, roots: Iterable[Process], found: dict[int, Process]) -> None:
    """Add the living of `roots` and all their descendants, parents first."""
    waiting = [root for root in roots if not root.is_dead and root.pid not in found]
    while waiting:
        process = waiting.pop(0)
        found[process.pid] = process
        for pid in table.children(process.pid):
            child = table.read(pid)
            if child and not child.is_dead and child.parent == process.pid and pid not in found:
                waiting.append(child)


def descendants(table: Table) -> list[Process]:
    """Every living process that came of what we spawned, whichever tree it is in, and orphans that came to us."""
    found: dict[int, Process] = {}
    _walk(table, (child for child in _children(table) if not _is_stranger(child)), found)
    _meet(table, set(found.values()))
    return list(found.values())


def _meet(table: Table, now: set[Process]) -> None:
    """A listing may leave somebody out (`alive_for_sure`), and who is orphaned is in none before it comes to us."""
    missing = [table.read(old.pid) for old in _met - now]
    now.update(seen for seen in missing if seen is not None and seen in _met and not seen.is_dead)
    _met.clear()
    _met.update(now)


def _is_stranger(child: Process) -> bool:
    """Whether nothing tells that a child of ours, who came after `prepare`, is no orphan of strangers.

    A guard has no other children than ours.
    """
    if child.parent != os.getpid() or is_unreaped(child) or not _adopts_strangers():
        return False
    sessions = {met.session for met in _met} | {spawned.pid for spawned in live()}
    return child not in _met and child.session not in sessions and not marker.is_ours(child.pid)


def _adopts_strangers() -> bool:
    return prepare.IS_LINUX and (os.getpid() == 1 or any(not before.is_dead for before in prepare.baseline()))


def adopted(table: Table) -> list[Process]:
    """Children of ours and of the guards that we did not start: neither spawned, nor there before, nor in our own
    session."""
    if not prepare.IS_LINUX:
        return []
    return [child for child in _children(table) if not is_unreaped(child)]


def _children(table: Table) -> list[Process]:
    """Children of the guards; and children of ours that came after `prepare`, and are not in our own session."""
    guards = spawn.parent.pids() if spawn.parent else []
    ours = os.getsid(0)
    own = [child for child in children_of(os.getpid(), table) if child.session != ours]
    fostered = [child for guard in guards for child in children_of(guard, table)]
    return [child for child in (*own, *fostered) if child.pid not in guards and child not in prepare.baseline()]


def children_of(pid: int, table: Table) -> list[Process]:
    return [seen for child in table.children(pid) if (seen := table.read(child))]


def reap_adopted() -> None:
    """Fetch the status of adopted orphans that died, as init would: until then they look alive to whoever asks.

    The guards fetch those of their own.
    """
    for orphan in adopted(prepare.table()):
        if orphan.is_dead and orphan.parent == os.getpid():
            os.waitpid(orphan.pid, os.WNOHANG)


# Signals that reach exactly whom they are meant for: identities are compared, groups are ours, nothing is recycled.


def send(process: Process, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone, recycled, or not ours to signal."""
    try:
        if prepare.IS_LINUX:
            return _send_by_descriptor(process, number)
        return _send_by_pid(process, number)
    except (ProcessLookupError, PermissionError):
        return False


def terminate(processes: Iterable[Process]) -> None:
    """Ask all of them to end: each group once, so that nobody gets a second, "really now", TERM."""
    listed = list(processes)
    for group in {process.group for process in listed if process.group not in (0, 1, os.getpgrp())}:
        _send_to_group(group, [process for process in listed if process.group == group], signal.SIGTERM)
    for process in listed:
        if process.is_stopped:
            send(process, signal.SIGCONT)  # a stopped process cannot act on TERM


def stop_groups(processes: Iterable[Process]) -> None:
    """STOP whole groups, in one step for the kernel: a fork bomb is faster than a listing, but not than that.

    Only groups of other sessions, all of which were made below what we spawned.
    """
    ours = os.getsid(0)
    _signal_groups({process.group for process in processes if process.session != ours}, signal.SIGSTOP)


def kill_groups(processes: Iterable[Process], leader: int) -> None:
    """Where orphans do not come to us, the group reaches some that no listing shows. Never needed on Linux."""
    _signal_groups({leader, *(process.group for process in processes)}, signal.SIGKILL)


def _signal_groups(groups: set[int], number: signal.Signals) -> None:
    for group in groups - {0, 1, os.getpgrp()}:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            continue  # empty by now, or (macOS) only zombies in it


def _send_to_group(group: int, members: list[Process], number: signal.Signals) -> None:
    table = prepare.table()
    if not any(table.read(member.pid) == member for member in members):
        return  # all gone: the number may name somebody else's group by now
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _send_by_pid(process: Process, number: signal.Signals) -> bool:
    if prepare.table().read(process.pid) != process:
        return False
    os.kill(process.pid, number)
    return True


def _send_by_descriptor(process: Process, number: signal.Signals) -> bool:
    """The pidfd pins the process before we compare, so the signal cannot go astray in between."""
    descriptor = pidfd.open_process(process)
    if descriptor is None:
        return False
    if descriptor == pidfd.NONE_TO_BE_HAD:
        return _send_by_pid(process, number)
    try:
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
    return True


# The last rung, which nothing survives: STOP everything, so that nobody can fork a replacement; KILL everything; reap;
# look again. Round by round until a listing is empty, because the dead hand their orphans over to us (Linux) and those
# show up in the next one.
#
# `end_now` does it without an event loop, for a `finally` that may run at any moment.


BOUND = 5.0  # seconds for all rounds; SIGKILL itself takes microseconds, uninterruptible sleep may take for ever
ROUND = 0.25  # seconds for one round's dead to be dead
_LISTINGS = 20  # a fork bomb may outrun a few STOP waves, not this many


class Killable(Protocol):
    """A tree, or what a launch has left."""

    @property
    def leader(self) -> int:
        """The group it was started as; 0 when there is none."""

    def alive(self) -> list[Process]: ...

    def alive_for_sure(self) -> list[Process]:
        """Like `alive`; believes in an empty list only when it sees it twice."""

    def reap(self) -> None: ...


def rounds(tree: Killable) -> Iterator[list[Process]]:
    """Each step kills all that is alive and gives what to wait for; the end means an empty tree."""
    tree.reap()
    while tree.alive_for_sure():
        stopped = _freeze(tree)
        for process in stopped:
            send(process, signal.SIGKILL)
        if not prepare.IS_LINUX:
            kill_groups(stopped, tree.leader)
        yield stopped
        tree.reap()


def _freeze(tree: Killable) -> list[Process]:
    """Stop everything, parents first, until a listing shows no new process."""
    stopped: dict[Process, None] = {}
    for _ in range(_LISTINGS):
        fresh = [process for process in tree.alive() if process not in stopped]
        if not fresh:
            break
        stop_groups(fresh)
        for process in fresh:
            send(process, signal.SIGSTOP)
            stopped[process] = None
    return list(stopped)


async def kill_tree(tree: Tree) -> list[Process]:
    """Run the rounds in the event loop; the last act before returning is a listing, whose survivors are returned."""
    from acp_launch.process.watch import until_gone

    deadline = time.monotonic() + BOUND
    for killed in rounds(tree):
        if time.monotonic() > deadline:
            return tree.alive()
        await until_gone(killed, within=ROUND)
    return []


def end_now(spawned: Spawned) -> list[Process]:
    """Kill the whole tree, reap and close everything, at once; at most `BOUND` seconds. Nothing when already ended.

    Returns the survivors, if the kernel would not let go of some.
    """
    if spawned.is_ended:
        return []
    survivors = _kill_blocking(Tree(spawned))
    if spawned.is_fostered and spawned.status is None and spawn.parent is not None and not survivors:
        spawn.parent.await_word(spawned, within=BOUND)
    spawned.mark_ended()
    spawned.close_all()  # not sooner: whoever ends with its stdin would be gone before we listed its descendants
    return survivors


def end_all_now() -> None:
    """`end_now` for whatever was spawned and has not been ended."""
    for spawned in live():
        end_now(spawned)


def _kill_blocking(tree: Tree) -> list[Process]:
    deadline = time.monotonic() + BOUND
    for killed in rounds(tree):
        if time.monotonic() > deadline:
            return tree.alive()
        block_until_gone(killed, within=ROUND)
    return []


# How a process ended, as a value and as words.


class Exit(Struct, frozen=True):
    """`status` or `signal`, the other is None; both are when somebody else reaped the process."""

    status: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was killed by {_signal_name(self.signal)}"
        if self.status is None:
            return "exited; its status was lost"
        return f"exited with status {self.status}"


def from_wait_status(status: int) -> Exit:
    """What waitpid(2) reported, or `STATUS_LOST`."""
    if status == STATUS_LOST:
        return Exit(None, None)
    code = os.waitstatus_to_exitcode(status)
    return Exit(code, None) if code >= 0 else Exit(None, -code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have numbers only
        return f"signal {number}"


# What stopping came to, as a value.


class Rung(Struct, frozen=True):
    """One step of the ladder; `after` is in seconds since stopping began."""

    name: str
    after: float


class Outcome(Struct, frozen=True):
    """`exit` is None when there was no process, and, like full `survivors`, when the kernel would not let it go."""

    exit: Exit | None
    rungs: tuple[Rung, ...]
    survivors: tuple[Process, ...]
