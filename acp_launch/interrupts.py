"""
Ctrl-C, SIGTERM and SIGHUP while the event loop runs.

    Ctrl-C in a turn      the turn is cancelled with `session/cancel`; its end ends the run (130)
    Ctrl-C before one     the run ends (130)
    SIGTERM, SIGHUP       the run ends (143, 129)
    a second one          no more patience: what is left is killed at once
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from acp_launch.errors import Stopped

T = TypeVar("T")


class Interrupts:
    def __init__(self, on_interrupt: Callable[[], None] | None = None) -> None:
        """With `on_interrupt`, that is what SIGINT calls, and all it does."""
        self._on_interrupt = on_interrupt
        self.hurry = asyncio.Event()
        self.signal_number: int | None = None
        self._cancel_turn: Callable[[], None] | None = None
        self._story: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> "Interrupts":
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or a job in the background of a script
                loop.add_signal_handler(number, self._arrived, number)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The handlers stay: a signal between here and the end of the process must not leave anything half-stopped.
        self._story = None

    async def watch(self, story: Coroutine[Any, Any, T]) -> T:
        """Run `story` to its end, or to the signal that ends it.

        Raises:
            Stopped: a signal ended it.
        """
        self._story = asyncio.current_task()
        try:
            return await story
        except asyncio.CancelledError:
            if self.signal_number is None:
                raise
            raise Stopped("stopped", signal_number=self.signal_number) from None

    @contextmanager
    def turn(self, cancel: Callable[[], None]) -> Iterator[None]:
        """While this runs, the first Ctrl-C calls `cancel` and nothing else."""
        self._cancel_turn = cancel
        try:
            yield
        finally:
            self._cancel_turn = None

    def interrupt(self) -> None:
        """What Ctrl-C does where there is no `on_interrupt`."""
        self._end(signal.SIGINT)

    def stopping(self) -> None:
        """From here on a signal only makes us hurry."""
        self._story = None

    def _arrived(self, number: int) -> None:
        if number == signal.SIGINT and self._on_interrupt is not None:
            self._on_interrupt()
            return
        self._end(number)

    def _end(self, number: int) -> None:
        first = self.signal_number is None
        self.signal_number = self.signal_number or number
        if first and number == signal.SIGINT and self._cancel_turn:
            self._cancel_turn()
            return
        if not first or self._story is None:
            self.hurry.set()
        if self._story is not None:
            self._story.cancel()
            self._story = None
