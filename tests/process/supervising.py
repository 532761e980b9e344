"""A supervisor under a test's eyes: everything it tells, in its order, and a clock that moves when it is told to."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from acp_launch.process.child import Child
from acp_launch.process.lifecycle import Change
from acp_launch.process.program import LocalProgram, Program, Running
from acp_launch.process.supervisor import Clock, Supervisor, Timer
from acp_launch.profile.model import Restart
from tests.looped import P, looped
from tests.patience import PATIENCE

from .liveness import Liveness


class HandClock:
    """Stands still until it is moved; what was due by then rings at once."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._timers: dict[HandTimer, float] = {}
        self.is_set = asyncio.Event()  # a timer has ever been

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        if delay <= 0:
            return asyncio.get_running_loop().call_soon(callback)
        timer = HandTimer(self._timers, callback)
        self._timers[timer] = self._now + delay
        self.is_set.set()
        return timer

    @property
    def rings_in(self) -> list[float]:
        """Seconds until each timer that is set, the soonest first."""
        return sorted(due - self._now for due in self._timers.values())

    def move(self, seconds: float) -> None:
        self._now += seconds
        for timer in [timer for timer, due in self._timers.items() if due <= self._now]:
            timer.cancel()
            timer.ring()


class HandTimer:
    def __init__(self, timers: "dict[HandTimer, float]", ring: Callable[[], None]) -> None:
        self._timers, self.ring = timers, ring

    def cancel(self) -> None:
        self._timers.pop(self, None)


class Watched:
    """Supervisor, watcher and listener; `story` has what was told, in its order.

    It runs a program, or a process with these arguments. Its own `on_started` and `on_lost` are called last.
    """

    def __init__(
        self,
        argv: Sequence[str] | Program,
        *,
        env: Mapping[str, str] | None = None,
        restart: Restart | None = None,
        name: str = "github",
        required: bool = True,
        grace: float = PATIENCE,
        clock: Clock | None = None,
        log: Callable[[bytes], None] | None = None,
    ) -> None:
        self.story: list[str] = []
        self.changes: list[Change] = []
        self.children: list[Child] = []
        self.on_started: Callable[[Child], None] = lambda child: None
        self.on_lost: Callable[[Change], None] = lambda change: None
        self._told = asyncio.Event()
        self.supervisor = Supervisor(
            LocalProgram(name, tuple(argv), env or {}, Path("/")) if isinstance(argv, Sequence) else argv,
            restart=restart or Restart(),
            start=30,
            required=required,
            watcher=self,
            emit=self._emit,
            log=log,
            grace=grace,
            clock=clock,
        )

    @property
    def state(self) -> str:
        return self.supervisor.state

    @property
    def last(self) -> Change:
        return self.changes[-1]

    def started(self, child: Running) -> None:
        if not isinstance(child, Child):
            self._tell("started")
            return
        self.children.append(child)
        self._tell("started")
        self.on_started(child)

    def ending(self) -> None:
        self._tell("ending")

    def on_gone(self, change: Change) -> None:
        assert change is self.changes[-1]
        self._tell(f"lost: {change.state}")
        self.on_lost(change)

    def _emit(self, change: Change) -> None:
        self.changes.append(change)
        self._tell(change.state)

    def _tell(self, what: str) -> None:
        self.story.append(what)
        self._told.set()

    async def until(self, what: str, times: int = 1) -> None:
        """Wait until that was told so many times, from the beginning on."""
        while self.story.count(what) < times:
            self._told.clear()
            await self._told.wait()

    async def until_final(self) -> None:
        while not self.supervisor.life.is_final:
            self._told.clear()
            await self._told.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[None]"]:
        """`run` as a task; cancelled if the block fails. What is not stopped there has to end by itself."""
        task = asyncio.create_task(self.supervisor.run())
        try:
            yield task
        except BaseException:
            task.cancel()
            await asyncio.wait({task})
            raise
        await self.until_final()
        await self.supervisor.stop()
        await asyncio.wait({task})


def supervised(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in an event loop of its own, within bounds, in which it leaves no task."""

    @looped
    @wraps(test)
    async def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async with asyncio.timeout(PATIENCE):
            await test(*args, **kwargs)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    return run


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def kill(watched: Watched) -> None:
    assert watched.supervisor.pid is not None
    os.kill(watched.supervisor.pid, signal.SIGKILL)


def already_set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def alive_of(alive: Liveness) -> list[int]:
    """A 1 for each of those heard that lives at this moment, a 0 for the dead."""
    return [0 if closed(line.fileno()) else 1 for line in alive._lines]


def closed(descriptor: int) -> bool:
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 100) == b""
    except BlockingIOError:
        return False
    finally:
        os.set_blocking(descriptor, True)
