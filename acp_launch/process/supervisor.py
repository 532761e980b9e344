"""
One supervised server at work: starts a process, notices its end, ends its tree, waits, starts the next.

The process of a remote server is a connection (program.py).

The calls to others, all made in the event loop:

    a process was started      emit(starting)   then watcher.started
    it answered the handshake  emit(ready)
    it ended                   emit(resting, failed or stopped)   then watcher.lost, before the rest of its tree is
                               killed and its pipes are closed; the next is started when the tree is gone
    it could not be started    the same, without a `starting` before it
    it is condemned            watcher.ending, and the same when it has ended
    it is renewed              the same if there is a process, `ending` at once; else emit(resting)   then
                               watcher.lost
    it begins asleep           emit(asleep)
    it is sent to sleep        watcher.ending at once, and the same when it has ended
    `stop`                     emit(stopping)   then watcher.ending, if there is a process, and the same when it has
                               ended; else emit(stopped)   then watcher.lost
    `run` is cancelled         emit(stopped)   then watcher.lost; then the whole tree is killed

So there is always a last `on_gone`, and its state is final; a server that is FAILED or STOPPED without `stop` may be
renewed. `lifecycle` decides, this module acts.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Protocol

from msgspec.structs import replace

from acp_launch.errors import AgentError, Upgraded
from acp_launch.process import lifecycle, node
from acp_launch.process.child import GRACE_SECONDS
from acp_launch.process.lifecycle import DOWNLOAD_TIMEOUT, OVERDUE, Change, Life, State
from acp_launch.process.program import AT_HAND, POLL_SECONDS, Program, Running, is_fetching
from acp_launch.process.spawn import observers
from acp_launch.process.tree import StopOutcome
from acp_launch.profile.model import RemoteRestart, Restart
from acp_launch.waits import first_of


class Watcher(Protocol):
    """The user of the processes, one after another. It must neither block nor raise."""

    def started(self, child: Running) -> None:
        """Use a new process. Its pipes may be used until `on_gone`."""

    def ending(self) -> None:
        """Stop using its pipes, which are about to be closed. Not called for a process that has died."""

    def on_gone(self, change: Change) -> None:
        """Note that there is no process any more. `change.state`: resting if another will follow, asleep if one will
        when it is needed, else failed or stopped.

        The rest of its output can be read from its pipe, now and not later. It is called once more, and resting, for a
        server that had no process and will get one.
        """


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """The event loop, or a test's own."""

    def time(self) -> float:
        """Return seconds since any moment; they never go back."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...


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


STDERR_LINES = 10  # that go with a change


class Supervisor:
    """Supervises one server. `start` and `download` are the `timeouts`, `grace` the ladder's, all in seconds.

    `log` gets every process's stderr, redacted. One that begins asleep is started when it is needed.
    """

    def __init__(
        self,
        program: Program,
        *,
        restart: Restart | RemoteRestart,
        start: float,
        required: bool,
        watcher: Watcher,
        emit: Callable[[Change], None],
        log: Callable[[bytes], None] | None = None,
        grace: float = GRACE_SECONDS,
        clock: Clock | None = None,
        download: float = DOWNLOAD_TIMEOUT,
        begins_asleep: bool = False,
    ) -> None:
        self.child: Running | None = None  # the current process
        self._program, self._required, self.grace = program, required, grace
        self._watcher, self._emit, self._log = watcher, emit, log
        self._clock = clock = clock or asyncio.get_running_loop()
        self._overdue = Alarm(clock, self._is_overdue)
        self._looking = Alarm(clock, self._look)
        self._may_fetch = program.may_fetch
        state: State = "asleep" if begins_asleep else "declared"
        self._life = Life(restart=restart, start=start, download=download, state=state)
        self._attached: Running | None = None  # `child`, also while the rest of its tree is ended
        self._called = asyncio.Event()  # set: `run` must look at the state again
        self._settled = asyncio.Event()  # up, or final
        self._resting = Alarm(clock, self._called.set)
        self._is_running = False
        self._has_let_go = False  # the watcher was told to stop using `child`
        self._over = asyncio.Event()  # `run` has returned
        self._outcome = StopOutcome(None, (), ())

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
        self._see()
        life = self._life
        until = life.begun + life.download if life.is_fetching else life.expected
        return max(0.0, until - self._clock.time())

    @property
    def retry(self) -> float | None:
        """Return the seconds until its next process is started; None if none is waited for."""
        life = self._life
        if life.state != "resting" or life.pause is None:
            return None
        return max(0.0, life.since + life.pause - self._clock.time())

    @property
    def has_answered(self) -> bool:
        """Whether some process of it has answered, perhaps not the latest, and none owes its first handshake."""
        return self._life.has_answered

    @property
    def is_fetching(self) -> bool:
        """Whether its package runner is downloading at this moment."""
        self._see()
        return self._life.is_fetching

    async def run(self) -> None:
        """Supervise the server until it is stopped. A FAILED server waits for that, or to be renewed.

        If cancelled, its tree is killed.
        """
        self._is_running = True
        try:
            if self._life.state == "asleep":
                self._tell()
                await self._rest()
            while not self._life.is_over:
                await self._live()
                await self._rest()
        finally:
            self._abandon()
            self._looking.set(None)
            self._is_running = False
            self._over.set()

    async def up(self) -> bool:
        """Wait until a process of it has answered, even the handshake that is awaited, or it is asleep; False if none
        will. The caller sets the time limit."""
        while not self._is_settled:
            await self._settled.wait()
        return not self._life.is_final

    @property
    def _is_settled(self) -> bool:
        life = self._life
        is_up = life.is_up and (life.awaited is None or life.state == "ready")
        return is_up or life.is_final or life.state == "asleep"

    async def stop(self, hurry: asyncio.Event | None = None) -> StopOutcome:
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

    def renew_as(self, program: Program, *, restart: Restart | RemoteRestart, required: bool) -> None:
        """Do the same with another program of the same kind."""
        self._program, self._required, self._may_fetch = program, required, program.may_fetch
        self._life = replace(self._life, restart=restart)
        self.renew()

    def need(self) -> None:
        """Start the next process sooner, because a request waits for it. Only for remote servers, and if asleep."""
        was_asleep = self._life.state == "asleep"
        if (was_asleep or self._life.state == "resting") and self._step(lifecycle.Needed()):
            self._called.set() if was_asleep else self._set_rest()

    def sleep(self) -> None:
        """End its process, by the ladder, until it is needed; this is not a restart."""
        if self.child is not None and self._step(lifecycle.Unused()):
            self._called.set()
            self._let_go(self.child)

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
        async with AsyncExitStack() as stack:
            try:
                begun = self._program.begin(restarts=self.restarts, log=self._log)
                child = await stack.enter_async_context(begun)
            except Upgraded as error:
                self._lose(lifecycle.Ended(how=error.message, reason=error.fix, follows="never"))
                return
            except AgentError as error:
                self._lose(lifecycle.Ended(reason="; ".join(filter(None, (error.message, error.fix)))))
                return
            self.child = self._attached = child
            try:
                await self._attend(child)
            except BaseException:
                self._abandon()  # now, while the pipes are open
                raise
            finally:
                self._attached = None

    async def _attend(self, child: Running) -> None:
        self._tell()
        self._looking.set(self._clock.time() + AT_HAND if self._may_fetch else None)
        self._has_let_go = False
        self._watcher.started(child)
        await first_of(child.wait(), self._called.wait())
        if not self._is_polite():
            child.hurry.set()
        if child.end is None:
            self._let_go(child)
            await first_of(child.wait(), child.stop(grace=self.grace))
        self._lose(child.end or lifecycle.Ended("could not be killed"))
        self._outcome = await child.stop(grace=self.grace)
        if self._outcome.survivors:
            pids = ", ".join(str(process.pid) for process in self._outcome.survivors)
            if self._step(lifecycle.Stuck(f"cannot kill processes that it left behind: {pids}")):
                self._tell_lost()

    def _let_go(self, child: Running) -> None:
        """Tell the watcher, once, that a living process's pipes are about to be closed."""
        if child.end is None and not self._has_let_go:
            self._has_let_go = True
            self._watcher.ending()

    def _is_polite(self) -> bool:
        """Whether to ask its process to end: it has done nothing wrong."""
        life = self._life
        return (life.state == "stopping" or life.wish == "pending" or life.is_unused) and not life.verdict

    async def _rest(self) -> None:
        """Wait until the next start, or until called. A server without a next start is only ever called."""
        if self._life.is_over:
            return
        self._called.clear()
        self._set_rest()
        try:
            await self._called.wait()
        finally:
            self._resting.set(None)

    def _set_rest(self) -> None:
        self._resting.set(None if self._life.pause is None else self._life.since + self._life.pause)

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
        if self._is_settled:
            self._settled.set()
        else:
            self._settled.clear()
        return True

    def _is_overdue(self) -> None:
        was_fetching = self._life.is_fetching
        self._see()
        if self._life.is_fetching and was_fetching:
            self.condemn(f"was still downloading after {self._life.download:g} s")
        elif self._life.is_fetching == was_fetching:
            self.condemn(f"{OVERDUE} {self._life.start:g} s")

    def _look(self) -> None:
        """Look at its package runner, and again until the server has answered."""
        self._see()
        if self._life.state == "starting":
            self._looking.set(self._clock.time() + POLL_SECONDS)

    def _see(self) -> None:
        """Note whether its package runner is downloading, and tell of a change."""
        life = self._life
        if not self._may_fetch or life.state != "starting" or life.answered is not None or self.pid is None:
            return
        self._step(lifecycle.Fetching(is_fetching(self.pid)))
        if self._life.is_fetching != life.is_fetching:
            self._tell()

    def _lose(self, end: lifecycle.Ended) -> None:
        """Note that the process has ended, or could not be started."""
        said = self.child.stderr_tail() if self.child else []
        advice = node.advice(said) if said else ""
        self._step(end)
        self._tell_lost((*said[-STDERR_LINES:], *filter(None, (advice,))))

    def _abandon(self) -> None:
        """Note that we are cancelled and the process will be killed."""
        was_final = self._life.is_final
        self._step(lifecycle.Stop())
        if self._life.state == "stopping":
            self._step(lifecycle.Ended())
        if not was_final:
            self._tell_lost()

    def _tell(self, detail: tuple[str, ...] = ()) -> Change:
        change = self._life.told(self._program.name, required=self._required, pid=self.pid, detail=detail)
        self._emit(change)
        for observer in observers if change.is_remote else ():
            observer.connected(change.server, change.state, change.restarts)
        return change

    def _tell_lost(self, detail: tuple[str, ...] = ()) -> None:
        self.child = None
        self._watcher.on_gone(self._tell(detail))
