"""Signals that end us, outside of the event loop: an exception in the main thread, so that everything is undone."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


class Interrupt:
    """Ctrl-C that is put off to where nothing is half done; a second one is a KeyboardInterrupt wherever it arrives."""

    def __init__(self) -> None:
        self.has_arrived = False
        self._is_welcome = False
        on_signals(self._arrives, (signal.SIGINT,))

    @contextmanager
    def welcome(self) -> Iterator[None]:
        """In here it is a KeyboardInterrupt, and so is one that came before."""
        self._is_welcome = True
        try:
            self.raise_if_arrived()
            yield
        finally:
            self._is_welcome = False

    def raise_if_arrived(self) -> None:
        if self.has_arrived:
            raise KeyboardInterrupt

    def _arrives(self, number: int, frame: FrameType | None) -> None:
        if self._is_welcome or self.has_arrived:
            raise KeyboardInterrupt
        self.has_arrived = True
