"""The output of an interactive session, which also records the transcript and tells the session about changes."""

from collections import deque
from collections.abc import Callable

from acp_launch.console.draw.live import Live
from acp_launch.console.draw.region import Canvas
from acp_launch.console.stream.outlet import Outlet
from acp_launch.console.stream.text import Notices, Plain
from acp_launch.process.lifecycle import Change
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Updated
from acp_launch.session.state import KINDS, OVER, ToolCalls, title

# The transcript for `:export`, as Markdown: prompts, messages of the agent, tool calls.


MOST = 32 * 1024 * 1024  # characters; older text is dropped, and the transcript says so


def _besides(update: Updated) -> str:
    """Describe content of a prompt that is not text."""
    content = acp.mapping(acp.mapping(acp.decoded(update.update)).get("content"))
    about = acp.mapping(content.get("resource")) or content
    return f"\n\n*({acp.text(content.get('type'))}: {acp.text(about.get('uri'))})*\n\n"


class Transcript:
    """Records what was shown, which is redacted already."""

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self._size = 0
        self._is_cut = False
        self._speaker = ""
        self._calls = ToolCalls()

    def prompt(self, text: str) -> None:
        """Add a prompt of the user."""
        self._add("you", text)

    def update(self, update: Updated) -> None:
        """Add an update, live or replayed."""
        if update.kind == "agent_message_chunk":
            self._add("agent, outside a turn" if update.outside else "agent", acp.read_chunk(update.update)[0])
        elif update.kind == "user_message_chunk" and update.replay:
            self._add("you", acp.read_chunk(update.update)[0] or _besides(update))
        elif update.kind in KINDS:
            call = self._calls.merge(acp.mapping(acp.decoded(update.update)))
            if call.get("status") in OVER:
                self._add("", f"- {title(call)}: {call['status']}")

    def markdown(self, heading: str) -> str:
        """Return the whole transcript."""
        cut = "*The beginning is missing, because the session was too long.*\n\n" if self._is_cut else ""
        return f"# {heading}\n\n{cut}{''.join(self._parts).strip()}\n"

    def _add(self, speaker: str, text: str) -> None:
        if speaker != self._speaker:
            self._speaker = speaker
            text = (f"\n\n## {speaker.capitalize()}\n\n" if speaker else "\n\n") + text
        elif not speaker:
            text = "\n" + text
        self._parts.append(text)
        self._size += len(text)
        while self._size > MOST:
            self._size -= len(self._parts.popleft())
            self._is_cut = True


SETTINGS = ("config_option_update", "current_mode_update")


class SessionOutput(Notices):
    """Records a session in front of an output; its updates are redacted already."""

    transcript: Transcript
    is_drawn = True  # False if written line by line below the prompt
    settings_told = 0  # how often the agent reported a change of its mode or options
    is_history_hidden = False  # a history that is on the screen already is not shown again
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


class DrawnSessionOutput(SessionOutput, Live):
    """Draws on a terminal."""


class PlainSessionOutput(SessionOutput, Plain):
    """Writes lines, for a dumb terminal or a pipe."""

    is_drawn = False


def session_output(canvas: Canvas | None, clock: Callable[[], float]) -> "DrawnSessionOutput | PlainSessionOutput":
    """Return the output for a canvas, or for lines if it is None. `clock` measures the durations shown."""
    output = (
        PlainSessionOutput(Outlet(), is_watched=True)
        if canvas is None
        else DrawnSessionOutput(canvas, history=True, clock=clock)
    )
    output.transcript = Transcript()
    return output
