"""
Every wait has a name, a deadline and a word on stderr (DESIGN §6). All the waits of a run together may have one, too.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import TypeVar

from acp_launch.errors import WaitExpired

FIRST_WORD = 3.0  # seconds until we say what we wait for
T = TypeVar("T")


def seconds(amount: float) -> str:
    """`0.3 s`, `3 s`, `2 min`."""
    if amount >= 120:
        return f"{amount / 60:.3g} min"
    return f"{amount:.3g} s"


def in_profile(wait: str) -> str:
    """What makes a wait for the agent longer: `initialize`, `session` or `silence`."""
    return f"agent.timeouts.{wait} in the profile"


def on_command_line(wait: str) -> str:
    """The same for `run --agent`."""
    return f"--timeout {wait}=DURATION"


class Budget:
    """The seconds that a run may take in all (`--timeout`), or None for as many as it needs."""

    def __init__(self, seconds: float | None = None) -> None:
        self.is_spent = False
        self.seconds = seconds
        self._left = inf if seconds is None else seconds
        self._until: float | None = None  # loop time, while it is being spent
        self._timer: asyncio.TimerHandle | None = None
        self._over: Callable[[], None] = lambda: None

    def __str__(self) -> str:
        return f"--timeout {self.seconds:g}s"

    @contextmanager
    def spending(self, over: Callable[[], None]) -> Iterator[None]:
        """Spend it while the block runs; `over` is called when nothing is left."""
        self._over = over
        self._go()
        try:
            yield
        finally:
            self._rest()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Spend nothing while this block within the other runs."""
        self._rest()
        try:
            yield
        finally:
            self._go()

    def clamped(self, waited: float, limit: float) -> float:
        """After how many seconds a wait that has taken `waited` so far ends, if its own limit is `limit`."""
        if self._until is None:
            return limit
        return min(limit, round(waited + self._until - asyncio.get_running_loop().time(), 1))

    def _go(self) -> None:
        if self.seconds is not None and not self.is_spent:
            loop = asyncio.get_running_loop()
            self._until = loop.time() + self._left
            self._timer = loop.call_at(self._until, self._end)

    def _rest(self) -> None:
        if self._timer is not None and self._until is not None:
            self._timer.cancel()
            self._left = max(0.0, self._until - asyncio.get_running_loop().time())
            self._timer = self._until = None

    def _end(self) -> None:
        self.is_spent = True
        self._timer = None
        self._over()


def dealt_with() -> None:
    """The current task was cancelled, and goes on: what waits in it later is not cancelled once more."""
    task = asyncio.current_task()
    assert task is not None, "only a task can be cancelled"
    task.uncancel()


async def awaited(
    future: asyncio.Future[T],
    *,
    what: str,
    limit: float,
    waiting: Callable[[str, float, float], None],
    since: Callable[[], float] | None = None,
) -> T:
    """The future's result, if it comes within `limit` seconds of silence.

    `since` gives the loop time of the last sign of life and is asked again after each step, so that a lively turn
    never expires; the clock starts now at the earliest. Words come after 3 s, then at growing intervals: within one
    wait a later silence is mentioned only if it outlasts the earlier ones.

    Raises:
        WaitExpired: the deadline passed; the future is left as it is.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    word = FIRST_WORD

    def last() -> float:
        return max(begun, since()) if since else begun

    while True:
        left = last() + min(word, limit) - loop.time()
        if left > 0:
            done, _ = await asyncio.wait([future], timeout=left)
            if done:
                return future.result()
        elif word >= limit:
            raise WaitExpired(f"no {what} within {seconds(limit)}")
        else:
            waiting(what, word, limit)
            word = min(word * 3, word + 60)
