"""Updates as the protocol hands them over."""

import json
from typing import Any

from msgspec import Raw

from acp_launch.protocol.conversation import Updated
from acp_launch.session.observer import TurnEnd


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


def end(reason: str = "end_turn", **members: Any) -> TurnEnd:
    result = Raw(json.dumps({"stopReason": reason, **members}).encode())
    return TurnEnd(reason, members.get("usage"), "", "", result)
