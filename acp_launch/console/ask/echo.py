"""Whether the terminal shows what is typed."""

import os
import sys


class Echo:
    """Turns the echo of the terminal on stdin off and on again; nothing where stdin is no terminal."""

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
