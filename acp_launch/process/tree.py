"""
The process tree of one spawned process: which processes belong to it, signals to them, and the final kill.

Agents are wrappers around wrappers, and put servers into groups and sessions of their own, so neither the pid nor its
group is enough. A tree is: the process; its descendants; every process it was ever seen to have, even if the parent of
that is gone; and, on Linux, the orphans that came to their subreapers: our guards, or us if there is no guard. Nothing
is signalled unless pid *and* start time match the listing, and, except for children of the guards, never anything in
our own session.

An orphan belongs to the tree whose mark it carries (`prepare`). If the mark cannot be read or was removed, it belongs
to the tree whose session it is still in. An orphan that left its session too, and whose parents died before we looked,
may belong to any tree: it is left alone while other trees live, and the last tree to end takes it along.

If this process had children before it spawned any (a wrapper started them and then became us), their orphans come to us
as well; the first process of a container gets everyone's. Then an orphan must prove that it is ours: by its mark, by a
session of ours, or by having been seen below a process that we spawned. Our process that removed its mark, left
its session and lost its parents before we looked is spared then.

`Tree` lists, `send` and `terminate` signal, `kill_tree` and `end_now` are the last rung, which nothing survives; `Exit`
and `StopOutcome` are their results.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from acp_launch.process import prepare, spawn
from acp_launch.process.spawn import STATUS_LOST, Spawned, is_unreaped, live
from acp_launch.process.table import NO_PIDFD, Process, Table, block_until_gone, open_process
from acp_launch.waits import stretch

_seen_below: set[Process] = set()  # processes seen below a spawned one that still live as far as we know


class Tree:
    """The tree of `spawned`. `alive` looks again each time, and remembers what it saw."""

    def __init__(self, spawned: Spawned) -> None:
        self.spawned = spawned
        self._seen: set[Process] = set()
        self._sessions = {spawned.pid}  # it was started in its own session

    @property
    def leader(self) -> int:
        return self.spawned.pid

    def alive(self) -> list[Process]:
        """Return every living process of the tree, parents before children where that is known."""
        table = prepare.table()
        found: dict[int, Process] = {}
        _walk(table, self._roots(table), found)
        # After the walk: processes orphaned in it have come to us by now.
        _walk(table, (orphan for orphan in adopted(table) if self._is_ours(orphan)), found)
        self._seen = set(found.values())
        self._sessions |= {process.session for process in found.values()}
        _seen_below.difference_update(self._seen)  # equal, but perhaps in another session by now
        _seen_below.update(self._seen)
        return list(found.values())

    def alive_for_sure(self) -> list[Process]:
        """Return what `alive` does, but an empty list must be seen twice.

        The kernel may leave out a process whose sibling exits at that moment (proc(5), "children").
        """
        return self.alive() or self.alive()

    def reap(self) -> None:
        """Fetch the status of the dead processes that are our children."""
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
        mark = prepare.mark_of(orphan.pid)
        if mark == self.spawned.mark or any(mark == other.mark for other in others):
            return mark == self.spawned.mark
        if orphan.group == self.spawned.pid:  # it was started in our session, as a login is
            return True
        return orphan.session in self._sessions or (not others and not _may_be_unrelated(orphan))


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
    """Return every living descendant of what we spawned, in any tree, and the orphans that came to us."""
    found: dict[int, Process] = {}
    _walk(table, (child for child in _children(table) if not _may_be_unrelated(child)), found)
    _remember_seen(table, set(found.values()))
    return list(found.values())


def _remember_seen(table: Table, now: set[Process]) -> None:
    """Remember the processes seen.

    A listing may omit one (`alive_for_sure`), and an orphan is in none before it comes to us.
    """
    missing = [table.read(old.pid) for old in _seen_below - now]
    now.update(seen for seen in missing if seen is not None and seen in _seen_below and not seen.is_dead)
    _seen_below.clear()
    _seen_below.update(now)


def _may_be_unrelated(child: Process) -> bool:
    """Whether our child, which came after `prepare`, may be an orphan from outside the launch.

    The children of a guard are always ours.
    """
    adopts_unrelated = os.getpid() == 1 or any(not before.is_dead for before in prepare.baseline())
    if child.parent != os.getpid() or is_unreaped(child) or not (prepare.IS_LINUX and adopts_unrelated):
        return False
    sessions = {met.session for met in _seen_below} | {spawned.pid for spawned in live()}
    return child not in _seen_below and child.session not in sessions and not prepare.has_our_mark(child.pid)


def adopted(table: Table) -> list[Process]:
    """Return our children and the guards' that we did not start.

    They were neither spawned, nor there before, nor in our own session.
    """
    if not prepare.IS_LINUX:
        return []
    return [child for child in _children(table) if not is_unreaped(child)]


def _children(table: Table) -> list[Process]:
    """Return the guards' children, and ours that came after `prepare` and are not in our own session."""
    guards = spawn.parent.pids() if spawn.parent else []
    ours = os.getsid(0)
    own = [child for child in children_of(os.getpid(), table) if child.session != ours]
    fostered = [child for guard in guards for child in children_of(guard, table)]
    return [child for child in (*own, *fostered) if child.pid not in guards and child not in prepare.baseline()]


def children_of(pid: int, table: Table) -> list[Process]:
    return [seen for child in table.children(pid) if (seen := table.read(child))]


def reap_adopted() -> None:
    """Fetch the status of adopted orphans that died, as init would. Until then they look alive to other programs.

    The guards fetch their own.
    """
    for orphan in adopted(prepare.table()):
        if orphan.is_dead and orphan.parent == os.getpid():
            os.waitpid(orphan.pid, os.WNOHANG)


