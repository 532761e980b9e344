"""
Is this a valid ACP v1 message? This module looks at the envelope and finds the definition; `tests.judges` judges.

Every function returns what is wrong as sentences; an empty list is a pass. Unknown fields at the root of a spec type
are violations (C-21).

    check_client_message(line)                           one request or notification of a client
    check_client_message(line, answers="fs/…")           one response, to a request of that method
    check_agent_message(line[, answers=…])               the same for an agent
    Dialogue().client(line) / .agent(line)               a whole conversation: finds the method of each response itself
    check_transcript(path)                               what `tests/agents/*` recorded of the client
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tests.judges import Json, judge

Side = Literal["client", "agent"]
Part = Literal["Request", "Response"]

# Who answers which method: its requests come from the other side.
ANSWERED_BY: dict[str, Side] = {
    "initialize": "agent",
    "authenticate": "agent",
    "logout": "agent",
    "session/new": "agent",
    "session/load": "agent",
    "session/resume": "agent",
    "session/list": "agent",
    "session/delete": "agent",
    "session/close": "agent",
    "session/prompt": "agent",
    "session/set_mode": "agent",
    "session/set_config_option": "agent",
    "session/request_permission": "client",
    "fs/read_text_file": "client",
    "fs/write_text_file": "client",
    "terminal/create": "client",
    "terminal/output": "client",
    "terminal/release": "client",
    "terminal/wait_for_exit": "client",
    "terminal/kill": "client",
    "elicitation/create": "client",
}
NOTIFIED: dict[str, tuple[Side, str]] = {
    "session/cancel": ("agent", "CancelNotification"),
    "session/update": ("client", "SessionNotification"),
    "elicitation/complete": ("client", "CompleteElicitationNotification"),
}
CANCEL_REQUEST = "$/cancel_request"
STEMS = {
    "initialize": "Initialize",
    "authenticate": "Authenticate",
    "logout": "Logout",
    "session/new": "NewSession",
    "session/load": "LoadSession",
    "session/resume": "ResumeSession",
    "session/list": "ListSessions",
    "session/delete": "DeleteSession",
    "session/close": "CloseSession",
    "session/prompt": "Prompt",
    "session/set_mode": "SetSessionMode",
    "session/set_config_option": "SetSessionConfigOption",
    "session/request_permission": "RequestPermission",
    "fs/read_text_file": "ReadTextFile",
    "fs/write_text_file": "WriteTextFile",
    "terminal/create": "CreateTerminal",
    "terminal/output": "TerminalOutput",
    "terminal/release": "ReleaseTerminal",
    "terminal/wait_for_exit": "WaitForTerminalExit",
    "terminal/kill": "KillTerminal",
    "elicitation/create": "CreateElicitation",
}
ENVELOPE = {"jsonrpc", "id", "method", "params", "result", "error"}
ABSOLUTE = {"cwd", "command", "path"}
FREE = {"_meta", "rawInput", "rawOutput"}  # may hold anything


def check_client_message(line: bytes, *, answers: str | None = None) -> list[str]:
    """What is wrong with a line the client wrote; `answers` is the method of the request a response belongs to."""
    return _check_line(line, "client", answers)


def check_agent_message(line: bytes, *, answers: str | None = None) -> list[str]:
    """What is wrong with a line the agent wrote."""
    return _check_line(line, "agent", answers)


def check_transcript(path: Path) -> list[str]:
    """What is wrong with everything a client wrote to one of `tests/agents`.

    Needs both files the agent wrote: `path`, and `path` + ".sent" for the requests the client was answering.
    """
    sent = path.with_name(path.name + ".sent")
    dialogue = Dialogue()
    for line in sent.read_bytes().splitlines(keepends=True) if sent.exists() else []:
        dialogue.expect(line, "agent")
    lines = path.read_bytes().splitlines(keepends=True)
    return [f"line {number}: {wrong}" for number, line in enumerate(lines, 1) for wrong in dialogue.client(line)]


class Dialogue:
    """Both sides of one connection. Remembers open requests, so that each response is judged by its method."""

    def __init__(self) -> None:
        self._asked: dict[Side, dict[tuple[str, object], str]] = {"client": {}, "agent": {}}

    def client(self, line: bytes) -> list[str]:
        return self._message(line, "client", "agent")

    def agent(self, line: bytes) -> list[str]:
        return self._message(line, "agent", "client")

    def expect(self, line: bytes, side: Side) -> None:
        """Remember the request in this line, without judging it."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if isinstance(message, dict) and isinstance(message.get("method"), str) and "id" in message:
            self._asked[side][_key(message["id"])] = message["method"]

    def _message(self, line: bytes, side: Side, other: Side) -> list[str]:
        message, wrong = _decode(line)
        if message is None or "method" in message:
            self.expect(line, side)
            return wrong + ([] if message is None else _check_call(message, side))
        method = self._asked[other].pop(_key(message.get("id")), None)
        if method is None and not _is_complaint(message):
            return [*wrong, f"a response to a request that is not open: id {message.get('id')!r}"]
        return wrong + _check_response(message, side, method)


