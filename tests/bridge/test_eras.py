"""Agents and servers of different eras of MCP, with real processes, shim and seat between them."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.realservers.recorder import Json, Recorder, result
from tests.realservers.seated import Seated, Server, seated

SERVERS = Path(__file__).parents[1] / "servers"
VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
ABLE: Json = {"sampling": {}, "elicitation": {}, "roots": {}}
HOWS = ["-32601", "-32602", "silence", "exit", "leave"]
URI = "test://one"


def server(temper: str, *arguments: str, cwd: Path, **keys: object) -> Server:
    argv = [sys.executable, "-I", "-S", str(SERVERS / f"{temper}.py"), *arguments]
    return Server(argv, cwd, env={"PATH": os.environ["PATH"]}, keys=keys)


def meta(able: Json | None = None, **more: Any) -> Json:
    said: Json = {"protocolVersion": VERSION, "clientInfo": {"name": "recorder", "version": "1"}}
    said["clientCapabilities"] = ABLE if able is None else able
    return {PREFIX + name: value for name, value in said.items()} | more


def modern(agent: Recorder, method: str, able: Json | None = None, **params: Any) -> Json:
    return agent.request(method, {**params, "_meta": meta(able)})


def text(answer: Json) -> Any:
    (content,) = answer["result"]["content"]
    try:
        return json.loads(content["text"])
    except ValueError:
        return content["text"]


# An agent without a handshake.


@pytest.mark.parametrize("how", HOWS)
def test_a_server_with_a_handshake_is_found_out_whatever_it_does_to_the_first_message(how: str, tmp_path: Path) -> None:
    """M-10, M-14."""
    with seated(server=server("older", how, cwd=tmp_path)) as seats, seats.open() as agent:
        found = modern(agent, "server/discover")["result"]
        assert (found["supportedVersions"], found["resultType"]) == ([VERSION], "complete")
        assert found["_meta"][PREFIX + "serverInfo"]["name"] == "test-server"
        assert "echo" in [tool["name"] for tool in modern(agent, "tools/list")["result"]["tools"]]
        assert text(modern(agent, "tools/call", name="add", arguments={"a": 1, "b": 2})) == 3


def test_a_server_without_a_handshake_is_met_as_it_is(tmp_path: Path) -> None:
    with seated(server=server("newer", cwd=tmp_path)) as seats, seats.open() as agent:
        assert modern(agent, "server/discover")["result"]["ttlMs"] == 1000
        asked = modern(agent, "tools/call", name="greet")["result"]
        assert asked["resultType"] == "input_required"


def test_a_request_of_the_server_is_input_that_the_call_needs(tmp_path: Path) -> None:
    """M-14."""
    with seated(server=server("older", "-32601", cwd=tmp_path)) as seats, seats.open() as agent:
        modern(agent, "server/discover")
        arguments = {"id": "e", "method": "elicitation/create", "params": {"message": "Who?"}}
        asked = modern(agent, "tools/call", name="ask", arguments=arguments)["result"]
        ((name, wanted),) = asked["inputRequests"].items()
        assert wanted == {"method": "elicitation/create", "params": {"message": "Who?"}}
        given = {"inputResponses": {name: {"action": "decline"}}, "requestState": asked["requestState"]}
        said = text(modern(agent, "tools/call", name="ask", arguments=arguments, **given))
        assert said["result"] == {"action": "decline"}
        said = text(modern(agent, "tools/call", {}, name="ask", arguments={**arguments, "id": "f"}))
        assert said["error"]["code"] == -32601  # M-43


def test_the_roots_of_a_modern_agent_are_the_sessions_unless_it_has_its_own(tmp_path: Path) -> None:
    """M-47."""
    with seated(server=server("older", "-32601", cwd=tmp_path)) as seats, seats.open() as agent:
        modern(agent, "server/discover", {})
        said = text(modern(agent, "tools/call", {}, name="ask", arguments={"id": 1, "method": "roots/list"}))
        assert said["result"]["roots"][0]["uri"] == tmp_path.as_uri()


def test_a_modern_agent_hears_what_it_listens_for_from_a_server_with_subscriptions(tmp_path: Path) -> None:
    """M-15."""
    with seated(server=server("older", "-32601", cwd=tmp_path)) as seats, seats.open() as agent:
        modern(agent, "server/discover")
        wanted: Json = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": [URI]}
        id = agent.start("subscriptions/listen", {"notifications": wanted, "_meta": meta()})
        agreed = agent.expect("notifications/subscriptions/acknowledged")["params"]
        assert agreed["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": [URI]}
        assert agreed["_meta"] == {PREFIX + "subscriptionId": id}
        modern(agent, "tools/call", name="touch", arguments={"uri": URI})
        told = agent.expect("notifications/resources/updated")["params"]
        assert told == {"uri": URI, "_meta": {PREFIX + "subscriptionId": id}}
        agent.notify("notifications/cancelled", {"requestId": id})
        assert text(modern(agent, "tools/call", name="state"))["subscriptions"] == []


def test_a_modern_agent_gets_the_log_messages_of_requests_that_want_them(tmp_path: Path) -> None:
    with seated(server=server("older", "-32601", cwd=tmp_path)) as seats, seats.open() as agent:
        modern(agent, "server/discover")
        call: Json = {"name": "log", "arguments": {"level": "warning", "text": "x"}}
        modern(agent, "tools/call", **call)
        assert agent.heard("notifications/message") == []
        agent.request("tools/call", {**call, "_meta": meta() | {PREFIX + "logLevel": "info"}})
        assert len(agent.heard("notifications/message")) == 1
        assert text(modern(agent, "tools/call", name="state"))["level"] == "info"


def test_a_server_that_died_gets_another_handshake(tmp_path: Path) -> None:
    """M-21, M-12: nothing is tried with the new process; its era is known."""
    with seated(server=server("older", "silence", cwd=tmp_path)) as seats, seats.open() as agent:
        modern(agent, "server/discover")
        os.kill(text(modern(agent, "tools/call", name="pid")), 9)
        seats.state("resting")
        assert text(modern(agent, "tools/call", name="state"))["calls"] == 1


# An agent with a handshake.


def answers() -> Any:
    sampled = {"role": "assistant", "content": {"type": "text", "text": "nothing"}, "model": "none"}
    return {
        "elicitation/create": result({"action": "accept", "content": {"name": "Ada"}}),
        "sampling/createMessage": result(sampled),
        "roots/list": result({"roots": [{"uri": "file:///a"}]}),
    }


def opened(seats: Seated, version: str = "2025-06-18", able: Json | None = None) -> Recorder:
    agent = seats.open(answers=answers())
    hello = agent.initialize(version, ABLE if able is None else able)["result"]
    assert (hello["protocolVersion"], hello["serverInfo"]["name"]) == (version, "newer")
    assert hello["instructions"] == "Use it."
    return agent


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25"])
def test_a_legacy_agent_uses_a_server_without_a_handshake(version: str, tmp_path: Path) -> None:
    """M-13, M-8."""
    with seated(server=server("newer", cwd=tmp_path)) as seats, opened(seats, version) as agent:
        assert set(agent.request("tools/list")["result"]) == {"tools", "_meta"}
        assert agent.request("ping")["result"] == {}
        assert text(agent.call("greet")) == {"action": "accept", "content": {"name": "Ada"}}
        assert text(agent.call("think"))["model"] == "none"
        assert text(agent.call("where")) == {"roots": [{"uri": "file:///a"}]}
        assert text(agent.call("later")) is None
        assert agent.request("logging/setLevel", {"level": "error"})["result"] == {}
        said = text(agent.call("meta", _meta={"progressToken": 5}))
        assert said[PREFIX + "clientInfo"] == {"name": "recorder", "version": "1.0"}
        assert (said["progressToken"], said[PREFIX + "logLevel"]) == (5, "error")


def test_input_that_a_legacy_agent_does_not_offer_fails_the_call(tmp_path: Path) -> None:
    """M-43."""
    with seated(server=server("newer", cwd=tmp_path)) as seats, opened(seats, able={}) as agent:
        assert "does not offer" in agent.call("greet")["error"]["message"]
        assert text(agent.call("where"))["roots"][0]["uri"] == tmp_path.as_uri()  # M-47: the session's


def test_a_legacy_agent_hears_of_changes_on_a_server_without_subscriptions(tmp_path: Path) -> None:
    """M-15, M-21: and again after the server has died."""
    with seated(server=server("newer", cwd=tmp_path)) as seats, opened(seats) as agent:
        assert agent.request("resources/subscribe", {"uri": URI})["result"] == {}
        agent.call("grow")
        agent.call("touch", {"uri": URI})
        assert agent.expect("notifications/tools/list_changed")["params"] == {"_meta": {}}
        assert agent.expect("notifications/resources/updated")["params"] == {"uri": URI, "_meta": {}}
        agent.request("resources/unsubscribe", {"uri": URI})
        agent.skip()
        agent.call("touch", {"uri": URI})
        agent.call("grow")
        agent.expect("notifications/tools/list_changed")
        assert len(agent.heard("notifications/resources/updated")) == 1


def test_a_question_that_the_agent_refuses_is_the_answer_to_its_call(tmp_path: Path) -> None:
    refusing = {"elicitation/create": lambda params: {"error": {"code": -1, "message": "rejected"}}}
    with seated(server=server("newer", cwd=tmp_path)) as seats, seats.open(answers=refusing) as agent:
        agent.initialize(capabilities=ABLE)
        assert agent.call("greet")["error"] == {"code": -1, "message": "rejected"}
