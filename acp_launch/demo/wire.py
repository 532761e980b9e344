"""
JSON-RPC 2.0, one message per line: the demo agent's connection to its client and to each of its MCP servers.

Any thread may send. One thread reads and passes responses to `deliver`, which puts them into the mailbox that was
given to `ask`. Nothing here waits.
"""

import json
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import IO, Any, TypeAlias

Message: TypeAlias = dict[str, Any]
BOM = b"\xef\xbb\xbf"

STUCK = 0.05  # seconds; a writer that takes longer is blocked by a peer that does not read

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32002
AUTH_REQUIRED = -32000
CANCELLED = -32800


class RpcError(Exception):
    """Raised to answer a request with an error; also represents an error answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Call:
    """A request of ours without an answer yet."""

    def __init__(self, identity: int, mail: "Mailbox") -> None:
        self.identity = identity
        self.mail = mail


Mailbox: TypeAlias = "SimpleQueue[tuple[Call, Message] | None]"
"""Answers as they arrive, each with its call; None wakes up the thread that waits, for a cancellation."""


class Wire:
    """Our end of a connection; `out` is the file descriptor for output."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._writing = threading.Lock()
        self._asking = threading.Lock()
        self._calls: dict[int, Call] = {}
        self._next = 0
        self._lost = ""

    def send(self, message: Message) -> None:
        left = memoryview(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")
        with self._writing:
            if self._lost:
                raise BrokenPipeError(self._lost)
            while left:
                left = left[os.write(self._out, left) :]

    def notify(self, method: str, params: Message) -> None:
        self.send({"method": method, "params": params})

    def answer(self, identity: object, result: Message) -> None:
        self.send({"id": identity, "result": result})

    def refuse(self, identity: object, error: RpcError) -> None:
        self.send({"id": identity, "error": {"code": error.code, "message": str(error)}})

    def ask(self, method: str, params: Message, mail: Mailbox) -> Call:
        """Send a request; its answer will be put into `mail`."""
        with self._asking:
            if self._lost:
                raise RpcError(INTERNAL_ERROR, self._lost)
            call = Call(self._next, mail)
            self._calls[call.identity] = call
            self._next += 1
        self.send({"id": call.identity, "method": method, "params": params})
        return call

    def forget(self, call: Call) -> None:
        """Ignore the answer to this call."""
        with self._asking:
            self._calls.pop(call.identity, None)

    def deliver(self, response: Message) -> None:
        """Put a response into the mailbox of its call; one without a call is dropped."""
        identity = response.get("id")
        if type(identity) is not int:  # True == 1, and our ids are integers
            return
        with self._asking:
            call = self._calls.pop(identity, None)
        if call is not None:
            call.mail.put((call, response))

    def lose(self, reason: str) -> None:
        """Fail every open call, and every later one, with `reason`: the other side is gone."""
        with self._asking:
            self._lost = reason
            calls = list(self._calls.values())
            self._calls.clear()
        for call in calls:
            call.mail.put((call, {"error": {"code": INTERNAL_ERROR, "message": reason}}))

    def close(self, pipe: IO[bytes], reason: str) -> None:
        """Close the output pipe, unless a writer is stuck in it: its number could soon be another file's."""
        self.lose(reason)
        if self._writing.acquire(timeout=STUCK):
            try:
                pipe.close()
            finally:
                self._writing.release()


def aside(work: Callable[[], None]) -> threading.Thread:
    """Run `work` in its own thread, which does not delay the exit.

    Raises:
        RpcError: the system allows no more threads (`ulimit -u`).
    """
    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise RpcError(INTERNAL_ERROR, "no more threads are allowed; raise the limit with `ulimit -u`") from None
    return thread


def decode(line: bytes) -> Message | None:
    """Read one line as a message; None for an empty line.

    Raises:
        RpcError: it is not JSON, or not a JSON-RPC 2.0 message.
    """
    text = line.removeprefix(BOM).strip()
    if not text:
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, "this line is not JSON") from error
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "this is not a JSON-RPC 2.0 message")
    if "method" in message:
        _check_request(message)
    elif "id" not in message:
        raise RpcError(INVALID_REQUEST, "a message needs a method or an id")
    return message


def _check_request(message: Message) -> None:
    if not isinstance(message["method"], str):
        raise RpcError(INVALID_REQUEST, "method is not a string")
    identity = message.get("id")
    if isinstance(identity, bool) or not isinstance(identity, str | int | None):
        raise RpcError(INVALID_REQUEST, "id is not a string, an integer or null")


def result_of(response: Message) -> Message:
    """Return the result of an answer; raise RpcError if it is an error or malformed.

    A null is no members: so ACP's documentation, unlike its schema, has the answer to a file that was written.
    """
    error = response.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        raise RpcError(code if isinstance(code, int) else INTERNAL_ERROR, str(error.get("message", "no message")))
    result = response.get("result", "")
    if result is None:
        return {}
    if not isinstance(result, dict):
        raise RpcError(INTERNAL_ERROR, "the answer has no result object")
    return result
