"""
The terminal as prompt_toolkit writes to it: one write a frame.

prompt_toolkit flushes several times while it erases, prints and draws. Between `begin` and `end` all of that is kept
and leaves as one piece, marked as one frame (DEC private mode 2026), so that nobody sees half of it. Terminals that do
not know the mark ignore it.
"""

import os
from collections.abc import Callable

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"


class Tty:
    """As much of a text stream as `Vt100_Output` uses. Not Python's own: what that could not write it tries again at
    the interpreter's exit."""

    def __init__(self, descriptor: int, encoding: str, lost: Callable[[], None]) -> None:
        """`lost` is called when the terminal is gone: nothing can be shown any more."""
        self.encoding = encoding
        self._descriptor = descriptor
        self._lost = lost
        self._pieces: list[str] = []
        self._is_framing = False

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        self._pieces.append(text)
        return len(text)

    def flush(self) -> None:
        if not self._is_framing:
            self._send()

    def begin(self) -> None:
        self._is_framing = True

    def end(self) -> None:
        self._is_framing = False
        text = "".join(self._pieces)
        self._pieces = [BEGIN, text, END] if text else []
        self._send()

    def _send(self) -> None:
        data = memoryview("".join(self._pieces).encode(self.encoding, "replace"))
        self._pieces = []
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:  # EIO: whoever showed it has ended; there is nobody to tell
            self._lost()
