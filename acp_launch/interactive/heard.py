"""The output of an interactive session, which also tells the story what it needs to know."""

from collections.abc import Callable

from acp_launch.console.draw.canvas import Canvas
from acp_launch.console.draw.live import Live
from acp_launch.console.stream.notices import Notices
from acp_launch.console.stream.outlet import Outlet
from acp_launch.console.stream.plain import Plain
from acp_launch.interactive.transcript import Transcript
from acp_launch.process.lifecycle import Change
from acp_launch.protocol.event import Updated

SETTINGS = ("config_option_update", "current_mode_update")


class Heard(Notices):
    """Goes before an output; what it hears has no secrets any more."""

    transcript: Transcript
    is_drawn = True  # or written, line by line, beneath what is typed
    settings_told = 0  # how often the agent said that its mode or its options are others
    is_history_hidden = False  # a history that was on the screen already is not shown again
    server_changed: Callable[[], None] = staticmethod(lambda: None)

    def update(self, update: Updated) -> None:
        if update.replay and self.is_history_hidden:
            return
        self.transcript.update(update)
        self.settings_told += update.kind in SETTINGS
        super().update(update)

    def server(self, change: Change) -> None:
        super().server(change)
        self.server_changed()


class HeardLive(Heard, Live):
    """On a terminal."""


class HeardPlain(Heard, Plain):
    """Lines, for a dumb terminal or a pipe."""

    is_drawn = False


def heard(canvas: Canvas | None, clock: Callable[[], float]) -> "HeardLive | HeardPlain":
    """What a session is shown by, where there is a canvas and where there is none. `clock` measures what is drawn."""
    output = HeardPlain(Outlet(), is_watched=True) if canvas is None else HeardLive(canvas, history=True, clock=clock)
    output.transcript = Transcript()
    return output
