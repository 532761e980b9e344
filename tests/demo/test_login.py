"""Logging in to the demo agent, each way there is (C-23 to C-30); only where ACP_LAUNCH_DEMO_LOGIN=1."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.client import Client, command

WANTED = {"ACP_LAUNCH_DEMO_LOGIN": "1"}
AGENT = command("acp_launch.demo.agent")


def client(tmp_path: Path, **env: str) -> Client:
    return Client(AGENT, home=tmp_path / "home", env={**WANTED, **env})


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Client]:
    """Its `initialize` answer is judged by hand: it carries a method that is not in the protocol any more."""
    with client(tmp_path) as agent:
        yield agent


def started(agent: Client) -> list[dict[str, object]]:
    """The methods it offers."""
    methods: list[dict[str, object]] = agent.initialize()["authMethods"]
    own = f"$.authMethods[{len(methods) - 1}]: Unevaluated properties are not allowed ('type', 'vars' were unexpected)"
    assert agent.violations in ([f"InitializeResponse (schema): {own}"], [])  # the models alone still know it
    assert methods[-1]["type"] == "env_var"
    agent.violations.clear()
    return methods


def test_without_the_variable_there_is_nothing_to_log_in_to(tmp_path: Path) -> None:
    with Client(AGENT, home=tmp_path / "home", env={"ACP_LAUNCH_DEMO_LOGIN": ""}) as agent:
        answer = agent.initialize()
        assert answer["authMethods"] == []
        assert "auth" not in answer["agentCapabilities"]


def test_nothing_about_sessions_is_answered_before_the_login(agent: Client, tmp_path: Path) -> None:
    methods = started(agent)
    assert [method["id"] for method in methods] == ["demo-agent", "demo-token"]
    assert methods[1]["vars"] == [{"name": "DEMO_TOKEN", "label": "Any text"}]
    opening = {"cwd": str(tmp_path), "mcpServers": []}
    for method, params in (
        ("session/new", opening),
        ("session/load", {"sessionId": "x", **opening}),
        ("session/list", {}),
    ):
        error = agent.request(method, params)["error"]
        assert error == {"code": -32000, "message": "log in to the demo agent first"}


def test_authenticate_logs_in_and_is_remembered_until_logout(agent: Client, tmp_path: Path) -> None:
    started(agent)
    assert agent.result("authenticate", {"methodId": "demo-agent"}) == {}
    session = agent.result("session/new", {"cwd": str(tmp_path), "mcpServers": []})["sessionId"]
    with client(tmp_path) as other:
        started(other)
        assert "result" in other.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert other.result("logout", {}) == {}
    assert agent.code("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}) == -32000
    assert agent.result("logout", {}) == {}


def test_authenticate_takes_no_other_method(agent: Client) -> None:
    started(agent)
    for method, code, message in (
        ("nonsense", -32602, "authenticate takes demo-agent or demo-token, not 'nonsense'"),
        ("demo-token", -32000, "DEMO_TOKEN is not in this agent's environment"),
    ):
        assert agent.request("authenticate", {"methodId": method})["error"] == {"code": code, "message": message}


def test_a_token_in_the_environment_is_a_login(tmp_path: Path) -> None:
    with client(tmp_path, DEMO_TOKEN="anything") as agent:
        started(agent)
        assert agent.result("authenticate", {"methodId": "demo-token"}) == {}
        assert "result" in agent.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})
