"""
Opens a session (ACP v1 "session setup"), sets its options, and lists, closes and deletes an agent's sessions.

A session is new, or one from the store: loaded with its history, or resumed without it.
"""

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Raw, Struct

from acp_launch.errors import (
    AgentRefused,
    AuthRequired,
    RemoteProtocolError,
    RunExpired,
    SessionError,
    UsageError,
    WaitExpired,
)
from acp_launch.problem import KeyPath, ours
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.acp import Capabilities
from acp_launch.protocol.conversation import How
from acp_launch.protocol.jsonrpc import Call
from acp_launch.session.client import AcpSession
from acp_launch.session.connection import Connection
from acp_launch.session.events import SessionEvent, show_note
from acp_launch.session.options import NotOffered, Option, Options, Value, find, match, one_line, value_of
from acp_launch.session.state import SessionState
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.profile.agents import Replay

# Some agents send the history after their answer to session/load; silence ends it.
QUIET_SECONDS = 0.5
QUIET_AT_MOST = 10.0  # seconds a replay may continue after the answer
REFUSAL = stretch(0.5)  # seconds an agent has to refuse an unknown request; a few never do
KNOB = "session"
OPENING = {
    "new": "a new session",
    "load": "the session to be loaded",
    "resume": "the session to be resumed",
    "fork": "a fork of a session",
}


class SessionParams(Struct, frozen=True):
    """The place of a session, sent whole every time it is opened: agents remember none of it."""

    cwd: Path
    directories: Sequence[str]
    servers: Sequence[object]
    meta: Mapping[str, object] | None = None  # `_meta` of the request
    asked: Mapping[str, object] | None = None  # the params of an editor, whose other members stay


def how_to_continue(able: Capabilities, *, replay: bool, name: str) -> How:
    """Return `load`, or `resume` if the history is not wanted or not available.

    Raises:
        SessionError: the agent can do neither; a new session is never started silently (docs/session.md).
    """
    if able.resume and not (replay and able.load):
        return "resume"
    if able.load:
        return "load"
    raise SessionError(
        f'the agent can neither load nor resume a session, so "{name}" cannot be continued', fix=_afresh(name)
    )


async def open_session(
    connection: Connection,
    client: AcpSession,
    params: SessionParams,
    *,
    how: How,
    session_id: str,
    limit: float,
    replay: "Replay" = "",
) -> SessionEvent:
    """Open a session within `limit` seconds. A load also waits until its history is complete, as `replay` defines.

    Raises:
        SessionError: the agent does not know the session any more.
        AgentError, AuthRequired, WaitExpired: as `Connection.call`.
    """
    call = connection.conversation.open(
        how,
        session_id,
        cwd=str(params.cwd),
        servers=params.servers,
        directories=params.directories,
        meta=params.meta,
        asked=params.asked,
    )
    client.opening(session_id, call.number)
    try:
        await connection.call(call, what=f"answer about {OPENING[how]} from the agent", limit=limit, knob=KNOB)
    except AgentRefused as error:
        raise error if how == "new" or params.asked is not None else _unknown_session(error, client.name) from None
    if how == "load":
        if replay == "after" or (replay == "" and await _is_late(connection, client)):
            await _settle(connection)
        return client.loaded()
    return client.session


def _afresh(name: str) -> str:
    return f"start afresh under this name: --session {shlex.quote(name)} --new"


def _unknown_session(error: AgentRefused, name: str) -> Exception:
    """Return the error for an unknown session: -32002; codex, gemini and
    opencode send -32603, so their text is kept."""
    message, detail = f'the session "{name}" cannot be continued: {error.message}', error.detail
    if error.code == jsonrpc.NOT_FOUND:
        message, detail = f'the agent has forgotten the session "{name}"', ()
    unknown = SessionError(message, fix=_afresh(name), detail=detail)
    unknown.cause = error.reply
    return unknown


async def _is_late(connection: Connection, client: AcpSession) -> bool:
    """Whether an agent continued the history after its answer to `session/load`.

    It gets a request that it must refuse: everything still on its way comes before the refusal, and we need not wait
    for messages that will not come.
    """
    if client.history_late:
        return True
    try:
        call = connection.conversation.replayed()
        await connection.call(call, what="answer to a request of ours from the agent", limit=REFUSAL)
    except RunExpired:
        raise
    except (AgentRefused, AuthRequired, WaitExpired):
        return client.history_late
    return client.history_late


async def _settle(connection: Connection) -> None:
    """Return after `QUIET_SECONDS` without a message from the agent."""
    loop = asyncio.get_running_loop()
    answered = loop.time()
    while (now := loop.time()) < answered + QUIET_AT_MOST:
        left = max(connection.heard(), answered) + QUIET_SECONDS - now
        if left <= 0:
            return
        await asyncio.sleep(left)


# Listing, closing and deleting an agent's sessions.


PAGES = 1_000


async def list_sessions(connection: Connection, *, cwd: str | None, limit: float) -> AsyncIterator[dict[str, Any]]:
    """Yield every session that the agent knows, page after page; `limit` seconds for each (C-45).

    Raises:
        RemoteProtocolError: there are more than `PAGES` of them.
    """
    cursor: str | None = None
    for _ in range(PAGES):
        call = connection.conversation.list_sessions(cwd=cwd, cursor=cursor)
        result = await connection.call(call, what="list of sessions from the agent", limit=limit, knob=KNOB)
        page = acp.mapping(acp.decoded(result))
        for session in acp.sequence(page.get("sessions")):
            if isinstance(session, dict):
                yield session
        cursor = acp.text(page.get("nextCursor")) or None
        if cursor is None:
            return
    raise RemoteProtocolError(f"the agent's list of sessions has no end: it has more than {PAGES:,} pages")


