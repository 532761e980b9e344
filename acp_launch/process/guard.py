"""
The launcher's side of its guards (guardian.py): two processes of ours between us and all that we start.

Forked before anything of a launch is started, asked to start each child, dismissed when all of them are ended. While
one of them lives, `spawn` goes through it and the status of a child comes from it; after the death of both we are the
parent ourselves, of what they leave and of what is started from then on. Free of asyncio; launch/loop.py listens to
them while the event loop runs.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from acp_launch import leave
from acp_launch.process import marker, prepare, spawn
from acp_launch.process.cgroup import Cgroup, of_launch
from acp_launch.process.guardian import ENDING, Launcher, become
from acp_launch.process.pidfd import NONE_TO_BE_HAD, block_until_gone, open_pid
from acp_launch.process.records import LaunchRecord, launcher
from acp_launch.process.spawn import Spawned
from acp_launch.process.table import Process
from acp_launch.process.tree import descendants, end_all_now, send
from acp_launch.process.wire import Line, pair

KILL = 2.5  # seconds for the guards to kill all there is; it takes milliseconds
FAREWELL = 2.0  # seconds for a guard to end when it is told to; it takes less than one millisecond
ANSWER = 10.0  # seconds for a guard to start a process; it takes less than one millisecond
NUDGE = 0.5  # seconds after which one that does not answer is woken, should it have been stopped


class GuardProcess:
    """One guard, as the launcher sees it."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.process: Process | None = None  # known once it has said so
        self.is_dead = False
        self.forget: Callable[[], object] = lambda: None  # called before the line is closed


