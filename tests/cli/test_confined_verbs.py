"""What `plan`, `trust`, `ps`, `doctor` and `login` say and do for a confined agent (docs/confined.md)."""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from acp_launch.checks import confined
from acp_launch.plan.confinement import INSTALL
from acp_launch.plan.model import Place
from tests.cli.launcher import DEMO, DEMO_SERVER, Json, Launcher
from tests.cli.terminal import Terminal, on_terminal
from tests.confined import needs_box

CTRL_C = "\x03"


@pytest.fixture
def box() -> None:
    """Skip the test where there is no box."""
    needs_box()


needs_bubblewrap = pytest.mark.usefixtures("box")
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
    launch.write({"agent": DEMO})
    assert "confined" not in launch("plan", "p").out.decode()
    assert json.loads(launch("plan", "p", "--json").out)["agent"]["place"] is None


@needs_bubblewrap
def test_a_known_agent_keeps_its_state_without_a_word_in_the_profile(launch: Launcher, tmp_path: Path) -> None:
    opencode = [".cache/opencode", ".config/opencode", ".local/share/opencode", ".local/state/opencode"]
    plain = {"claude-agent-acp": [".claude"], "codex-acp": [".codex"], "gemini": [".gemini"], "qwen": [".qwen"]}
    for name, state in {**plain, "copilot": [".copilot"], "opencode": opencode}.items():
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        launch.write({"agent": {"command": str(program)}, "runtime": {"confined": True}})
        place = json.loads(launch("plan", "p", "--json").out)["agent"]["place"]
        found = sorted(each["path"] for each in place["mounts"] if each["reason"] == "state")
        assert found == [f"{launch.env['HOME']}/{each}" for each in state]


OFFLINE = {"network": "none"}
IMAGE, MACHINE = {"image": "agents:1", **OFFLINE}, {"host": "build1", "directory": "/srv"}
WEAKENED: list[tuple[str, Json | bool, Json | bool | None, str]] = [
    ("confined", True, False, "the agent is not confined, as what this file extends asks"),
    ("confined", OFFLINE, None, "the agent is not confined, as what this file extends asks"),
    ("confined", OFFLINE, True, "the agent has the network, which what this file extends takes from it"),
    ("confined", OFFLINE, {"network": "shared"}, "the agent has the network, which what this file"),
    ("confined", OFFLINE, {"write": ["."]}, ""),
    ("confined", False, True, ""),
    ("container", IMAGE, None, "the agent is not in the container that what this file extends asks for"),
    ("ssh", MACHINE, None, "the agent is not on the machine that what this file extends names"),
]


@pytest.mark.parametrize("how", ["child", "overlay"])
def test_a_file_that_takes_the_confinement_away_is_shown_as_a_weakening(launch: Launcher, how: str) -> None:
    for kind, below, above, said in WEAKENED:
        launch.write({"agent": DEMO, "runtime": {kind: below}}, name="_base" if how == "child" else "p")
        upper = launch.project / ".acp-launch" / ("p.yaml" if how == "child" else "p.local.yaml")
        extends = {"extends": "./_base.yaml"} if how == "child" else {}
        upper.write_text(json.dumps({**extends, "runtime": {kind: above}}))
        shown, checked = launch("trust", "p").err, launch("validate", "p").err
        assert (re.search(rf"^  weaker +{re.escape(said)}", shown, re.M) is not None) == bool(said)
        assert (f"{upper.name}:" in checked and f"runtime.{kind}: warning: {said}" in checked) == bool(said)


