"""
What is left of a launch whose launcher is dead, and its end: for the guards, and for `reap` when they are dead too.

What belongs to a launch: the descendants of its guards; the processes that were noted (only while their time of start
is the one noted); those that carry the launch's id in their environment (Linux); the sessions the noted ones lead; and
the descendants of all of these. Where the launch had a control group of its own, everything in it (cgroup.py).
"""

import os
import signal
import time
from collections.abc import Iterable

from acp_launch.process import marker, prepare
from acp_launch.process.cgroup import Cgroup
from acp_launch.process.pidfd import block_until_gone
from acp_launch.process.table import Process
from acp_launch.process.tree import rounds, send

POLITE = 1.0  # seconds after TERM
BOUND = 10.0  # seconds for everything; only what the kernel does not let go of takes as long
ROUND = 0.25  # seconds for one round's dead to be dead
LOOK_EVERY = 0.1  # seconds between two listings in the polite second; one costs some 20 µs a process of the machine

Identity = tuple[int, float]  # pid and time of start


class Remains:
    """Remembers each process it saw, so that none is lost when its parents die."""

    leader = 0  # its processes are of many groups

    def __init__(
        self, known: Iterable[Identity], launch: str, since: float, *, cgroup: Cgroup | None = None, root: int = 0
    ) -> None:
        """`since` is when the launcher was started: no older process can carry its id. With an empty id none does.

        `root` is the pid of a guard: this process, and all its descendants are of the launch.
        """
        self._known = set(known)
        self._mark = f"{launch}." if launch else ""
        self._since = since
        self._root = root
        self.cgroup = cgroup
        self._beyond: set[Process] = set()  # not ours to signal

    def alive(self) -> list[Process]:
        """Every living process of the launch; never this process, init, or another one in our own session unless it
        descends from the guard."""
        listing = prepare.table().all()
        below = self._descendants(listing, {self._root} if self._root else set())
        ours = os.getsid(0)
        for spared in (1, os.getpid()):  # nor is a process found through them
            listing.pop(spared, None)
        members = set(self.cgroup.members()) if self.cgroup else set()
        found = {
            pid for pid, seen in listing.items() if self._is_known(seen) or pid in members or self._is_marked(seen)
        }
        found |= self._session_mates(listing)
        found |= self._descendants(listing, found)
        living = [
            seen
            for pid, seen in listing.items()
            if not seen.is_dead and (pid in below or (pid in found and seen.session != ours))
        ]
        self._known.update((seen.pid, seen.started) for seen in living)
        return sorted((seen for seen in living if seen not in self._beyond), key=lambda seen: seen.pid)

    def alive_for_sure(self) -> list[Process]:
        return self.alive() or self.alive()

    def reap(self) -> None:
        """Fetch the status of our own children that died: until then they keep their pids."""
        while self._root:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return

    def ask(self, process: Process) -> None:
        """Ask `process` to end; one that we may not signal is not listed any more."""
        if not send(process, signal.SIGTERM) and prepare.table().read(process.pid) == process:
            self._beyond.add(process)
        send(process, signal.SIGCONT)  # a stopped process cannot act on TERM

    def _is_known(self, seen: Process) -> bool:
        if prepare.IS_LINUX:
            return (seen.pid, seen.started) in self._known
        # A record keeps three digits less than the kernel.
        return any(pid == seen.pid and abs(started - seen.started) <= 1 for pid, started in self._known)

    def _is_marked(self, seen: Process) -> bool:
        return bool(self._mark) and seen.started >= self._since and self._carries_mark(seen.pid)

    def _carries_mark(self, pid: int) -> bool:
        return (marker.mark_of(pid) or "").startswith(self._mark)

    def _session_mates(self, listing: dict[int, Process]) -> set[int]:
        """The members of each session that a known process leads now, so that its number cannot be another's."""
        led = {seen.pid for seen in listing.values() if seen.session == seen.pid and self._is_known(seen)}
        return {seen.pid for seen in listing.values() if seen.session in led}

    @staticmethod
    def _descendants(listing: dict[int, Process], roots: set[int]) -> set[int]:
        children: dict[int, list[int]] = {}
        for seen in listing.values():
            children.setdefault(seen.parent, []).append(seen.pid)
        found: set[int] = set()
        waiting = list(roots)
        while waiting:
            fresh = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
            found.update(fresh)
            waiting += fresh
        return found


def end(remains: Remains, *, polite: float = POLITE) -> tuple[list[Process], list[Process]]:
    """
    Ask everything to end (TERM), wait `polite` seconds, then STOP and KILL round by round until nothing is left.

    Returns the processes there were to end, and those that survived `BOUND` seconds of it.
    """
    began = time.monotonic()
    ended: dict[Process, None] = {}
    for process in remains.alive():
        remains.ask(process)
        ended[process] = None
    while (left := remains.alive()) and time.monotonic() < began + polite:
        ended.update(dict.fromkeys(left))
        block_until_gone(left, within=max(0.0, min(LOOK_EVERY, began + polite - time.monotonic())))
        remains.reap()
    if remains.cgroup:
        remains.cgroup.kill()  # at once, before a listing can miss one
    for killed in rounds(remains):
        ended.update(dict.fromkeys(killed))
        if time.monotonic() > began + BOUND:
            return list(ended), remains.alive()
        block_until_gone(killed, within=ROUND)
    return list(ended), []
