"""
The events of a session, as scripts read them (`-o json`), and as a batch keeps them: one object a line.

docs/scripting.md documents each type and member; `acp-launch schema --events` prints the JSON Schema. Members and types
may be added later. What an agent said is `Raw`: it is never decoded and encoded again, so unknown members are not lost.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct, field

from acp_launch.process.lifecycle import Change, Standing, State
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import How
from acp_launch.protocol.written import replace_halves, written


class TimedEvent(Struct, frozen=True, tag_field="type", rename="camel"):
    """`time` is in UTC, as "2026-11-27T08:30:00.250Z"."""

    time: str


class InitializedEvent(TimedEvent, frozen=True, kw_only=True, tag="initialized"):
    """The agent's whole answer to `initialize`."""

    result: Raw


class SessionEvent(TimedEvent, frozen=True, kw_only=True, tag="session"):
    """A session is open. `session_id` is the agent's, `name` ours; `replayed` counts the updates of its history."""

    session_id: str
    name: str
    how: How
    replayed: int
    result: Raw


class UpdateEvent(TimedEvent, frozen=True, kw_only=True, tag="update"):
    """One ACP `session/update` of a turn."""

    session_id: str
    update: Raw


class ReplayEvent(TimedEvent, frozen=True, kw_only=True, tag="replay"):
    """One update of a loaded session's history."""

    session_id: str
    update: Raw


class OutsideEvent(TimedEvent, frozen=True, kw_only=True, tag="outside"):
    """One update with text that came while no turn ran."""

    session_id: str
    update: Raw


class PermissionEvent(TimedEvent, frozen=True, kw_only=True, tag="permission"):
    """A question and its answer; `by` names what decided. `option_id` None means `cancelled`."""

    tool_call: Mapping[str, Any]
    options: Sequence[Any]
    allowed: bool
    option_id: str | None
    by: str


class UnaskedEvent(TimedEvent, frozen=True, kw_only=True, tag="unasked"):
    """A tool call runs without a question, although the part `by` of the policy does not allow it."""

    tool_call: Mapping[str, Any]
    by: str


class FileEvent(TimedEvent, frozen=True, kw_only=True, tag="file"):
    """We read or wrote a file for the agent. Its content is left out, because a script can read the file."""

    path: str
    how: Literal["read", "write"]
    outcome: Literal["done", "refused", "failed"]
    reason: str | None
    created: bool


class TerminalEvent(TimedEvent, frozen=True, kw_only=True, tag="terminal"):
    """A step of a command that we run for the agent. `output` is new since the last step."""

    terminal_id: str
    command: str
    cwd: str
    output: str
    exit: str | None


class CancelledEvent(TimedEvent, frozen=True, kw_only=True, tag="cancelled"):
    """The turn is being cancelled; the agent is given up after `limit` seconds."""

    tool_calls: Sequence[Mapping[str, Any]]
    limit: float


class WaitingEvent(TimedEvent, frozen=True, kw_only=True, tag="waiting"):
    """A wait has lasted `seconds`; at `limit` it becomes an error."""

    what: str = field(name="for")
    seconds: float
    limit: float


class NoteEvent(TimedEvent, frozen=True, kw_only=True, tag="note"):
    """Something a user should know."""

    text: str


class ServerChangeEvent(TimedEvent, frozen=True, kw_only=True, tag="server"):
    """A step in the life of an MCP server, as `Change` says; `retry` and `seconds` are in seconds."""

    name: str
    state: State
    required: bool
    pid: int | None
    restarts: int
    seconds: float | None
    exit: str | None
    reason: str | None
    retry: float | None
    detail: Sequence[str]


class ServerState(Struct, frozen=True, kw_only=True):
    """A member of `ServersEvent`, as `Standing` says."""

    name: str
    state: State
    required: bool
    opened: bool
    unread: bool
    seconds: float | None
    tools: int | None
    restarts: int
    reason: str | None


class ServersEvent(TimedEvent, frozen=True, kw_only=True, tag="servers"):
    """The state of the agent's servers: after a session has opened, or after a turn."""

    when: Literal["opened", "turn"]
    servers: Sequence[ServerState]


class ResultEvent(TimedEvent, frozen=True, kw_only=True, tag="result"):
    """The turn is over. `result` is the agent's whole answer, `text` its final message."""

    stop_reason: str
    text: str
    usage: Mapping[str, Any] | None
    denied: str | None
    denied_by: str | None
    result: Raw


class ErrorProblem(Struct, frozen=True, kw_only=True):
    """A member of `ErrorEvent`."""

    file: str
    line: int
    column: int
    path: str
    message: str
    fix: str
    severity: str


class ErrorEvent(TimedEvent, frozen=True, kw_only=True, tag="error"):
    """The last line of a run that failed. `code` and `data` are those of the agent's JSON-RPC error."""

    exit_code: int
    message: str
    fix: str
    detail: Sequence[str]
    problems: Sequence[ErrorProblem]
    code: int | None
    data: Any


AnyEvent = (
    InitializedEvent
    | SessionEvent
    | ReplayEvent
    | OutsideEvent
    | UpdateEvent
    | PermissionEvent
    | UnaskedEvent
    | FileEvent
    | TerminalEvent
    | CancelledEvent
    | WaitingEvent
    | ServerChangeEvent
    | ServersEvent
    | NoteEvent
    | ResultEvent
    | ErrorEvent
)
TYPES: tuple[type[TimedEvent], ...] = AnyEvent.__args__
"""Every type, in the order of the documentation."""


def tell_server(change: Change, time: str) -> ServerChangeEvent:
    return ServerChangeEvent(
        time,
        name=change.server,
        state=change.state,
        required=change.required,
        pid=change.pid,
        restarts=change.restarts,
        seconds=change.after,
        exit=change.exit or None,
        reason=change.reason or None,
        retry=change.retry,
        detail=change.detail,
    )


def describe_server(standing: Standing) -> ServerState:
    return ServerState(
        name=standing.server,
        state=standing.state,
        required=standing.required,
        opened=standing.opened,
        unread=standing.unread,
        seconds=standing.after,
        tools=standing.tools,
        restarts=standing.restarts,
        reason=standing.reason or None,
    )


def encode(event: AnyEvent) -> bytes:
    """Encode an event as one line without its end. Invisible characters in it are as they were."""
    return written(event)


def decode(line: bytes) -> AnyEvent | None:
    """Decode a line; None if it is not an event that is known here. Halves of characters become question marks."""
    decoder = _get_decoder()
    with suppress(msgspec.DecodeError, RecursionError):
        return decoder.decode(line)
    with suppress(msgspec.DecodeError, RecursionError):
        return decoder.decode(msgspec.json.encode(replace_halves(acp.decoded(line))))
    return None


@cache
def _get_decoder() -> "msgspec.json.Decoder[AnyEvent]":
    return msgspec.json.Decoder(AnyEvent)


def write_schema() -> str:
    """Return the JSON Schema (draft 2020-12) of a line."""
    import json

    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(AnyEvent)}
    return json.dumps(schema, indent=2) + "\n"
