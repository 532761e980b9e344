"""Remote servers in a session: supervised like processes, and offered to an agent that takes only stdio servers."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launcher import Launcher
from tests.remote.children import Tempered, tempered
from tests.seat.stage import Stage
from tests.seat.test_logins import found

Json = dict[str, Any]
HEADER, VARIABLE = "canary-header-9f27c1aa", "canary-variable-77e01b3d"
QUICK = {"min_uptime": "1ms", "backoff": {"initial": "1ms", "max": "1ms"}}


def remote(server: Tempered, **keys: Any) -> Json:
    kind = "sse" if server.settings.get("era") == "sse" else "http"
    return {"type": kind, "url": server.url, **keys}


def states(events: list[Json], name: str = "web") -> list[str]:
    return [event["state"] for event in events if event["type"] == "server" and event["name"] == name]


@pytest.mark.promise("remote")
@pytest.mark.sample(1)
@pytest.mark.parametrize("era", ["sse", "modern"])
def test_an_agent_that_takes_only_stdio_servers_has_a_remote_one(stage: Stage, era: str) -> None:
    with tempered(era=era) as server, stage.play(servers={"web": remote(server)}) as play:
        assert "echo" in play.agent.tools("web")
        assert play.agent.call("web", "add", a=1, b=2) == 3
        (running,) = json.loads(stage.launch("ps", "--json").out)["launches"]
        assert [(each["name"], each["state"], each["restarts"]) for each in running["remote"]] == [("web", "ready", 0)]
        assert "(remote, ready)" in stage.launch("ps").out.decode()
        done = play.end()
    assert done.code == 0, done.err
    assert states(done.events) == ["starting", "ready"]
    assert all(event["pid"] is None for event in done.events if event["type"] == "server")


def test_what_is_sent_to_a_remote_server_is_found_nowhere_but_there(stage: Stage, tmp_path: Path) -> None:
    """M-46: a header and a variable are in each request; the agent gets neither, nor the address."""
    stage.launch.env |= {"ACP_LAUNCH_SECRET_KEY": HEADER, "ACP_LAUNCH_SECRET_VALUE": VARIABLE}
    sent = {"headers": {"X-Key": "Bearer ${secret:key}"}, "env": {"API_KEY": "${secret:value}"}}
    with tempered() as server, stage.play(servers={"web": remote(server, **sent)}) as play:
        assert play.agent.call("web", "echo", text="a")
        given = json.dumps(play.agent.do("entries")) + json.dumps(play.agent.do("environment"))
        requests = server.requests
        done = play.end()
        port = str(server.port)
    assert done.code == 0, done.err
    assert len(requests) > 4
    for request in requests:
        headers = dict(map(tuple, request["headers"]))
        assert (headers["X-Key"], headers["X-Env-API_KEY"]) == (f"Bearer {HEADER}", VARIABLE)
    for secret in (HEADER, VARIABLE):
        assert secret not in given
        assert secret not in done.err + done.out.decode()
        assert found(stage.launch, secret) == []
    opened = json.dumps(done.params("session/new"))
    assert port not in opened + given
    assert "X-Key" not in opened + given


def test_a_trace_and_a_log_of_a_remote_server_hold_no_secret(launch: Launcher) -> None:
    launch.env |= {"ACP_LAUNCH_SECRET_KEY": HEADER, "ACP_LAUNCH_SECRET_VALUE": VARIABLE}
    with tempered(faults=[{"on": "tools/list", "do": "status", "status": 500}]) as server:
        sent = {"headers": {"X-Key": "${secret:key}"}, "env": {"API_KEY": "${secret:value}"}}
        agent = {"command": sys.executable, "args": ["-I", "-m", "acp_launch.demo.agent"]}
        launch.write({"agent": agent, "mcp_servers": {"web": remote(server, **sent)}})
        done = launch("run", "p", "call web headers", "--trace", "trace.ndjson", "--verbose", "--session", "s")
    trace = [json.loads(line) for line in (launch.project / "trace.ndjson").read_text().splitlines()]
    steps = [step for step in trace if step.get("server") == "web"]
    assert (steps[0]["type"], steps[0]["pid"], steps[-1]["type"]) == ("start", None, "exit"), done.err
    shown = launch("trace", "trace.ndjson")
    assert shown.err.count("\n") == 1, "no line is skipped"
    assert re.search(r" web +connecting\n", shown.out.decode())
    log = launch("logs", "p", "web").out.decode()
    assert "web starting" in log and "web ready" in log
    for secret in (HEADER, VARIABLE):
        assert secret not in log + done.err + done.out.decode()
        assert found(launch, secret) == []


def test_a_required_server_that_is_down_ends_the_run_with_its_reason(launch: Launcher) -> None:
    with tempered() as server:
        server.kill()
        launch.profile("polite", mcp_servers={"web": {"type": "http", "url": server.url}})
        done = launch("run", "p", "hi", "--output", "json")
    assert done.code == 8
    assert states(done.events) == ["starting", "resting"] * 2 + ["starting", "failed"]
    assert done.event("error")["message"].startswith('the MCP server "web" failed: could not be reached')


def test_a_required_server_that_stays_busy_ends_the_run_after_its_start(launch: Launcher) -> None:
    busy = {"on": "initialize", "do": "status", "status": 503}
    with tempered(faults=[busy]) as server:
        launch.profile("mcp_client", mcp_servers={"web": remote(server, timeouts={"start": "200ms"})})
        done = launch("run", "p", "call web echo", "--output", "json")
    assert done.code == 8, done.err
    assert "answered 503 Service Unavailable to the handshake" in done.out.decode()
    assert states(done.events)[-1] == "failed"


@pytest.mark.parametrize("temper", ["remote", "fails", "ends"])
def test_the_failure_of_a_required_server_is_told_once(launch: Launcher, temper: str) -> None:
    """A program that ends with status 0, and is not started again, has failed, too."""
    with tempered() as server:
        server.kill()
        ends = [sys.executable, "-c", f"raise SystemExit({0 if temper == 'ends' else 7})"]
        entry = {"command": ends[0], "args": ends[1:], "restart": {"policy": "never"}}
        launch.profile("polite", mcp_servers={"web": remote(server) if temper == "remote" else entry})
        done = launch("run", "p", "hi")
    assert done.code == 8
    assert done.err.count("failed:") == 1
    assert 'acp-launch: the MCP server "web" failed: ' in done.err
    assert "exited:" not in done.err


def test_an_agent_that_closes_a_server_after_its_last_call_is_no_news(launch: Launcher) -> None:
    with tempered(get=405) as server:
        launch.profile("mcp_client", mcp_servers={"web": remote(server)})
        done = launch("run", "p", 'call web add {"a": 1, "b": 2}\nclose web')
        assert "DELETE" in server.methods()
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("required", [True, False])
def test_a_server_that_refuses_the_key_is_not_asked_again(launch: Launcher, required: bool) -> None:
    with tempered(bearer="right") as server:
        entry = remote(server, headers={"Authorization": "Bearer wrong"}, required=required)
        launch.profile("mcp_client", mcp_servers={"web": entry})
        done = launch("run", "p", "call web echo", "--output", "json")  # which waits for what becomes of the server
        assert len(server.requests) == 1
    assert done.code == (6 if required else 0), done.err
    assert states(done.events) == ["starting", "failed"]
    (failed,) = [event for event in done.events if event["type"] == "server" and event["state"] == "failed"]
    assert "401" in failed["exit"]


def test_a_session_that_the_server_has_forgotten_is_opened_again_and_the_call_is_answered(stage: Stage) -> None:
    """M-30: 404 means a new session. The call certainly had no effect, so it is sent again."""
    with tempered() as server, stage.play(servers={"web": remote(server, restart=QUICK)}) as play:
        assert play.agent.call("web", "add", a=1, b=1) == 2
        server.do("forget")
        assert play.agent.call("web", "add", a=2, b=2) == 4
        assert server.methods().count("initialize") == 2
        done = play.end()
    assert done.code == 0
    assert states(done.events) == ["starting", "ready", "resting", "starting", "ready"]


def test_without_a_remote_server_nothing_of_http_is_imported(launch: Launcher) -> None:
    demo = {"command": sys.executable, "args": ["-I", "-m", "acp_launch.demo.server"]}
    launch.profile("polite", mcp_servers={"demo": demo})
    done = launch.apart("run", "p", "hi", PYTHONPROFILEIMPORTTIME="1")
    assert done.code == 0
    imported = {line.rpartition("|")[2].strip() for line in done.err.splitlines() if line.startswith("import time:")}
    assert "acp_launch.engine.servers" in imported
    heavy = {
        "aiohttp",
        "h11",
        "acp_launch.mcp.remote",
        "acp_launch.mcp.http.connection",
        "acp_launch.bridge.http.server",
    }
    assert imported & heavy == set()


@pytest.mark.parametrize(("bridge", "first"), [(True, ["echo", "add"]), (False, ["no", "tools"])])
def test_an_agent_that_does_not_wait_for_http_servers_has_the_tools_of_a_bridged_one(
    launch: Launcher, bridge: bool, first: list[str]
) -> None:
    """It waits for programs, and a shim is one; the seat holds its questions until the server is there."""
    slow = {"on": "initialize", "do": "slow", "piece": 20, "pause": 0.01}
    with tempered(sessions=False, answers="json", faults=[slow] if bridge else []) as server:
        launch.profile("hasty", mcp_servers={"web": remote(server, bridge=bridge)})
        done = launch("run", "p", "which tools are there?")
    assert done.code == 0, done.err
    assert done.out.decode().split()[:2] == first