def _is_complaint(message: Json) -> bool:
    """An error with a null id answers a line that could not be read."""
    return "error" in message and message.get("id") is None


def _key(identity: object) -> tuple[str, object]:
    return type(identity).__name__, identity


def _check_line(line: bytes, side: Side, answers: str | None) -> list[str]:
    message, wrong = _decode(line)
    if message is None:
        return wrong
    if "method" in message:
        return wrong + _check_call(message, side)
    return wrong + _check_response(message, side, answers)


def _decode(line: bytes) -> tuple[dict[str, Json] | None, list[str]]:
    """The envelope: one JSON object per line, ended by one newline (C-1)."""
    wrong = list(_framing(line))
    try:
        message = json.loads(line.decode())
    except ValueError as error:
        return None, [*wrong, f"not UTF-8 JSON: {error}"]
    if not isinstance(message, dict):
        return None, [*wrong, f"not an object: {line[:80]!r}"]
    if message.get("jsonrpc") != "2.0":
        wrong.append("jsonrpc is not 2.0")
    wrong += [f"unknown field {key} in the envelope" for key in sorted(set(message) - ENVELOPE)]
    if "id" in message and (isinstance(message["id"], bool) or not isinstance(message["id"], str | int | None)):
        wrong.append(f"id is neither string, integer nor null: {message['id']!r}")
    return message, wrong


def _framing(line: bytes) -> Iterator[str]:
    if not line.endswith(b"\n"):
        yield "no newline at the end"
    if b"\n" in line[:-1] or b"\r" in line:
        yield "a raw newline inside the message"


def _check_call(message: dict[str, Json], side: Side) -> list[str]:
    method, params = message["method"], message.get("params")
    wrong = [f"{method} carries a {key}" for key in ("result", "error") if key in message]
    if not isinstance(method, str):
        return [*wrong, "method is not a string"]
    if method.startswith("_"):
        return wrong
    if "id" in message:
        return wrong + _check_request(method, params, side)
    return wrong + _check_notification(method, params, side)


def _check_request(method: str, params: Json, side: Side) -> list[str]:
    if method not in ANSWERED_BY:
        return [f"{method} is no request of ACP v1"]
    if ANSWERED_BY[method] == side:
        return [f"{method} is not sent by the {side}"]
    return [*judge(_definition(method, "Request"), params), *_relative_paths(params, method)]


def _check_notification(method: str, params: Json, side: Side) -> list[str]:
    if method == CANCEL_REQUEST:
        return judge("CancelRequestNotification", params)
    if method not in NOTIFIED:
        return [f"{method} is no notification of ACP v1"]
    receiver, definition = NOTIFIED[method]
    return [f"{method} is not sent by the {side}"] if receiver == side else judge(definition, params)


def _check_response(message: dict[str, Json], side: Side, method: str | None) -> list[str]:
    if "id" not in message or ("result" in message) == ("error" in message):
        return ["a response has an id and either a result or an error"]
    if "error" in message:
        return judge("Error", message["error"])
    if method is None:
        return ["the method this response belongs to is not known"]
    if method.startswith("_"):
        return []
    if ANSWERED_BY.get(method) != side:
        return [f"{method} is not answered by the {side}"]
    return judge(_definition(method, "Response"), message["result"])


def _definition(method: str, part: Part) -> str:
    return STEMS[method] + part


def _relative_paths(value: Json, where: str) -> Iterator[str]:
    """Every path in the protocol is absolute; neither judge checks that (C-37, C-39, C-41)."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _relative_paths(item, f"{where}[{index}]")
    for key, item in value.items() if isinstance(value, dict) else ():
        if key in FREE or (where == "terminal/create" and key == "command"):
            continue
        paths = item if key == "additionalDirectories" and isinstance(item, list) else [item] if key in ABSOLUTE else []
        yield from (f"{where}.{key} is not an absolute path: {path!r}" for path in paths if not _is_absolute(path))
        yield from _relative_paths(item, f"{where}.{key}")


def _is_absolute(path: object) -> bool:
    return path is None or (isinstance(path, str) and Path(path).is_absolute())
