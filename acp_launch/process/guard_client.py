"""
The launcher's side of its two guards (guard_process.py), which stand between us and everything that we start.

They are forked before anything of a launch is started, asked to start each child, and dismissed when all children have
ended. While a guard lives, `spawn` goes through it, and the status of a child comes from it. One that was killed is
replaced: the other one forks it below itself, and after the death of both we fork two. What is started from then on is
theirs. Earlier children may have come to us by then, and the guards know of those what the record says, what carries
the launch's mark, and those in its control group. Free of asyncio; engine/loop.py listens to them while the event
loop runs.
"""

import _socket
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from acp_launch import shutdown
from acp_launch.process import prepare, spawn
from acp_launch.process.cgroup import of_launch
from acp_launch.process.containers import (
    SHORT_REMOVE_TIMEOUT,
    ContainerEngine,
    describe_left,
    may_be_left,
    remove_containers,
)
from acp_launch.process.guard_process import ENDING, GuardLine, Launcher, become, wait
from acp_launch.process.records import LaunchRecord, launcher
from acp_launch.process.spawn import Spawned
from acp_launch.process.table import NO_PIDFD, Process, block_until_gone, open_pid
from acp_launch.process.tree import descendants, end_all_now, send
from acp_launch.waits import stretch

KILL_TIMEOUT = stretch(2.5)  # for the guards to kill everything; it takes milliseconds
END_TIMEOUT = stretch(2.0)  # for a guard to end when asked; it takes less than one millisecond
START_TIMEOUT = stretch(10.0)  # for a guard to start a process; it takes less than one millisecond
NUDGE_SECONDS = 0.5  # after which a silent guard is continued, in case it was stopped
GUARDS = 2
_KILLED = (  # by how many are left
    ("both of its guards were killed", "two others guard this run now"),
    ("one of its guards was killed", "another one has taken its place"),
)


class GuardProcess:
    """One guard, as the launcher sees it."""

    def __init__(self, line: GuardLine) -> None:
        self.line = line
        self.process: Process | None = None  # known once it has reported its pid
        self.is_dead = False
        self.forget: Callable[[], object] = lambda: None  # called before the line is closed


