"""The oracle passes what ACP v1 allows and finds what it does not, with the newer schema and without it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import judges
from tests.oracle import Dialogue, check_agent_message, check_client_message

SERVER = {"name": "fs", "command": "/bin/fs", "args": [], "env": [{"name": "A", "value": "b"}]}


@pytest.fixture(params=["with the schema", "with the models alone"], autouse=True)
def chosen_judges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "with the models alone":
        monkeypatch.setattr(judges, "SCHEMA", Path("/nonexistent"))
    elif not judges.SCHEMA.exists():
        pytest.skip("the schema does not stand beside this checkout")


def call(method: str, params: dict[str, Any], **more: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **more}).encode() + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        call("initialize", {"protocolVersion": 1, "clientCapabilities": {"session": {"notices": {}}}}),
        call("session/new", {"cwd": "/", "mcpServers": [SERVER], "_meta": {"anything": {"goes": 1}}}),
        call("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}),
        call("session/set_config_option", {"sessionId": "s", "configId": "c", "type": "boolean", "value": True}),
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}\n',
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}\n',
    ],
)
def test_good_client_messages_pass(line: bytes) -> None:
    assert check_client_message(line) == []


def test_bad_client_messages_are_found() -> None:
    for line, found in [
        (call("session/new", {"cwd": "/"}), "mcpServers"),
        (call("session/new", {"cwd": "here", "mcpServers": []}), "not an absolute path: 'here'"),
        (call("session/new", {"cwd": "/", "mcpServers": [], "custom": 1}), "custom"),
        (call("session/new", {"cwd": "/", "mcpServers": [{**SERVER, "type": "stdio"}]}), "type"),
        (call("session/new", {"cwd": "/", "mcpServers": [{**SERVER, "env": {}}]}), "mcpServers"),
        (call("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "x", "bold": 1}]}), "bold"),
        (call("session/update", {"sessionId": "s"}), "no request of ACP v1"),
        (call("session/request_permission", {}), "is not sent by the client"),
        (call("session/list", {}, trace=1), "unknown field trace in the envelope"),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"session/list","params":{}}\n', "id is neither"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}\n', "either a result or an error"),
        (b"[]\n", "not an object"),
        (b"{}", "no newline"),
    ]:
        assert any(found in wrong for wrong in check_client_message(line)), check_client_message(line)


def test_responses_are_judged_by_the_method_they_answer() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}\n'
    assert check_agent_message(line, answers="session/prompt") == []
    assert check_agent_message(line, answers="session/new") != []
    assert check_client_message(line, answers="session/prompt") == ["session/prompt is not answered by the client"]


def test_a_dialogue_finds_the_method_of_each_response() -> None:
    dialogue = Dialogue()
    assert dialogue.client(call("session/close", {"sessionId": "s"})) == []
    assert dialogue.agent(b'{"jsonrpc":"2.0","id":1,"result":{}}\n') == []
    assert dialogue.agent(b'{"jsonrpc":"2.0","id":1,"result":{}}\n') == [
        "a response to a request that is not open: id 1"
    ]


@pytest.mark.parametrize("text", [True, None, 1, ["x"]])
def test_what_was_right_as_one_type_is_wrong_as_another(text: Any) -> None:
    """A kind of message is judged once."""
    prompt: dict[str, Any] = {"sessionId": "s", "prompt": []}
    for value in ("x", "another", ""):
        prompt["prompt"] = [{"type": "text", "text": value}]
        assert judges.judge("PromptRequest", prompt) == []
    prompt["prompt"] = [{"type": "text", "text": text}]
    assert judges.judge("PromptRequest", prompt) != []
