"""Ring 1. What is edited of `initialize`, and that the rest stays, byte for byte."""

import json
import sys
from typing import Any

import pytest

from acp_launch.served.handshake import edit_answer, edit_request
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


@pytest.mark.parametrize("offered", ["2", "17", " 2 "])
def test_a_later_version_that_an_editor_offers_becomes_our_latest(offered: str) -> None:
    """Kotlin's and Rust's SDKs offer 2, and an agent that knows it would answer so."""
    line = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"x": [1,  2],"protocolVersion":%b,"y":0}}'
    edited = edit_request(line % offered.encode(), frozenset())
    assert json.loads(edited)["params"] == {"x": [1, 2], "protocolVersion": 1, "y": 0}
    assert b"[1,  2]" in edited


@pytest.mark.parametrize("offered", ["1", "0", '"2"', "null", "2.5", "true"])
def test_any_other_version_passes_as_it_is(offered: str) -> None:
    line = b'{"id":0,"method":"initialize","params":{"protocolVersion":%b}}' % offered.encode()
    assert edit_request(line, frozenset()) == line


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


@pytest.mark.parametrize("kind", ["", '"type":"terminal",', '"type":"agent",'])
@pytest.mark.parametrize("key", ["terminal-auth", r"terminal\u002dauth"])
def test_a_command_line_that_the_agent_chose_becomes_ours(kind: str, key: str) -> None:
    """An editor runs it at one click, outside of the profile and of the agent's place."""
    theirs = '{"command":"sh","args":["-c","evil"],"env":{"PATH":"/p"},"label":"Log in"}'
    method = f'{{"id":"--a b",{kind}"name":"x","_meta":{{"a":1.50,"{key}":{theirs},"terminal-auth":{theirs}}}}}'
    lost = f'{{"name":"y","_meta":{{"{key}":{theirs}}}}}'
    line = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"authMethods":[%b,%b,7]}}' % (
        method.encode(),
        lost.encode(),
    )
    changed = edit_answer(line, "p")
    assert b"evil" not in changed and b'"a":1.50' in changed
    first, second, third = json.loads(changed)["result"]["authMethods"]
    command = {"command": sys.executable, "args": ["-P", "-m", "acp_launch", "login", "--", "p", "--a b"], "env": {}}
    assert first["_meta"] == {"a": 1.5, "terminal-auth": {"label": "Log in", **command}}
    assert (second, third) == ({"name": "y", "_meta": {}}, 7)


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
