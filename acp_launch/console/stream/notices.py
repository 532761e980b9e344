"""What every kind of output says on stderr: waits, notes, permissions, how the turn ended."""

from collections.abc import Mapping, Sequence
from typing import Any

from acp_launch.console.stderr import DIM, YELLOW, harmless, say
from acp_launch.console.stream import servernotes, servicenotes
from acp_launch.errors import LaunchError
from acp_launch.process.lifecycle import Change, Standing, State
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.event import Updated
from acp_launch.session.connection import seconds
from acp_launch.session.observer import Permission, SessionReady, TurnEnd, When
from acp_launch.session.service import FileServed, TerminalServed
from acp_launch.session.toolcall import title

ENDINGS = {
    "max_tokens": "the agent stopped: its token limit is reached",
    "max_turn_requests": "the agent stopped: its limit of model requests in one turn is reached",
    "refusal": "the agent refused to go on; the prompt and what came after it will not be part of the next one",
    "cancelled": "the turn was cancelled",
}


class Notices:
    """An observer that shows no answer; the kinds of output build on it."""

    _cancelled = False
    _states: Mapping[str, State] = {}  # of each server, as it was last told
    _last_words: Mapping[str, tuple[str, ...]] = {}

    def negotiated(self, negotiated: Negotiated) -> None:
        """Nothing to say to a person."""

    def ready(self, session: SessionReady) -> None:
        """Only a continued session is worth a word."""
        if session.how != "new":
            history = f" ({session.replayed} updates of its history)" if session.how == "load" else ""
            self._line(f"acp-launch: continuing session {session.name}{history}", DIM)

    def update(self, update: Updated) -> None:
        """Shown by the kinds of output."""

    def permission(self, permission: Permission) -> None:
        answer = "allowed" if permission.allowed else "denied" if permission.option_id else "cancelled"
        self._line(f"acp-launch: {answer}: {permission.title} ({permission.by})", DIM)

    def unasked(self, call: dict[str, Any], by: str) -> None:
        """Agents do much that they ask nobody about, so a word is due only where a rule was passed over."""
        if not by.startswith("permissions.default"):
            self._line(f"acp-launch: {title(call)} {servicenotes.unasked(by, call.get('status'))}", YELLOW)

    def served(self, step: FileServed | TerminalServed) -> None:
        """One line for what changed something, or was refused; what a command says is the agent's to tell."""
        if text := servicenotes.line(step):
            self._line(f"acp-launch: {text}", DIM)

    def cancelled(self, calls: Sequence[dict[str, Any]], grace: float) -> None:
        self._cancelled = True
        self._line(f"acp-launch: cancelling the turn; giving up in {seconds(grace)}, Ctrl-C stops at once", DIM)
        for call in calls:
            self._line(f"acp-launch: cancelled: {title(call)}", DIM)

    def waiting(self, what: str, waited: float, limit: float) -> None:
        self._line(f"acp-launch: no {what} for {seconds(waited)}; giving up at {seconds(limit)}", DIM)

    def note(self, text: str) -> None:
        self._line(f"acp-launch: {text}", YELLOW)

    def server(self, change: Change) -> None:
        lines = servernotes.changed(change, self._states.get(change.server), self._last_words.get(change.server, ()))
        for text, style in lines:
            self._line(text, style)
        self._last_words = {**self._last_words, change.server: change.detail}
        self._states = {**self._states, change.server: change.state}

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        for text, style in servernotes.opened(servers) if when == "opened" else servernotes.unopened(servers):
            self._line(text, style)

    def ended(self, turn: TurnEnd) -> None:
        if self._cancelled and turn.stop_reason == "cancelled":
            return  # by us, which is said as the reason why the run ends
        if turn.stop_reason != "end_turn":
            unknown = f"the agent ended the turn for a reason of its own: {turn.stop_reason}"
            self._line(f"acp-launch: {ENDINGS.get(turn.stop_reason, unknown)}", YELLOW)

    def _line(self, text: str, style: str) -> None:
        """Of whatever is in `text`, nothing drives the terminal or begins a line that looks like one of ours."""
        self.tell(harmless(text, keep=""), style)

    def tell(self, text: str, style: str) -> None:
        """A line on stderr, as it is: whoever calls has made it harmless."""
        say(text, style=style)

    def failed(self, error: LaunchError) -> None:
        """The run is over without an end of its turn: what was shown is left whole; `error` is shown by others."""

    def pause(self) -> None:
        """Leave the terminal to a question."""

    async def drain(self) -> None:
        """Nothing is held back."""
