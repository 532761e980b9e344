"""The tool calls of a session, merged as ACP v1 "tool calls" says (C-56), and what they are called."""

import re
from typing import Any

from acp_launch.protocol import acp

KINDS = frozenset({"tool_call", "tool_call_update"})  # of an update
TEXTS = frozenset({"status", "title", "name", "kind"})
OVER = frozenset({"completed", "failed", "cancelled"})
_MCP = re.compile(r"mcp__(.+?)__.+", re.DOTALL)  # as claude, qwen and others name the tools of a server


class ToolCalls:
    """Each call by its id: a `tool_call` creates or overwrites, a `tool_call_update` changes what it holds.

    Omitted and null members stay as they were, `content` and `locations` are replaced whole, an unknown id creates.
    What `_meta` held stays as well: a question of qwen's names the tool, and no longer its server.
    `cancelled` is a status of ours only: v1 has none on the wire (C-63).
    """

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, Any]] = {}

    def merge(self, update: dict[str, Any]) -> dict[str, Any]:
        """Take in the body of an update, or the `toolCall` of a permission question; gives the call as it is now."""
        id = call_id(update)
        fresh = {key: value for key, value in update.items() if _counts(key, value)}
        if update.get("sessionUpdate") == "tool_call":
            self._calls[id] = fresh
            return fresh
        call = self._calls.setdefault(id, {})
        if isinstance(before := call.get("_meta"), dict) and isinstance(now := fresh.get("_meta"), dict):
            fresh["_meta"] = before | now
        call.update(fresh)
        return call

    def announced(self, update: dict[str, Any]) -> str:
        """The title that a call had before this update of it; empty where that brings no other."""
        before, now = acp.text(self._calls.get(call_id(update), {}).get("title")), acp.text(update.get("title"))
        return before if now and now != before else ""

    def cancel(self) -> list[dict[str, Any]]:
        """Mark what is unfinished as cancelled, at once (C-63); gives those."""
        unfinished = [call for call in self._calls.values() if call.get("status") not in OVER]
        for call in unfinished:
            call["status"] = "cancelled"
        return unfinished


def _counts(key: str, value: object) -> bool:
    """A malformed optional member counts as omitted (C-22)."""
    return value is not None and key != "sessionUpdate" and (key not in TEXTS or isinstance(value, str))


def call_id(call: dict[str, Any]) -> str:
    """Empty where the agent gives none."""
    return acp.text(call.get("toolCallId"))


def title(call: dict[str, Any]) -> str:
    """What to call it: its title, else its tool or kind; gemini and claude omit the title in updates."""
    return acp.text(call.get("title")) or tool(call) or acp.text(call.get("kind")) or "a tool call"


def tool(call: dict[str, Any]) -> str:
    """The name of its tool, where the agent tells it: qwen, and claude before it used `name`, do so in `_meta`."""
    meta = acp.mapping(call.get("_meta"))
    claude = acp.mapping(meta.get("claudeCode"))
    return acp.text(call.get("name")) or acp.text(meta.get("toolName")) or acp.text(claude.get("toolName"))


def server(call: dict[str, Any]) -> str:
    """The MCP server that its tool belongs to, where the agent tells that."""
    meta = acp.mapping(call.get("_meta"))
    claude = acp.mapping(acp.mapping(meta.get("claudeCode")).get("mcpServer"))
    named = _MCP.fullmatch(tool(call))
    return acp.text(meta.get("serverId")) or acp.text(claude.get("name")) or (named[1] if named else "")
