"""The agent's stderr, which a person is shown while the agent logs in."""

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from acp_launch.console.stderr import harmless, share


class Aloud:
    """Shows the agent's stderr while it logs in, and passes every chunk on to the log, as it came."""

    def __init__(self, log: Callable[[bytes], None], stream: TextIO) -> None:
        self._log = log
        self._stream = stream
        self._is_on = False
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # a chunk may end within a character

    @contextmanager
    def on(self) -> Iterator[None]:
        """Shown while the block runs, and not otherwise."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    def __call__(self, chunk: bytes) -> None:
        text = self._decoder.decode(chunk)
        if self._is_on and text:
            share(at_once=True)
            self._stream.write(harmless(text))
            self._stream.flush()
        self._log(chunk)
