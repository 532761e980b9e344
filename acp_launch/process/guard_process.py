"""
A guard: the parent of everything that a launch starts, which ends all of it if the launcher dies.

Two guards stand between the launcher and what it starts, each a child subreaper (prctl(2), Linux):

    launcher → upper guard → lower guard → agent, servers → their descendants

So a process below them that loses its parents becomes a child of the lower guard, whatever environment it removed,
however young it is and however often it changes its pid. If a guard dies, its children fall to the one above it, or to
the launcher, and the living one forks another below itself, which starts new processes from then on. If both die, the
launcher forks two others. What is above a guard then, it knows by the launch's record. Only if all three are killed at
the same instant, processes are left, and only without a control group (cgroup.py) some of them cannot be found.

A guard is forked from the launcher before there are threads, an event loop or secrets from a store, or from the other
guard; one that takes the place of two killed ones, later, is a copy of the launcher with all of its memory. It empties
its environment, which may hold others, keeps no descriptor except its end of the line, holds the environment of a child
only while starting it, and cannot be inspected (Linux). Without a subreaper (macOS) orphans go to launchd, and only
what `LaunchProcesses` finds is ended.

The messages on the line (`GuardLine`), from the launcher:

    ("start", argv, env, cwd, leads, count)
                                       start this with the `count` descriptors that came along; `leads` a session, or a
                                       group in the launcher's session
    ("fork",)                          fork another guard below this one; its end of its line came along
    ("record", path)                   the launch's record, to be removed when nothing is left
    ("engine", program, env)           what the launch has containers of, which are removed at the end (containers.py)
    ("done",)                          the launcher has ended everything itself

and SIGUSR1: the launcher is about to die, and everything left must be killed at once;

and from the guard:

    ("here", pid)                      its first message
    ("started", pid, began)            answers "start"; `began` is its time of start, 0.0 if that could not be read
    ("failed", errno, why, where)      the same; `where` is the path the error is about
    ("ended", pid, status)             a child has died, with its wait status
    ("broken", why)                    our bug: the guard is about to end
"""

import _socket
import gc
import marshal
import os
import select
import signal
import sys
import time
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from msgspec import Struct

from acp_launch.process import prepare
from acp_launch.process.cgroup import Cgroup
from acp_launch.process.containers import REMOVE_TIMEOUT, ContainerEngine, remove_containers
from acp_launch.process.records import read
from acp_launch.process.spawn import forget_environment, hide, rename, start_process
from acp_launch.process.table import NO_PIDFD, Process, block_until_gone, living
from acp_launch.process.tree import rounds, send
from acp_launch.waits import stretch

_LENGTH = 4  # bytes
_CHUNK_BYTES = 64 * 1024
_MOST_DESCRIPTORS = 4  # with one value
_DESCRIPTOR = 4  # bytes: a C int
_CLOSE_ON_EXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)


