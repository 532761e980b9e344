"""`run` with an agent that is given bridged servers over HTTP: `agent.mcp`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launcher import Launcher

ADD = 'add {"a": 1, "b": 2}'
SERVERS = {"box": {"command": "${python}", "args": ["-m", "acp_launch.demo.server"]}}


def demo(launch: Launcher, **agent: object) -> None:
    launch.profile("over_http", agent=agent, mcp_servers=SERVERS)
    launch("trust", "p", "--yes")


def given(trace: Path) -> list[dict[str, Any]]:
    """The servers that the agent was told of."""
    said = [json.loads(line).get("message") for line in trace.read_text().splitlines()]
    (opening,) = [each for each in said if isinstance(each, dict) and each.get("method") == "session/new"]
    return list(opening["params"]["mcpServers"])


@pytest.mark.promise("remote")
@pytest.mark.sample(1)
@pytest.mark.parametrize(("mcp", "kind"), [("http", "http"), ("stdio", None), ("auto", None)])
def test_the_agent_reaches_its_servers_as_the_profile_says(launch: Launcher, mcp: str, kind: str | None) -> None:
    """M-37: an address on 127.0.0.1, and a token, which is in no output of ours."""
    demo(launch, mcp=mcp)
    trace = launch.project / "trace"
    done = launch("run", "--trace", str(trace), "p", ADD)
    assert (done.code, done.out) == (0, b"3\n")
    (entry,) = given(trace)
    assert entry.get("type") == kind
    if kind:
        assert entry["url"].startswith("http://127.0.0.1:")
        assert len(entry["url"].rpartition("/")[2]) == 32
        assert entry["headers"] == [{"name": "Authorization", "value": "Bearer ***"}]


def test_an_agent_that_is_known_to_take_no_others_gets_them_over_http_by_itself(launch: Launcher) -> None:
    """By the name of its program; `plan` says so."""
    copilot = launch.project / "copilot"
    copilot.write_text('#!/bin/sh\nexec "$DEMO_PYTHON" "$@"\n')
    copilot.chmod(0o755)
    demo(launch, command="./copilot", env={"DEMO_PYTHON": "${python}"})
    trace = launch.project / "trace"
    assert launch("run", "--trace", str(trace), "p", ADD).out == b"3\n"
    assert [entry["type"] for entry in given(trace)] == ["http"]
    assert "mcp        it reaches bridged servers over http" in launch("plan", "p").out.decode()
    checked = launch("doctor", "p")
    assert (checked.code, "reaches bridged MCP servers over http" in checked.out.decode()) == (0, True)
    assert launch("validate", "p").code == 0


def test_an_agent_that_takes_no_http_is_refused_with_a_way_out(launch: Launcher) -> None:
    launch.profile("polite", mcp_servers=SERVERS)
    file = launch.project / ".acp-launch" / "p.yaml"
    launch("profile", "set", "p", "agent.mcp", "http")
    assert "mcp: http" in file.read_text()
    launch("trust", "p", "--yes")
    for verb in (("run", "p", "hi"), ("doctor", "p")):
        done = launch(*verb)
        assert done.code == 3
        told = done.err + done.out.decode()
        assert "does not take MCP servers over HTTP, as agent.mcp: http wants (mcpCapabilities.http" in told
        assert "write agent: {mcp: auto}, or use an agent that supports it" in told


@pytest.mark.parametrize("mcp", ["stdio", "auto"])
def test_without_http_neither_the_front_nor_its_library_is_imported(launch: Launcher, mcp: str) -> None:
    demo(launch, mcp=mcp)
    done = launch("run", "p", ADD, PYTHONVERBOSE="1")
    assert done.code == 0
    assert "import 'acp_launch.bridge.servers'" in done.err
    assert "h11" not in done.err
    assert "acp_launch.bridge.http.server" not in done.err
