"""Every wait has a name, a deadline and a word on stderr (DESIGN §6)."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from acp_launch.errors import WaitExpired

FIRST_WORD = 3.0  # seconds until we say what we wait for
T = TypeVar("T")


def seconds(amount: float) -> str:
    """`0.3 s`, `3 s`, `2 min`."""
    if amount >= 120:
        return f"{amount / 60:.3g} min"
    return f"{amount:.3g} s"


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
