"""
A tool call as the client sees it: announced, asked about, begun, and always ended (ACP v1 "tool calls").

A question that is refused, or a turn that is cancelled, ends the call as failed.
"""

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from acp_launch.demo.turn import Turn, TurnCancelled
from acp_launch.demo.wire import Message, RpcError

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
