"""
One prompt turn: everything that happens between `session/prompt` and its answer, in a thread of its own.

Whatever a turn waits for arrives in its mailbox, and so does its cancellation; `TurnCancelled` then unwinds the turn
from wherever it stands, and the prompt is answered `cancelled` (ACP v1 "prompt turn").
"""

import os
import re
import time
from queue import Empty, SimpleQueue
from typing import Protocol

from acp_launch.demo.toolbox import Server
from acp_launch.demo.wire import Call, Mailbox, Message, Wire, result_of

GROUP = re.compile(r"\s*(?:\S+\s*){1,4}")  # a chunk is about four words, as a model's are


class Place(Protocol):
    """The session a turn happens in, as far as the turn and its reply need to know it."""

    identity: str
    cwd: str
    directories: list[str]
    servers: list[Server]
    allowed: set[tuple[str, str]]

    def tell(self, update: Message) -> None:
        """Send an update that belongs to the conversation."""

    def records(self) -> list[Message]:
        """The session's journal so far."""


class TurnCancelled(Exception):  # noqa: N818 - it reads as what happened
    """Raised inside a turn once the client has cancelled it."""


class Turn:
    """What a scripted reply may do. Only the turn's own thread calls these, except `cancel`."""

    def __init__(self, session: Place, wire: Wire, request: object) -> None:
        self.session = session
        self.request = request
        self.words = 0
        self._wire = wire
        self._mail: Mailbox = SimpleQueue()
        self._cancelled = False
        self._withdraw = False
        self._message = os.urandom(6).hex()

    def cancel(self, *, withdraw: bool) -> None:
        """End the turn soon. `withdraw` takes back a permission question that is still open."""
        self._withdraw = withdraw
        self._cancelled = True
        self._mail.put(None)

    def check(self) -> None:
        """Raises TurnCancelled once the client has cancelled the turn."""
        if self._cancelled:
            raise TurnCancelled

    def say(self, text: str) -> None:
        """Stream text into the turn's one message."""
        self._stream("agent_message_chunk", text, self._message)

    def think(self, text: str) -> None:
        self._stream("agent_thought_chunk", text, os.urandom(6).hex())

    def update(self, kind: str, /, **fields: object) -> None:
        self.session.tell({"sessionUpdate": kind, **fields})

    def pause(self, seconds: float) -> None:
        """Let time pass. A cancelled turn does not wait."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._next(left):
            pass
        self.check()

    def wait(self, call: Call, seconds: float) -> Message:
        """The result of a call.

        Raises:
            RpcError: it was answered with an error.
            TimeoutError: it was not answered in time.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            arrived = self._next(left)
            if arrived is not None and arrived[0] is call:
                return result_of(arrived[1])
        raise TimeoutError(f"no answer within {seconds:.0f} s")

    def ask_permission(self, tool_call: Message, options: list[Message]) -> str | None:
        """The option the client chose, None when it answered `cancelled`. People may take as long as they like."""
        params = {"sessionId": self.session.identity, "toolCall": tool_call, "options": options}
        call = self._wire.ask("session/request_permission", params, self._mail)
        try:
            outcome = self.wait(call, float("inf")).get("outcome")
        except TurnCancelled:
            self._wire.forget(call)
            if self._withdraw:
                self._wire.notify("$/cancel_request", {"requestId": call.identity})
            raise
        return outcome.get("optionId") if isinstance(outcome, dict) and outcome.get("outcome") == "selected" else None

    def call_tool(self, server: Server, tool: str, arguments: Message, seconds: float) -> Message:
        """The result of `tools/call`; cancelling the turn cancels the call."""
        call = server.ask_tool(tool, arguments, self._mail)
        try:
            return self.wait(call, seconds)
        except (TurnCancelled, TimeoutError):
            server.withdraw(call)
            raise

    def _stream(self, kind: str, text: str, message: str) -> None:
        self.words += len(text.split())
        for group in GROUP.findall(text):
            self.check()
            self.update(kind, messageId=message, content={"type": "text", "text": group})

    def _next(self, seconds: float) -> tuple[Call, Message] | None:
        self.check()
        try:
            arrived = self._mail.get(timeout=None if seconds == float("inf") else seconds)
        except Empty:
            return None
        self.check()
        return arrived
