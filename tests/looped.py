"""Tests that are coroutines."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

from tests.patience import PATIENCE

P = ParamSpec("P")


def looped(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def bounded(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Do the same within bounds. What a callback raises fails the test too: the loop would only log it."""

    @looped
    @wraps(test)
    async def run(*args: P.args, **kwargs: P.kwargs) -> None:
        raised: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        async with asyncio.timeout(PATIENCE):
            await test(*args, **kwargs)
        assert raised == []

    return run
