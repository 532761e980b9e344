"""What a session tells its front: the console implements this, tests record it."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Raw, Struct

from acp_launch.process.lifecycle import Change, Standing
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import How, Updated
from acp_launch.session.service import FileServed, TerminalServed

When = Literal["opened", "turn"]


class SessionReady(Struct, frozen=True):
    """A session is open and its history, if any, is behind us. `name` is ours, `session_id` the agent's."""

    session_id: str
    name: str
    how: How
    replayed: int  # updates of the history
    result: Raw
    turns: int = 0  # prompts in the history


class Permission(Struct, frozen=True):
    """A permission question and what was answered. `by` names what decided; `option_id` None means `cancelled`."""

    title: str
    tool_call: dict[str, Any]
    options: Sequence[Any]
    allowed: bool
    option_id: str | None
    by: str


class TurnEnd(Struct, frozen=True):
    """How a turn ended; `result` is the whole answer to `session/prompt`."""

    stop_reason: str
    usage: dict[str, Any] | None
    denied: str  # the tool call that the user could not be asked about, when that ended the work; else empty
    title: str  # of the session, as the agent names it; empty when it does not
    result: Raw


class Observer(Protocol):
    def negotiated(self, negotiated: Negotiated) -> None: ...

    def ready(self, session: SessionReady) -> None: ...

    def update(self, update: Updated) -> None:
        """Called for every update in wire order; 100,000 times in a long turn, so be quick."""

    def permission(self, permission: Permission) -> None: ...

    def unasked(self, call: dict[str, Any], by: str) -> None:
        """A tool call runs that was not asked about, although the policy does not allow it; `by` names the rule."""

    def served(self, step: FileServed | TerminalServed) -> None:
        """The agent had us read or write a file, or run a command."""

    def cancelled(self, calls: Sequence[dict[str, Any]], grace: float) -> None:
        """The turn is being cancelled, and given up after `grace` seconds; `calls` are the tool calls that were
        unfinished (C-63)."""

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        """`what` has been awaited for `seconds`; at `limit` it becomes an error."""

    def note(self, text: str) -> None:
        """One line a person should read, and a script may skip."""

    def server(self, change: Change) -> None:
        """A step in the life of an MCP server. It comes whenever it comes, between any two words of the agent's."""

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        """How the servers that the agent was given stand: a session has been opened, its first turn is over."""

    def ended(self, turn: TurnEnd) -> None: ...

    async def drain(self) -> None:
        """Return when there is room for more; the agent is not read meanwhile (back-pressure)."""
