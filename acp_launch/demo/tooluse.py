"""Calling an MCP tool the way an agent does: announce it, ask first unless it only reads, report how it went."""

import time
from typing import NamedTuple

from acp_launch.demo.toolbox import Server
from acp_launch.demo.toolcall import ToolCall
from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import Message, RpcError

ANSWER = 60.0  # seconds; longest wait for a tool
READY = 15.0  # seconds; longest wait for servers that are still starting


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
    with ToolCall(turn, title, _kind(found), arguments) as call:
        refusal = "" if reads_only(found) else call.refusal((server.name, tool))
        words = refusal or _make(turn, server, tool, arguments, call)
    return Attempt(words, was_made=not refusal)


def _kind(tool: Message) -> str:
    if reads_only(tool):
        return "read"
    return "edit" if isinstance(tool.get("annotations"), dict) else "other"


def _make(turn: Turn, server: Server, tool: str, arguments: Message, call: ToolCall) -> str:
    """What came of it, in words."""
    call.begin()
    try:
        result = turn.call_tool(server, tool, arguments, ANSWER)
    except (RpcError, OSError) as error:
        call.end("failed", str(error))
        return f"The tool `{tool}` of `{server.name}` failed: {error}"
    text = _text(result)
    failed = result.get("isError") is True
    call.end("failed" if failed else "completed", text)
    return f"The tool `{tool}` failed: {text}" if failed else text


def _text(result: Message) -> str:
    blocks = result.get("content")
    texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    return "\n".join(text for text in texts if isinstance(text, str)) or "(the tool answered nothing in words)"
