"""Updates as the protocol hands them over, and the other events of a session."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Raw

from acp_launch.process.lifecycle import Standing
from acp_launch.protocol.conversation import How, Updated
from acp_launch.session.events import (
    CancelledEvent,
    NoteEvent,
    PermissionEvent,
    ResultEvent,
    ServersEvent,
    SessionEvent,
    UnaskedEvent,
    WaitingEvent,
)


def update(
    kind: str, /, *, replay: bool = False, outside: bool = False, session: str = "s1", **members: Any
) -> Updated:
    return Updated(session, kind, Raw(json.dumps({"sessionUpdate": kind, **members}).encode()), replay, outside)


def chunk(
    text: str,
    *,
    message: str | None = None,
    kind: str = "agent_message_chunk",
    replay: bool = False,
    outside: bool = False,
) -> Updated:
    extra = {"messageId": message} if message else {}
    return update(kind, replay=replay, outside=outside, content={"type": "text", "text": text}, **extra)


def tool(id: str, status: str, **members: Any) -> Updated:
    name = "tool_call" if "title" in members else "tool_call_update"
    return update(name, toolCallId=id, status=status, **members)


def end(reason: str = "end_turn", **members: Any) -> ResultEvent:
    result = Raw(json.dumps({"stopReason": reason, **members}).encode())
    return ResultEvent(stop_reason=reason, usage=members.get("usage"), result=result)


def opened(session_id: str, name: str, how: How, replayed: int, result: Raw, **members: Any) -> SessionEvent:
    return SessionEvent(session_id=session_id, name=name, how=how, replayed=replayed, result=result, **members)


def answered(title: str, call: dict[str, Any], options: list[Any], **members: Any) -> PermissionEvent:
    """The answer to a question: `allowed`, `option_id` and `by`."""
    return PermissionEvent(title=title, tool_call=call, options=options, **members)


def unasked(call: dict[str, Any], by: str) -> UnaskedEvent:
    return UnaskedEvent(tool_call=call, by=by)


def cancelled(calls: list[dict[str, Any]], limit: float) -> CancelledEvent:
    return CancelledEvent(tool_calls=calls, limit=limit)


def waiting(what: str, seconds: float, limit: float) -> WaitingEvent:
    return WaitingEvent(what=what, seconds=seconds, limit=limit)


def note(text: str) -> NoteEvent:
    return NoteEvent(text=text)


def standing(servers: Sequence[Standing], when: Literal["opened", "turn"]) -> ServersEvent:
    return ServersEvent(when=when, servers=servers)