class Guards:
    """The guards of this process, the lower one first; a `spawn.Parent`."""

    def __init__(self, mask: Iterable[int]) -> None:
        """Fork them; `mask` as in `_fork`.

        Raises:
            OSError: no process can be forked.
        """
        self.cgroup = of_launch(prepare.launch_id())  # may not exist
        self.guards, self._upper = _fork(mask)
        self.why = ""  # the last message of a guard that failed
        self.listen: Callable[[GuardProcess], object] = lambda guard: None  # called with each guard that comes later
        self._lock = threading.RLock()
        self._answers: list[Spawned | Exception] = []

    @property
    def living(self) -> list[GuardProcess]:
        return [guard for guard in self.guards if not guard.is_dead]

    def fork_again(self) -> bool:
        """Fork others in the place of those that were killed; False if none can be forked."""
        with self._lock:
            try:
                if self.living:
                    new = [self._fork_below(self.living[0])]
                else:
                    with _without_signals() as mask:
                        new, self._upper = _fork(mask)
            except OSError:
                return False
            self.guards = [*new, *self.guards]
            for guard in new:
                self.listen(guard)
            return True

    def _fork_below(self, guard: GuardProcess) -> GuardProcess:
        """Let a guard fork another one, which is the lower one then. If it cannot, the line of that one is over."""
        line, its = _socket.socketpair()  # not inheritable
        guard.line.send(("fork",), [its.fileno()])
        self._await(guard, lambda: not guard.line.has_unsent)
        its.close()
        return GuardProcess(GuardLine(line))

    def pids(self) -> list[int]:
        return [guard.process.pid for guard in self.living if guard.process]

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, streams: Sequence[int], *, leads: bool
    ) -> Spawned | None:
        """Start a child of the guards with these streams. Returns None if no guard is left.

        Raises:
            OSError, ValueError: it could not be started.
        """
        request = (
            "start",
            [os.fsencode(word) for word in argv],
            {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
            os.fsencode(cwd),
            leads,
            len(streams),
        )
        with self._lock:
            for guard in self.living:
                if (answer := self._ask(guard, request, streams)) is not None:
                    if isinstance(answer, Spawned):
                        return answer
                    raise answer
        return None

    def drain(self) -> None:
        """Learn which children have died, from the living guards."""
        with self._lock:
            for guard in self.living:
                self._listen(guard)

    def await_word(self, spawned: Spawned, *, within: float) -> None:
        """Wait for the status of a dead process, which its guard is about to report; at most `within` seconds."""
        deadline = time.monotonic() + within
        with self._lock:
            while spawned.status is None and self.living and (left := deadline - time.monotonic()) > 0:
                if not wait([guard.line for guard in self.living], min(left, NUDGE_SECONDS)):
                    self.wake()
                self.drain()

    def tell(self, value: object) -> None:
        """Send a message that has no answer to both."""
        with self._lock:
            for guard in self.living:
                guard.line.send(value)

    def wake(self) -> None:
        """Continue a guard that was stopped: it would start nothing, and not notice our death."""
        table = prepare.table()
        for guard in self.living:
            seen = table.read(guard.process.pid) if guard.process else None
            if seen is not None and seen.is_stopped:
                send(seen, signal.SIGCONT)

    def known(self) -> list[Process]:
        """Return the living guards, after waiting for their pids."""
        with self._lock:
            for guard in self.living:
                self._await(guard)
        return [guard.process for guard in self.living if guard.process is not None]

    def dismiss(self) -> None:
        """Let them end. A guard that has not ended within `END_TIMEOUT` is killed."""
        with self._lock:
            guards = self.known()
            self.drain()
            self.tell(("done",))
            for guard in self.living:
                self._close(guard)
            block_until_gone(guards, within=END_TIMEOUT)
            for process in guards:
                send(process, signal.SIGKILL)
            block_until_gone(guards, within=END_TIMEOUT)
            self._reap()
            spawn.inherit()
            if self.cgroup is not None:
                self.cgroup.remove()

    def abandon(self) -> None:
        """Let the guards kill everything that is left, and wait for that, because we exit in the middle of anything.

        It takes no lock and sends nothing, because their state is unknown. A guard that has not reported its pid may
        not accept a signal yet; it ends with its line, and the upper one after the lower one.
        """
        guards = [guard.process for guard in self.guards if guard.process is not None and not guard.is_dead]
        for process in guards:
            send(process, signal.SIGUSR1)
            send(process, signal.SIGCONT)
        for guard in self.guards:
            if guard.process is None:
                guard.line.close()
        block_until_gone([*guards, self._upper] if self._upper else guards, within=KILL_TIMEOUT)
        if not guards or any(not spawned.is_fostered for spawned in spawn.live()):
            end_all_now()

    def _ask(self, guard: GuardProcess, request: object, streams: Sequence[int]) -> Spawned | Exception | None:
        """Send a request and wait for the answer; None if the guard has died."""
        guard.line.send(request, streams)
        self._await(guard, lambda: bool(self._answers))
        return self._answers.pop() if self._answers else None

    def _await(self, guard: GuardProcess, is_done: Callable[[], bool] | None = None) -> None:
        """Listen to a guard until `is_done`, or its pid is known, or it has died. One that takes too long is killed."""
        deadline = time.monotonic() + START_TIMEOUT
        while not guard.is_dead and not (is_done() if is_done else guard.process):
            if not guard.line.wait(NUDGE_SECONDS):
                self.wake()
            if time.monotonic() > deadline:
                if guard.process is None:
                    return
                send(guard.process, signal.SIGKILL)
            guard.line.flush()
            self._listen(guard)

    def _listen(self, guard: GuardProcess) -> None:
        for value in guard.line.receive():
            self._learn(guard, value)
        if guard.line.is_over:
            self._bury(guard)

    def _learn(self, guard: GuardProcess, value: object) -> None:
        match value:
            case ("here", int(pid)):
                guard.process = prepare.table().read(pid)
            case ("ended", int(pid), int(status)):
                spawn.settle(pid, status)
            case ("started", int(pid), float(began)):  # known from now on: the next message may report its end
                self._answers.append(spawn.register(pid, began, is_fostered=True))
            case ("failed", int(number), str(why), bytes(where)):
                failure = OSError(number, why, os.fsdecode(where)) if number else ValueError(why)
                self._answers.append(failure)
            case ("broken", str(why)):
                self.why = f"a guard failed: {why}"

    def _bury(self, guard: GuardProcess) -> None:
        """Ensure that a dying guard is dead, so that its children have come to the one above it, or to us."""
        self._close(guard)
        block_until_gone([guard.process] if guard.process else [], within=END_TIMEOUT)
        self._reap()
        spawn.inherit(is_all=not self.living)

    def _reap(self) -> None:
        """Fetch the status of the guards that are our children: the upper one, and those that were below it after its
        death."""
        for guard in self.guards:
            if guard.is_dead and guard.process is not None:
                with suppress(ChildProcessError):
                    os.waitpid(guard.process.pid, os.WNOHANG)
        table = prepare.table()
        self.guards = [
            guard
            for guard in self.guards
            if not guard.is_dead or (guard.process is not None and table.read(guard.process.pid) == guard.process)
        ]

    @staticmethod
    def _close(guard: GuardProcess) -> None:
        guard.is_dead = True
        guard.forget()
        guard.forget = lambda: None  # the number of its descriptor may be another one's soon
        guard.line.close()


_ours: Guards | None = None  # forked, and not dismissed yet
_forget: list[Callable[[], None]] = []  # removes the exit handlers


def start_guards() -> Guards | None:
    """Return the guards of this process, forked at the first call. What is spawned afterwards is their child.

    Call this before there are secrets, threads or an event loop. Returns None, and never raises, if no process can be
    forked: a run may continue without guards.
    """
    global _ours
    if _ours is None:
        prepare.prepare()  # before: a guard is not a process that was here before us
        try:
            with _without_signals() as mask:
                spawn.parent = _ours = Guards(mask)
                _forget.append(shutdown.at_exit(_ours.abandon))
        except OSError:
            return None
    return _ours


def dismiss_guards() -> None:
    """Dismiss the guards, if there are any. Everything they started has ended."""
    global _ours
    guards, _ours, spawn.parent = _ours, None, None
    if guards is not None:
        guards.dismiss()
    while _forget:
        _forget.pop()()


class Guard:
    """The guards of one launch."""

    def __init__(self, record: LaunchRecord, note: Callable[[str], None]) -> None:
        """Prepare them. `note` is called once if there are no guards."""
        self.guards: Guards | None = None
        self._record = record
        self._engine: ContainerEngine | None = None
        self._note = note
        self._seen: set[Process] = set()
        self._recorded: set[Process] = set()  # guards
        self._noted: set[str] = set()

    def start(self) -> None:
        """Fork the guards. What is spawned from now on is their child, and in the record."""
        self.guards = start_guards()
        spawn.observers.append(self._record)
        if self.guards is None:
            self._say_without("cannot fork a process")
            return
        self._record_guards(self.guards)
        if self.guards.cgroup is not None:
            self._record.cgroup(self.guards.cgroup.path)

    def use_engine(self, engine: ContainerEngine) -> None:
        """Have the containers of this launch removed whatever dies. Call this before a client of the engine is spawned.

        Each container must have `containers.label_arguments`.
        """
        self._engine = engine
        self._record.engine(engine.program)
        if self.guards is not None:
            self._tell_engine(self.guards)

    def look(self) -> None:
        """Record the descendants of our children. Costs about 20 µs for each process (Linux)."""
        if self.guards is not None:
            self.guards.wake()
            self.guards.drain()
            self._replace(self.guards)
        spawn.settle_lost()
        now = set(descendants(prepare.table()))
        for process in now - self._seen:
            self._record.seen(process)
        self._seen = now

    def hear(self) -> None:
        """Take the reports of the guards, and replace a dead one at once, unless it failed by itself."""
        if self.guards is not None:
            self.guards.drain()
            if not self.guards.why:
                self._replace(self.guards)

    def dismiss(self) -> None:
        """Let the guards end, because everything else has ended.

        A client of the engine that exited by itself has removed its container; else that is done here.
        """
        if self._record in spawn.observers:
            spawn.observers.remove(self._record)
        engine, self._engine = self._engine, None
        clients = [each for each in self._record.clients if may_be_left(each.poll(), awaited=each.awaits_container())]
        if engine is not None and clients:
            is_awaited = all(each.awaits_container() for each in clients)
            found = remove_containers(engine, prepare.launch_id(), SHORT_REMOVE_TIMEOUT if is_awaited else None)
            if not found.is_over:
                self._note(describe_left(found, engine.program, prepare.launch_id()))
            if not found.is_over or (is_awaited and not found.removed):
                self._record.leave()  # an engine that takes long may make the container after the death of its client
        dismiss_guards()

    def _replace(self, guards: Guards) -> None:
        left = len(guards.living)
        if left == GUARDS:
            return
        killed, then = _KILLED[left]
        why, guards.why = guards.why or killed, ""
        if guards.fork_again():
            self._record_guards(guards)
        if len(guards.living) == GUARDS:
            self._say_once(f"{why}; {then}")
        elif not guards.living:
            self._say_without(why)

    def _record_guards(self, guards: Guards) -> None:
        """Record the guards that are not in the record yet, and tell them of it."""
        for guard in reversed(guards.known()):
            if guard not in self._recorded:
                self._recorded.add(guard)
                self._record.guard(guard)
        if self._record.path is not None:
            guards.tell(("record", os.fspath(self._record.path)))
        self._tell_engine(guards)

    def _tell_engine(self, guards: Guards) -> None:
        if self._engine is not None:
            guards.tell(("engine", self._engine.program, dict(self._engine.env)))

    def _say_without(self, reason: str) -> None:
        self._say_once(f"this run is unprotected ({reason}): its processes would survive a kill -9 of acp-launch")

    def _say_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)