class GuardLine:
    """One end of a line between the launcher and a guard. `send` never blocks: the rest is held for `flush`.

    Each value is marshalled, after its length: both ends are the same interpreter, one forked from the other. Unlike a
    pipe, a socket cannot be opened through /proc, so no other process holds it open by accident.
    """

    def __init__(self, end: _socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._owed: deque[tuple[bytes, Sequence[int]]] = deque()
        self._read = b""
        self.descriptors: deque[int] = deque()  # the received descriptors, in their order
        self.is_over = False  # the other end is closed

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def has_unsent(self) -> bool:
        return bool(self._owed)

    def send(self, value: Any, descriptors: Sequence[int] = ()) -> None:
        """Send `value`; `descriptors`, at most four, must stay open until nothing is owed."""
        body = marshal.dumps(value)
        self._owed.append((len(body).to_bytes(_LENGTH, sys.byteorder) + body, descriptors))
        self.flush()

    def flush(self) -> None:
        """Send the held bytes, as far as the socket takes them."""
        try:
            while self._owed:
                payload, descriptors = self._owed[0]
                rights = _socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", descriptors)
                sent = self._end.sendmsg([payload], [rights] if descriptors else [])
                if sent < len(payload):
                    self._owed[0] = (payload[sent:], ())
                else:
                    self._owed.popleft()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the other end is gone
            self._owed.clear()
            self.is_over = True

    def receive(self) -> list[Any]:
        """Return the values that have arrived; sets `is_over` at the end."""
        while self._receive():
            pass
        values = []
        while (length := self._next_length()) is not None:
            values.append(marshal.loads(self._read[_LENGTH : _LENGTH + length]))
            self._read = self._read[_LENGTH + length :]
        return values

    def wait(self, seconds: float) -> bool:
        """Wait until something arrives, or owed data can be sent; False if neither happened in time."""
        return wait([self], seconds)

    def close(self) -> None:
        self.is_over = True
        self._end.close()
        while self.descriptors:
            os.close(self.descriptors.popleft())

    def _next_length(self) -> int | None:
        if len(self._read) < _LENGTH:
            return None
        length = int.from_bytes(self._read[:_LENGTH], sys.byteorder)
        return length if len(self._read) >= _LENGTH + length else None

    def _receive(self) -> bool:
        """Receive once. Returns whether there may be more."""
        if self.is_over:
            return False
        try:
            chunk, passed, _, _ = self._end.recvmsg(
                _CHUNK_BYTES, _socket.CMSG_SPACE(_MOST_DESCRIPTORS * _DESCRIPTOR), _CLOSE_ON_EXEC
            )
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            chunk, passed = b"", []
        for descriptor in array("i", b"".join(data for _, _, data in passed)):
            os.set_inheritable(descriptor, False)  # where the kernel has no MSG_CMSG_CLOEXEC
            self.descriptors.append(descriptor)
        self._read += chunk
        self.is_over = not chunk
        return bool(chunk)


def wait(lines: Iterable[GuardLine], seconds: float) -> bool:
    """Wait until something arrives on one of the lines, or owed data can be sent; False if neither happened in time."""
    poll = select.poll()
    for line in lines:
        poll.register(line.fileno(), select.POLLIN | (select.POLLOUT if line.has_unsent else 0))
    return bool(poll.poll(max(0.0, seconds) * 1000))


# The processes left of a launch whose launcher is dead, and their end: for the guards, and for `reap` when they are
# dead too.
#
# A launch owns: the descendants of its guards; the recorded processes (only while their time of start is the recorded
# one); those that carry the launch's id in their environment (Linux); the sessions that the recorded ones lead; and the
# descendants of all these. With a control group (cgroup.py), everything in it too.


POLITE_SECONDS = 1.0  # after TERM
MIN_POLITE_SECONDS = 0.25  # after TERM for what the lower guard has not found in the time that it took
KILL_TIMEOUT = stretch(10.0)  # for everything; only uninterruptible processes take as long
ROUND_SECONDS = 0.25  # for the processes of one round to die
POLL_SECONDS = 0.1  # between two listings in the polite second; one costs about 20 µs for each process

Identity = tuple[int, float]  # pid and time of start


class LaunchProcesses:
    """The living processes of a launch. It remembers each process it saw, so that none is lost when its parents die."""

    leader = 0  # its processes are in many groups

    def __init__(
        self, known: Iterable[Identity], launch: str, since: float, *, cgroup: Cgroup | None = None, root: int = 0
    ) -> None:
        """Describe the launch. `since` is when the launcher was started: older processes cannot carry its id.

        With an empty id no process carries it. `root` is the pid of a guard: this process, whose descendants are all of
        the launch.
        """
        self._known = set(known)
        self._mark = f"{launch}." if launch else ""
        self._since = since
        self._root = root
        self.cgroup = cgroup
        self._beyond: set[Process] = set()  # not ours to signal

    def alive(self) -> list[Process]:
        """Return every living process of the launch.

        Never this process, init, or another one in our own session unless it descends from the guard.
        """
        listing = prepare.table().all()
        below = self._descendants(listing, {self._root} if self._root else set())
        ours = os.getsid(0)
        for spared in (1, os.getpid()):  # their descendants are not followed either
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
        """Ask `process` to end. One that we may not signal is not listed any more."""
        if not send(process, signal.SIGTERM) and prepare.table().read(process.pid) == process:
            self._beyond.add(process)
        send(process, signal.SIGCONT)  # a stopped process cannot act on TERM

    def _is_known(self, seen: Process) -> bool:
        if prepare.IS_LINUX:
            return (seen.pid, seen.started) in self._known
        # A record keeps three digits less than the kernel.
        return any(pid == seen.pid and abs(started - seen.started) <= 1 for pid, started in self._known)

    def _is_marked(self, seen: Process) -> bool:
        is_young = bool(self._mark) and seen.started >= self._since
        return is_young and (prepare.mark_of(seen.pid) or "").startswith(self._mark)

    def _session_mates(self, listing: dict[int, Process]) -> set[int]:
        """Return the members of each session that a known process leads now, so that its number cannot be reused."""
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


def end(remains: LaunchProcesses, *, polite: float = POLITE_SECONDS) -> tuple[list[Process], list[Process]]:
    """Ask everything to end (TERM), wait `polite` seconds, then STOP and KILL round by round until nothing is left.

    Returns the processes that had to be ended, and those that survived `KILL_TIMEOUT` of it.
    """
    began = time.monotonic()
    ended: dict[Process, None] = {}
    for process in remains.alive():
        remains.ask(process)
        ended[process] = None
    while (left := remains.alive()) and time.monotonic() < began + polite:
        ended.update(dict.fromkeys(left))
        block_until_gone(left, within=max(0.0, min(POLL_SECONDS, began + polite - time.monotonic())))
        remains.reap()
    if remains.cgroup:
        remains.cgroup.kill()  # at once, before a listing can miss one
    for killed in rounds(remains):
        ended.update(dict.fromkeys(killed))
        if time.monotonic() > began + KILL_TIMEOUT:
            return list(ended), remains.alive()
        block_until_gone(killed, within=ROUND_SECONDS)
    return list(ended), []


# Signals that would end a guard; the default is restored in its children.
ENDING = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2),
)
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them


