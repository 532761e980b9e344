"""Signals that end us, outside of the event loop: an exception in the main thread, so that everything is undone."""

import signal
from collections.abc import Callable
from types import FrameType

from acp_launch.errors import Stopped

TERMINATING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
ENDING = (signal.SIGINT, *TERMINATING)


def on_signals(action: Callable[[int, FrameType | None], object], numbers: tuple[int, ...] = ENDING) -> None:
    """What we were told to ignore (nohup) stays ignored."""
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, action)


def stopped(number: int, frame: FrameType | None) -> None:
    raise Stopped("stopped", signal_number=number)