# Signals reach exactly the intended processes: identities are compared, groups are ours, and no pid is recycled.


def send(process: Process, number: signal.Signals) -> bool:
    """Signal exactly this process. Returns False if it is gone, recycled, or not ours to signal."""
    try:
        if prepare.IS_LINUX:
            return _send_by_descriptor(process, number)
        return _send_by_pid(process, number)
    except (ProcessLookupError, PermissionError):
        return False


def terminate(processes: Iterable[Process]) -> None:
    """Ask all of them to end. Each group is signalled once: some programs treat a second TERM as an order to abort.

    bubblewrap is not asked: at its end all in its box is killed, and it ends when the program in it does.
    """
    listed = list(processes)
    left_out = {0, 1, os.getpgrp(), *(spawned.pid for spawned in live() if spawned.is_boxed)}
    for group in {process.group for process in listed} - left_out:
        _send_to_group(group, [process for process in listed if process.group == group], signal.SIGTERM)
    for process in listed:
        if process.is_stopped:
            send(process, signal.SIGCONT)  # a stopped process cannot act on TERM


def stop_groups(processes: Iterable[Process]) -> None:
    """STOP whole groups, in one step for the kernel: a fork bomb is faster than a listing, but not than that.

    Only groups of other sessions, which were all created below what we spawned.
    """
    ours = os.getsid(0)
    _signal_groups({process.group for process in processes if process.session != ours}, signal.SIGSTOP)


def kill_groups(processes: Iterable[Process], leader: int) -> None:
    """Kill groups whose orphans do not come to us, where a group reaches processes that no listing shows.

    Not needed on Linux.
    """
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
        return  # all gone: the number may name a foreign group by now
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
    """Signal through a pidfd. It pins the process before we compare, so that the signal cannot reach another one."""
    descriptor = open_process(process)
    if descriptor is None:
        return False
    if descriptor == NO_PIDFD:
        return _send_by_pid(process, number)
    try:
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
    return True


# The last rung, which nothing survives: STOP everything, so that nothing can fork a replacement; KILL everything; reap;
# look again. The dead hand their orphans over to us (Linux), and those appear in the next listing, so this goes on in
# rounds until a listing is empty.


KILL_TIMEOUT = stretch(
    5.0
)  # seconds for all rounds; SIGKILL itself takes microseconds, uninterruptible sleep may take for ever
ROUND_SECONDS = 0.25  # for the processes of one round to die
_LISTINGS = 20  # a fork bomb may outrun a few STOP waves, not this many


class Killable(Protocol):
    """A tree, or the processes that a launch left behind."""

    @property
    def leader(self) -> int:
        """Return the group it was started as, or 0."""

    def alive(self) -> list[Process]: ...

    def alive_for_sure(self) -> list[Process]:
        """Return what `alive` does, but an empty list must be seen twice."""

    def reap(self) -> None: ...


def rounds(tree: Killable) -> Iterator[list[Process]]:
    """Kill all that is alive, in rounds. Each step yields the processes to wait for; it ends when the tree is empty."""
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
    """Run the rounds in the event loop. Returns the survivors, from a listing at the very end."""
    from acp_launch.process.watch import until_gone

    deadline = time.monotonic() + KILL_TIMEOUT
    for killed in rounds(tree):
        if time.monotonic() > deadline:
            return tree.alive()
        await until_gone(killed, within=ROUND_SECONDS)
    return []


def end_now(spawned: Spawned) -> list[Process]:
    """Kill the whole tree, reap and close everything, without an event loop; at most `KILL_TIMEOUT`.

    Does nothing if it has ended already. It may run in any `finally`. Returns the survivors, if the kernel kept some.
    """
    if spawned.is_ended:
        return []
    tree, deadline, survivors = Tree(spawned), time.monotonic() + KILL_TIMEOUT, list[Process]()
    for killed in rounds(tree):
        if time.monotonic() > deadline:
            survivors = tree.alive()
            break
        block_until_gone(killed, within=ROUND_SECONDS)
    if spawned.is_fostered and spawned.status is None and spawn.parent is not None and not survivors:
        spawn.parent.await_word(spawned, within=KILL_TIMEOUT)
    spawned.mark_ended()
    spawned.close_all()  # not sooner: a process that ends with its stdin would be gone before we listed its descendants
    return survivors


def end_all_now() -> None:
    """Call `end_now` for everything that was spawned and has not ended."""
    for spawned in live():
        end_now(spawned)


# How a process ended, as a value and as words.


class Exit(Struct, frozen=True):
    """How a process ended: `status` or `signal`; both are None if another process reaped it."""

    status: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was killed by {_signal_name(self.signal)}"
        if self.status is None:
            return "exited; its status was lost"
        return f"exited with status {self.status}"


def from_wait_status(status: int) -> Exit:
    """Convert a status from waitpid(2), or `STATUS_LOST`."""
    if status == STATUS_LOST:
        return Exit(None, None)
    code = os.waitstatus_to_exitcode(status)
    return Exit(code, None) if code >= 0 else Exit(None, -code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have numbers only
        return f"signal {number}"


class StopOutcome(Struct, frozen=True):
    """The result of stopping a process.

    `exit` is None if there was no process, or if the kernel would not end it; then `survivors` is not empty. `steps`
    are the steps of the ladder that were taken.
    """

    exit: Exit | None
    steps: tuple[str, ...]
    survivors: tuple[Process, ...]
