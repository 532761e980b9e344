"""Who takes what comes from the keyboard: always somebody, so that Ctrl-C is never in vain."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from acp_launch.interactive.front import Event, Front, Interrupted, Left, Submitted

Taker = Callable[[Event], None]
T = TypeVar("T")


class GivenUp(Exception):  # noqa: N818 - it reads as what happened
    """Raised when a person did not want to wait any longer; `leaves` when they want to be gone altogether."""

    def __init__(self, *, leaves: bool) -> None:
        super().__init__()
        self.leaves = leaves


class Attention:
    def __init__(self, front: Front, otherwise: Taker) -> None:
        """`otherwise` takes what nobody else does."""
        self._front = front
        self._taker = otherwise

    async def pump(self) -> None:
        """Hand on every event, until cancelled."""
        while True:
            event = await self._front.events.get()
            self._taker(event)  # whoever it is by now

    @contextmanager
    def of(self, taker: Taker) -> Iterator[None]:
        """While the block runs, `taker` takes them."""
        before, self._taker = self._taker, taker
        try:
            yield
        finally:
            self._taker = before

    async def while_waiting(self, work: Coroutine[Any, Any, T], enter: Callable[[str], None]) -> T:
        """What `work` gives; `enter` takes what is entered meanwhile.

        Raises:
            GivenUp: after Ctrl-C or the end of input.
        """
        running = asyncio.ensure_future(work)
        given_up: list[GivenUp] = []

        def take(event: Event) -> None:
            match event:
                case Submitted(text):
                    enter(text)
                case Interrupted() | Left():
                    given_up.append(GivenUp(leaves=isinstance(event, Left)))
                    running.cancel()

        with self.of(take):
            try:
                return await running
            except asyncio.CancelledError:
                if not given_up or not running.cancelled():
                    raise
                raise given_up[0] from None
