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


# An agent that asks for the newer era first.


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", HOWS)
def test_an_agent_learns_at_once_that_a_server_has_a_handshake_and_begins_with_one(how: str, tmp_path: Path) -> None:
    """M-10: also if the server says nothing, or ends; its process is then started again, and asked no more."""
    with seated(server=server("older", how, cwd=tmp_path)) as seats:
        for _ in range(2):
            with seats.open() as agent:
                error = modern(agent, "server/discover")["error"]
                assert error["code"] == (int(how) if how.startswith("-") else -32601)
                agent.initialize()
                assert text(agent.call("add", {"a": 1, "b": 2})) == 3


def test_a_server_without_a_handshake_is_met_as_it_is(tmp_path: Path) -> None:
    with seated(server=server("newer", cwd=tmp_path)) as seats, seats.open() as agent:
        assert modern(agent, "server/discover")["result"]["ttlMs"] == 1000
        asked = modern(agent, "tools/call", name="greet")["result"]
        assert asked["resultType"] == "input_required"


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