class Launcher(Struct, frozen=True, kw_only=True):
    """The launcher, as a guard knows it from the beginning."""

    pidfd: int  # readable once it is dead; NO_PIDFD if only the line shows that
    launch: str  # the launch's id
    since: float  # when it was started
    cgroup: Cgroup | None


def become(launcher: Launcher, upper: GuardLine, lower: GuardLine, *, mask: Iterable[int]) -> NoReturn:
    """Run the upper guard in this forked process, after forking the lower one. `mask` is the signal mask to set."""
    try:
        gc.disable()  # it would only touch memory that is shared with the launcher
        defaults = _ignore()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        hide()
        forget_environment()
        prepare.give_back_limit(os.getpid())
        keep_only({upper.fileno(), lower.fileno(), launcher.pidfd})
        _settle(f"acp_launch-guard {os.getppid()}")
        ours = prepare.table().read(os.getpid())
        pid = os.fork()
        if not pid:
            upper.close()
            _settle(f"acp_launch-guard {os.getpid()}")
            Guardian(lower, launcher, defaults=defaults, upper=ours).run()
        lower.close()
        Guardian(upper, launcher, defaults=defaults, lower=prepare.table().read(pid)).run()
    finally:
        os._exit(1)


def _settle(title: str) -> None:
    """Leave the launcher's process group, the one orphans come to, and set the title that `ps` recognizes."""
    os.setpgid(0, 0)
    prepare.become_subreaper()
    rename(title)


