"""
A notice that names the file being read, if reading takes long.

Each text costs bounded time. But on a slow machine, or in a directory with a thousand profiles, reading can look like
a hang, so the time of all files of one command counts together. Only processor time counts; on a machine that is busy
or waits for its disk, the notice comes after ten times as long.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from acp_launch.waits import next_word, stretch

if TYPE_CHECKING:
    from threading import Event

FIRST_WORD = stretch(1.0)  # seconds of work until the first notice
WAITING = 10.0  # seconds by the clock that count as one second of work
Say = Callable[[str, float], None]  # the file as messages name it, and the seconds so far


class ReadProgress:
    """Measures the reading of one command; `say` is called from a separate thread."""

    def __init__(self, say: Say | None = None) -> None:
        self._say = say
        self._label = ""
        self._seconds = self._spent = 0.0  # time by the clock, and the part that counts
        self._word = FIRST_WORD

    def begin(self, say: Say) -> None:
        """Start again for another command."""
        self.__init__(say)  # type: ignore[misc]

    @contextmanager
    def file(self, label: str) -> Iterator[None]:
        """Measure the reading of one file inside the block. Blocks may nest, since a file may need others."""
        outer, self._label = self._label, label
        try:
            if outer or self._say is None:
                yield
            else:
                with self._watch_in_thread(self._say):
                    yield
        finally:
            self._label = outer

    @contextmanager
    def _watch_in_thread(self, say: Say) -> Iterator[None]:
        import threading

        begun, over = (time.monotonic(), time.process_time()), threading.Event()
        watch = threading.Thread(target=self._watch, args=(say, begun, over), daemon=True)
        try:
            watch.start()
        except RuntimeError:  # no more threads are allowed, so there is no notice
            yield
            return
        try:
            yield
        finally:
            over.set()
            watch.join()  # a later fork must not find a running thread
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
