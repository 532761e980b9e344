"""The interface of everything that shows a session. The console implements it; tests record the calls."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Raw, Struct

from acp_launch.process.lifecycle import Change, Standing
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import How, Updated
from acp_launch.session.person import USER
from acp_launch.session.service import FileServed, TerminalServed

When = Literal["opened", "turn"]


class SessionReady(Struct, frozen=True):
    """A session is open, and its history, if any, was replayed. `name` is ours, `session_id` the agent's.

    `title` is the one that the store has of a session that is resumed.
    """

    session_id: str
    name: str
    how: How
    replayed: int  # updates of the history
    result: Raw
    turns: int = 0  # prompts in the history
    title: str = ""


class Permission(Struct, frozen=True):
    """A permission question and its answer. `by` names what decided; `option_id` None means `cancelled`."""

    title: str
    tool_call: dict[str, Any]
    options: Sequence[Any]
    allowed: bool
    option_id: str | None
    by: str

    @property
    def is_by_user(self) -> bool:
        """Return whether the user was asked and decided."""
        return self.by.partition(",")[0] == USER


class TurnEnd(Struct, frozen=True):
    """The end of a turn; `result` is the whole answer to `session/prompt`."""

    stop_reason: str
    usage: dict[str, Any] | None
    denied: str  # the tool call that the user could not be asked about, if that ended the work; else empty
    title: str  # the session's title from the agent; empty if it has none
    result: Raw


class Observer(Protocol):
    def negotiated(self, negotiated: Negotiated) -> None: ...

    def ready(self, session: SessionReady) -> None: ...

    def update(self, update: Updated) -> None:
        """Show an update. Called in wire order, 100,000 times in a long turn, so it must be fast."""

    def permission(self, permission: Permission) -> None: ...

    def unasked(self, call: dict[str, Any], by: str) -> None:
        """Show that a tool call runs without a question, although the policy does not allow it; `by` names the rule."""

    def served(self, step: FileServed | TerminalServed) -> None:
        """Show that we read or wrote a file, or ran a command, for the agent."""

    def cancelled(self, calls: Sequence[dict[str, Any]], grace: float) -> None:
        """Show that the turn is being cancelled, and abandoned after `grace` seconds.

        `calls` are the tool calls that were unfinished (C-63).
        """

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        """Show that `what` has been awaited for `seconds`; at `limit` that becomes an error."""

    def note(self, text: str) -> None:
        """Show a line that a user should read; scripts may skip it."""

    def server(self, change: Change) -> None:
        """Show a step in the life of an MCP server. It may come at any time, also within a message of the agent."""

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        """Show the state of the agent's servers: after a session has opened, or after its first turn."""

    def ended(self, turn: TurnEnd) -> None: ...

    async def drain(self) -> None:
        """Return when there is room for more; the agent is not read meanwhile (back-pressure)."""
