"""
Which file is being read, said when it takes long.

A text costs bounded time to read. But a slow machine, or a directory with a thousand of them, takes long enough to be
taken for a hang: so the time of all that one command reads counts together.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Event

FIRST_WORD = 1.0  # seconds of reading
Say = Callable[[str, float], None]  # the file as messages name it, and the seconds so far


class Reading:
    """The reading of one command: `say` is told from a thread of its own."""

    def __init__(self) -> None:
        self.say: Say | None = None  # set by a front that has a place for it
        self._label = ""
        self._spent = 0.0
        self._word = FIRST_WORD

    @contextmanager
    def file(self, label: str) -> Iterator[None]:
        """To be left when the file is read; within another one, that is read for it."""
        outer, self._label = self._label, label
        try:
            if outer or self.say is None:
                yield
            else:
                with self._watched(self.say):
                    yield
        finally:
            self._label = outer

    @contextmanager
    def _watched(self, say: Say) -> Iterator[None]:
        import threading

        begun, over = time.monotonic(), threading.Event()
        watch = threading.Thread(target=self._watch, args=(say, begun, over), daemon=True)
        try:
            watch.start()
        except RuntimeError:  # the user may have no further thread, so nothing is said
            yield
            return
        try:
            yield
        finally:
            over.set()
            watch.join()  # a fork later on must find no thread of ours
            self._spent += time.monotonic() - begun

    def _watch(self, say: Say, begun: float, over: "Event") -> None:
        while not over.wait(max(0.0, self._word - self._spent - (time.monotonic() - begun))):
            say(self._label, self._word)
            self._word = min(self._word * 3, self._word + 60)


reading = Reading()
