"""
Which file is being read, said when it takes long.

A text costs bounded time to read. But a slow machine, or a directory with a thousand of them, takes long enough to be
taken for a hang: so the time of all that one command reads counts together. What counts is the work; on a machine that
is busy with other things, or waits for its disk, a word is due after ten times as long.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from acp_launch.waits import next_word

if TYPE_CHECKING:
    from threading import Event

FIRST_WORD = 1.0  # seconds of work
WAITING = 10.0  # seconds by the clock that count as one of work
Say = Callable[[str, float], None]  # the file as messages name it, and the seconds so far


class ReadProgress:
    """The reading of one command: `say` is told from a thread of its own."""

    def __init__(self, say: Say | None = None) -> None:
        self._say = say
        self._label = ""
        self._seconds = self._spent = 0.0  # by the clock, and what of it counts
        self._word = FIRST_WORD

    def begin(self, say: Say) -> None:
        """Another command."""
        self.__init__(say)  # type: ignore[misc]

    @contextmanager
    def file(self, label: str) -> Iterator[None]:
        """To be left when the file is read; within another one, that is read for it."""
        outer, self._label = self._label, label
        try:
            if outer or self._say is None:
                yield
            else:
                with self._watched(self._say):
                    yield
        finally:
            self._label = outer

    @contextmanager
    def _watched(self, say: Say) -> Iterator[None]:
        import threading

        begun, over = (time.monotonic(), time.process_time()), threading.Event()
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
            self._seconds, self._spent = self._until_now(begun)

    def _watch(self, say: Say, begun: tuple[float, float], over: "Event") -> None:
        while True:
            seconds, spent = self._until_now(begun)
            if over.wait(max(0.0, self._word - spent)):
                return
            if spent >= self._word:
                say(self._label, seconds)
                self._word = next_word(self._word)

    def _until_now(self, begun: tuple[float, float]) -> tuple[float, float]:
        seconds, work = time.monotonic() - begun[0], time.process_time() - begun[1]
        return self._seconds + seconds, self._spent + max(work, seconds / WAITING)


progress = ReadProgress()
