"""
Work that may never end (a keyring waiting for somebody to answer its dialog), in a thread that is given up.

A thread cannot be ended from outside. This one is a daemon: it holds up neither the caller after the deadline nor the
interpreter's exit, and whatever it finds out too late is dropped.
"""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

FIRST_WORD = 3.0  # seconds until we say what we wait for, as with every wait (DESIGN §6)
T = TypeVar("T")


class Late(Exception):  # noqa: N818
    """Raised when the work was not done in time; it may still be going on."""


def bounded(work: Callable[[], T], *, limit: float, waiting: Callable[[float], None]) -> T:
    """What `work` gives or raises, if that comes within `limit` seconds. Ctrl-C ends the wait at once.

    `waiting` is told after 3 s how long it has been, then at growing intervals.

    Raises:
        Late: the deadline passed.
    """
    answers: SimpleQueue[Callable[[], T]] = SimpleQueue()
    threading.Thread(target=lambda: answers.put(_done(work)), daemon=True).start()
    begun = time.monotonic()
    word = FIRST_WORD
    while True:
        left = begun + min(word, limit) - time.monotonic()
        try:
            return answers.get(timeout=max(0.0, left))()
        except Empty:
            if word >= limit:
                raise Late from None
            waiting(word)
            word *= 3


def _done(work: Callable[[], T]) -> Callable[[], T]:
    """The outcome as something to call: it returns what the work returned, or raises what it raised."""
    try:
        result = work()
    except BaseException as error:
        failure = error

        def fail() -> T:
            raise failure

        return fail
    return lambda: result
