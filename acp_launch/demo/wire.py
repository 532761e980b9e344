"""
JSON-RPC 2.0, one message per line: the demo agent's connection to its client and to each of its MCP servers.

Any thread may send. One thread reads and passes responses to `deliver`, which wakes the thread that waits for the call.
Nothing here waits.
"""

import json
import os
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32002
AUTH_REQUIRED = -32000


class RpcError(Exception):
    """Raised to answer a request with an error; also represents an error answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def members(self) -> Message:
        return {"code": self.code, "message": str(self)}


class Call:
    """Our request. `done` is set when its answer is there, or when nobody waits for it any longer."""

    def __init__(self, identity: int) -> None:
        self.identity = identity
        self.done = threading.Event()
        self.answer: Message = {}

    def result(self) -> Message:
        """Return the result of the answer; RpcError if it is an error or malformed.

        A null result has no members: the answer to a written file in ACP's documentation, unlike its schema.
        """
        error, result = self.answer.get("error"), self.answer.get("result", "")
        if isinstance(error, dict):
            code = error.get("code")
            raise RpcError(code if isinstance(code, int) else INTERNAL_ERROR, str(error.get("message", "no message")))
        if not isinstance(result, dict | None):
            raise RpcError(INTERNAL_ERROR, "the answer has no result object")
        return result or {}


class Wire:
    """Our end of a connection; `out` is the file descriptor for output."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._asking = threading.Lock()
        self._calls: dict[int, Call] = {}
        self._next = 0
        self._lost = ""
        self.writing = threading.Lock()

    def send(self, message: Message) -> None:
        left = memoryview(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")
        with self.writing:
            if self._lost:
                raise BrokenPipeError(self._lost)
            while left:
                left = left[os.write(self._out, left) :]

    def notify(self, method: str, params: Message) -> None:
        self.send({"method": method, "params": params})

    def answer(self, identity: object, result: Message) -> None:
        self.send({"id": identity, "result": result})

    def refuse(self, identity: object, error: RpcError) -> None:
        self.send({"id": identity, "error": error.members()})

    def ask(self, method: str, params: Message) -> Call:
        with self._asking:
            if self._lost:
                raise RpcError(INTERNAL_ERROR, self._lost)
            call = self._calls[self._next] = Call(self._next)
            self._next += 1
        self.send({"id": call.identity, "method": method, "params": params})
        return call

    def deliver(self, response: Message) -> None:
        """Give a response to its call; one without a call is dropped."""
        with self._asking:
            call = self._calls.pop(response.get("id", -1), None)
        if call is not None:
            call.answer = response
            call.done.set()

    def lose(self, reason: str) -> None:
        """Fail every open call, and every later one, with `reason`: the other side is gone."""
        with self._asking:
            self._lost = reason
            calls = list(self._calls)
        for identity in calls:
            self.deliver({"id": identity, "error": {"code": INTERNAL_ERROR, "message": reason}})


def start_thread(work: Callable[[], None]) -> threading.Thread:
    """Run `work` in its own thread, which does not delay the exit."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def decode(line: bytes) -> Message | None:
    """Read one line as a message; None for an empty line.

    Raises:
        RpcError: it is not JSON, or not a JSON-RPC 2.0 message.
    """
    if not line.strip():
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, "this line is not JSON") from error
    is_message = isinstance(message, dict) and {"method", "id"} & message.keys()
    if not is_message or not isinstance(message.get("method", ""), str) or isinstance(message.get("id"), dict | list):
        raise RpcError(INVALID_REQUEST, "this is not a JSON-RPC 2.0 message")
    return dict(message)
