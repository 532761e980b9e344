"""What `plan`, `trust`, `ps`, `doctor` and `login` say and do for a confined agent (docs/confined.md)."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.launcher import DEMO, DEMO_SERVER, Launcher


def find_obstacle() -> str:
    """Return why agents cannot be confined here; empty if they can."""
    if (bwrap := shutil.which("bwrap")) is None:
        return "bubblewrap is not installed"
    trial = [bwrap, "--unshare-pid", "--ro-bind", "/", "/", "true"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


OBSTACLE = find_obstacle()
needs_bubblewrap = pytest.mark.skipif(bool(OBSTACLE), reason=OBSTACLE or "agents can be confined here")
HEARD = {"ACP_TEST_TRANSCRIPT": "${env:ACP_TEST_TRANSCRIPT}"}


@needs_bubblewrap
def test_a_plan_shows_what_a_confined_agent_sees_and_with_verbose_how_it_is_started(launch: Launcher) -> None:
    home = Path(launch.env["HOME"])
    confined = {"state": ["~/.demo"], "read": ["${project}/docs"], "network": "none"}
    (launch.project / "docs").mkdir()
    launch.write({"agent": DEMO, "runtime": {"confined": confined}})
    lines = launch("plan", "p").out.decode().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  confined "))
    assert re.fullmatch(
        r"  confined   it sees what follows, and nothing else of this machine  \S+/p\.yaml:[\d,]+", lines[at]
    )
    assert lines[at + 1 : at + 4] == [
        f"  writes     {launch.project}",
        f"  state      {home}/.demo",
        f"  reads      {launch.project}/docs",
    ]
    assert lines[at + 4].startswith("  runs       ") and "/usr" in lines[at + 4]
    assert lines[at + 5] == "  network    none"
    assert not (home / ".demo").exists()
    (starts,) = [line for line in launch("plan", "p", "-v").out.decode().splitlines() if "starts as" in line]
    for part in (f"--bind {home}/.demo {home}/.demo", "--unshare-net", "--cap-drop ALL", "-m acp_launch.demo.agent"):
        assert part in starts
    place = json.loads(launch("plan", "p", "--json").out)["agent"]["place"]
    assert place["network"] == "none" and place["command"] in starts
    assert {"path": f"{home}/.demo", "access": "write", "reason": "state"} in place["mounts"]


@needs_bubblewrap
def test_a_plan_says_that_an_agent_without_state_keeps_nothing(launch: Launcher) -> None:
    launch.write({"agent": DEMO, "runtime": {"confined": True}})
    out = launch("plan", "p").out.decode()
    assert "  state      none: what it stores in your home is gone when it ends\n" in out
    assert "  network    shared: it reaches all that listens on this machine, abstract sockets too\n" in out


def test_a_plan_of_an_agent_that_is_not_confined_has_no_place(launch: Launcher) -> None:
    launch.write({"agent": DEMO})
    assert "confined" not in launch("plan", "p").out.decode()
    assert json.loads(launch("plan", "p", "--json").out)["agent"]["place"] is None


@needs_bubblewrap
@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("claude-agent-acp", [".claude"]),
        ("codex-acp", [".codex"]),
        ("gemini", [".gemini"]),
        ("opencode", [".cache/opencode", ".config/opencode", ".local/share/opencode", ".local/state/opencode"]),
    ],
)
def test_a_known_agent_keeps_its_state_without_a_word_in_the_profile(
    launch: Launcher, tmp_path: Path, name: str, state: list[str]
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
    (tmp_path / "bin" / name).chmod(0o755)
    launch.write({"agent": {"command": str(tmp_path / "bin" / name)}, "runtime": {"confined": True}})
    place = json.loads(launch("plan", "p", "--json").out)["agent"]["place"]
    found = sorted(each["path"] for each in place["mounts"] if each["reason"] == "state")
    assert found == [f"{launch.env['HOME']}/{each}" for each in state]


@pytest.mark.parametrize(
    ("below", "above", "said"),
    [
        (True, False, "the agent is not confined, as what this file extends asks"),
        ({"network": "none"}, None, "the agent is not confined, as what this file extends asks"),
        ({"network": "none"}, True, "the agent has the network, which what this file extends takes from it"),
        ({"network": "none"}, {"network": "shared"}, "the agent has the network, which what this file"),
        ({"network": "none"}, {"write": ["."]}, ""),
        (False, True, ""),
    ],
)
@pytest.mark.parametrize("how", ["child", "overlay"])
def test_a_file_that_takes_the_confinement_away_is_shown_as_a_weakening(
    launch: Launcher, below: object, above: object, said: str, how: str
) -> None:
    launch.write({"agent": DEMO, "runtime": {"confined": below}}, name="_base" if how == "child" else "p")
    upper = launch.project / ".acp-launch" / ("p.yaml" if how == "child" else "p.local.yaml")
    extends = {"extends": "./_base.yaml"} if how == "child" else {}
    upper.write_text(json.dumps({**extends, "runtime": {"confined": above}}))
    shown, checked = launch("trust", "p").err, launch("validate", "p").err
    assert (re.search(rf"^  weaker +{re.escape(said)}", shown, re.M) is not None) == bool(said)
    assert (f"{upper.name}:" in checked and f"runtime.confined: warning: {said}" in checked) == bool(said)


def test_what_a_confined_agent_may_see_is_shown_before_it_is_trusted(launch: Launcher) -> None:
    agent = {"command": "opencode", "args": ["acp"]}
    launch.write({"agent": agent, "runtime": {"confined": {"state": ["~/.own"], "read": ["~/.nvm"]}}})
    assert (
        "  confined  it sees the session's directories, what it needs to run, and nothing else\n"
        "            writes ~/.config/opencode, ~/.local/share/opencode, ~/.local/state/opencode, ~/.cache/opencode,"
        " ~/.own\n"
        "            reads ~/.nvm\n"
        "            shares the network of this machine\n"
    ) in launch("trust", "p").err


@needs_bubblewrap
def test_ps_says_which_agent_is_confined(launch: Launcher) -> None:
    confined = {"confined": {"write": ["${env:ACP_TEST_TRANSCRIPT}"]}}
    launch.profile("cancellable", agent={"env": HEARD}, runtime=confined, mcp_servers={"notes": DEMO_SERVER})
    with launch.start("run", "p", "hi", "--output", "json", apart=True) as running:
        running.hears("session/prompt")
        lines = launch("ps").out.decode().splitlines()
        (agent,) = [line for line in lines if line.startswith("  agent ")]
        assert re.fullmatch(r"  agent +\d+ +\d+s +\d+ MiB +confined", agent)
        assert sum("confined" in line for line in lines) == 1
        (listed,) = json.loads(launch("ps", "--json").out)["launches"]
        assert [each["name"] for each in listed["processes"] if each.get("confined")] == ["agent"]
