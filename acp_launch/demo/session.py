"""
An open session: its options, its MCP servers, and its prompt turns, each in a thread of its own.

A cancellation wakes the turn's thread wherever it waits. `TurnCancelled` then unwinds the turn, and the prompt is
answered `cancelled` (ACP v1 "prompt turn").
"""

import os
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from acp_launch.demo.servers import Server, stop
from acp_launch.demo.store import Store
from acp_launch.demo.wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Call,
    Message,
    RpcError,
    Wire,
    start_thread,
)

WINDOW = 100_000  # words; the context size in `usage_update`
JOIN = 1.0  # seconds; a cancelled turn ends within milliseconds, unless the client stopped reading
TITLE = 60  # characters
GROUP = re.compile(r"\s*(?:\S+\s*){1,4}")  # a chunk of about four words, like a model's
PERMISSION = "session/request_permission"

MODES = {
    "ask": ("Ask", "Asks before it changes anything"),
    "code": ("Code", "Changes things without asking"),
    "plan": ("Plan", "Changes nothing"),
}
MODELS = {"Small": {"script-s": "Script S"}, "Large": {"script-l": "Script L", "script-xl": "Script XL"}}


class Options:
    """The options of one session (ACP v1 "session config options"); `with_booleans` if the client can show them.

    The mode has an effect, the models are only names. `modes` reports the same as the option `mode`, for clients
    without config options.
    """

    def __init__(self, *, with_booleans: bool) -> None:
        self.values: dict[str, str | bool] = {"mode": "ask", "model": "script-s"}
        if with_booleans:
            self.values["verbose"] = False

    def choose(self, option: str, value: object) -> None:
        """Set an option; RpcError (-32602) for an unknown option or value."""
        if option not in self.values:
            raise RpcError(INVALID_PARAMS, f"no config option {option!r}; there are {', '.join(self.values)}")
        models = [model for group in MODELS.values() for model in group]
        allowed: list[Any] = [*MODES] if option == "mode" else models if option == "model" else [True, False]
        if not isinstance(value, str | bool) or value not in allowed:
            raise RpcError(INVALID_PARAMS, f"{option} cannot be {value!r}; it is one of {', '.join(map(str, allowed))}")
        self.values[option] = value

    def list_options(self) -> list[Message]:
        """Return the complete list, as every answer and update about it must contain it."""
        modes = [{"value": mode, "name": name, "description": about} for mode, (name, about) in MODES.items()]
        models = [
            {"group": group.lower(), "name": group, "options": [{"value": key, "name": each[key]} for key in each]}
            for group, each in MODELS.items()
        ]
        about = "Ends every answer with the mode and the model"
        options: list[Message] = [
            {"id": "mode", "name": "Mode", "category": "mode", "type": "select", "options": modes},
            {"id": "model", "name": "Model", "category": "model", "type": "select", "options": models},
            {"id": "verbose", "name": "Verbose", "description": about, "type": "boolean"},
        ]
        return [{**each, "currentValue": self.values[each["id"]]} for each in options if each["id"] in self.values]

    def modes(self) -> Message:
        available = [{"id": mode, "name": name, "description": about} for mode, (name, about) in MODES.items()]
        return {"currentModeId": self.values["mode"], "availableModes": available}


