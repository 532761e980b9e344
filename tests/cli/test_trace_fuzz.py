"""Ring 2. A trace that anyone may have written: `replay` and `trace` say what is wrong with it, and never more."""

import json
import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_launch.cli import replay
from acp_launch.console import trace as shown
from acp_launch.errors import RemoteProtocolError, UsageError

Json = dict[str, Any]
DEEP: Json = {}
for _ in range(700):
    DEEP = {"a": DEEP}
KINDS: list[Any] = [
    None,
    True,
    1,
    -1.5,
    10**40,
    "",
    "x",
    "\ud83d",
    "exited with status " + "9" * 5000,
    [],
    [1],
    {},
    DEEP,
]


def message(sender: str, said: Json) -> Json:
    receiver = "acp-launch" if sender == "agent" else "agent"
    return {"type": "message", "time": "t", "at": 1.5, "from": sender, "to": receiver, "message": said}


UPDATE = {"sessionId": "S", "update": {"sessionUpdate": "tool_call", "title": "x", "status": "y"}}
ASKED: Json = {
    "id": 1,
    "method": "session/prompt",
    "params": {"sessionId": "S", "prompt": [{"type": "text", "text": "x"}]},
}
TRACE: list[Json] = [
    {"type": "trace", "time": "t", "at": 0.0, "version": 1, "verb": "run", "profile": "p", "pid": 1},
    {"type": "start", "time": "t", "at": 1.0, "pid": 7},
    message("acp-launch", {"id": 0, "method": "session/new", "params": {"cwd": "/w", "mcpServers": [{"name": "s"}]}}),
    message("agent", {"id": 0, "result": {"sessionId": "S"}}),
    message("acp-launch", ASKED),
    message("agent", {"method": "session/update", "params": UPDATE}),
    message("agent", {"id": 9, "method": "terminal/create", "params": {"sessionId": "S", "command": "x", "cwd": "/w"}}),
    message("acp-launch", {"id": 9, "error": {"code": -1, "message": "no"}}),
    {**message("acp-launch", {}), "size": 2_000_000, "method": "long", "id": 3, "text": "{"},
    {**message("agent", {}), "text": "junk", "message": None},
    message("agent", {"id": 1, "result": {"stopReason": "end_turn"}}),
    {**message("server", {"id": 1, "method": "tools/list"}), "server": "s"},
    {"type": "exit", "time": "t", "at": 2.0, "how": "exited with status 3"},
    {"type": "end", "time": "t", "at": 2.0},
]
CLIENT = [entry["message"] for entry in TRACE if entry.get("from") == "acp-launch" and not entry.get("size")]


def change_each(value: Any, kind: Any) -> Iterator[Any]:
    """Yield the value with each of its members, and each of theirs, replaced by this kind, and without it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: changed} for changed in (kind, *change_each(inner, kind)))
            yield {name: other for name, other in value.items() if name != key}
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in (kind, *change_each(inner, kind)))


def traces(kind: Any) -> Iterator[bytes]:
    for index, entry in enumerate(TRACE):
        for changed in (kind, *change_each(entry, kind)):
            yield b"".join(json.dumps(each).encode() + b"\n" for each in (*TRACE[:index], changed, *TRACE[index + 1 :]))


@pytest.mark.sample(0, 4)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_a_trace_whose_members_are_of_any_kind_is_played_or_refused(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pending = b""

    def read(descriptor: int, size: int) -> bytes:
        nonlocal pending
        given, pending = pending, b""
        return given

    monkeypatch.setattr(os, "read", read)
    monkeypatch.setattr(select, "select", lambda *_: ([0], [], []))
    said = "".join(json.dumps(each) + "\n" for each in CLIENT).encode() + b'{"method":"long","id":3}\n'
    for content in traces(kind):
        (tmp_path / "t").write_bytes(content)
        pending = said
        try:
            replay.Replay(tmp_path / "t").carry_out()
        except (UsageError, RemoteProtocolError) as error:
            assert str(tmp_path / "t") in error.message
            json.dumps(error.message).encode()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_a_trace_whose_members_are_of_any_kind_is_shown_or_skipped(
    kind: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for content in traces(kind):
        view = shown.TraceView()
        for line in content.splitlines():
            if entry := shown.read(line):
                view.add(entry)
        view.finish()
