"""
What is left of a launch whose launcher is dead, and its end. For the guard, which is a bare interpreter, and for
whoever cleans up after both: the standard library only, and little of it.

What belongs to a launch: the processes somebody has noted (only while their time of start is the one noted), those
that carry its id in their environment (Linux), the sessions the noted ones lead, and the descendants of all of these.
Times of start are what `identity.Process` counts in.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself would be half of what a guard costs
import os
import select
import sys
import time

VARIABLE = "ACP_LAUNCH_ID"  # in the environment of whatever we start: ID.SERIAL, see marker.py
POLITE = 1.0  # seconds after TERM
BOUND = 1.9  # seconds for everything; only what the kernel does not let go of takes as long
ROUND = 0.25  # seconds for one round's dead to be dead
LOOK_EVERY = 0.1  # seconds between two listings in the polite second; one costs some 20 µs a process of the machine
_LISTINGS = 20  # a fork bomb may outrun a few STOP waves, not this many
_IS_LINUX = sys.platform == "linux"

Known = set[tuple[int, float]]  # pid and time of start


class Seen:
    """A process in one listing."""

    __slots__ = ("group", "is_dead", "parent", "pid", "session", "started")

    def __init__(self, pid: int, parent: int, group: int, session: int, started: float, is_dead: bool) -> None:
        self.pid, self.parent, self.group, self.session = pid, parent, group, session
        self.started, self.is_dead = started, is_dead

    @property
    def identity(self) -> tuple[int, float]:
        return self.pid, self.started


class Remains:
    """What is left of one launch; remembers whom it saw, so that nobody is lost when parents die."""

    def __init__(self, known: Known, launch: str, since: float) -> None:
        """`since` is when the launcher was started: nothing older can carry its id. With an empty id nobody does."""
        self._known = set(known)
        self._mark = f"\0{VARIABLE}={launch}.".encode() if launch else b""
        self._since = since
        self._beyond: Known = set()  # not ours to signal

    def alive(self) -> list[Seen]:
        """Every living process of the launch; never ourselves, init, or anybody in our own session."""
        table = _table()
        for spared in (1, os.getpid()):  # nobody is found through them either
            table.pop(spared, None)
        ours = os.getsid(0)
        found = {pid for pid, seen in table.items() if self._is_known(seen) or self._is_marked(seen)}
        found |= self._session_mates(table)
        _add_descendants(table, found)
        living = [table[pid] for pid in sorted(found) if not table[pid].is_dead and table[pid].session != ours]
        self._known.update(seen.identity for seen in living)
        return [seen for seen in living if seen.identity not in self._beyond]

    def send(self, seen: Seen, number: int) -> None:
        """Signal exactly this process; whom we may not signal is not listed any more."""
        try:
            _send(seen, number)
        except ProcessLookupError:
            return
        except PermissionError:
            self._beyond.add(seen.identity)

    def _is_known(self, seen: Seen) -> bool:
        if _IS_LINUX:
            return seen.identity in self._known
        # ps(1) tells whole seconds
        return any(pid == seen.pid and abs(started - seen.started) <= 1 for pid, started in self._known)

    def _is_marked(self, seen: Seen) -> bool:
        return bool(self._mark) and seen.started >= self._since and self._mark in b"\0" + environment(seen.pid)

    def _session_mates(self, table: dict[int, Seen]) -> set[int]:
        """Whoever is in a session that one of the known leads now, so that its number cannot be another's."""
        led = {seen.pid for seen in table.values() if seen.session == seen.pid and self._is_known(seen)}
        return {seen.pid for seen in table.values() if seen.session in led}


