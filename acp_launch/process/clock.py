"""What tells the time and rings at one: the event loop, or a test's own."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def time(self) -> float:
        """Seconds since whenever; they never go back."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class LoopClock:
    """That of whatever loop is running."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback)


class Alarm:
    """Rings once at the moment it is set to; setting it again is forgetting the moment before."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock, self._ring = clock, ring
        self._timer: Timer | None = None

    def set(self, at: float | None) -> None:
        """A moment of the clock; one that has passed is now, None is never."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at is None else self._clock.call_later(max(0.0, at - self._clock.time()), self._ring)
