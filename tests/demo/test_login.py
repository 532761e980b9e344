"""Logging in to the demo agent, each way there is (C-23 to C-30); only where ACP_LAUNCH_DEMO_LOGIN=1."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.client import Client, command
from tests.patience import PATIENCE

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


def test_a_terminal_login_is_offered_only_to_a_client_that_has_one(agent: Client, tmp_path: Path) -> None:
    assert [method["id"] for method in started(agent)] == ["demo-agent", "demo-token"]
    with client(tmp_path) as other:
        other.capabilities = {"auth": {"terminal": True}}
        methods = started(other)
    assert [method["id"] for method in methods] == ["demo-agent", "demo-terminal", "demo-token"]
    assert (methods[1]["type"], methods[1]["args"]) == ("terminal", ["--login"])
    assert methods[2]["vars"] == [{"name": "DEMO_TOKEN", "label": "Any text"}]


def test_nothing_about_sessions_is_answered_before_the_login(agent: Client, tmp_path: Path) -> None:
    started(agent)
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


@pytest.mark.parametrize(
    ("method", "code", "message"),
    [
        ("demo-terminal", -32602, "authenticate takes demo-agent or demo-token, not 'demo-terminal'"),
        ("nonsense", -32602, "authenticate takes demo-agent or demo-token, not 'nonsense'"),
        ("demo-token", -32000, "DEMO_TOKEN is not in this agent's environment"),
    ],
)
def test_authenticate_takes_no_other_method(agent: Client, method: str, code: int, message: str) -> None:
    started(agent)
    assert agent.request("authenticate", {"methodId": method})["error"] == {"code": code, "message": message}


def test_a_token_in_the_environment_is_a_login(tmp_path: Path) -> None:
    with client(tmp_path, DEMO_TOKEN="anything") as agent:
        started(agent)
        assert agent.result("authenticate", {"methodId": "demo-token"}) == {}
        assert "result" in agent.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})


def log_in(tmp_path: Path, typed: bytes) -> tuple[int, str]:
    """`--login` on a terminal of its own: the exit status, and all that was on the terminal."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "ACP_DEMO_HOME": str(tmp_path / "home")}
    process = subprocess.Popen(
        [*AGENT, "--login"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    shown = b""
    try:
        while b": " not in shown:
            shown += os.read(ours, 1024)
        os.write(ours, typed)
        shown += b"".join(_until_closed(ours))
        return process.wait(PATIENCE), shown.decode().replace("\r\n", "\n")
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)


def _until_closed(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(terminal, 1024)
        except OSError:  # how Linux says that nobody has the other side open
            return
        if not chunk:
            return
        yield chunk


QUESTION = "Demo agent: type the word demo to log in: "


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals there")
def test_the_terminal_login_asks_for_a_word(agent: Client, tmp_path: Path) -> None:
    status, shown = log_in(tmp_path, b"demo\n")
    assert (status, shown) == (0, f"{QUESTION}demo\nlogged in\n")
    started(agent)
    assert "result" in agent.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals there")
@pytest.mark.parametrize(
    ("typed", "shown"),
    [(b"mellon\n", "mellon\n'mellon' is not the word; not logged in\n"), (b"\x04", "\nnot logged in\n")],
)
def test_a_login_that_fails_says_so_and_does_not_log_in(
    agent: Client, tmp_path: Path, typed: bytes, shown: str
) -> None:
    assert log_in(tmp_path, typed) == (1, QUESTION + shown)
    started(agent)
    assert agent.code("session/new", {"cwd": str(tmp_path), "mcpServers": []}) == -32000


def test_a_login_without_a_terminal_is_no_login(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*AGENT, "--login"],
        input=b"demo\n",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "ACP_DEMO_HOME": str(tmp_path)},
    )
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert ended.stderr == b"the demo agent needs a terminal to log in\n"