@contextmanager
def _without_signals() -> Iterator[Iterable[int]]:
    """Block signals: our handlers must not run in a guard, nor here before we know of the guards. Gives the mask."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*ENDING, signal.SIGALRM})
    try:
        yield mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _fork(mask: Iterable[int]) -> tuple[list[GuardProcess], Process | None]:
    """Fork the upper one, our child, which forks the lower one; return both, the lower one first, and our child.

    `mask` is their signal mask, set once they ignore the signals that end us.
    """
    about = Launcher(
        pidfd=NO_PIDFD if (pidfd := open_pid(os.getpid())) is None else pidfd,
        launch=prepare.launch_id(),
        since=launcher().started,
        cgroup=of_launch(prepare.launch_id()),
    )
    with suppress(ImportError):
        import ctypes  # noqa: F401 - all three of us need it: loaded once
    lines = [_socket.socketpair(), _socket.socketpair()]  # not inheritable
    ours, theirs = [GuardLine(line[0]) for line in lines], [GuardLine(line[1]) for line in lines]
    try:
        if not (pid := os.fork()):
            become(about, *theirs, mask=mask)
    except OSError:
        for line in ours:
            line.close()
        raise
    finally:
        for line in theirs:
            line.close()
        if about.pidfd != NO_PIDFD:
            os.close(about.pidfd)
    upper, lower = (GuardProcess(line) for line in ours)
    return [lower, upper], prepare.table().read(pid)
