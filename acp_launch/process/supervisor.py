"""
One supervised server with real processes: starts a process, notices its end, ends its tree, waits, starts the next.

The calls to others, all made in the event loop:

    a process was started      emit(starting)   then watcher.started
    it answered the handshake  emit(ready)
    it ended                   emit(resting, failed or stopped)   then watcher.lost, before the rest of its tree is
                               killed and its pipes are closed; the next is started when the tree is gone
    it could not be started    the same, without a `starting` before it
    it is condemned            watcher.ending, and the same when it has ended
    it is renewed              the same if there is a process, `ending` at once; else emit(resting)   then
                               watcher.lost
    `stop`                     emit(stopping)   then watcher.ending, if there is a process, and the same when it has
                               ended; else emit(stopped)   then watcher.lost
    `run` is cancelled         emit(stopped)   then watcher.lost; then the whole tree is killed

So there is always a last `lost`, and its state is final; a server that is FAILED or STOPPED without `stop` may be
renewed. `lifecycle` decides, this module acts.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from acp_launch.errors import AgentError
from acp_launch.process import lifecycle
from acp_launch.process.child import GRACE, Child, attach, first_of, stop
from acp_launch.process.lifecycle import OVERDUE, Change, Life, State
from acp_launch.process.spawn import Spawned, spawn
from acp_launch.process.table import Process
from acp_launch.process.tree import Exit, Outcome
from acp_launch.profile.model import Restart


class Watcher(Protocol):
    """The user of the processes, one after another. It must neither block nor raise."""

    def started(self, child: Child) -> None:
        """Use a new process. Its pipes may be used until `lost`."""

    def ending(self) -> None:
        """Stop using its pipes, which are about to be closed. Not called for a process that has died."""

    def lost(self, change: Change) -> None:
        """Note that there is no process any more. `change.state`: resting if another will follow, else failed or
        stopped.

        The rest of its output can be read from its pipe, now and not later. It is called once more, and resting, for a
        server that had no process and will get one.
        """


class Program(Struct, frozen=True):
    """What a supervised server is started from, with its secrets revealed. Its repr shows only the name.

    `argv` begins with an absolute path; `env` is the whole environment. `name` is the server's name in the profile, or
    `github#2` for a second process of it.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path

    def __repr__(self) -> str:
        return f"Program({self.name!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:  # msgspec's own shows every field
        return [("name", self.name)]


# Clocks: the event loop's, or a test's own.


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def time(self) -> float:
        """Return seconds since any moment; they never go back."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class LoopClock:
    """The clock of the running event loop."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback)


class Alarm:
    """A timer that calls `ring` once. Setting it again replaces the moment before."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock, self._ring = clock, ring
        self._timer: Timer | None = None

    def set(self, at: float | None) -> None:
        """Set the moment, in the clock's seconds. A past moment means now, None means never."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at is None else self._clock.call_later(max(0.0, at - self._clock.time()), self._ring)


LAST_WORDS = 10  # lines of stderr that go with a change
LOOP_CLOCK = LoopClock()


