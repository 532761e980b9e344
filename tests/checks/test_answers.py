"""What agents and servers said, as lines."""

from pathlib import Path

import pytest
from msgspec import Raw

from acp_launch.checks import answers
from acp_launch.checks.profile import ProfilePart
from acp_launch.errors import AgentError, AuthRequired, ServerError, WaitExpired
from acp_launch.mcp.client import Survey
from acp_launch.mcp.message import ServerInfo
from acp_launch.plan.model import StdioPlan
from acp_launch.protocol.acp import read_negotiated

NEGOTIATED = read_negotiated(Raw(b'{"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}'))
STDIO = StdioPlan(name="s", command=Path("/bin/s"), args=(), env={}, cwd=Path("/"))
SERVER = ProfilePart(server="s", planned=STDIO)
OPTIONAL = ProfilePart(server="s", planned=STDIO, is_required=False)


def survey(**members: object) -> Survey:
    server = ServerInfo(
        name="srv", title="", version="2", protocol_version="2025-11-25", capabilities={"tools": {}}, instructions=""
    )
    said = {"counts": {"tools/list": 1}, "timings": {"tools/list": 0.01}, "refused": {}, "tool_names": ("only",)}
    return Survey(server=server, answers_ping=True, roots_asked=0, **{**said, **members})  # type: ignore[arg-type]


LOST = survey(counts={}, timings={}, refused={"tools/list": "they are lost"})


def test_an_agent_near_its_limit_is_a_warning_before_it_is_a_failure() -> None:
    check = answers.agent(answers.Handshake(NEGOTIATED, 0.2, 60))
    assert (check.verdict, check.text) == ("ok", "(without a name), ACP 1; answered in 200 ms")
    assert check.detail == ("can: load", "logins: none offered")
    check = answers.agent(answers.Handshake(NEGOTIATED, 31, 60))
    assert (check.verdict, check.text) == ("warning", "(without a name), ACP 1; answered in 31.00 s, near its limit")
    assert check.fix == "raise agent.timeouts.initialize (60 s) in the profile"


@pytest.mark.parametrize(
    ("part", "error", "verdict", "code", "fix"),
    [
        (ProfilePart(), AgentError("died"), "problem", 4, "acp-launch logs p"),
        (ProfilePart(), WaitExpired("late", fix="wait"), "problem", 4, "wait"),
        (ProfilePart(), AuthRequired("login", fix="acp-launch login p"), "problem", 6, "acp-launch login p"),
        (SERVER, ServerError("died"), "problem", 8, "acp-launch logs p s"),
        (SERVER, WaitExpired("late"), "problem", 8, "acp-launch logs p s"),
        (OPTIONAL, ServerError("died"), "warning", 0, "acp-launch logs p s"),
    ],
)
def test_a_failure_has_the_exit_code_of_its_stage(
    part: ProfilePart, error: AgentError, verdict: str, code: int, fix: str
) -> None:
    check = answers.failure(part, error, "p")
    assert (check.verdict, check.code, check.fix) == (verdict, code, fix)


def test_a_server_near_its_limit_or_without_its_tools_is_a_warning_too() -> None:
    check = answers.server(SERVER, survey(), "p", hidden=0, after=16)
    text = "srv 2, MCP 2025-11-25; 1 tool; ready in 16.00 s, near its limit"
    assert (check.verdict, check.text) == ("warning", text)
    assert check.fix == "raise mcp_servers.s.timeouts.start (30 s) in the profile"
    check = answers.server(SERVER, LOST, "p", hidden=0, after=0.01)
    text = "srv 2, MCP 2025-11-25; nothing offered; ready in 10 ms; they are lost"
    assert (check.verdict, check.text, check.fix) == ("warning", text, "acp-launch logs p s")


def test_of_what_said_nothing_no_log_is_advised() -> None:
    """There is none: it begins with the first byte."""
    assert "logs" not in answers.failure(SERVER, ServerError("died"), "p", has_log=False).fix
    assert "logs" not in answers.failure(ProfilePart(), AgentError("died"), "p", has_log=False).fix
    assert "logs" not in answers.server(SERVER, LOST, "p", hidden=0, after=0.01, has_log=False).fix


def test_of_the_last_words_the_last_are_kept() -> None:
    check = answers.failure(SERVER, ServerError("died", detail=[str(number) for number in range(50)]), "p")
    assert check.detail == ("45", "46", "47", "48", "49")