def test_what_a_confined_agent_may_see_is_shown_before_it_is_trusted(launch: Launcher) -> None:
    agent = {"command": "opencode", "args": ["acp"]}
    files = {**DEMO_SERVER, "data": ["${project}/docs"]}
    runtime = {"confined": {"state": ["~/.own"], "read": ["~/.nvm"]}}
    launch.write({"agent": agent, "runtime": runtime, "mcp_servers": {"files": files}})
    shown = launch("trust", "p").err
    assert "takes as data, which a confined agent may write: ${project}/docs\n" in shown
    assert (
        "  confined     it sees the session's directories, what it needs to run, and nothing else\n"
        "               writes ~/.config/opencode, ~/.local/share/opencode, ~/.local/state/opencode, ~/.cache/opencode,"
        " ~/.own\n"
        "               reads ~/.nvm\n"
        "               shares the network of this machine\n"
    ) in shown


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        (
            {"container": {"image": "localhost/agent:1", "mounts": ["/usr/share:ro"], "network": "host"}},
            "  container    image localhost/agent:1, by podman or docker\n"
            "               has the session's directories of this machine, and\n"
            "               reads /usr/share\n"
            "               shares the network of this machine\n",
        ),
        (
            {"ssh": {"host": "build1", "directory": "/srv/shop"}},
            "  ssh          build1, in /srv/shop, by python3 there\n",
        ),
    ],
)
def test_where_an_agent_elsewhere_runs_is_shown_before_it_is_trusted(
    launch: Launcher, runtime: Json, said: str
) -> None:
    launch.write({"agent": {"command": "their-agent"}, "runtime": runtime})
    assert said in launch("trust", "p").err


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


@needs_bubblewrap
def test_an_agent_without_a_profile_is_confined_with_the_state_it_is_known_to_need(
    launch: Launcher, tmp_path: Path
) -> None:
    home, program = Path(launch.env["HOME"]), tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\ntouch ~/.gemini/seen ~/other\nexec {shlex.quote(sys.executable)} -I -m acp_launch.demo.agent\n"
    )
    program.chmod(0o755)
    done = launch("run", "--agent", str(program), "--confined", "hello", "--output", "quiet")
    assert done.code == 0 and done.out.startswith(b"You said: hello\n"), done.err
    assert (home / ".gemini" / "seen").exists()
    assert not (home / "other").exists()


@needs_bubblewrap
def test_doctor_starts_a_confined_agent_in_its_place_and_tries_a_shim_there(launch: Launcher) -> None:
    home = Path(launch.env["HOME"])
    agent = DEMO | {"env": HEARD}
    confined = {"state": ["~/.demo", "~/.demo.json"], "write": ["${env:ACP_TEST_TRANSCRIPT}"]}
    launch.write({"agent": agent, "runtime": {"confined": confined}, "mcp_servers": {"notes": DEMO_SERVER}})
    with launch.start("doctor", "p", "--json", apart=True) as running:
        done = running.end()
    assert done.code == 0, done.out
    found = {f"{each['check']} {each['subject']}".strip(): each for each in json.loads(done.out)["checks"]}
    assert found["confinement"]["facts"] == {"possible": True, "program": shutil.which("bwrap")}
    alone = found["confinement ~/.demo.json"]
    why = "one file, so a program that replaces it by renaming another one fails"
    assert (alone["standing"], alone["text"]) == ("warning", why)
    assert found["shims confined"]["text"] == "the agent opens them in its place"
    assert found["agent"]["facts"]["confined"] is True
    assert "confined: it answered in its place, which plan shows" in found["agent"]["detail"]
    assert found["server notes"]["standing"] == found["session"]["standing"] == "ok"
    assert (home / ".demo").is_dir()


