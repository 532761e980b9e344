"""Blocking work in a thread that can be given up: a disk on the network may not answer for hours."""

import asyncio
import errno
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T], *, name: str, limit: float) -> T:
    """What `work` gives or raises, if that comes within `limit` seconds.

    After that, or when the caller is cancelled, the work goes on, nobody hears of it, and it holds up no exit.

    Raises:
        TimeoutError: it did not come in time.
        OSError: there is no thread for it (EAGAIN).
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # there is one when there is no error

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, result, error)
        except RuntimeError:  # the loop is closed: it was given up long ago
            return

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, "no more threads are allowed") from None
    async with asyncio.timeout(limit):
        return await answer
