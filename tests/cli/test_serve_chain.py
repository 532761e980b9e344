"""Ring 3. `serve PROFILE --proxy`: a conductor is the editor and the agent at once, on one connection."""

import json
from pathlib import Path

import pytest

from tests.cli.launcher import Json, Launcher
from tests.cli.serving import Editor, serving
from tests.cli.test_doctor import server
from tests.oracle import check_agent_message, check_client_message
from tests.realservers.recorder import Responder

SUCCESSOR = "proxy/successor"


class Agent:
    """The successor: it answers what comes wrapped, and keeps it."""

    def __init__(self) -> None:
        self.heard: list[Json] = []

    def __call__(self, params: Json) -> Json:
        self.heard.append(params)
        results: Json = {
            "initialize": {
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": True},
                "authMethods": [{"id": "tty", "name": "Here", "type": "terminal", "args": ["login"]}],
            },
            "session/new": {"sessionId": "s1"},
            "session/prompt": {"stopReason": "end_turn"},
        }
        return {"result": results[params["method"]]}


@pytest.fixture
def agent() -> Agent:
    return Agent()


def wrapped(editor: Editor) -> list[Json]:
    """What we sent to the successor, as it will get it; all of it is ACP."""
    found = []
    for message in editor.heard(SUCCESSOR):
        inner = {"jsonrpc": "2.0", **({"id": message["id"]} if "id" in message else {}), **message["params"]}
        assert check_client_message(json.dumps(inner).encode() + b"\n") == []
        found.append(inner)
    return found


def begun(editor: Editor, method: str = "proxy/initialize") -> Json:
    params = {
        "protocolVersion": 1,
        "clientCapabilities": {"terminal": True},
        "clientInfo": {"name": "e", "version": "1"},
    }
    answer = editor.request(method, params)
    assert check_agent_message(json.dumps(answer).encode() + b"\n", answers="initialize") == []
    return dict(answer["result"])


def test_the_profile_is_served_to_an_agent_that_the_conductor_has_started(launch: Launcher, agent: Agent) -> None:
    launch.profile("polite", mcp_servers={"s": server("polite")})
    allowed: Json = {"outcome": {"outcome": "selected", "optionId": "yes"}}
    answers: dict[str, Responder] = {SUCCESSOR: agent, "session/request_permission": lambda params: {"result": allowed}}
    with serving(launch, "--proxy", answers=answers, is_valid=False) as editor:
        said = begun(editor)
        assert said["agentCapabilities"]["mcpCapabilities"] == {"http": True, "sse": True}
        assert said["authMethods"][0]["args"] == ["login"], "the editor starts the conductor, and not us"
        assert editor.open() == "s1"
        (opened,) = [params["params"] for params in agent.heard if params["method"] == "session/new"]
        assert [entry["name"] for entry in opened["mcpServers"]] == ["s"]
        editor.withhold(SUCCESSOR)
        prompt = editor.start("session/prompt", editor.words("s1", "hi"))
        editor.skip()
        given = editor.expect(SUCCESSOR)
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}
        editor.notify(SUCCESSOR, {"method": "session/update", "params": {"sessionId": "s1", "update": update}})
        option = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
        question = {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": [option]}
        wants = {"method": "session/request_permission", "params": question, "_meta": {"hop": 1}}
        assert editor.request(SUCCESSOR, wants)["result"] == allowed
        assert editor.heard("session/request_permission")[0]["params"] == question
        editor.notify("$/cancel_request", {"requestId": prompt})
        assert editor.expect("$/cancel_request")["params"] == {"requestId": given["id"]}
        editor.release()
        assert editor.answer(prompt)["result"] == {"stopReason": "end_turn"}
        assert editor.said() == "hello"
        assert [each["method"] for each in wrapped(editor)] == ["initialize", "session/new", "session/prompt"]
    assert not editor.transcript.exists(), "the profile's own agent was started"


def test_the_spelling_of_the_conductor_is_kept(launch: Launcher, agent: Agent) -> None:
    launch.profile("polite")
    with serving(launch, "--proxy", answers={f"_{SUCCESSOR}": agent}, is_valid=False) as editor:
        assert begun(editor, "_proxy/initialize")["protocolVersion"] == 1
        assert [params["method"] for params in agent.heard] == ["initialize"]


def test_what_a_conductor_would_not_say_is_refused(launch: Launcher) -> None:
    launch.profile("polite")
    with serving(launch, "--proxy", is_valid=False) as editor:
        assert editor.refused() == "proxy/initialize is expected: this is serve --proxy"
        assert editor.request(SUCCESSOR, {"params": {}})["error"]["message"] == "proxy/successor names no method"


def test_a_trace_is_the_conductors(launch: Launcher, tmp_path: Path) -> None:
    launch.profile("polite")
    done = launch("serve", "p", "--proxy", "--trace", str(tmp_path / "t"))
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "acp-launch: --proxy has no --trace, as the conductor starts the agent",
    )
