"""
A prompt turn: everything between `session/prompt` and its answer, in its own thread; offered capabilities and options.

All answers to a turn arrive in its mailbox, and so does its cancellation. `TurnCancelled` then unwinds the turn from
any point, and the prompt is answered `cancelled` (ACP v1 "prompt turn").
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from acp_launch.demo.toolbox import Server
from acp_launch.demo.wire import INVALID_PARAMS, Call, Mailbox, Message, RpcError, Wire, result_of

# The services that the client offered in `initialize`; only these are used (ACP v1 "initialization").


class ClientOffers(NamedTuple):
    """The client's capabilities, as far as the demo uses them."""

    read_files: bool = False
    write_files: bool = False
    terminal: bool = False
    forms: bool = False
    urls: bool = False
    booleans: bool = False  # config options that are on or off
    notices: bool = False
    compaction: bool = False
    terminal_login: bool = False


def offered_by(capabilities: object) -> ClientOffers:
    """Read the capabilities. Omitted, null and malformed ones are not offered."""
    return ClientOffers(
        read_files=_at(capabilities, "fs", "readTextFile") is True,
        write_files=_at(capabilities, "fs", "writeTextFile") is True,
        terminal=_at(capabilities, "terminal") is True,
        forms=isinstance(_at(capabilities, "elicitation", "form"), dict),
        urls=isinstance(_at(capabilities, "elicitation", "url"), dict),
        booleans=isinstance(_at(capabilities, "session", "configOptions", "boolean"), dict),
        notices=isinstance(_at(capabilities, "session", "notices"), dict),
        compaction=isinstance(_at(capabilities, "session", "compaction"), dict),
        terminal_login=_at(capabilities, "auth", "terminal") is True,
    )


def _at(value: object, *path: str) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


# Session options: mode, model, and verbosity (ACP v1 "session config options").
#
# The mode has an effect: `plan` changes nothing, `ask` asks before a change, `code` does not ask. The models are only
# names. `modes` reports the same as the option `mode`, for clients without config options.


MODES = {
    "ask": ("Ask", "Asks before it changes anything"),
    "code": ("Code", "Changes things without asking"),
    "plan": ("Plan", "Changes nothing"),
}
MODELS = {
    "Small": {"script-s": "Script S"},
    "Large": {"script-l": "Script L", "script-xl": "Script XL"},
}


class Options:
    """The options of one session; `with_booleans` if the client can show them."""

    def __init__(self, *, with_booleans: bool) -> None:
        self.mode = "ask"
        self.model = "script-s"
        self.verbose = False
        self._with_booleans = with_booleans

    def choose(self, option: str, value: object) -> None:
        """Set an option; RpcError (-32602) for an unknown option or value."""
        allowed = self._allowed().get(option)
        if allowed is None:
            raise RpcError(INVALID_PARAMS, f"no config option {option!r}; there are {', '.join(self._allowed())}")
        if not any(type(value) is type(each) and value == each for each in allowed):
            raise RpcError(INVALID_PARAMS, f"{option} cannot be {value!r}; it is one of {_words(allowed)}")
        setattr(self, option, value)

    def listed(self) -> list[Message]:
        """Return the complete list, as every answer and update about it must contain it."""
        verbose = {
            "id": "verbose",
            "name": "Verbose",
            "description": "Ends every answer with the mode and the model",
            "type": "boolean",
            "currentValue": self.verbose,
        }
        return [self._mode(), self._model(), *([verbose] if self._with_booleans else [])]

    def modes(self) -> Message:
        available = [{"id": mode, "name": name, "description": about} for mode, (name, about) in MODES.items()]
        return {"currentModeId": self.mode, "availableModes": available}

    def _allowed(self) -> dict[str, list[Any]]:
        models = [model for group in MODELS.values() for model in group]
        return {"mode": list(MODES), "model": models, **({"verbose": [True, False]} if self._with_booleans else {})}

    def _mode(self) -> Message:
        options = [{"value": mode, "name": name, "description": about} for mode, (name, about) in MODES.items()]
        return {
            "id": "mode",
            "name": "Mode",
            "category": "mode",
            "type": "select",
            "currentValue": self.mode,
            "options": options,
        }

    def _model(self) -> Message:
        groups = [
            {
                "group": group.lower(),
                "name": group,
                "options": [{"value": model, "name": name} for model, name in models.items()],
            }
            for group, models in MODELS.items()
        ]
        return {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": self.model,
            "options": groups,
        }


def _words(values: list[Any]) -> str:
    return ", ".join("true" if value is True else "false" if value is False else value for value in values)


GROUP = re.compile(r"\s*(?:\S+\s*){1,4}")  # a chunk of about four words, like a model's


class TurnContext(Protocol):
    """The session of a turn, as far as the turn and its reply need it."""

    identity: str
    cwd: str
    directories: list[str]
    servers: list[Server]
    allowed: set[tuple[str, str]]
    offered: ClientOffers
    options: Options
    cost: float | None  # US dollars so far; None until the user asks for it

    def choose_mode(self, mode: str) -> None:
        """Change the mode, and tell the client."""

    def notify(self, update: Message) -> None:
        """Send an update that is not part of the conversation, so that a load does not replay it."""

    def record(self, update: Message) -> None:
        """Write an update to the journal only: the client received it in another form."""

    def tell(self, update: Message) -> None:
        """Send an update that belongs to the conversation."""

    def records(self) -> list[Message]:
        """Return the session's journal so far."""