class Guardian:
    """One guard, in its own process. `run` does not return."""

    def __init__(
        self,
        line: GuardLine,
        launcher: Launcher,
        *,
        defaults: list[int],
        upper: Process | None = None,
        lower: Process | None = None,
        record: Path | None = None,
        engine: ContainerEngine | None = None,
    ) -> None:
        """Prepare a guard. `defaults` are the signals to restore in its children.

        The other guard is given, as `upper` or `lower`; `record` and `engine` are the launch's, if they are known.
        """
        self._line = line
        self._launcher = launcher
        self._upper, self._lower = upper, lower
        self._started: set[int] = set()
        self._tells_all = False  # report every dead child, because the lower guard's children have come to us
        self._record, self._engine = record, engine
        self._is_done = False
        self._is_hurried = False
        self._defaults = defaults

    def run(self) -> NoReturn:
        """Guard until the launcher is done or dead, then end the rest."""
        try:
            wakeup = self._wakeup()
            self._line.send(("here", os.getpid()))
            if self._upper is not None and self._launcher.cgroup is not None:
                self._launcher.cgroup.enter()
            self._watch(wakeup)
            if not self._is_done:
                self._end()
        except Exception as error:
            self._line.send(("broken", f"{type(error).__name__}: {error}"))
        finally:
            os._exit(0)

    def _watch(self, wakeup: int) -> None:
        """Wait until the launcher is done or dead."""
        poll, death = select.poll(), self._launcher.pidfd
        for descriptor in {death, wakeup} - {NO_PIDFD}:
            poll.register(descriptor, select.POLLIN)
        while not (self._is_done or self._is_hurried or self._line.is_over):
            poll.register(self._line.fileno(), select.POLLIN | (select.POLLOUT if self._line.has_unsent else 0))
            ready = {descriptor for descriptor, _ in poll.poll()}
            if death in ready:
                return
            if wakeup in ready:
                os.read(wakeup, 4096)
                self._reap()
            self._line.flush()
            for value in self._line.receive():
                self._do(value)

    def _do(self, value: Any) -> None:
        match value:
            case ("start", argv, env, cwd, leads, count):
                self._line.send(self._start(argv, env, cwd, count, leads=leads))
            case ("fork",):
                self._fork()
            case ("record", path):
                self._record = Path(path)
            case ("engine", program, env):
                self._engine = ContainerEngine(program, env)
            case ("done",):
                self._reap()  # or the last ones would be left to the launcher
                self._is_done = True

    def _fork(self) -> None:
        """Fork another guard below this one, which becomes the upper one."""
        line = GuardLine(_socket.socket(fileno=self._line.descriptors.popleft()))
        if self._lower is not None:  # it is dead, or no other one would be wanted, but may not be reaped yet
            self._tells_all = True
        ours = prepare.table().read(os.getpid())
        try:
            pid = os.fork()
        except OSError:
            line.close()  # which tells the launcher
            return
        if not pid:
            keep_only({line.fileno(), self._launcher.pidfd})
            _settle(f"acp_launch-guard {os.getppid()}")
            Guardian(
                line, self._launcher, defaults=self._defaults, upper=ours, record=self._record, engine=self._engine
            ).run()
        line.close()
        self._lower = prepare.table().read(pid)
        if self._launcher.cgroup is not None:
            self._launcher.cgroup.leave()  # the lower one is in it

    def _start(
        self, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, count: int, *, leads: bool
    ) -> tuple[object, ...]:
        streams = [self._line.descriptors.popleft() for _ in range(count)]
        try:
            pid = self._spawn(argv, env, cwd, streams, leads=leads)
        except OSError as error:
            where = error.filename if error.filename is not None else argv[0]
            return "failed", error.errno, error.strerror, os.fsencode(where)
        except ValueError as error:  # a NUL byte, or '=' in a variable's name
            return "failed", 0, str(error), argv[0]
        finally:
            for stream in streams:
                os.close(stream)
        self._started.add(pid)
        seen = prepare.table().read(pid)  # it exists, at least as a zombie: only this process can reap it
        return "started", pid, float(seen.started) if seen else 0.0

    def _spawn(self, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, streams: list[int], *, leads: bool) -> int:
        try:
            os.chdir(cwd)
            return start_process(argv, env, streams, leads=leads, defaults=self._defaults)
        finally:
            os.chdir("/")

    def _reap(self) -> None:
        """Fetch the status of all dead children, as init would, and report those that the launcher may wait for.

        After the death of the lower guard, its children come here.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self._lower is not None and pid == self._lower.pid:
                self._lower = None
                self._tells_all = True
            if pid in self._started or self._tells_all:
                self._started.discard(pid)
                self._line.send(("ended", pid, status))

    def _wakeup(self) -> int:
        """Return a descriptor that is readable after a child has died, or when the launcher is in a hurry."""
        ours, theirs = os.pipe()
        for each in (ours, theirs):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGUSR1, self._hurry)
        return ours

    def _hurry(self, number: int, frame: FrameType | None) -> None:
        self._is_hurried = True

    def _end(self) -> None:
        """End what the launcher has left. The lower guard does it, and the upper one ends the rest."""
        began, cgroup = time.monotonic(), self._launcher.cgroup
        for value in self._line.receive():  # the launcher's last words
            if value[0] in ("record", "engine"):
                self._do(value)
        if self._lower is not None:
            _let_finish(self._lower, within=KILL_TIMEOUT + 1 + (REMOVE_TIMEOUT if self._engine else 0))
        if cgroup is not None:
            cgroup.leave()
        if self._upper is not None:
            send(self._upper, signal.SIGCONT)  # in case it was stopped
        recorded = None if self._record is None else read(self._record)
        known = recorded.known if recorded else ()  # what has come to the launcher, with a guard that died
        remains = LaunchProcesses(known, self._launcher.launch, self._launcher.since, cgroup=cgroup, root=os.getpid())
        polite = max(MIN_POLITE_SECONDS, POLITE_SECONDS - (time.monotonic() - began))
        _, survivors = end(remains, polite=0 if self._is_hurried else polite)
        # After the client, which has asked the container's program to end, and before the record.
        if self._engine is not None and not remove_containers(self._engine, self._launcher.launch).is_over:
            return  # the record stays, for `reap`
        if survivors or (self._upper is not None and living([self._upper])):
            return  # the record stays, for `reap` or for the upper guard
        if cgroup is not None:
            cgroup.remove()
        if self._record is not None:
            _remove(self._record)


def _let_finish(lower: Process, *, within: float) -> None:
    send(lower, signal.SIGCONT)
    block_until_gone([lower], within=within)
    send(lower, signal.SIGKILL)
    block_until_gone([lower], within=1)


def keep_only(kept: set[int]) -> None:
    """Close everything of the launcher's: its streams, whose reader waits for their end, and its locks."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream, inheritable=False)
    for name in os.listdir("/dev/fd"):  # noqa: PTH208
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of this listing


def _ignore() -> list[int]:
    """Ignore the signals that would end this process. Returns those to restore in its children."""
    defaults: list[int] = [*RESTORED]
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # else we and our children must ignore it (nohup)
            defaults.append(number)
            signal.signal(number, signal.SIG_IGN)
    return defaults


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # the directory is no longer writable: the next start looks again