class Supervisor:
    """Supervises one server. `start` is `timeouts.start`, `grace` the ladder's, both in seconds.

    `log` gets every process's stderr, redacted.
    """

    def __init__(
        self,
        program: Program,
        *,
        restart: Restart,
        start: float,
        required: bool,
        watcher: Watcher,
        emit: Callable[[Change], None],
        log: Callable[[bytes], None] | None = None,
        grace: float = GRACE,
        clock: Clock = LOOP_CLOCK,
    ) -> None:
        self.child: Child | None = None  # the current process
        self._program, self._required, self.grace = program, required, grace
        self._watcher, self._emit, self._log = watcher, emit, log
        self._clock = clock
        self._overdue = Alarm(clock, self._is_overdue)
        self._life = Life(restart=restart, start=start)
        self._attached: Child | None = None  # `child`, also while the rest of its tree is ended
        self._called = asyncio.Event()  # set: `run` must look at the state again
        self._settled = asyncio.Event()  # up, or final
        self._is_running = False
        self._has_let_go = False  # the watcher was told to stop using `child`
        self._over = asyncio.Event()  # `run` has returned
        self._outcome = Outcome(None, (), ())

    @property
    def life(self) -> Life:
        return self._life

    @property
    def state(self) -> State:
        return self._life.state

    @property
    def restarts(self) -> int:
        """Return all restarts, including those that were given back."""
        return max(0, self._life.starts - 1)

    @property
    def pid(self) -> int | None:
        return self.child.pid if self.child else None

    @property
    def patience(self) -> float:
        """Return the seconds left of `start`, counted from the process's start or from when it was first awaited."""
        life = self._life
        return max(0.0, max(life.begun, life.awaited or life.begun) + life.start - self._clock.time())

    @property
    def has_answered(self) -> bool:
        """Whether some process of it has answered, perhaps not the latest."""
        return self._life.is_proven

    async def run(self) -> None:
        """Supervise the server until it is stopped. A FAILED server waits for that, or to be renewed.

        If cancelled, its tree is killed.
        """
        self._is_running = True
        try:
            while not self._life.is_over:
                await self._live()
                await self._rest()
        finally:
            self._abandon()
            self._is_running = False
            self._over.set()

    async def up(self) -> bool:
        """Wait until a process of it has answered; False if none will. The caller sets the time limit."""
        while not (self._life.is_up or self._life.is_final):
            await self._settled.wait()
        return self._life.is_up

    async def stop(self, hurry: asyncio.Event | None = None) -> Outcome:
        """End it by the ladder, once however often this is called, in any state. `hurry` cuts the grace.

        Returns when nothing is left, with the ladder's outcome for its latest process; without an exit if there was
        none.
        """
        before = self._life.state
        if self._step(lifecycle.Stop()):
            self._called.set()
            if self._life.state != before:
                self._tell() if self._life.state == "stopping" else self._tell_lost()
        if self._is_running:
            await self._until_over(hurry)
        return self._outcome

    def renew(self) -> None:
        """Start a new process at once, whatever happened to the last one. Does nothing after `stop`.

        Its restarts are given back, and this one does not count. A living process is ended first, by the ladder.
        """
        if not self._step(lifecycle.Renewed()):
            return
        self._called.set()
        if self._life.state == "resting":
            self._tell_lost()
        elif self.child is not None:
            self._let_go(self.child)  # now: from here on, messages are for the next process

    # What the watcher learned from the process.

    def answered(self) -> None:
        """Note that it has sent a valid message: it is up."""
        self._step(lifecycle.Answered())

    def ready(self, took: float | None = None) -> None:
        """Note that it has answered the agent's handshake. `took`: seconds of its start that it needed itself."""
        if self._step(lifecycle.Ready(took)):
            self._tell()

    def condemn(self, why: str) -> None:
        """Kill it, because it is useless. This counts as a failure; `why` completes "the server …"."""
        if self._step(lifecycle.Condemned(why)):
            self._called.set()

    def expect(self) -> None:
        """Note that it is awaited to be READY: from now, and from each start, it has `start` seconds for that."""
        self._step(lifecycle.Awaited(True))

    def unexpect(self) -> None:
        self._step(lifecycle.Awaited(False))

    # One process.

    async def _live(self) -> None:
        self._called.clear()
        self._step(lifecycle.Started())
        try:
            spawned = self._spawn()
        except AgentError as error:
            self._lose(lifecycle.Ended(reason="; ".join(filter(None, (error.message, error.fix)))))
            return
        async with attach(spawned, log=self._log) as child:
            self.child = self._attached = child
            try:
                await self._attend(child)
            except BaseException:
                self._abandon()  # now, while the pipes are open
                raise
            finally:
                self._attached = None

    def _spawn(self) -> Spawned:
        program = self._program
        return spawn(program.argv, env=program.env, cwd=program.cwd, name=program.name, restarts=self.restarts)

    async def _attend(self, child: Child) -> None:
        self._tell()
        self._has_let_go = False
        self._watcher.started(child)
        await first_of(child.wait(), self._called.wait())
        if not self._is_polite():
            child.hurry.set()
        if child.exit is None:
            self._let_go(child)
            await first_of(child.wait(), stop(child, grace=self.grace))
        self._lose(_ended(child.exit))
        self._outcome = await stop(child, grace=self.grace)
        if self._outcome.survivors and self._step(lifecycle.Stuck(_survived(self._outcome.survivors))):
            self._tell_lost()

    def _let_go(self, child: Child) -> None:
        """Tell the watcher, once, that a living process's pipes are about to be closed."""
        if child.exit is None and not self._has_let_go:
            self._has_let_go = True
            self._watcher.ending()

    def _is_polite(self) -> bool:
        """Whether to ask its process to end: it has done nothing wrong."""
        return (self._life.state == "stopping" or self._life.wish == "pending") and not self._life.verdict

    async def _rest(self) -> None:
        """Wait until the next start, or until called. A server without a next start is only ever called."""
        if self._life.is_over:
            return
        self._called.clear()
        alarm = Alarm(self._clock, self._called.set)
        alarm.set(None if self._life.pause is None else self._life.since + self._life.pause)
        try:
            await self._called.wait()
        finally:
            alarm.set(None)

    async def _until_over(self, hurry: asyncio.Event | None) -> None:
        if hurry is not None:
            await first_of(self._over.wait(), hurry.wait())
            if self._attached is not None:
                self._attached.hurry.set()
        await self._over.wait()

    # The state, and telling others about it.

    def _step(self, event: lifecycle.Event) -> bool:
        """Take one step. Returns whether it made a difference."""
        before, self._life = self._life, lifecycle.step(self._life, event, self._clock.time())
        if self._life is before:
            return False
        self._overdue.set(self._life.deadline)
        if self._life.is_up or self._life.is_final:
            self._settled.set()
        else:
            self._settled.clear()
        return True

    def _is_overdue(self) -> None:
        self.condemn(f"{OVERDUE} {self._life.start:g} s")

    def _lose(self, end: lifecycle.Ended) -> None:
        """Note that the process has ended, or could not be started."""
        detail = tuple(self.child.stderr_tail()[-LAST_WORDS:]) if self.child else ()
        self._step(end)
        self._tell_lost(detail)

    def _abandon(self) -> None:
        """Note that we are cancelled and the process will be killed."""
        was_final = self._life.is_final
        self._step(lifecycle.Stop())
        if self._life.state == "stopping":
            self._step(lifecycle.Ended())
        if not was_final:
            self._tell_lost()

    def _tell(self) -> None:
        self._emit(self._life.told(self._program.name, required=self._required, pid=self.pid))

    def _tell_lost(self, detail: tuple[str, ...] = ()) -> None:
        self.child = None
        change = self._life.told(self._program.name, required=self._required, detail=detail)
        self._emit(change)
        self._watcher.lost(change)


def _ended(exit: Exit | None) -> lifecycle.Ended:
    if exit is None:
        return lifecycle.Ended("could not be killed")
    return lifecycle.Ended(str(exit), is_clean=exit.status == 0)


def _survived(survivors: tuple[Process, ...]) -> str:
    pids = ", ".join(str(process.pid) for process in survivors)
    return f"cannot kill processes that it left behind: {pids}"
