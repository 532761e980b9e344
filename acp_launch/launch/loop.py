"""
Ctrl-C, SIGTERM and SIGHUP while the event loop runs, and the end of the time that a run may take.

    Ctrl-C in a turn      the turn is cancelled with `session/cancel`; its end ends the run (130)
    Ctrl-C before one     the run ends (130)
    SIGTERM, SIGHUP       the run ends (143, 129)
    a second one          no more patience: what is left is killed at once
    another, later        this process leaves, and its guards end what is left (leave.py)
    `--timeout`           as Ctrl-C (124), but there is no second one
"""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from acp_launch import leave
from acp_launch.errors import RunExpired, Stopped
from acp_launch.process import prepare
from acp_launch.process.guard import Guard, Guards
from acp_launch.session.connection import Budget, dealt_with

HURRY = 2.0  # seconds for the kill; it takes milliseconds
T = TypeVar("T")


class Interrupts:
    def __init__(self, on_interrupt: Callable[[], None] | None = None, *, budget: Budget | None = None) -> None:
        """With `on_interrupt`, that is what SIGINT calls, and all it does. `budget` is spent by the story."""
        self._on_interrupt = on_interrupt
        self.budget = budget or Budget()
        self.hurry = asyncio.Event()
        self.signal_number: int | None = None
        self._cancel_turn: Callable[[], None] | None = None
        self._expire_turn: Callable[[], None] | None = None
        self._story: asyncio.Task[Any] | None = None
        self._hurried = 0.0  # when a signal first made us hurry, on the loop's clock

    async def __aenter__(self) -> "Interrupts":
        self._loop = asyncio.get_running_loop()
        leave.set_listener(self._take)
        gc.freeze()  # what is there by now stays to the end, and need not be looked through again
        gc.enable()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # We go on listening until the loop is closed: a signal must not leave anything half-stopped.
        self._story = None

    async def watch(self, story: Coroutine[Any, Any, T]) -> T:
        """Run `story` to its end, or to the signal that ends it.

        Raises:
            Stopped: a signal ended it.
            RunExpired: there is no time left.
        """
        self._story = asyncio.current_task()
        try:
            with self.budget.spending(self._expired):
                return await story
        except asyncio.CancelledError:
            if self.signal_number is None and not self.budget.is_spent:
                raise
            dealt_with()
            if self.signal_number is not None:
                raise Stopped("stopped", signal_number=self.signal_number) from None
            raise RunExpired(f"the run took longer than {self.budget}") from None

    @contextmanager
    def turn(self, cancel: Callable[[], None], expire: Callable[[], None]) -> Iterator[None]:
        """While this runs, the first Ctrl-C calls `cancel` and nothing else; the end of the time calls `expire`."""
        self._cancel_turn, self._expire_turn = cancel, expire
        try:
            yield
        finally:
            self._cancel_turn = self._expire_turn = None

    def interrupt(self) -> None:
        """What Ctrl-C does where there is no `on_interrupt`."""
        self._end(signal.SIGINT)

    def check(self) -> None:
        """Raise Stopped if a signal came, while the agent was being stopped for instance."""
        if self.signal_number is not None:
            raise Stopped("stopped", signal_number=self.signal_number)

    def stopping(self) -> None:
        """From here on a signal only makes us hurry."""
        self._story = None

    def _take(self, number: int) -> bool:
        """A signal, in the midst of anything."""
        if self._loop.is_closed():
            return False
        # A flood of them fills the loop's own pipe, of which Python would complain on stderr.
        signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)
        self._loop.call_soon_threadsafe(self._arrived, number)
        return True

    def _arrived(self, number: int) -> None:
        leave.acknowledge()
        if number == signal.SIGINT and self._on_interrupt is not None:
            self._on_interrupt()
            return
        self._end(number)

    def _expired(self) -> None:
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
            self._hurry(number)
        if self._story is not None:
            self._story.cancel()
            self._story = None

    def _hurry(self, number: int) -> None:
        self.hurry.set()
        self._hurried = self._hurried or self._loop.time()
        if self._loop.time() - self._hurried > HURRY:
            leave.at_once(128 + number)


# Listening to the guards, and keeping the record of what runs, for as long as the event loop runs.


# Seconds between two looks at what our children have started, which `reap` is to know should the guards be killed too.
# Without /proc a look costs a pass over the whole machine.
EVERY = 0.5
EVERY_PORTABLY = 2.0


async def keep_informed(guard: Guard) -> None:
    """Never returns: cancel it."""
    while True:
        guard.look()
        await asyncio.sleep(EVERY if prepare.IS_LINUX else EVERY_PORTABLY)


@asynccontextmanager
async def guard_informed(guard: Guard) -> AsyncIterator[None]:
    """Listen to the guards, and keep the record of what runs, for as long as the block runs."""
    with listening(guard.guards):
        informing = asyncio.create_task(keep_informed(guard))
        try:
            yield
        finally:
            informing.cancel()
            await asyncio.wait({informing})
    if not informing.cancelled():
        informing.result()  # a bug of ours, which must not be silent


@contextmanager
def listening(guards: Guards | None) -> Iterator[None]:
    """Hear of each death as soon as a guard tells of it."""
    loop = asyncio.get_running_loop()
    posts = guards.living if guards else []
    for post in posts:
        assert guards is not None
        descriptor = post.line.fileno()
        loop.add_reader(descriptor, guards.drain)
        post.forget = partial(loop.remove_reader, descriptor)
    try:
        yield
    finally:
        for post in posts:
            post.forget()
            post.forget = lambda: None


@asynccontextmanager
async def supervised(
    guard: Guard, on_interrupt: Callable[[], None] | None = None, *, budget: Budget | None = None
) -> AsyncIterator[Interrupts]:
    """What surrounds everything that has children and an event loop: the guards are told, signals are heard."""
    async with guard_informed(guard), Interrupts(on_interrupt, budget=budget) as interrupts:
        yield interrupts


async def watched(guard: Guard, story: Callable[[Interrupts], Awaitable[T]]) -> T:
    """Run `story` in such surroundings.

    Raises:
        Stopped: a signal came, at its very end for instance.
    """
    async with supervised(guard) as interrupts:
        outcome = await story(interrupts)
        interrupts.check()
        return outcome