async def end_session(
    connection: Connection, how: Literal["close", "delete"], session_id: str, *, limit: float, name: str = "NAME"
) -> bool:
    """Close or delete a session at the agent; False if the agent does not offer it. `name` is our name for it.

    A session that the agent does not know counts as closed or deleted (-32002, C-47).
    """
    able = connection.agent.capabilities
    if not (able.close if how == "close" else able.delete):
        return False
    call = connection.conversation.end(how, session_id)
    try:
        await connection.call(call, what=f"answer to session/{how} from the agent", limit=limit, knob=KNOB)
    except AgentRefused as refusal:
        if refusal.code != jsonrpc.NOT_FOUND:
            forget = f"delete it here only: {ours('session', 'rm', name, '--local')}"
            refusal.fix = refusal.fix or (forget if how == "delete" else "")
            raise
    return True


# Setting the options that the profile and the command line want: mode, then `session.config`, then `--set`.
#
# One after the other, each looked up in the list of the last answer, because one change may alter other options (C-52).
# A value that is set already is not sent. An option that the agent does not offer is an error that lists its options.


class Setting(Struct, frozen=True):
    """A wanted option.

    `option` is an id, a category or a name; `origin` begins every message: a place, or `--set …`.
    """

    option: str
    value: Value
    origin: str


def parse_setting(text: str) -> Setting:
    """Parse one `--set`: everything after the first `=` is the value.

    Raises:
        UsageError: there is no `=`, or nothing before it.
    """
    option, equals, value = text.partition("=")
    if not equals or not option.strip():
        raise UsageError(f'--set takes option=value, not "{text}"', fix="for example: --set model=opus")
    return Setting(option.strip(), value, f"--set {text}")


def wanted_options(
    mode: str | None, config: Mapping[str, Value], sets: Sequence[str], *, place: Callable[[KeyPath], str]
) -> list[Setting]:
    """Return everything wanted of a session, in the order in which it is set; `place` locates a key in the profile.

    Raises:
        UsageError: as `parse_setting`.
    """
    found = [] if mode is None else [Setting("mode", mode, place(("session", "mode")))]
    found += [Setting(option, value, place(("session", "config", option))) for option, value in config.items()]
    return found + [parse_setting(text) for text in sets]


class AppliedOption(Struct, frozen=True):
    """An option as it was, and the value that it was set to. `call` and `result` are None if it had that value."""

    option: Option
    value: Value
    call: Call | None = None
    result: Raw | None = None


async def configure(
    connection: Connection, state: SessionState, session_id: str, wanted: Sequence[Setting], *, limit: float
) -> list[AppliedOption]:
    """Set all wanted options, `limit` seconds for each; of two about one option only the later.

    The observer is told of an option that has another value in the end, which the agent decides.

    Raises:
        As `apply_option`.
    """
    made: dict[str, tuple[Setting, AppliedOption]] = {}
    for wish in _latest(state.options, wanted):
        done = await apply_option(connection, state, session_id, wish, limit=limit)
        made[done.option.id] = (wish, done)
    for id, (wish, done) in made.items():
        _check(connection, state, id, wish, done.value)
    return [done for _, done in made.values()]


async def apply_option(
    connection: Connection, state: SessionState, session_id: str, wish: Setting, *, limit: float
) -> AppliedOption:
    """Set one option.

    Raises:
        NotOffered: the agent has no such option, or no such value for it.
        SessionError: it refused to set it.
        AgentError, AuthRequired, WaitExpired: as `Connection.call`.
    """
    try:
        option = find(state.options, wish.option)
        value = value_of(option, wish.value)
    except NotOffered as error:
        raise NotOffered(f"{wish.origin}: {error.message}", fix=error.fix) from None
    if option.current == value:
        return AppliedOption(option, value)
    call = _call(connection, session_id, option, value)
    lists = state.lists
    try:
        result = await connection.call(call, what=f"answer to {call.method} from the agent", limit=limit, knob=KNOB)
    except AgentRefused as error:
        refused = SessionError(f"{wish.origin}: {error.message}", fix=error.fix, detail=error.detail)
        refused.cause = error.reply
        raise refused from None
    state.answered(option, value, acp.decoded(result), lists=lists)
    return AppliedOption(option, value, call, result)


def _check(connection: Connection, state: SessionState, id: str, wish: Setting, value: Value) -> None:
    """Report an option with another value than wanted: an agent may adjust
    a value, or change one option with another."""
    found = next((option for option in state.options if option.id == id), None)
    if found is not None and found.current != value:
        wanted = one_line(wish.value) or str(wish.value).lower()
        text = f'{wish.origin}: the agent has "{one_line(id)}" at "{found.shown}", not "{wanted}"'
        show_note(connection.observer, text)


def _call(connection: Connection, session_id: str, option: Option, value: Value) -> Call:
    say = connection.conversation
    if option.source == "option":
        return say.set_option(session_id, option.id, value)
    way = say.set_mode if option.source == "mode" else say.set_model
    return way(session_id, str(value))


def _latest(options: Options, wanted: Sequence[Setting]) -> list[Setting]:
    """Drop settings that a later one overrides: the command line comes before the profile."""
    latest: dict[str, Setting] = {}
    for wish in wanted:
        option = match(options, wish.option)
        latest[option.id if option else wish.option] = wish
    return list(latest.values())
