"""Work of a loop for a caller that has none, or whose own loop runs and waits."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_thread(work: Callable[[], Coroutine[Any, Any, T]], *, within: float) -> T:
    """Return the result of `work`, which has a thread and a loop of its own. What interrupts the caller, such as Ctrl-C
    or the exception of another signal's handler, cancels it, and waits for its end `within` so many seconds.
    """
    done: Future[T] = Future()
    began = threading.Event()
    tasks: list[asyncio.Task[Any] | None] = []

    async def begin() -> T:
        tasks.append(asyncio.current_task())
        began.set()
        return await work()

    def carry_out() -> None:
        try:
            done.set_result(asyncio.run(begin()))
        except BaseException as error:  # it is raised in the thread that waits
            done.set_exception(error)

    threading.Thread(target=carry_out, name="acp-launch", daemon=True).start()
    try:
        return done.result()
    except BaseException:  # of `work`, too, which is over then
        began.wait(within)
        for task in tasks:
            if task is not None and not done.done():
                task.get_loop().call_soon_threadsafe(task.cancel)
        wait([done], within)
        raise
