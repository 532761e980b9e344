"""Open a session: new, or one from the store, loaded with its history or resumed without (ACP v1 "session setup")."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from acp_launch.errors import AgentRefused, AuthRequired, RunExpired, SessionError, WaitExpired
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import Capabilities
from acp_launch.protocol.event import How
from acp_launch.session.client import Client
from acp_launch.session.connection import Connection
from acp_launch.session.observer import SessionReady

if TYPE_CHECKING:
    from acp_launch.profile.agents import Replay

# Silence ends the history of an agent that sends it after its answer to session/load: a short one when it already ended
# with the agent's words.
QUIET = 0.1  # seconds
QUIET_UNFINISHED = 0.5
QUIET_AT_MOST = 10.0  # seconds a replay may go on after the answer
REFUSAL = 0.5  # seconds an agent has to refuse what it does not know; a few never do
KNOB = "session"
OPENING = {"new": "a new session", "load": "the session to be loaded", "resume": "the session to be resumed"}


class Stay(Struct, frozen=True):
    """Where a session lives: sent whole every time it is opened, nothing is remembered by the agent."""

    cwd: Path
    directories: tuple[Path, ...]
    servers: Sequence[object]


def how_to_continue(able: Capabilities, *, replay: bool, name: str) -> How:
    """`load`, or `resume` when the history is not wanted or cannot be had.

    Raises:
        SessionError: the agent can do neither; never a silent fresh start (DESIGN §7).
    """
    if able.resume and not (replay and able.load):
        return "resume"
    if able.load:
        return "load"
    raise SessionError(
        f'the agent can neither load nor resume a session, so "{name}" cannot be continued',
        fix=_afresh(name),
    )


async def open_session(
    connection: Connection,
    client: Client,
    stay: Stay,
    *,
    how: How,
    session_id: str,
    limit: float,
    replay: "Replay" = "",
) -> SessionReady:
    """Open it within `limit` seconds; for a load, wait until its history has come in whole, which is as `replay` says.

    Raises:
        SessionError: the agent has forgotten the session.
        AgentError, AuthRequired, WaitExpired: as `Connection.call`.
    """
    client.opening(session_id)
    call = connection.conversation.open(
        how,
        session_id,
        cwd=str(stay.cwd),
        servers=stay.servers,
        directories=[str(directory) for directory in stay.directories],
    )
    try:
        await connection.call(call, what=f"answer about {OPENING[how]} from the agent", limit=limit, knob=KNOB)
    except AgentRefused as error:
        raise _forgotten(error, client.name) if how != "new" else error from None
    if how == "load":
        if replay == "after" or (replay == "" and await _is_late(connection, client)):
            await _settled(connection, QUIET if client.history_complete else QUIET_UNFINISHED)
        return client.loaded()
    return client.session


def _afresh(name: str) -> str:
    import shlex

    return f"start afresh under this name: --session {shlex.quote(name)} --new"


def _forgotten(error: AgentRefused, name: str) -> Exception:
    """-32002 is "not found"; codex, gemini and opencode say -32603, so their own words come along."""
    if error.code == jsonrpc.NOT_FOUND:
        return SessionError(f'the agent has forgotten the session "{name}"', fix=_afresh(name))
    return SessionError(
        f'the session "{name}" cannot be continued: {error.message}',
        fix=_afresh(name),
        detail=error.detail,
    )


async def _is_late(connection: Connection, client: Client) -> bool:
    """Whether an agent has gone on with the history after its answer to `session/load`.

    It is asked for what it must refuse: what it still had to say comes before that, and nothing is waited for that
    will not come.
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


async def _settled(connection: Connection, quiet: float) -> None:
    """Return after `quiet` seconds without a word from the agent."""
    loop = asyncio.get_running_loop()
    answered = loop.time()
    while (now := loop.time()) < answered + QUIET_AT_MOST:
        left = max(connection.heard(), answered) + quiet - now
        if left <= 0:
            return
        await asyncio.sleep(left)
