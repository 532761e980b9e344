"""The choice of a front: an application on a full terminal, lines otherwise."""

import os
import sys
from pathlib import Path
from typing import Protocol

from acp_launch.console.draw.region import Canvas
from acp_launch.interactive.front import Front


class TerminalFront(Front, Protocol):
    """A front, and the canvas for its session; None if the session is written line by line."""

    @property
    def canvas(self) -> Canvas | None: ...

    def interrupt(self) -> None:
        """Handle a SIGINT like Ctrl-C."""


def possible() -> bool:
    """Return whether an interactive session is possible: stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def choose_front(history: Path) -> TerminalFront:
    """Return the front; call it within the event loop. `history` is the file with this project's prompts."""
    if _is_able():
        from acp_launch.interactive.application import Application

        return Application(history)
    from acp_launch.interactive.lines import Lines

    return Lines()


def _is_able() -> bool:
    """Return whether the terminal can be drawn on, and is stdout too."""
    return possible() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