def end(remains: Remains) -> tuple[list[Seen], list[Seen]]:
    """
    TERM everything (and CONT what is stopped), wait `POLITE`, then STOP and KILL round by round until nothing is left.

    Returns whom there was to end, and who survived: at most `BOUND` seconds later.
    """
    began = time.monotonic()
    ended: dict[tuple[int, float], Seen] = {}
    for seen in remains.alive():
        remains.send(seen, signal.SIGTERM)
        remains.send(seen, signal.SIGCONT)
        ended[seen.identity] = seen
    while (left := remains.alive()) and time.monotonic() < began + POLITE:
        ended.update((seen.identity, seen) for seen in left)
        _wait(left, min(LOOK_EVERY, began + POLITE - time.monotonic()))
    while (left := remains.alive() or remains.alive()) and time.monotonic() < began + BOUND:
        stopped = _freeze(remains)
        for seen in stopped:
            remains.send(seen, signal.SIGKILL)
        ended.update((seen.identity, seen) for seen in stopped)
        _wait(stopped, ROUND)
    return list(ended.values()), left


def _freeze(remains: Remains) -> list[Seen]:
    """Stop everything until a listing shows nobody new: what is stopped starts no replacement."""
    stopped: dict[tuple[int, float], Seen] = {}
    for _ in range(_LISTINGS):
        fresh = [seen for seen in remains.alive() if seen.identity not in stopped]
        if not fresh:
            break
        for seen in fresh:
            remains.send(seen, signal.SIGSTOP)
            stopped[seen.identity] = seen
    return list(stopped.values())


def _add_descendants(table: dict[int, Seen], found: set[int]) -> None:
    children: dict[int, list[int]] = {}
    for seen in table.values():
        children.setdefault(seen.parent, []).append(seen.pid)
    waiting = list(found)
    while waiting:
        fresh = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(fresh)
        waiting += fresh


def _send(seen: Seen, number: int) -> None:
    """The pidfd pins the process before its time of start is compared, so the signal cannot go astray in between."""
    descriptor = _open(seen.pid)
    try:
        if _IS_LINUX and ((now := _read(seen.pid)) is None or now.identity != seen.identity):
            return
        if descriptor < 0:
            os.kill(seen.pid, number)  # it was in a listing a moment ago
        else:
            signal.pidfd_send_signal(descriptor, number)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _open(pid: int) -> int:
    """A pidfd; -1 where there is none to be had (not Linux, an old kernel, a sandbox) or no such process."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _wait(left: list[Seen], within: float) -> None:
    """Until all of them have died, at most `within` seconds."""
    deadline = time.monotonic() + within
    watched = [descriptor for seen in left if (descriptor := _open(seen.pid)) >= 0]
    try:
        if watched:
            _poll(watched, deadline)
        elif within > 0:
            time.sleep(min(LOOK_EVERY, within))
    finally:
        for descriptor in watched:
            os.close(descriptor)


def _poll(watched: list[int], deadline: float) -> None:
    poll = select.poll()
    for descriptor in watched:
        poll.register(descriptor, select.POLLIN)
    left = len(watched)
    while left and (remaining := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(remaining * 1000):
            poll.unregister(descriptor)
            left -= 1


def _table() -> dict[int, Seen]:
    if not _IS_LINUX:
        return _by_ps()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    return {pid: seen for pid in pids if (seen := _read(pid))}


def _read(pid: int) -> Seen | None:
    text = _content(f"/proc/{pid}/stat")
    if not text:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # proc(5); the name may hold spaces and brackets
    is_dead = fields[0] in b"ZX" and int(fields[17]) <= 1
    return Seen(pid, int(fields[1]), int(fields[2]), int(fields[3]), float(fields[19]), is_dead)


def environment(pid: int) -> bytes:
    """NUL-separated; empty where it cannot be read."""
    return _content(f"/proc/{pid}/environ") if _IS_LINUX else b""


def _content(path: str) -> bytes:
    """Empty when its process is gone, or not ours to look into."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib would be most of our memory
            return file.readall()
    except OSError:
        return b""


def _by_ps() -> dict[int, Seen]:
    """Where there is no /proc (macOS): every process is taken for the session of its group."""
    import subprocess

    argv = ["/bin/ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart="]
    listing = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"LC_ALL": "C"}, check=False)
    table = {}
    for line in listing.stdout.decode(errors="replace").splitlines():
        pid, parent, group, state, *began = line.split()
        started = time.mktime(time.strptime(" ".join(began), "%a %b %d %H:%M:%S %Y"))
        table[int(pid)] = Seen(int(pid), int(parent), int(group), int(group), started, state.startswith("Z"))
    return table
