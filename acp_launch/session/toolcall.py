"""The tool calls of a session, merged as ACP v1 "tool calls" says (C-56)."""

from typing import Any

from acp_launch.protocol import acp

KINDS = frozenset({"tool_call", "tool_call_update"})  # of an update
TEXTS = frozenset({"status", "title", "name", "kind"})
OVER = frozenset({"completed", "failed", "cancelled"})


class ToolCalls:
    """Each call by its id: a `tool_call` creates or overwrites, a `tool_call_update` changes what it holds.

    Omitted and null members stay as they were, `content` and `locations` are replaced whole, an unknown id creates.
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
        else:
            self._calls.setdefault(id, {}).update(fresh)
        return self._calls[id]

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
    """What to call it: its title, else its name or kind; gemini and claude omit the title in updates."""
    return acp.text(call.get("title")) or acp.text(call.get("name")) or acp.text(call.get("kind")) or "a tool call"
