"""What an agent gets instead of servers: shims that show no secret, each with a process of its own behind it."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.seat.stage import Stage

CANARY = "canary-7f3a91c2e5d84b60"


def test_a_server_inherits_little_and_has_the_directory_of_the_session_unless_its_profile_says_otherwise(
    stage: Stage,
) -> None:
    elsewhere = stage.launch.project / "elsewhere"
    elsewhere.mkdir()
    stage.launch.env |= {"KNOWN_SECRET": CANARY, "HTTPS_PROXY": "http://proxy.invalid:1", "LANG": "C"}
    servers = {
        "minimal": stage.server("polite"),
        "all": stage.server("polite", inherit_env="all"),
        "some": stage.server("polite", inherit_env=["KNOWN_*"], cwd="elsewhere"),
    }
    with stage.play(servers=servers) as play:
        names = {server: set(play.agent.call(server, "env_names")) for server in servers}
        assert play.agent.call("minimal", "cwd") == str(stage.launch.project)
        assert play.agent.call("some", "cwd") == str(elsewhere)
    own = {"LIVENESS", "LIVENESS_NAME", "ACP_LAUNCH_ID"}
    assert names["some"] - {"LC_CTYPE"} == {"KNOWN_SECRET", *own}
    assert {"PATH", "HOME", "HTTPS_PROXY", "LANG", *own} <= names["minimal"]
    assert not {name for name in names["minimal"] if name.startswith(("KNOWN_", "ACP_TEST_", "ACP_LAUNCH_S"))}
    assert "KNOWN_SECRET" in names["all"]


@pytest.mark.promise("secret")
def test_a_servers_secret_is_nowhere_but_in_its_server(stage: Stage) -> None:
    """Secret-blind: not in the agent's tree, what it was told, argv, output or logs."""
    stage.launch.env["ACP_LAUNCH_SECRET_CANARY"] = CANARY
    servers = {"keeper": stage.server("polite", env={"TOKEN": "${secret:canary}"})}
    with stage.play(servers=servers) as play:
        agent = play.agent
        digest = hashlib.sha256(CANARY.encode()).hexdigest()
        assert agent.call("keeper", "env_digest", name="TOKEN") == digest
        agent.call("keeper", "complain", text=f"the token is {CANARY}")
        pids = agent.do("pids")
        for pid in (pids["agent"], pids["shims"]["keeper"]):
            for file in ("environ", "cmdline"):
                assert CANARY.encode() not in Path(f"/proc/{pid}/{file}").read_bytes()
        told = json.dumps([agent.do("entries"), agent.do("environment")])
        assert (CANARY in told, "TOKEN" in told) == (False, False)
        done = play.end()
    assert CANARY not in done.out.decode() + done.err + json.dumps(done.heard)
    state = Path(stage.launch.env["ACP_LAUNCH_STATE_DIR"])
    kept = [path for path in state.rglob("*") if path.is_file()]
    assert [path for path in kept if CANARY.encode() in path.read_bytes()] == []
    (log,) = [path for path in kept if b"the token is" in path.read_bytes()]
    assert b"the token is ***" in log.read_bytes()


@pytest.mark.promise("permission")
def test_tools_the_profile_does_not_allow_are_not_shown_and_not_called(stage: Stage) -> None:
    tools = {"allow": ["e*", "add", "p*"], "deny": ["env_*"]}
    with stage.play(servers={"polite": stage.server("polite", tools=tools)}) as play:
        agent = play.agent
        assert agent.tools("polite") == ["echo", "add", "pid"]
        assert agent.call("polite", "add", a=1, b=2) == 3
        denied = agent.refused("polite", "env_names")
        said = 'the tool "env_names" of "polite" is not allowed by the profile (tools.deny: env_*)'
        assert denied == {"code": -32602, "message": said}
        unlisted = agent.refused("polite", "cwd")["message"]
        assert unlisted == 'the tool "cwd" of "polite" is not allowed by the profile (not in tools.allow)'
        evasive = '{"jsonrpc":"2.0","id":"x","\\u006dethod":"tools/call","params":{"n\\u0061me":"\\u0063wd"}}'
        agent.do("raw", "polite", evasive)
        assert json.loads(agent.do("answer", "polite", '"x"')["line"])["error"]["message"] == unlisted


@pytest.mark.promise("failure")
def test_a_required_server_that_fails_is_the_end_of_the_run_before_the_session_opens(stage: Stage) -> None:
    restart = {"backoff": {"initial": "10ms"}}
    servers = stage.servers(crasher=stage.server("crasher", "start", restart=restart))
    stage.launch.profile("mcp_client", mcp_servers=servers)
    done = stage.launch("run", "p", "obey", LIVENESS=stage.roll.port)
    assert (done.code, done.out) == (8, b"")
    assert done.err.endswith(
        'acp-launch: the MCP server "crasher" failed: exited with status 3;'
        " it was started 3 times and never answered\n"
        "    crasher: going down\n    crasher: last words\n"
        "    fix: acp-launch logs p crasher shows its log; with required: false the session opens without it\n"
    )
    assert "session/new" not in done.methods
    assert len(stage.roll.heard("crasher")) == 3
    stage.roll.all_die()


def test_without_a_server_that_is_not_required_the_session_opens_and_says_so(stage: Stage) -> None:
    crasher = stage.server("crasher", "start", required=False, restart={"max": 1, "backoff": {"initial": "10ms"}})
    with stage.play(servers={"crasher": crasher, "other": stage.server("polite")}) as play:
        assert "failed: exited with status 3" in play.agent.opened("crasher")["error"]["message"]
        assert play.agent.call("other", "add", a=1, b=2) == 3
        done = play.end()
    assert done.code == 0
    (standings,) = [event for event in done.events if event["type"] == "servers" and event["when"] == "opened"]
    crasher, other = standings["servers"]
    assert (crasher["name"], crasher["required"], crasher["state"]) == ("crasher", False, "failed")
    assert (other["name"], other["state"]) == ("other", "ready")


def test_a_server_that_the_agent_never_opens_or_never_reads_the_tools_of_is_named_after_the_turn(
    stage: Stage,
) -> None:
    """As claude-agent-acp#883 tells it: the agent connects, does the handshake, and offers its model nothing of it."""
    servers = {name: stage.server("polite") for name in ("read", "unread", "ignored")}
    with stage.play("only=read,unread", servers=servers) as play:
        assert play.agent.tools("read")
        done = play.end()
    (turn,) = [event for event in done.events if event["type"] == "servers" and event["when"] == "turn"]
    told = [(server["name"], server["opened"], server["unread"], server["tools"] is None) for server in turn["servers"]]
    assert told == [("read", True, False, False), ("unread", True, True, True), ("ignored", False, False, True)]
    stage.roll.all_die()
