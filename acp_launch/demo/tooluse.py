"""Calling an MCP tool the way an agent does: announce it, ask first unless it only reads, report how it went."""

import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from acp_launch.demo.toolbox import Server
from acp_launch.demo.turn import Turn, TurnCancelled
from acp_launch.demo.wire import Message, RpcError

# A tool call as the client sees it: announced, asked about, begun, and always ended (ACP v1 "tool calls").
#
# A question that is refused, or a turn that is cancelled, ends the call as failed.


OPTIONS: list[Message] = [
    {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "allow-always", "name": "Always allow in this session", "kind": "allow_always"},
    {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
]
PLANNING = "I did not do it: in the mode `plan` I change nothing. `mode ask` gets me out of it."


class ToolCall:
    """Announced when it is made; to be used in a `with`, so that a cancelled turn does not leave it open."""

    def __init__(
        self,
        turn: Turn,
        title: str,
        kind: str,
        raw_input: Message,
        *,
        content: Sequence[Message] = (),
        locations: Sequence[Message] = (),
    ) -> None:
        self._turn = turn
        self.identity = os.urandom(6).hex()
        self.announced: Message = {"toolCallId": self.identity, "title": title, "kind": kind, "rawInput": raw_input}
        self.announced |= {"content": [*content]} if content else {}
        self.announced |= {"locations": [*locations]} if locations else {}
        self.announced["status"] = "pending"
        turn.update("tool_call", **self.announced)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, TurnCancelled):
            self.end("failed", "cancelled")

    def refusal(self, key: tuple[str, str]) -> str:
        """Why it may not be done, in words; empty when it may. `key` is what an "always" is remembered for."""
        if self._turn.session.options.mode == "plan":
            self.end("failed", "nothing is changed in the mode plan")
            return PLANNING
        if self._turn.session.options.mode == "code" or key in self._turn.session.allowed:
            return ""
        try:
            chosen = self._turn.ask_permission(self.announced, OPTIONS)
        except RpcError as error:
            self.end("failed", f"the client could not be asked: {error}")
            return f"I did not do it, because I could not ask for permission: {error}"
        return self.decided(chosen, key)

    def decided(self, chosen: str | None, key: tuple[str, str]) -> str:
        """The same, once the question is answered.

        Raises:
            TurnCancelled: the answer was `cancelled`.
        """
        if chosen is None:
            raise TurnCancelled
        if chosen == "allow-always":
            self._turn.session.allowed.add(key)
        if chosen in {"allow-once", "allow-always"}:
            return ""
        self.end("failed", "rejected")
        return "I did not do it: permission was refused."

    def begin(self, **fields: object) -> None:
        self._turn.update("tool_call_update", toolCallId=self.identity, status="in_progress", **fields)

    def end(self, status: str, text: str, *, keep: Sequence[Message] = ()) -> None:
        """`completed` or `failed`. The text becomes the call's content, unless there is content to keep."""
        content = [*keep] or [{"type": "content", "content": {"type": "text", "text": text}}]
        self._turn.update("tool_call_update", toolCallId=self.identity, status=status, content=content, rawOutput=text)


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
