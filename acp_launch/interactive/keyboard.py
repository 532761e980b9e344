"""
The keys of the terminal as prompt_toolkit reads them, and text typed before it does.

Until we take the terminal it is in its usual mode, in which Enter is a line feed, like Ctrl-J in ours. Text typed
before that (while the session starts, or while another program has the terminal) becomes one prompt per line, except
for marked pastes.
"""

import os
import re
from collections.abc import Callable
from typing import Any, TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input, cooked_mode, raw_mode
from prompt_toolkit.keys import Keys

from acp_launch.interactive.attention import FOCUS_IN, FOCUS_OUT
from acp_launch.regex import regex

ESCAPE = 0.1  # seconds for the rest of an escape sequence, also over a slow connection
SEQUENCE = 0.3  # seconds in which Escape and another key count as Alt
_PASTE = regex("(\x1b\\[200~.*?(?:\x1b\\[201~|\\Z))", re.DOTALL)


REPORTS = {FOCUS_IN: True, FOCUS_OUT: False}
ANSI_SEQUENCES.update(dict.fromkeys(REPORTS, Keys.Ignore))


class Keyboard(Vt100Input):
    """Notices that the terminal is gone; prompt_toolkit would continue to read it. What the terminal itself reports
    is not typed.
    """

    def __init__(self, stdin: TextIO, *, focus: Callable[[bool], None] = lambda has_it: None) -> None:
        """`focus` is called when the terminal gets or loses it."""
        super().__init__(stdin)
        self._focus = focus
        self.stdin_reader: _Reader = _Reader(self.fileno(), encoding=stdin.encoding)

    def read_keys(self) -> list[Any]:
        found = super().read_keys()
        for report in (key.data for key in found if key.data in REPORTS):
            self._focus(REPORTS[report])
        if not found and not os.isatty(self.fileno()):
            self.stdin_reader.closed = True
        return [key for key in found if key.data not in REPORTS]

    def raw_mode(self) -> raw_mode:
        return _Raw(self.stdin_reader)

    def cooked_mode(self) -> cooked_mode:
        return _Cooked(self.stdin_reader)


class _Reader(PosixStdinReader):
    ahead = 0  # unread bytes that were typed in the terminal's usual mode

    def read(self, count: int = 1024) -> str:
        if not self.ahead:
            return super().read(count)
        ahead, self.ahead = self.ahead, 0
        return entered(super().read(ahead))

    def taken(self) -> None:
        """Remember that the terminal has just become ours."""
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
    """Convert text typed in the usual mode, so that Enter is Enter. That mode turns Ctrl-D into a NUL."""
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
    except OSError:  # the terminal is gone
        return 0
    return waiting[0]
