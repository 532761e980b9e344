"""Ring 1. What is edited of `initialize`, and that the rest stays, byte for byte."""

import json
from typing import Any

import pytest

from acp_launch.serve.handshake import edit_answer, edit_request
from tests.oracle import check_agent_message, check_client_message


def answer(result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 0, "result": result}).encode()


def test_servers_of_any_kind_are_taken_and_our_name_is_in_the_meta() -> None:
    said = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True, "mcpCapabilities": {"http": False}}}
    line = edit_answer(answer({**said, "_meta": {"theirs": 1}}), "p")
    result = json.loads(line)["result"]
    assert result["agentCapabilities"] == {"loadSession": True, "mcpCapabilities": {"http": True, "sse": True}}
    assert result["_meta"]["theirs"] == 1
    assert result["_meta"]["acp-launch"]["profile"] == "p"
    assert check_agent_message(line + b"\n", answers="initialize") == []


@pytest.mark.parametrize("able", [{}, {"agentCapabilities": None}, {"agentCapabilities": {"mcpCapabilities": None}}])
def test_capabilities_that_an_agent_leaves_out_are_made(able: dict[str, Any]) -> None:
    line = edit_answer(answer({"protocolVersion": 1, **able}), "p")
    assert json.loads(line)["result"]["agentCapabilities"]["mcpCapabilities"] == {"http": True, "sse": True}


def test_a_login_on_a_terminal_runs_through_us_and_the_others_stay_as_they_are() -> None:
    own = '{"id": "web", "name" : "Browser"}'
    theirs = '{"type":"terminal","id":"tty","name":"Here","args":["--login"],"env":{"A":"1"}}'
    line = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"authMethods":[%b,%b]}}' % (
        own.encode(),
        theirs.encode(),
    )
    changed = edit_answer(line, "p")
    assert own.encode() in changed
    method = json.loads(changed)["result"]["authMethods"][1]
    assert method == {"type": "terminal", "id": "tty", "name": "Here", "args": ["--login", "tty"]}
    assert check_agent_message(changed + b"\n", answers="initialize") == []


@pytest.mark.parametrize("line", [b'{"id":0,"error":{"code":1,"message":"no"}}', b'{"id":0,"result":null}'])
def test_an_error_passes(line: bytes) -> None:
    assert edit_answer(line, "p") == line


def test_what_the_profile_keeps_from_the_agent_is_not_offered() -> None:
    params = {
        "protocolVersion": 1,
        "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True, "auth": {}},
        "clientInfo": {"name": "e", "version": "1"},
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()
    assert edit_request(line, frozenset()) == line
    able = json.loads(edit_request(line, frozenset({"fs/write_text_file", "terminal/create"})))["params"][
        "clientCapabilities"
    ]
    assert able == {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False, "auth": {}}
    assert check_client_message(edit_request(line, frozenset({"terminal/create"})) + b"\n") == []
