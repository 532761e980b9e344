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
from collections.abc import Iterable

from acp_launch.process import marker, prepare, spawn
from acp_launch.process.identity import Process, Table
from acp_launch.process.spawn import Spawned, is_unreaped, live

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
