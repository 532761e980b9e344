"""An event loop whose time the test turns: deadlines come at once, in their order, on however busy a machine."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

P = ParamSpec("P")


class TurnedByHand(asyncio.SelectorEventLoop):
    """A loop that never waits: when nothing is ready, its clock jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        due = [timer.when() for timer in scheduled if not timer.cancelled()]
        if due and not self._ready:  # type: ignore[attr-defined]
            self.now = max(self.now, min(due))
        super()._run_once()  # type: ignore[misc]


def turned(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in such a loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=TurnedByHand) as runner:
            runner.run(test(*args, **kwargs))

    return run
