"""Reaping adopted orphans while we run, as init would: else whoever waits for a daemon to vanish waits for ever."""

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from acp_launch.process.tree import reap_adopted

_users = 0


@contextmanager
def reaped() -> Iterator[None]:
    """For as long as the block runs. Needs Linux, the main thread, and a SIGCHLD nobody else listens to; without,
    orphans are reaped only when their tree is stopped."""
    global _users
    if not _users and not _can_listen():
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, reap_adopted)
    _users += 1
    try:
        yield
    finally:
        _users -= 1
        if not _users:
            loop.remove_signal_handler(signal.SIGCHLD)


def _can_listen() -> bool:
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
