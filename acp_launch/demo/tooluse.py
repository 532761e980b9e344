"""
Calling an MCP tool the way an agent does: announce it, ask first unless it only reads, report how it went.

The client sees `tool_call` (pending), then `tool_call_update` in_progress and completed or failed; a question that is
refused, or a turn that is cancelled, ends the call as failed (ACP v1 "tool calls").
"""

import os
import time
from typing import NamedTuple

from acp_launch.demo.toolbox import Server
from acp_launch.demo.turn import Turn, TurnCancelled
from acp_launch.demo.wire import Message, RpcError

ANSWER = 60.0  # seconds; longest wait for a tool
READY = 15.0  # seconds; longest wait for servers that are still starting

OPTIONS: list[Message] = [
    {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "allow-always", "name": "Always allow in this session", "kind": "allow_always"},
    {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
]


class Attempt(NamedTuple):
    """What came of a tool call, in words; `was_made` unless there is no such tool or nobody allowed it."""

    words: str
    was_made: bool


def reads_only(tool: Message) -> bool:
    annotations = tool.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True


def ready_servers(turn: Turn, seconds: float) -> list[Server]:
    """The session's servers, each with its tools or its problem known, unless it takes longer than `seconds`."""
    end = time.monotonic() + seconds
    for server in turn.session.servers:
        # In short pieces, so that a cancelled turn does not wait for a server that is slow to start.
        while not server.ready.wait(0.02) and time.monotonic() < end:
            turn.pause(0.001)
    return turn.session.servers


def use_first(turn: Turn, tool: str, arguments: Message, *, title: str) -> None:
    """Use the first server that has this tool."""
    servers = ready_servers(turn, READY)
    server = next((each for each in servers if each.tool(tool)), None)
    if server is None:
        turn.say(f"No MCP server of this session has a tool `{tool}`. Say `tools` to see what there is.")
        return
    use(turn, server.name, tool, arguments, title=title)


def use(turn: Turn, name: str, tool: str, arguments: Message, *, title: str) -> None:
    """Announce the call, ask, make it, tell what came of it."""
    turn.say(attempt(turn, name, tool, arguments, title=title).words)


def attempt(turn: Turn, name: str, tool: str, arguments: Message, *, title: str) -> Attempt:
    """As `use`, but whoever calls this tells what came of it."""
    server = next((each for each in ready_servers(turn, READY) if each.name == name), None)
    found = server.tool(tool) if server else None
    if server is None or found is None:
        missing = f"There is no tool `{tool}` on a server `{name}`. Say `tools` to see what there is."
        return Attempt(missing, was_made=False)
    call = {"toolCallId": os.urandom(6).hex(), "title": title, "kind": _kind(found), "rawInput": arguments}
    turn.update("tool_call", **call, status="pending")
    try:
        refusal = _refusal(turn, server, found, call)
        return Attempt(refusal or _make(turn, server, tool, call), was_made=not refusal)
    except TurnCancelled:
        _report(turn, call, "failed", "cancelled")
        raise


def _kind(tool: Message) -> str:
    if reads_only(tool):
        return "read"
    return "edit" if isinstance(tool.get("annotations"), dict) else "other"


def _refusal(turn: Turn, server: Server, tool: Message, call: Message) -> str:
    """Why the call may not be made; empty when it may."""
    key = (server.name, tool["name"])
    if reads_only(tool) or key in turn.session.allowed:
        return ""
    try:
        chosen = turn.ask_permission({**call, "status": "pending"}, OPTIONS)
    except RpcError as error:
        _report(turn, call, "failed", f"the client could not be asked: {error}")
        return f"I did not do it, because I could not ask for permission: {error}"
    if chosen is None:
        raise TurnCancelled
    if chosen == "allow-always":
        turn.session.allowed.add(key)
    if chosen in {"allow-once", "allow-always"}:
        return ""
    _report(turn, call, "failed", "rejected")
    return "I did not do it: permission was refused."


def _make(turn: Turn, server: Server, tool: str, call: Message) -> str:
    """What came of it, in words."""
    turn.update("tool_call_update", toolCallId=call["toolCallId"], status="in_progress")
    try:
        result = turn.call_tool(server, tool, call["rawInput"], ANSWER)
    except (RpcError, OSError) as error:
        _report(turn, call, "failed", str(error))
        return f"The tool `{tool}` of `{server.name}` failed: {error}"
    text = _text(result)
    failed = result.get("isError") is True
    _report(turn, call, "failed" if failed else "completed", text)
    return f"The tool `{tool}` failed: {text}" if failed else text


def _text(result: Message) -> str:
    blocks = result.get("content")
    texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    return "\n".join(text for text in texts if isinstance(text, str)) or "(the tool answered nothing in words)"


def _report(turn: Turn, call: Message, status: str, text: str) -> None:
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    turn.update("tool_call_update", toolCallId=call["toolCallId"], status=status, content=content, rawOutput=text)
