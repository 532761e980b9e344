"""What can be done with an agent's sessions besides talking in them: list, close, delete."""

from collections.abc import AsyncIterator
from typing import Any, Literal

from acp_launch.errors import AgentRefused, RemoteProtocolError
from acp_launch.problem import ours
from acp_launch.protocol import acp, jsonrpc
from acp_launch.session.connection import Connection
from acp_launch.session.opening import KNOB

EMPTY_PAGES = 100  # in a row; a page may be empty when the agent filters after paging


async def list_sessions(connection: Connection, *, cwd: str | None, limit: float) -> AsyncIterator[dict[str, Any]]:
    """Every session the agent knows, page after page; `limit` seconds for each (C-45, C-46).

    Raises:
        RemoteProtocolError: a cursor came a second time, or page after page is empty: the list would never end.
    """
    seen: set[str] = set()
    empty = 0
    cursor: str | None = None
    while True:
        call = connection.conversation.list_sessions(cwd=cwd, cursor=cursor)
        result = await connection.call(call, what="list of sessions from the agent", limit=limit, knob=KNOB)
        page = acp.mapping(acp.decoded(result))
        sessions = [session for session in acp.sequence(page.get("sessions")) if isinstance(session, dict)]
        for session in sessions:
            yield session
        cursor = acp.text(page.get("nextCursor")) or None
        if cursor is None:
            return
        if cursor in seen:
            raise RemoteProtocolError("the agent's list of sessions goes in circles: a cursor came twice")
        seen.add(cursor)
        empty = 0 if sessions else empty + 1
        if empty == EMPTY_PAGES:
            raise RemoteProtocolError(f"the agent's list of sessions has no end: {EMPTY_PAGES} empty pages in a row")


async def end_session(
    connection: Connection, how: Literal["close", "delete"], session_id: str, *, limit: float, name: str = "NAME"
) -> bool:
    """Close or delete a session at the agent; False when the agent does not offer it. `name` is ours for it.

    A session the agent does not know is as good as closed or deleted (-32002, C-47).
    """
    able = connection.agent.capabilities
    if not (able.close if how == "close" else able.delete):
        return False
    call = connection.conversation.end(how, session_id)
    try:
        await connection.call(call, what=f"answer to session/{how} from the agent", limit=limit, knob=KNOB)
    except AgentRefused as refusal:
        if refusal.code != jsonrpc.NOT_FOUND:
            forget = f"forget it here, and leave it with the agent: {ours('session', 'rm', name, '--local')}"
            refusal.fix = refusal.fix or (forget if how == "delete" else "")
            raise
    return True
