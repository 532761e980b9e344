"""
What the agents in this directory share: reading, recording, writing, and the polite answers each of them departs from.

They are run as `python -I -S tests/agents/NAME.py ARGS…`, standard library only. When `ACP_TEST_TRANSCRIPT` names a
file, every line received is appended to it as it came, and every request sent to the same name + ".sent", so that
`tests.oracle.check_transcript` can judge what the client wrote.
"""

import json
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable

TYPE_CHECKING = False  # to import typing takes a sixth of what such a program needs to start
if TYPE_CHECKING:
    from typing import Any, NoReturn

Message = dict[str, "Any"]
Answer = Callable[[Message], None]

_backlog: deque[Message] = deque()
_state = {"sessions": 0}
_writing = threading.Lock()


def _record(line: bytes, suffix: str) -> None:
    path = os.environ.get("ACP_TEST_TRANSCRIPT")
    if path:
        descriptor = os.open(path + suffix, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)


def write(raw: bytes) -> None:
    """Exactly these bytes to stdout."""
    with _writing:
        left = memoryview(raw)
        while left:
            left = left[os.write(1, left) :]


def send(message: Message) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    if "method" in message and "id" in message:
        _record(line, ".sent")
    write(line)


def complain(text: str) -> None:
    """One line on stderr."""
    os.write(2, text.encode() + b"\n")


def read() -> Message | None:
    """The next message, None at the end of input. Lines that are not JSON objects are recorded and skipped."""
    if _backlog:
        return _backlog.popleft()
    return _read_fresh()


def _read_fresh() -> Message | None:
    while line := sys.stdin.buffer.readline():
        _record(line, "")
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            return message
    return None


def expect(method: str) -> Message:
    """The next message with this method; others before it are dropped. Ends the program at the end of input."""
    while (message := read()) is not None:
        if message.get("method") == method:
            return message
    raise SystemExit(0)


def ask(method: str, params: Message, *, identity: object = 0) -> Message:
    """Send a request and return the response. What else arrives meanwhile is read again later."""
    send({"id": identity, "method": method, "params": params})
    return response(identity)


def response(identity: object) -> Message:
    """The response with this id, wherever it stands among the messages to come."""
    for message in list(_backlog):
        if "method" not in message and message.get("id") == identity:
            _backlog.remove(message)
            return message
    while (fresh := _read_fresh()) is not None:
        if "method" not in fresh and fresh.get("id") == identity:
            return fresh
        _backlog.append(fresh)
    raise SystemExit(0)


def answer(request: Message, result: object) -> None:
    send({"id": request["id"], "result": result})


def refuse(request: Message, code: int, text: str, **data: object) -> None:
    more = {"data": data} if data else {}
    send({"id": request["id"], "error": {"code": code, "message": text, **more}})


def update(session: str, kind: str, /, **fields: object) -> None:
    send({"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}})


def say(session: str, text: str) -> None:
    update(session, "agent_message_chunk", content={"type": "text", "text": text})


def said(request: Message) -> str:
    """The text of a prompt."""
    return "\n".join(block.get("text", "") for block in request["params"]["prompt"])


def session_of(request: Message) -> str:
    return str(request["params"]["sessionId"])


def end(request: Message, reason: str = "end_turn") -> None:
    answer(request, {"stopReason": reason})


def initialize(request: Message, **capabilities: object) -> None:
    about = {"name": "test-agent", "version": "1.0.0"}
    answer(request, {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": about, "authMethods": []})


def new(request: Message) -> None:
    _state["sessions"] += 1
    answer(request, {"sessionId": f"session-{_state['sessions']}"})


def prompt(request: Message) -> None:
    say(session_of(request), f"You said: {said(request)}")
    end(request)


POLITE: dict[str, Answer] = {"initialize": initialize, "session/new": new, "session/prompt": prompt}


def serve(answers: dict[str, Answer] | None = None) -> None:
    """Answer until the end of input: `answers` first, then politely, -32601 otherwise. Notifications only if named."""
    methods = {**POLITE, **(answers or {})}
    while (message := read()) is not None:
        method = message.get("method")
        if method in methods and ("id" in message or method in (answers or {})):
            methods[method](message)
        elif method is not None and "id" in message:
            refuse(message, -32601, f"no method {method}")


def hang() -> "NoReturn":
    """Never end by ourselves, without using the processor."""
    while True:
        signal.pause()


def ignore(*signals: int) -> None:
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
