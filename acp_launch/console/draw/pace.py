"""No more than so many frames a second: the first at once, the next when it is due."""

import asyncio
from collections.abc import Callable

FRAMES = 12  # a second


class Pace:
    """Without an event loop there is nothing to wait with: every frame is drawn when it is asked for."""

    def __init__(self, draw: Callable[[], None]) -> None:
        self._draw = draw
        self._due: asyncio.TimerHandle | None = None
        self._next = 0.0  # on the loop's clock

    def wake(self) -> None:
        """There is something new to draw."""
        if self._due is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._draw()
            return
        self._due = loop.call_at(max(self._next, loop.time()), self._frame, loop)

    def rest(self) -> None:
        """Forget the frame that is due."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _frame(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = None
        self._draw()
        self._next = loop.time() + 1 / FRAMES  # after the drawing: a slow terminal gets fewer