class TurnCancelled(Exception):  # noqa: N818 - not an error: the client cancelled
    """Raised inside a turn after the client has cancelled it."""


class Turn:
    """The means of a scripted reply. Only the turn's own thread calls them, except `cancel`."""

    def __init__(self, session: TurnContext, wire: Wire, request: object, blocks: list[Message]) -> None:
        self.session = session
        self.request = request
        self.blocks = blocks
        self.message = os.urandom(6).hex()  # the id of this turn's message
        self.words = 0
        self._wire = wire
        self._mail: Mailbox = SimpleQueue()
        self._cancelled = False
        self._withdraw = False

    def cancel(self, *, withdraw: bool) -> None:
        """End the turn soon. `withdraw` also withdraws an open permission question."""
        self._withdraw = withdraw
        self._cancelled = True
        self._mail.put(None)

    def check(self) -> None:
        """Raise TurnCancelled if the client has cancelled the turn."""
        if self._cancelled:
            raise TurnCancelled

    def say(self, text: str) -> None:
        """Stream text into the turn's one message."""
        self._stream("agent_message_chunk", text, self.message)

    def think(self, text: str) -> None:
        self._stream("agent_thought_chunk", text, os.urandom(6).hex())

    def update(self, kind: str, /, **fields: object) -> None:
        self.session.tell({"sessionUpdate": kind, **fields})

    def pause(self, seconds: float) -> None:
        """Wait, but not in a cancelled turn."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._next(left):
            pass
        self.check()

    def wait(self, call: Call, seconds: float) -> Message:
        """Return the result of a call.

        Raises:
            RpcError: it was answered with an error.
            TimeoutError: it was not answered in time.
        """
        return self._wait([call], seconds)[0]

    def open(self, method: str, params: Message) -> Call:
        """Send a request to the client; `wait` returns the answer, inside `pending`."""
        return self._wire.ask(method, {"sessionId": self.session.identity, **params}, self._mail)

    def ask(self, method: str, params: Message) -> Message:
        """Return the client's answer, without a time limit since a user may be asked. A cancelled turn withdraws it."""
        call = self.open(method, params)
        with self.pending([call], take_back=True):
            return self.wait(call, float("inf"))

    def dismiss(self, method: str, params: Message) -> None:
        """Send a request whose answer is ignored, because it cannot change anything."""
        self._wire.forget(self.open(method, params))

    def take_back(self, call: Call) -> None:
        """Withdraw a request. It is still answered."""
        self._wire.notify("$/cancel_request", {"requestId": call.identity})

    def notify(self, method: str, params: Message) -> None:
        self._wire.notify(method, params)

    def ask_permission(self, tool_call: Message, options: list[Message]) -> str | None:
        """Return the option that the client chose, None for `cancelled`. There is no time limit for the user."""
        return self.ask_permissions([tool_call], options)[0]

    def ask_permissions(self, tool_calls: Sequence[Message], options: list[Message]) -> list[str | None]:
        """Do the same for several questions at once, in their order; waits until all are answered."""
        calls = [self.open_question(tool_call, options) for tool_call in tool_calls]
        with self.pending(calls):
            return [chosen(answer) for answer in self._wait(calls, float("inf"))]

    def open_question(self, tool_call: Message, options: list[Message]) -> Call:
        return self.open("session/request_permission", {"toolCall": tool_call, "options": options})

    @contextmanager
    def pending(self, calls: Sequence[Call], *, take_back: bool = False) -> Iterator[None]:
        """Forget the calls if the turn is cancelled. A permission question needs no withdrawal then, because the client
        must answer it (ACP v1 "cancellation"), unless the prompt itself was withdrawn."""
        try:
            yield
        except (TurnCancelled, TimeoutError):
            for call in calls:
                self._wire.forget(call)
                if take_back or self._withdraw:
                    self.take_back(call)
            raise

    def call_tool(self, server: Server, tool: str, arguments: Message, seconds: float) -> Message:
        """Return the result of `tools/call`; a cancelled turn cancels the call."""
        call = server.ask_tool(tool, arguments, self._mail)
        try:
            return self.wait(call, seconds)
        except (TurnCancelled, TimeoutError):
            server.withdraw(call)
            raise

    def _wait(self, calls: Sequence[Call], seconds: float) -> list[Message]:
        answers: dict[Call, Message] = {}
        end = time.monotonic() + seconds
        while len(answers) < len(calls):
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer within {seconds:.0f} s")
            arrived = self._next(left)
            if arrived is not None and arrived[0] in calls:
                answers[arrived[0]] = arrived[1]
        return [result_of(answers[call]) for call in calls]

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


def chosen(answer: Message) -> str | None:
    """Return the chosen option in an answer to a permission question."""
    outcome = answer.get("outcome")
    return outcome.get("optionId") if isinstance(outcome, dict) and outcome.get("outcome") == "selected" else None
