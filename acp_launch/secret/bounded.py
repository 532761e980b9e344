"""
Work that may never end (a keyring waiting for somebody to answer its dialog), in a thread that is given up.

A thread cannot be ended from outside. This one is a daemon: it does not hold up the caller after the deadline, and
whatever it finds out too late is dropped. Threads that it started do not hold up our end (leave.py), and processes that
it started are killed in the course of it.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from acp_launch import leave
from acp_launch.secret import descriptors

FIRST_WORD = 3.0  # seconds until we say what we wait for, as with every wait (DESIGN §6)
T = TypeVar("T")

_children_before: set[int] | None = None


class Late(Exception):  # noqa: N818
    """Raised when the work was not done in time; it may still be going on."""


class NoThread(Exception):  # noqa: N818
    """Raised when the system gives us no thread for the work (`ulimit -u`)."""


def bounded(work: Callable[[], T], *, limit: float, waiting: Callable[[float], None]) -> T:
    """What `work` gives or raises, if that comes within `limit` seconds. Ctrl-C ends the wait at once.

    `waiting` is told after 3 s how long it has been, then at growing intervals.

    Raises:
        Late: the deadline passed.
        NoThread: the work was not begun.
        RuntimeError: the work wanted to end its thread or this process (SystemExit, GeneratorExit).
    """
    global _children_before
    if _children_before is None:
        _children_before = _children() | _children()  # the kernel may leave one out whose sibling exits
    answers: SimpleQueue[Callable[[], T]] = SimpleQueue()
    try:
        threading.Thread(target=lambda: answers.put(_done(work)), daemon=True).start()
    except RuntimeError as error:
        raise NoThread from error
    try:
        answer = _awaited(answers, limit, waiting)
    except BaseException:  # the deadline; a signal; a stdout that takes no word
        _give_up()
        raise
    return answer()


def end_children() -> None:
    """Kill the processes that given-up work has started and that are children of ours: a dialog, a program that hangs.

    Linux only, and only direct children: what those started themselves, and what they left behind as a daemon, lives
    on. To be called when nothing we started ourselves is alive any more.
    """
    if sys.platform == "linux":
        for pid in _children() - (_children_before or set()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _awaited(
    answers: "SimpleQueue[Callable[[], T]]", limit: float, waiting: Callable[[float], None]
) -> Callable[[], T]:
    begun = time.monotonic()
    word = FIRST_WORD
    while True:
        left = begun + min(word, limit) - time.monotonic()
        try:
            return answers.get(timeout=max(0.0, left))
        except Empty:
            if word >= limit:
                raise Late from None
            with descriptors.out_loud():
                waiting(word)
            word *= 3


def _give_up() -> None:
    leave.at_exit(end_children)
    descriptors.give_back()


def _done(work: Callable[[], T]) -> Callable[[], T]:
    """The outcome as something to call: it returns what the work returned, or raises what it raised."""
    try:
        result = work()
    except (Exception, KeyboardInterrupt) as error:
        failure: BaseException = error
    except BaseException as error:  # here it would pass for an exit somebody asked for
        failure = RuntimeError(f"work that must not end anything raised {type(error).__name__}")
    else:
        return lambda: result

    def fail() -> T:
        raise failure

    return fail


def _children() -> set[int]:
    """Our children as the kernel lists them; empty where it does not (Linux needs CONFIG_PROC_CHILDREN)."""
    found: set[int] = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            found.update(map(int, listed.read_text().split()))
    return found
