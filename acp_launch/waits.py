"""
The rule for every wait: it has a name and a deadline, and the user is told after 3 s, then at growing intervals.

The module imports little, because waits in threads and without an event loop follow the same rule.
"""

import os
import termios
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from acp_launch.errors import WaitExpired

if TYPE_CHECKING:
    from asyncio import Future

AGENT_WAITS = ("initialize", "session", "silence")  # of `agent.timeouts` in a profile

# Set by tests only, on machines of which much is asked at once.
PATIENCE = float(os.environ.get("ACP_LAUNCH_TEST_PATIENCE", "1"))


def stretch(limit: float) -> float:
    """Return a limit in seconds with the patience of the tests.

    For a time after which something is too late or lost. Not for a wait that runs out as a rule: a backoff, the pause
    between two looks, the grace of a process that will be killed.
    """
    return limit * PATIENCE


FIRST_NOTICE = stretch(3.0)  # seconds until the user is told of a wait
T = TypeVar("T")


def next_notice(word: float) -> float:
    """Return the second of a wait at which the user is told next, if the last time was at `word`."""
    return min(word * 3, word + 60)


def seconds(amount: float) -> str:
    """Format a duration: `0.3 s`, `3 s`, `2 min`, `2.5 h`."""
    if amount >= 7200:
        return f"{amount / 3600:.3g} h"
    if amount >= 120:
        return f"{amount / 60:.3g} min"
    return f"{amount:.3g} s"


def format_time(moment: float) -> str:
    """Format a Unix time as UTC with milliseconds: `2026-11-27T08:30:00.250Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03d}Z"


def to_beat(now: float, every: float) -> float:
    """Return the seconds from `now` to the next multiple of `every`: what looks again and again wakes us together."""
    return every - now % every


async def awaited(
    future: "Future[T]",
    *,
    what: str,
    limit: float,
    waiting: Callable[[str, float, float], None],
    since: Callable[[], float] | None = None,
) -> T:
    """Return the future's result, if it comes within `limit` seconds of silence.

    `since` gives the loop time of the last sign of life and is asked again after each step, so that a lively turn
    never expires; the clock starts now at the earliest. Within one wait a later silence is mentioned only if it
    outlasts the earlier ones.

    Raises:
        WaitExpired: the deadline passed; the future is left as it is.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    begun = loop.time()
    word = FIRST_NOTICE

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
            word = next_notice(word)


class SlowSteps:
    """Names the step that comes next where the steps of one command take long together, which looks like a hang."""

    def __init__(self, first_word: float) -> None:
        self.first_word = first_word
        self.begin(lambda step, seconds: None)

    def begin(self, say: Callable[[str, float], None]) -> None:
        """Start with a command; `say` takes the step's name, and the seconds that those before it took."""
        self._say, self._seconds, self._word = say, 0.0, self.first_word

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        if self._seconds >= self._word:
            self._say(name, self._seconds)
            self._word = next_notice(self._word)
        begun = time.monotonic()
        try:
            yield
        finally:
            self._seconds += time.monotonic() - begun


reading = SlowSteps(stretch(1.0))  # the files of profiles


async def first_of(*waits: Coroutine[Any, Any, object], within: float | None = None) -> None:
    """Return when one of `waits` is over, or after `within` seconds; cancel the others, and raise what it raised."""
    import asyncio

    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


def is_asking() -> bool:
    """Tell whether a question of ssh stands on our terminal (`bridge.askpass`): nothing may be written below it."""
    return os.isatty(2) and termios.tcgetattr(2)[6][termios.VEOL] == b"\3"
