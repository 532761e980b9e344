"""The terminal's modes: whether it shows what is typed, and that it is given back as it was."""

import os
import sys
from collections.abc import Callable

from acp_launch import leave

SHOW, WRAP, NO_FRAME, NO_PASTES, PLAIN = b"\x1b[?25h", b"\x1b[?7h", b"\x1b[?2026l", b"\x1b[?2004l", b"\x1b[0m"


def given_back() -> Callable[[], None]:
    """From here on, leaving at once gives the terminal on stdin back as it is now. Returns what takes that back."""
    if not _owns_terminal():
        return lambda: None
    import termios

    before = termios.tcgetattr(0)

    def give_back() -> None:
        termios.tcsetattr(0, termios.TCSANOW, before)  # at once: what was written may never be shown
        leave.tell(1 if os.isatty(1) else 2, NO_FRAME + WRAP + NO_PASTES + PLAIN + SHOW + b"\r\n")

    return leave.at_exit(give_back)


class Echo:
    """Turns the echo of the terminal on stdin off and on again; nothing where stdin is not a terminal."""

    def __init__(self) -> None:
        self._before: list[object] | None = None

    def off(self) -> None:
        if self._before is not None or not _owns_terminal():
            return
        import termios

        self._before = termios.tcgetattr(0)
        now = termios.tcgetattr(0)
        now[3] &= ~termios.ECHO
        termios.tcsetattr(0, termios.TCSADRAIN, now)

    def on(self) -> None:
        if self._before is None:
            return
        import termios

        termios.tcsetattr(0, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]
        self._before = None


def forget_typed() -> None:
    """Throw away what was typed before it was asked for."""
    if _owns_terminal():
        import termios

        termios.tcflush(0, termios.TCIFLUSH)


def _owns_terminal() -> bool:
    """Whether stdin is a terminal and we are its foreground job: changing it from the background would stop us."""
    try:
        return sys.stdin is not None and sys.stdin.isatty() and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # a terminal that is not our own
        return False
