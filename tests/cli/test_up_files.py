"""A prompt to a host compares the files of the profile; it neither parses nor resolves them again (docs/up.md)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.hosted import Host, up
from tests.cli.launcher import Launcher, trusting
from tests.patience import PATIENCE

CHANGED = "p has changed since it was started, so its host is not used"


def plan_of(host: Host) -> object:
    """What the host says to its fronts of its plan."""
    return host.note["plan"]


def extending(launch: Launcher, base: str = "base") -> Path:
    """A profile that has its agent from another one of the project."""
    file = launch.profile("polite", name="base")
    launch.write({"extends": base})
    return file


def reword(file: Path) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()), indent=7) + "\n# another notation\n")


def test_a_file_in_another_notation_is_the_same_content(launch: Launcher) -> None:
    file = launch.profile("polite")
    with up(launch) as host:
        reword(file)
        assert host.run("hi").out == b"You said: hi\n"


def test_each_file_of_the_profile_counts(launch: Launcher) -> None:
    base = extending(launch)
    overlay = base.with_name("p.local.yml")
    with up(launch) as host:
        assert plan_of(host)
        assert host.run("hi").err == ""
        overlay.write_text("description: mine\n")
        assert CHANGED in launch.forked("run", "p", "hi").err
        overlay.unlink()
        assert host.run("hi").err == ""
        base.write_text(base.read_text().replace('"-S"', '"-S", "-B"'))
        assert CHANGED in launch.forked("run", "p", "hi").err


def test_a_base_that_is_nearer_than_the_one_that_was_read_counts(launch: Launcher) -> None:
    """The base is the user's own until the project has one of its name."""
    users = launch.config / "profiles"
    users.mkdir(parents=True, exist_ok=True)
    extending(launch).rename(users / "base.yaml")
    with up(launch) as host:
        assert plan_of(host)
        assert host.run("hi").err == ""
        launch.profile("polite", "other", name="base")
        assert CHANGED in launch.forked("run", "p", "hi").err


def test_a_nearer_profile_of_the_name_is_another_one(launch: Launcher) -> None:
    file = launch.profile("polite")
    below = launch.project / "below"
    (below / ".acp-launch").mkdir(parents=True)
    with up(launch) as host:
        assert host.run("hi").code == 0
        near = below / ".acp-launch" / "p.yaml"
        near.write_text(file.read_text())
        assert host.run("hi").code == 0
        assert launch.forked("run", str(near), "hi").methods == ["initialize", "session/new", "session/prompt"]


def test_a_directory_from_the_environment_is_looked_up_by_each_run(launch: Launcher) -> None:
    launch.profile("polite", workspace={"cwd": "${env:WHERE}"})
    other = launch.project / "other"
    other.mkdir()
    here = str(launch.project)
    with up(Launcher(launch.project, launch.env | {"WHERE": here})) as host:
        assert plan_of(host) is None
        assert launch.forked("run", "p", "hi", WHERE=here).heard == []
        assert "works in" in launch.forked("run", "p", "hi", WHERE=str(other)).err


def test_a_directory_in_the_profile_is_that_of_each_run(launch: Launcher) -> None:
    inner = launch.project / "inner"
    inner.mkdir()
    launch.profile("polite", workspace={"cwd": "${project}/inner"})
    with up(launch) as host:
        assert plan_of(host)
        assert host.run("hi").err == ""
        assert host.run("hi", "--cwd", "inner").err == ""
        elsewhere = launch.forked("run", "p", "hi", "--cwd", ".")
        assert f"the host of p works in {inner}, so it is not used" in elsewhere.err
        inner.rmdir()
        gone = launch.forked("run", "p", "hi")
        assert (gone.code, gone.heard) == (3, [])
        assert "does not exist" in gone.err


