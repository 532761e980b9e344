"""Ring 3. Verbs that take a profile, with an agent in a container and with one on another machine, both in small."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from acp_launch.protocol.jsonrpc import METHOD_NOT_FOUND
from tests.cli.launcher import DEMO_SERVER, ROOT, Ended, Launcher
from tests.cli.serving import serving
from tests.process.engines import small_engine
from tests.process.liveness import liveness

AGENTS = ROOT / "tests" / "agents"
KINDS = ("container", "ssh")
DEMO = {"args": ["-m", "acp_launch.demo.agent"], "env": {"PYTHONPATH": str(ROOT)}}


class Elsewhere:
    """A place for an agent: `directory` is where a session works there."""

    def __init__(self, launch: Launcher, kind: Literal["container", "ssh"], state: Path) -> None:
        self._launch, self.kind, self.state = launch, kind, state
        self.directory = state if kind == "ssh" else launch.project
        self.words = {"ssh": "on build1", "container": "in the container"}[kind]

    def write(self, temper: str, *arguments: str, **sections: Any) -> None:
        """Write the profile of one of tests/agents that is there."""
        container = {"image": "agents:1", "mounts": [f"{ROOT}/tests:ro"], **sections.pop("container", {})}
        ssh = {"host": "build1", "directory": str(self.state), **sections.pop("ssh", {})}
        runtime = {self.kind: ssh if self.kind == "ssh" else container}
        self._launch.profile(temper, *arguments, **{"runtime": runtime, **sections})

    def cut(self) -> None:
        """From now on no agent can be started there."""
        (self.state / "mode").write_text({"ssh": "asks", "container": "down"}[self.kind])

    def calls(self) -> list[str]:
        file = self.state / "calls"
        return file.read_text().splitlines() if file.exists() else []


@contextmanager
def small_ssh(launch: Launcher, state: Path) -> Iterator[None]:
    state.mkdir()
    program = state / "ssh"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {ROOT}/tests/children/ssh.py {state} "$@"\n')
    program.chmod(0o755)
    yield


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, launch: Launcher, tmp_path: Path) -> Iterator[Elsewhere]:
    state = tmp_path / "there"
    launch.env |= {"PATH": f"{state}:{launch.env['PATH']}", "ENGINE_STATE": str(state)}
    with liveness() as alive:
        having = small_engine(state, alive) if request.param == "container" else small_ssh(launch, state)
        with having:
            yield Elsewhere(launch, request.param, state)


def checks(done: Ended) -> list[tuple[str, str, str]]:
    return [(each["check"], each["subject"], each["standing"]) for each in json.loads(done.out)["checks"]]


def test_doctor_tells_once_that_the_place_cannot_be_reached_and_checks_the_servers(
    launch: Launcher, place: Elsewhere
) -> None:
    place.write("polite", mcp_servers={"one": DEMO_SERVER, "two": DEMO_SERVER})
    place.cut()
    found = checks(launch("doctor", "p", "--json"))
    problems = [each[:2] for each in found if each[2] == "problem"]
    assert problems == [("container", "agent") if place.kind == "container" else ("agent", "")], found
    assert [each for each in found if each[0] == "server"] == [("server", "one", "ok"), ("server", "two", "ok")]


@pytest.mark.parametrize(
    ("command", "container", "home", "said"),
    [
        ("", {}, None, "this login ends with the container: name what holds it in runtime.container.mounts"),
        ("", {"mounts": ["KEPT", f"{ROOT}/tests:ro"]}, None, ""),
        ("claude-agent-acp", {"mounts": ["KEPT", f"{ROOT}/tests:ro"]}, "HOME", "which does not show HOME/.claude: "),
        ("claude-agent-acp", {"mounts": ["HOME/.claude", f"{ROOT}/tests:ro"]}, "HOME", ""),
    ],
)
def test_a_login_that_a_container_takes_along_is_told(
    launch: Launcher, place: Elsewhere, tmp_path: Path, command: str, container: Any, home: str | None, said: str
) -> None:
    """One on another machine stays there."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "home" / ".claude").mkdir(parents=True)

    def fill(text: str) -> str:
        return text.replace("KEPT", str(tmp_path / "kept")).replace("HOME", str(tmp_path / "home"))

    agent: dict[str, Any] = {"env": {"HOME": str(tmp_path / "home")}} if home else {}
    if command:
        program = tmp_path / "kept" / command
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        program.chmod(0o755)
        agent["command"] = str(program)
    container = {key: [*map(fill, value)] for key, value in container.items()}
    place.write("login", str(tmp_path / "kept" / "store"), "agent", agent=agent, container=container)
    done = launch("login", "p")
    assert done.code == 0 and 'logged in to test-agent with "Browser"' in done.err
    if place.kind == "container" and said:
        assert fill(said) in done.err
    else:
        assert "ends with" not in done.err