def test_doctor_names_a_shim_that_the_agent_has_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "TRIAL_TIMEOUT", 0.0)
    check = asyncio.run(confined.await_shim(asyncio.Event(), Place(program=Path("bwrap"), mounts=())))
    what = "the agent has not opened acp-launch-trial, a shim that it was offered in its place, within 0 s"
    assert (check.verdict, check.subject, check.text) == ("warning", "confined", what)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose bubblewrap may make no namespaces; its settings lie in the directory."""
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(confined, "KERNEL", tmp_path)
    monkeypatch.setattr(confined, "PLATFORM", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name, _, _, _ in confined.OBSTACLES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    return tmp_path


@pytest.mark.parametrize(
    ("setting", "value", "why", "fix"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", ": AppArmor denies it", "apparmor_parser -r "),
        ("kernel/unprivileged_userns_clone", "0", ": the kernel denies it to users", "sysctl -w kernel.unpriv"),
        ("user/max_user_namespaces", "0", ": the kernel allows no user namespace", "sysctl -w user.max_user"),
        ("kernel/unknown", "0", "", confined.ELSEWHERE),
    ],
)
def test_doctor_says_what_keeps_bubblewrap_from_its_namespaces_and_what_changes_it(
    broken: Path, setting: str, value: str, why: str, fix: str
) -> None:
    (broken / setting).write_text(f"{value}\n")
    check = confined.probe(is_needed=True)
    assert (check.verdict, check.code) == ("problem", 3)
    said = "setting up uid map: Permission denied"
    assert check.text == f"not possible: bubblewrap cannot make namespaces{why} ({said})"
    assert fix in check.fix
    assert confined.probe().verdict == "ok"  # of a machine on which nothing asks for it


def test_doctor_says_that_confinement_needs_bubblewrap_and_linux(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (broken / "bin" / "bwrap").unlink()
    check = confined.probe(is_needed=True)
    assert (check.text, check.fix) == ("not possible: bubblewrap is not installed", INSTALL)
    monkeypatch.setattr(confined, "PLATFORM", "darwin")
    assert confined.probe().text == "not possible: it needs Linux"


# The agent's own login runs in its place, too, on a terminal that is not the user's.


def offer_login(launch: Launcher, *ways: str) -> Path:
    """A confined agent wants a login; return the file that is there once it is logged in."""
    store = launch.project / "account"
    launch.profile("login", str(store), *ways, runtime={"confined": True})
    return store


def at_terminal(launch: Launcher, *arguments: str) -> AbstractContextManager[Terminal]:
    return on_terminal(*arguments, cwd=launch.project, env={**launch.env, "TERM": "dumb"})


@needs_bubblewrap
def test_a_confined_agent_logs_in_inside_and_is_started_again(launch: Launcher) -> None:
    store = offer_login(launch, "terminal")
    with at_terminal(launch, "login", "p") as terminal:
        terminal.until("ask, new: ")
        terminal.types("please\n")
        assert terminal.ends() == 0, terminal.text
    assert terminal.text.endswith('logged in to test-agent with "Terminal"\n▐     to use it: acp-launch run p\n')
    assert store.exists()


@needs_bubblewrap
def test_a_login_inside_has_a_terminal_of_ours_with_the_size_of_the_users(launch: Launcher) -> None:
    offer_login(launch, "terminal:look")
    with at_terminal(launch, "login", "p") as terminal:
        terminal.resizes(91, 17)
        before = terminal.modes()
        terminal.until("91 x 17, in front: True\n")
        (number,) = re.findall(r"terminal (\d+), 91 x 17", terminal.text)
        assert int(number) != terminal.number
        terminal.resizes(40, 10)
        terminal.until("40 x 10, in front: True\n")
        terminal.types(CTRL_C)
        terminal.until("failed: ")
        assert terminal.ends() == 6
        assert before[:4] == terminal.modes()[:4]


@needs_bubblewrap
def test_a_login_inside_that_fails_leaves_the_terminal_as_it_was(launch: Launcher) -> None:
    store = offer_login(launch, "terminal:raw")
    with at_terminal(launch, "login", "p") as terminal:
        terminal.until("another way: acp-launch login p\n")
        assert terminal.ends() == 6
    assert "\r\n▐     fix: try again".encode() in terminal.raw, "line ends are made by the terminal again"
    assert f'the login "Terminal" failed: {Path(sys.executable).name} was killed by SIGKILL\n' in terminal.text
    assert not store.exists()


@needs_bubblewrap
def test_a_signal_ends_a_login_inside_and_all_of_it(launch: Launcher) -> None:
    offer_login(launch, "terminal:wait")
    with at_terminal(launch, "login", "p") as terminal:
        terminal.until("wait, new: ")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ends() == 143
    assert terminal.text.endswith("acp-launch: stopped\n")


@needs_bubblewrap
def test_a_login_command_of_the_agents_choosing_runs_inside(launch: Launcher) -> None:
    """What it makes outside of what the agent may write is gone with its place."""
    outside = launch.project.parent / "outside"
    launch.profile("login", str(outside), "legacy", runtime={"confined": True})
    with at_terminal(launch, "login", "p") as terminal:
        terminal.until("[n] No")
        terminal.types("y")
        assert terminal.ends() == 0, terminal.text
    assert not outside.exists()