class Guards:
    """The guards of this process, the lower one first; a `spawn.Parent`."""

    def __init__(self, posts: Sequence[GuardProcess], cgroup: Cgroup | None, upper: int) -> None:
        """`upper` is the pid of the upper one, our child."""
        self.posts = list(posts)
        self._upper = prepare.table().read(upper)
        self.cgroup = cgroup  # perhaps not there
        self.why = ""  # the last words of one that broke
        self._lock = threading.RLock()
        self._answers: list[Spawned | Exception] = []

    @property
    def living(self) -> list[GuardProcess]:
        return [post for post in self.posts if not post.is_dead]

    def pids(self) -> list[int]:
        return [post.process.pid for post in self.living if post.process]

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, streams: Sequence[int], *, leads: bool
    ) -> Spawned | None:
        """A new child of theirs with these streams; None when no guard is left.

        Raises:
            OSError, ValueError: it could not be started.
        """
        request = (
            "start",
            [os.fsencode(word) for word in argv],
            {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
            os.fsencode(cwd),
            leads,
        )
        with self._lock:
            for post in self.living:
                if (answer := self._ask(post, request, streams)) is not None:
                    if isinstance(answer, Spawned):
                        return answer
                    raise answer
        return None

    def drain(self) -> None:
        """Learn who has died, from the guards that live."""
        with self._lock:
            for post in self.living:
                self._listen(post)

    def await_word(self, spawned: Spawned, *, within: float) -> None:
        """Wait for the status of what has died, which its guard is about to tell; at most `within` seconds."""
        deadline = time.monotonic() + within
        with self._lock:
            while spawned.status is None and self.living and (left := deadline - time.monotonic()) > 0:
                post = self.living[0]  # the other one is its parent only after the death of this one
                if not post.line.wait(min(left, NUDGE)):
                    self.wake()
                self._listen(post)

    def tell(self, value: object) -> None:
        """Say something to both that is not answered."""
        with self._lock:
            for post in self.living:
                post.line.say(value)

    def wake(self) -> None:
        """Continue one that was stopped: it would start nothing, and not notice our death."""
        table = prepare.table()
        for post in self.living:
            seen = table.read(post.process.pid) if post.process else None
            if seen is not None and seen.is_stopped:
                send(seen, signal.SIGCONT)

    def known(self) -> list[Process]:
        """Those that live; waits for them to have said who they are."""
        with self._lock:
            for post in self.living:
                while post.process is None and not post.is_dead and post.line.wait(ANSWER):
                    self._listen(post)
        return [post.process for post in self.living if post.process is not None]

    def dismiss(self) -> None:
        """Let them end: within `FAREWELL` seconds each, or they are killed."""
        with self._lock:
            guards = self.known()
            self.drain()
            self.tell(("done",))
            for post in self.living:
                self._close(post)
            block_until_gone(guards, within=FAREWELL)
            for guard in guards:
                send(guard, signal.SIGKILL)
            block_until_gone(guards, within=FAREWELL)
            self._reap()
            spawn.inherit()
            if self.cgroup is not None:
                self.cgroup.remove()

    def abandon(self) -> None:
        """We are leaving in the midst of anything: let them kill what is left, and wait for that.

        Without the lock, and nothing is said: who knows what they were doing. One that has not told us who it is may
        not take a signal yet; it ends with its line, and the upper one after the lower one.
        """
        guards = [post.process for post in self.posts if post.process is not None and not post.is_dead]
        for guard in guards:
            send(guard, signal.SIGUSR1)
            send(guard, signal.SIGCONT)
        for post in self.posts:
            if post.process is None:
                post.line.close()
        block_until_gone([*guards, self._upper] if self._upper else guards, within=KILL)
        if not guards:
            end_all_now()

    def _ask(self, post: GuardProcess, request: object, streams: Sequence[int]) -> Spawned | Exception | None:
        """None when it has died; one that does not answer is killed."""
        post.line.say(request, streams)
        deadline = time.monotonic() + ANSWER
        while not self._answers and not post.is_dead:
            if not post.line.wait(NUDGE):
                self.wake()
            if post.process is not None and time.monotonic() > deadline:
                send(post.process, signal.SIGKILL)
            post.line.flush()
            self._listen(post)
        return self._answers.pop() if self._answers else None

    def _listen(self, post: GuardProcess) -> None:
        for value in post.line.heard():
            self._learn(post, value)
        if post.line.is_over:
            self._bury(post)

    def _learn(self, post: GuardProcess, value: object) -> None:
        match value:
            case ("here", int(pid)):
                post.process = prepare.table().read(pid)
            case ("ended", int(pid), int(status)):
                spawn.settle(pid, status)
            case ("started", int(pid), float(began)):  # known from now on: its end may be the next word
                self._answers.append(spawn.register(pid, began, is_fostered=True))
            case ("failed", int(number), str(why), bytes(where)):
                failure = OSError(number, why, os.fsdecode(where)) if number else ValueError(why)
                self._answers.append(failure)
            case ("broken", str(why)):
                self.why = f"a guard failed: {why}"

    def _bury(self, post: GuardProcess) -> None:
        """It is dying: be sure that it is dead, so that its children have come to the next one, or to us."""
        self._close(post)
        block_until_gone([post.process] if post.process else [], within=FAREWELL)
        self._reap()
        if not self.living:
            spawn.inherit()

    def _reap(self) -> None:
        """Fetch the status of those that are children of ours: the upper one, the lower one once that is dead."""
        for post in self.posts:
            if post.is_dead and post.process is not None:
                with suppress(ChildProcessError):
                    os.waitpid(post.process.pid, os.WNOHANG)

    @staticmethod
    def _close(post: GuardProcess) -> None:
        post.is_dead = True
        post.forget()
        post.line.close()


_ours: Guards | None = None  # forked, and not dismissed yet
_forget: list[Callable[[], None]] = []  # takes back what is to be done when we leave


def stand_by() -> Guards | None:
    """The guards of this process, forked at the first call; from here on what is spawned is a child of theirs.

    To be called before there are secrets, threads or an event loop. None where no process can be forked: raises
    nothing, for a run may go on without.
    """
    global _ours
    if _ours is None and hasattr(os, "fork"):
        # No handler of ours may run in a guard, nor here while there are guards that we do not know of.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*ENDING, signal.SIGALRM})
        try:
            _ours = _fork(mask)
            spawn.parent = _ours
            _forget.append(leave.at_exit(_ours.abandon))
        except OSError:
            return None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return _ours


def stand_down() -> None:
    """Dismiss them, if there are any: what they have started is ended."""
    global _ours
    guards, _ours, spawn.parent = _ours, None, None
    if guards is not None:
        guards.dismiss()
    while _forget:
        _forget.pop()()


class Guard:
    """The guards at work for one launch."""

    def __init__(self, record: LaunchRecord, note: Callable[[str], None]) -> None:
        """`note` is told, once, that there are no guards."""
        self.guards: Guards | None = None
        self._record = record
        self._note = note
        self._seen: set[Process] = set()
        self._has_noted = False

    def start(self) -> None:
        """From here on what is spawned is a child of the guards, and on the record."""
        self.guards = stand_by()
        spawn.witnesses.append(self._record)
        if self.guards is None:
            self._say_without("no process can be forked")
            return
        for guard in reversed(self.guards.known()):
            self._record.guard(guard)
        if self.guards.cgroup is not None:
            self._record.cgroup(self.guards.cgroup.path)
        if self._record.path is not None:
            self.guards.tell(("record", os.fspath(self._record.path)))

    def look(self) -> None:
        """List what our children have become, for the record. Costs some 20 µs for each of them (Linux)."""
        if self.guards is not None:
            self.guards.wake()
            self.guards.drain()
            if not self.guards.living:
                self._say_without(self.guards.why or "both of its guards have been killed")
        spawn.settle_lost()
        now = set(descendants(prepare.table()))
        for process in now - self._seen:
            self._record.seen(process)
        self._seen = now

    def dismiss(self) -> None:
        """Everything is ended, so let them end too."""
        if self._record in spawn.witnesses:
            spawn.witnesses.remove(self._record)
        stand_down()

    def _say_without(self, reason: str) -> None:
        if not self._has_noted:
            self._has_noted = True
            self._note(f"this run is unprotected ({reason}): what it starts would outlive a kill -9 of acp-launch")


def _fork(mask: Iterable[int]) -> Guards:
    """Fork the upper one, which forks the lower one. `mask` is of signals: theirs, once they ignore what ends us."""
    about = Launcher(
        pidfd=NONE_TO_BE_HAD if (pidfd := open_pid(os.getpid())) is None else pidfd,
        launch=marker.launch_id(),
        since=launcher().started,
        cgroup=of_launch(marker.launch_id()),
    )
    lines = [pair(), pair()]
    ours, theirs = [Line(line[0]) for line in lines], [Line(line[1]) for line in lines]
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
        if about.pidfd != NONE_TO_BE_HAD:
            os.close(about.pidfd)
    upper, lower = (GuardProcess(line) for line in ours)
    return Guards([lower, upper], about.cgroup, pid)
