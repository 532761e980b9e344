"""
The keys of the terminal, as prompt_toolkit reads them, and of what was typed before it did.

Until the terminal is ours it is in its usual mode, in which Enter is a line feed, as Ctrl-J is ever after. What was
typed by then (while the session starts, or while another program had the terminal) is as many prompts as it has lines,
but for what is marked as a paste.
"""

import os
import re
from typing import Any, TextIO

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input, cooked_mode, raw_mode

_PASTE = re.compile("(\x1b\\[200~.*?(?:\x1b\\[201~|\\Z))", re.DOTALL)


class Keyboard(Vt100Input):
    """Notices that the terminal is gone; prompt_toolkit would go on reading it."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.stdin_reader: _Reader = _Reader(self.fileno(), encoding=stdin.encoding)

    def read_keys(self) -> list[Any]:
        found = super().read_keys()
        if not found and not os.isatty(self.fileno()):
            self.stdin_reader.closed = True
        return found

    def raw_mode(self) -> raw_mode:
        return _Raw(self.stdin_reader)

    def cooked_mode(self) -> cooked_mode:
        return _Cooked(self.stdin_reader)


class _Reader(PosixStdinReader):
    ahead = 0  # bytes to be read that were typed while the terminal was in its usual mode

    def read(self, count: int = 1024) -> str:
        if not self.ahead:
            return super().read(count)
        ahead, self.ahead = self.ahead, 0
        return entered(super().read(ahead))

    def taken(self) -> None:
        """The terminal has just become ours."""
        self.ahead = _unread(self.stdin_fd)


class _Raw(raw_mode):
    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader.stdin_fd)
        self._reader = reader

    def __enter__(self) -> None:
        super().__enter__()
        self._reader.taken()


class _Cooked(cooked_mode):
    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader.stdin_fd)
        self._reader = reader

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._reader.taken()


def entered(text: str) -> str:
    """What was typed in the usual mode, with Enter as it is in ours. A NUL is what that mode makes of Ctrl-D."""
    parts = _PASTE.split(text)  # every other one is a paste
    typed = str.maketrans({"\n": "\r", "\0": ""})
    return "".join(part if number % 2 else part.translate(typed) for number, part in enumerate(parts))


def _unread(descriptor: int) -> int:
    import array
    import fcntl
    import termios

    waiting = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
    except OSError:  # it is gone
        return 0
    return waiting[0]