def test_what_an_option_of_the_profile_lacks_is_said_at_its_line(launch: Launcher) -> None:
    launch.profile("polite", session={"mode": "none", "config": {"model": "none"}})
    alone = launch.forked("run", "p", "hi")
    with up(launch) as host:
        assert plan_of(host)
        done = host.run("hi")
        assert (done.code, done.err) == (alone.code, alone.err)
    assert ".acp-launch/p.yaml:" in alone.err


def test_a_session_of_the_profile_is_that_of_its_fronts(launch: Launcher) -> None:
    launch.profile("polite", session={"name": "work"})
    with up(launch) as host:
        host.run("hi")
        host.run("hi", "-s", "other")
        assert [each.name for each in host.status.sessions] == ["work", "other"]
        wrong = launch.forked("run", "p", "hi", "-s", "a\tb")
        assert wrong.code == 2


def test_after_a_reload_its_files_are_compared_with_those_of_now(launch: Launcher) -> None:
    server = {"command": "true", "required": False}
    file = launch.profile("polite", mcp_servers={"one": server})
    with up(launch) as host:
        file.write_text(file.read_text().replace('"true"', '"false"'))
        assert launch.forked("trust", "p", "--yes").code == 0
        assert launch.forked("reload", "p").code == 0
        assert "has changed" not in host.run("hi").err
        assert plan_of(host)


def test_prompts_are_read_where_the_command_is_typed(launch: Launcher) -> None:
    launch.profile("polite")
    (launch.project / "prompt").write_text("from a file, ünïcode")
    with up(launch) as host:
        assert host.run(stdin=b"piped").out == b"You said: piped\n"
        assert host.run("-f", "prompt").out.decode() == "You said: from a file, ünïcode\n"
        assert host.run("-f", "none").code == 2


IMPORTED = (
    "import sys; sys.argv = ['acp-launch', *sys.argv[1:]]\n"
    "from acp_launch import shutdown; shutdown.finish = lambda code: None\n"
    "from acp_launch.__main__ import main\n"
    "try: main()\n"
    "except SystemExit: pass\n"
    "print('MODULES', *sys.modules)"
)
# Of the packages that a launch of its own is made with: names and values only.
NEEDED = {
    "bridge.offer",
    "bridge.shim",
    "profile.agents",
    "plan.model",
    "process.lifecycle",
    "process.node",
    "profile.discover",
    "profile.model",
    "profile.values",
}
UNNEEDED = (
    "plan",
    "process",
    "profile",
    "bridge",
    "mcp",
    "oauth",
    "registry",
    "checks",
    "interop",
    "trace",
    "interactive",
)
MOST = 92  # modules of ours, of 0.3 ms each
HEAVY = {"typer", "pydantic", "ruamel.yaml", "keyring", "psutil", "rich", "dataclasses", "tempfile", "sqlite3", "ssl"}


def imported(*words: str, launch: Launcher | None = None) -> set[str]:
    """The modules that a command, or a bare event loop, has imported in the end."""
    how = [IMPORTED, *trusting(words)] if launch else ["import asyncio, sys; print('MODULES', *sys.modules)"]
    env, cwd = (launch.env, launch.project) if launch else (None, None)
    ended = subprocess.run(
        [sys.executable, "-c", *how], env=env, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return set(ended.stdout.split("MODULES ", 1)[1].split())


@pytest.mark.parametrize(
    ("more", "besides"),
    [((), set()), (("-s", "work", "-o", "json"), {"sqlite3"})],
    ids=["new", "named"],
)
def test_a_front_imports_nothing_that_makes_a_launch(
    launch: Launcher, more: tuple[str, ...], besides: set[str]
) -> None:
    """docs/internals.md "A host": it compares files, connects and asks."""
    launch.profile("replayer")
    with up(launch):
        found = imported("run", "p", "hi", *more, launch=launch)
    ours = {name.removeprefix("acp_launch.") for name in found if name.startswith("acp_launch.")}
    assert {name for name in ours - NEEDED if name.startswith(tuple(f"{each}." for each in UNNEEDED))} == set()
    assert len(ours) <= MOST
    assert (HEAVY & found) - imported() == besides