@dataclass
class Session:
    """An open session. `client` is the client's capabilities; `reply` plays a reply, for the text of a prompt."""

    identity: str
    cwd: str
    directories: list[str]
    store: Store
    wire: Wire
    client: object
    reply: Callable[["Turn", str], None]
    allowed: set[tuple[str, str]] = field(default_factory=set)
    turn: "Turn | None" = None
    turns: int = 0  # since the session was opened
    servers: list[Server] = field(default_factory=list)
    thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.options = Options(with_booleans=self.offers("session", "configOptions", "boolean"))

    def offers(self, *path: str) -> bool:
        """Whether the client has the capability; omitted, null and malformed ones are not offered."""
        found = self.client
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found is True or isinstance(found, dict)

    def record(self, update: Message) -> None:
        """Write an update of the conversation to the journal, so that a load replays it."""
        self.store.append(self.identity, {"update": update})

    def notify(self, update: Message) -> None:
        """Send an update that is not part of the conversation."""
        self.wire.notify("session/update", {"sessionId": self.identity, "update": update})

    def state(self) -> Message:
        """Return the session's state for the answer that opens it."""
        return {"modes": self.options.modes(), "configOptions": self.options.list_options()}

    def tell_mode(self) -> None:
        self.notify({"sessionUpdate": "current_mode_update", "currentModeId": self.options.values["mode"]})

    def tell_options(self) -> None:
        self.notify({"sessionUpdate": "config_option_update", "configOptions": self.options.list_options()})

    def records(self) -> list[Message]:
        return self.store.read(self.identity)[1]

    def replay(self) -> None:
        for record in self.records():
            if "update" in record:
                self.notify(record["update"])

    def prompt(self, request: object, blocks: list[Message]) -> None:
        """Begin a turn; its thread answers the request.

        Raises:
            RpcError: a turn is running already.
        """
        if self.turn is not None:
            raise RpcError(INVALID_REQUEST, "a prompt is still running in this session")
        turn = self.turn = Turn(self, request, blocks)
        self.turns += 1
        self.thread = start_thread(lambda: self._run(turn))

    def close(self) -> None:
        """Cancel the running turn, wait until its prompt is answered, stop the MCP servers."""
        if self.turn is not None:
            self.turn.cancel()
        if self.thread is not None:
            self.thread.join(JOIN)
        stop(self.servers)

    def _run(self, turn: "Turn") -> None:
        """Run the turn's thread, which answers the prompt exactly once."""
        outcome: Message | RpcError
        try:
            outcome = self._play(turn)
        except RpcError as error:
            outcome = error
        except Exception as error:
            outcome = RpcError(INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        self.turn = None  # before the answer, because the client may send the next prompt at once
        try:
            if isinstance(outcome, RpcError):
                self.wire.refuse(turn.request, outcome)
            else:
                self.wire.answer(turn.request, outcome)
        except BrokenPipeError:
            print("the client closed our output in the middle of a turn", file=sys.stderr)

    def _play(self, turn: "Turn") -> Message:
        text = "\n".join(block["text"] for block in turn.blocks if block["type"] == "text").strip()
        records = self.records()
        if not any("title" in record for record in records):
            title = text[:TITLE] or "(no text)"
            self.store.append(self.identity, {"title": title})
            self.notify({"sessionUpdate": "session_info_update", "title": title})
        self.store.append(self.identity, {"turn": text})
        for block in turn.blocks:
            self.record({"sessionUpdate": "user_message_chunk", "messageId": f"p{len(records)}", "content": block})
        try:
            self.reply(turn, text)
            turn.check()
            reason = "end_turn"
        except TurnCancelled:
            reason = "cancelled"
        contents = [record["update"].get("content") for record in self.records() if "update" in record]
        used = sum(len(content.get("text", "").split()) for content in contents if isinstance(content, dict))
        self.notify({"sessionUpdate": "usage_update", "used": used, "size": WINDOW})
        asked = len(text.split())  # in words, since no model counts tokens
        usage = {"inputTokens": asked, "outputTokens": turn.words, "totalTokens": asked + turn.words}
        return {"stopReason": reason, "usage": usage}


class TurnCancelled(Exception):  # noqa: N818 - not an error: the client cancelled
    """Raised inside a turn after the client has cancelled it."""


@dataclass
class Turn:
    """The means of a scripted reply. Only the turn's own thread calls them, except `cancel`."""

    session: Session
    request: object
    blocks: list[Message]
    words: int = 0

    def __post_init__(self) -> None:
        self.message = os.urandom(6).hex()  # the id of this turn's message
        self._cancelled = threading.Event()
        self._call: Call | None = None  # that the turn waits for

    def cancel(self) -> None:
        """End the turn soon."""
        self._cancelled.set()
        if call := self._call:
            call.done.set()

    def check(self) -> None:
        """Raise TurnCancelled if the client has cancelled the turn."""
        if self._cancelled.is_set():
            raise TurnCancelled

    def say(self, text: str) -> None:
        """Stream text into the turn's one message."""
        self._stream("agent_message_chunk", text, self.message)

    def think(self, text: str) -> None:
        self._stream("agent_thought_chunk", text, os.urandom(6).hex())

    def update(self, kind: str, /, **fields: object) -> None:
        update = {"sessionUpdate": kind, **fields}
        self.session.record(update)
        self.session.notify(update)

    def pause(self, seconds: float) -> None:
        """Wait, but not in a cancelled turn."""
        self._cancelled.wait(seconds)
        self.check()

    def open(self, method: str, params: Message) -> Call:
        """Send a request to the client."""
        return self.session.wire.ask(method, {"sessionId": self.session.identity, **params})

    def wait(self, call: Call, seconds: float | None = None) -> Message:
        """Return the result of a call.

        Raises:
            RpcError: it was answered with an error.
            TimeoutError: it was not answered in time.
        """
        self._call = call
        self.check()
        if not call.done.wait(seconds):
            raise TimeoutError(f"no answer within {seconds:.0f} s")
        self.check()
        return call.result()

    def ask(self, method: str, params: Message) -> Message:
        """Return the client's answer, without a time limit since a user may be asked. A cancelled turn withdraws it,
        but not a permission question, which the client must answer then (ACP v1 "cancellation")."""
        call = self.open(method, params)
        try:
            return self.wait(call)
        except TurnCancelled:
            if method != PERMISSION:
                self.session.wire.notify("$/cancel_request", {"requestId": call.identity})
            raise

    def _stream(self, kind: str, text: str, message: str) -> None:
        self.words += len(text.split())
        for group in GROUP.findall(text):
            self.check()
            self.update(kind, messageId=message, content={"type": "text", "text": group})
