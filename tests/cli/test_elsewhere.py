"""Ring 3. Verbs that take a profile, with an agent in a container and with one on another machine, both in small."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.cli.launcher import DEMO_SERVER, ROOT, Ended, Launcher
from tests.process.engines import small_engine
from tests.process.liveness import liveness

AGENTS = ROOT / "tests" / "agents"
KINDS = ("container", "ssh")


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
