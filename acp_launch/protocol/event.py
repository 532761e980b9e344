"""What an agent's lines come to (`protocol.conversation`)."""

from typing import Any, Literal

from msgspec import Raw, Struct

from acp_launch.protocol.jsonrpc import Answered, Junk

How = Literal["new", "load", "resume"]


class Updated(Struct, frozen=True):
    """
    One `session/update`; `update` is the bytes of its `update` member, untouched.

    It belongs to the history of a loaded session (`replay`), to the turn that runs, or to neither (`outside`).
    """

    session_id: str
    kind: str
    update: Raw
    replay: bool
    outside: bool = False


# Updates that are words; all others tell what is done, or how things stand.
WORDS = frozenset({"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"})


class Opened(Struct, frozen=True):
    """A session is open; comes right before the updates that were kept for it."""

    session_id: str
    how: How
    result: Raw


class PermissionAsked(Struct, frozen=True):
    id: Raw
    session_id: str
    tool_call: dict[str, Any]
    options: list[Any]


class ServiceAsked(Struct, frozen=True):
    """A request we serve; `session_id` is empty for one that belongs to no session, as a form within a login."""

    id: Raw
    method: str
    session_id: str
    params: dict[str, Any]


class Completed(Struct, frozen=True):
    """What a url was opened for is done, says the agent (`elicitation/complete`)."""

    elicitation_id: str


class Withdrawn(Struct, frozen=True):
    """The agent gave up a request of its own (`$/cancel_request`); it is owed an answer all the same (C-65)."""

    id: Raw


class Reply(Struct, frozen=True):
    """A line to send: the answer to something we do not serve."""

    line: bytes


Event = Updated | Opened | PermissionAsked | ServiceAsked | Completed | Withdrawn | Reply | Answered | Junk
