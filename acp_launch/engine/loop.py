"""
Signals, the time limit of a run, and the guards, while an event loop runs.

    Ctrl-C in a turn      the turn is cancelled with `session/cancel`; its end ends the run (130)
    Ctrl-C before one     the run ends (130)
    SIGTERM, SIGHUP       the run ends (143, 129)
    a second signal       all remaining processes are killed at once
    another, later        this process exits, and its guards end the remaining processes (shutdown.py)
    `--timeout`           as Ctrl-C (124), but once only

`supervise` surrounds everything with children and an event loop. It keeps the guards informed and handles signals.
"""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from acp_launch import shutdown
from acp_launch.errors import RunExpired, Stopped
from acp_launch.session.connection import Budget, uncancel_current_task
from acp_launch.waits import stretch, to_beat

if TYPE_CHECKING:
    from acp_launch.process.guard_client import Guard, GuardProcess, Guards

HURRY = stretch(2.0)  # seconds for the kill; it takes milliseconds
T = TypeVar("T")


class Interrupts:
    """Handles signals and the time limit of a run. `hurry` is set when remaining processes must be killed at once."""

    def __init__(self, on_interrupt: Callable[[], None] | None = None, *, budget: Budget | None = None) -> None:
        """SIGINT only calls `on_interrupt`, if it is given. `budget` is the time limit of the watched story."""
        self._on_interrupt = on_interrupt
        self.budget = budget or Budget()
        self.hurry = asyncio.Event()
        self.signal_number: int | None = None
        self._cancel_turn: Callable[[], None] | None = None
        self._expire_turn: Callable[[], None] | None = None
        self._story: asyncio.Task[Any] | None = None
        self._hurried = 0.0  # loop time of the first signal that set `hurry`

    async def __aenter__(self) -> "Interrupts":
        self._loop = asyncio.get_running_loop()
        shutdown.set_listener(self._take)
        gc.freeze()  # present objects stay to the end, so the collector need not look at them
        gc.enable()
        return self

    async def __aexit__(self, *error: object) -> None:
        # Signals are handled until the loop is closed, so that none leaves a stop unfinished.
        self._story = None

    async def watch(self, story: Coroutine[Any, Any, T]) -> T:
        """Run `story` to its end, or until a signal ends it.

        Raises:
            Stopped: a signal ended it.
            RunExpired: the time limit is reached.
        """
        if self.signal_number is not None:  # it came between two stories
            story.close()
            self.check()
        self._story = asyncio.current_task()
        try:
            with self.budget.spending(self._expire):
                return await story
        except asyncio.CancelledError:
            if self.signal_number is None and not self.budget.is_spent:
                raise
            uncancel_current_task()
            if self.signal_number is not None:
                raise Stopped("stopped", signal_number=self.signal_number) from None
            raise RunExpired(f"the run took longer than {self.budget}") from None

    @contextmanager
    def turn(self, cancel: Callable[[], None], expire: Callable[[], None]) -> Iterator[None]:
        """While the block runs, the first Ctrl-C only calls `cancel`, and the time limit calls `expire`."""
        self._cancel_turn, self._expire_turn = cancel, expire
        try:
            yield
        finally:
            self._cancel_turn = self._expire_turn = None

    def interrupt(self) -> None:
        """Do what Ctrl-C does without `on_interrupt`."""
        self._end(signal.SIGINT)

    def check(self) -> None:
        """Raise Stopped if a signal came, for instance while the agent was being stopped."""
        if self.signal_number is not None:
            raise Stopped("stopped", signal_number=self.signal_number)

    def stopping(self) -> None:
        """Let further signals only set `hurry`."""
        self._story = None

    def _take(self, number: int) -> bool:
        """Take a signal, at any point of the program."""
        if self._loop.is_closed():
            return False
        # A flood of signals fills the loop's own pipe, and Python would report that on stderr.
        signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)
        self._loop.call_soon_threadsafe(self._handle, number)
        return True

    def _handle(self, number: int) -> None:
        shutdown.acknowledge()
        if number == signal.SIGINT and self._on_interrupt is not None:
            self._on_interrupt()
            return
        self._end(number)

    def _expire(self) -> None:
        if self._expire_turn is not None:
            self._expire_turn()
        elif self._story is not None:
            self._story.cancel()
            self._story = None

    def _end(self, number: int) -> None:
        first = self.signal_number is None
        self.signal_number = self.signal_number or number
        if first and number == signal.SIGINT and self._cancel_turn:
            self._cancel_turn()
            return
        if not first or self._story is None:
            self.hurry.set()
            self._hurried = self._hurried or self._loop.time()
            if self._loop.time() - self._hurried > HURRY:
                shutdown.exit_now(128 + number)
        if self._story is not None:
            self._story.cancel()
            self._story = None


# Guards.

# Seconds between two records of our children's processes, which `reap` needs if the guards are killed too.
# Without /proc each costs a pass over all processes of the machine.
EVERY = 0.5
EVERY_PORTABLY = 2.0


@asynccontextmanager
async def guard_informed(guard: "Guard", every: float = EVERY) -> AsyncIterator[None]:
    """Listen to the guards while the block runs, and record the running processes, `every` so many seconds on Linux."""
    from acp_launch.process import prepare

    now = asyncio.get_running_loop().time

    async def look() -> None:
        while True:
            guard.look()
            await asyncio.sleep(to_beat(now(), every if prepare.IS_LINUX else EVERY_PORTABLY))

    with hear_guards(guard.guards, guard.hear):
        informing = asyncio.create_task(look())
        try:
            yield
        finally:
            informing.cancel()
            await asyncio.wait({informing})
    if not informing.cancelled():
        informing.result()  # raises our bug, which must not stay silent


@contextmanager
def hear_guards(guards: "Guards | None", hear: Callable[[], None] | None = None) -> Iterator[None]:
    """Read the reports of the guards as soon as they come, by `hear` if it is given."""
    if guards is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def listen(post: "GuardProcess") -> None:
        descriptor = post.line.fileno()
        loop.add_reader(descriptor, hear or guards.drain)
        post.forget = partial(loop.remove_reader, descriptor)

    for post in guards.living:
        listen(post)
    guards.listen = listen
    try:
        yield
    finally:
        guards.listen = lambda post: None
        for post in guards.guards:
            post.forget()
            post.forget = lambda: None


@asynccontextmanager
async def supervise(
    guard: "Guard",
    on_interrupt: Callable[[], None] | None = None,
    *,
    budget: Budget | None = None,
    every: float = EVERY,
) -> AsyncIterator[Interrupts]:
    """Keep the guards informed and handle signals while the block runs. `every` as `guard_informed`."""
    async with guard_informed(guard, every), Interrupts(on_interrupt, budget=budget) as interrupts:
        yield interrupts


def run_supervised(guard: "Guard", story: Callable[[Interrupts], Awaitable[T]]) -> T:
    """Run an event loop, and `story` in it within `supervise`.

    Raises:
        Stopped: a signal came, possibly while the loop was being closed.
    """
    handled: list[Interrupts] = []

    async def told() -> T:
        async with supervise(guard) as interrupts:
            handled.append(interrupts)
            return await story(interrupts)

    outcome = asyncio.run(told())
    handled[0].check()
    return outcome
