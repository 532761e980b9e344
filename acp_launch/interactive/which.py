"""Which front a session gets: an application where there is a whole terminal, lines where there is less."""

import os
import sys
from pathlib import Path
from typing import Protocol

from acp_launch.console.draw.region import Canvas
from acp_launch.interactive.front import Front


class TerminalFront(Front, Protocol):
    """A front, and where the session is drawn; None where it is only written, line by line."""

    @property
    def canvas(self) -> Canvas | None: ...

    def interrupt(self) -> None:
        """For a SIGINT that was sent to us: it means what Ctrl-C means."""


def possible() -> bool:
    """Whether a user can be at the keyboard: stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def choose_front(history: Path) -> TerminalFront:
    """To be called within the event loop. `history` is the file that keeps what is typed in this project."""
    if _is_able():
        from acp_launch.interactive.application import Application

        return Application(history)
    from acp_launch.interactive.lines import Lines

    return Lines()


def _is_able() -> bool:
    """Whether the terminal can be drawn on, and stdout is that terminal."""
    return possible() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