def test_an_editor_has_its_own_directory_and_the_agent_the_one_there(launch: Launcher, place: Elsewhere) -> None:
    """And no request of the agent about a file, or a command, reaches the machine of the editor."""
    place.write("demo", agent=DEMO)
    with serving(launch, apart=True) as editor:
        editor.begin()
        session = editor.open()
        editor.prompt(session, "echo one")
        for asked in ({"cwd": str(launch.project)}, {}):
            (listed,) = editor.request("session/list", asked)["result"]["sessions"]
            assert (listed["sessionId"], listed["cwd"]) == (session, str(launch.project))
        editor.request("session/close", {"sessionId": session})
        loaded = editor.request("session/load", {"sessionId": session, **editor.place()})
        assert "result" in loaded, loaded


ASKS = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.agents import script
while request := script.read():
    if request["method"] == "initialize":
        script.answer(request, {{"protocolVersion": 1, "agentCapabilities": {{}}}})
        able = request["params"]["clientCapabilities"]
    elif request["method"] == "session/new":
        script.answer(request, {{"sessionId": "s"}})
        cwd = request["params"]["cwd"]
    elif request["method"] == "session/prompt":
        said = [cwd, able["fs"], able["terminal"]]
        for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create"):
            given = {{"sessionId": "s", "path": cwd + "/x", "content": "x", "command": "true"}}
            said.append(script.ask(method, given)["error"]["code"])
        script.say("s", script.json.dumps(said))
        script.answer(request, {{"stopReason": "end_turn"}})
"""


def test_no_file_or_command_of_the_editors_machine_is_for_an_agent_elsewhere(
    launch: Launcher, place: Elsewhere
) -> None:
    file = place.state / "asks.py"
    file.write_text(ASKS)
    place.write("asks", agent={"args": ["-I", "-S", str(file)]})
    with serving(launch, apart=True) as editor:
        editor.begin()
        editor.prompt(editor.open(), "ask")
        no_files = {"readTextFile": False, "writeTextFile": False}
        assert json.loads(editor.said()) == [str(place.directory), no_files, False, *[METHOD_NOT_FOUND] * 3]
        assert not any(map(editor.heard, ("fs/read_text_file", "fs/write_text_file", "terminal/create")))


def test_what_an_agent_elsewhere_said_is_read_here_and_played_again_without_its_place(
    launch: Launcher, place: Elsewhere
) -> None:
    place.write("demo", agent=DEMO, mcp_servers={"sums": DEMO_SERVER})
    trace = launch.project / "t.trace"
    played = launch("run", "p", "add 2 3", "--trace", str(trace))
    assert played.code == 0 and played.out == b"5\n", played.err
    assert b"session/prompt: add 2 3" in launch("trace", str(trace)).out
    assert b"sums ready" in launch("logs", "p").out
    replay = {"command": sys.executable, "args": ["-m", "acp_launch", "replay", str(trace)]}
    over = launch.project / ".acp-launch" / "p.local.yaml"
    over.write_text(json.dumps({"agent": replay, "runtime": None}))
    asked = place.calls()
    again = launch("run", "p", "add 2 3")
    assert again.code == 0 and again.out == b"5\n", again.err
    assert place.calls() == asked
    over.write_text(json.dumps({"agent": {"command": "replay-of-acp-launch", "args": []}}))
    refused = launch("run", "p", "add 2 3")
    assert refused.code == 4 and '"replay-of-acp-launch" is not on PATH' in refused.err
    assert place.words in refused.err, refused.err


def test_a_session_that_ended_with_its_container_is_told_as_that(launch: Launcher, place: Elsewhere) -> None:
    place.write("polite", "load")
    assert launch("run", "p", "hi", "--session", "s").code == 0
    place.write("forgetful")
    forgotten = launch("run", "p", "hi", "--session", "s")
    assert forgotten.code == 3 and 'the agent has forgotten the session "s"' in forgotten.err
    cure = "--session s --new; it keeps only what lies in runtime.container.mounts\n"
    assert (cure in forgotten.err) == (place.kind == "container"), forgotten.err
