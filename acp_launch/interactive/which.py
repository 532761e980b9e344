"""The choice of a front: an application on a full terminal, lines otherwise."""

from pathlib import Path
from typing import Protocol

from acp_launch.console.draw.region import Canvas
from acp_launch.interactive.front import Front, can_draw
from acp_launch.settings.model import AttentionSettings


class TerminalFront(Front, Protocol):
    """A front, and the canvas for its session; None if the session is written line by line."""

    @property
    def canvas(self) -> Canvas | None: ...

    def interrupt(self) -> None:
        """Handle a SIGINT like Ctrl-C."""


def choose_front(history: Path, attention: AttentionSettings | None = None, *, profile: str = "") -> TerminalFront:
    """Return the front; call it within the event loop. `history` is the file with this project's prompts; the rest is
    as `Application` says."""
    if can_draw():
        from acp_launch.interactive.application import Application

        return Application(history, attention=attention, profile=profile)
    from acp_launch.interactive.lines import Lines

    return Lines()
