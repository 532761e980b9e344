"""Ring 3. What cannot be done raises what the command line says (docs/api.md "Errors")."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import acp_launch
from acp_launch import LaunchError, errors
from acp_launch.session.events import AnyEvent, encode
from tests.cli.launcher import Launcher
from tests.cli.test_run_secrets import CANARIES, blabber, planted, seen

__all__ = ["planted"]  # a fixture
SECRET = {"agent": {"command": "true", "env": {"KEY": "${secret:absent}"}}}
PROFILES = {
    "unknown": (None, errors.UsageError),
    "lacking": (SECRET, errors.MachineError),
    "dying": (
        {"agent": {"command": sys.executable, "args": ["-c", "raise SystemExit('last words')"]}},
        errors.AgentError,
    ),
    "server": (
        {
            "agent": {"command": sys.executable, "args": ["-I", "-m", "acp_launch.demo.agent"]},
            "mcp_servers": {"x": {"command": "false"}},
        },
        errors.ServerError,
    ),
}


@pytest.mark.parametrize("name", PROFILES)
def test_an_error_is_that_of_the_command_line(launch: Launcher, name: str) -> None:
    profile, kind = PROFILES[name]
    if profile is not None:
        launch.write(profile)
    with pytest.raises(LaunchError) as raised:
        acp_launch.run("p", "hi", cwd=launch.project, trust=True)
    done = launch("run", "p", "hi", "-o", "json")
    told = done.events[-1]
    error = raised.value
    assert (type(error), error.exit_code) == (kind, done.code)
    assert [problem.as_json() for problem in error.problems] == told["problems"]
    if not error.problems:
        assert (error.message, error.fix, list(error.detail)) == (told["message"], told["fix"], told["detail"])
    for problem in error.problems:
        assert str(problem) in str(error)


def test_a_profile_that_is_not_trusted_starts_nothing_and_says_what_it_would_run(launch: Launcher) -> None:
    launch.profile("polite")
    notes: list[str] = []
    with pytest.raises(errors.NotTrusted) as refused:
        acp_launch.run("p", "hi", cwd=launch.project, on_event=lambda event: notes.append(getattr(event, "text", "")))
    assert (refused.value.exit_code, "acp-launch trust p" in refused.value.fix) == (7, True)
    assert any("polite.py" in note for note in notes)


def test_what_is_no_launch_is_refused_before_anything_starts(launch: Launcher, tmp_path: Path) -> None:
    for profile, options in (("demo", {"agent": "true"}), (None, {}), ("demo", {"cwd": tmp_path / "no"})):
        with pytest.raises(errors.UsageError):
            acp_launch.run(profile, "hi", **options)
    with pytest.raises(TypeError, match="on_permision"):
        acp_launch.run("demo", "hi", on_permision=print)  # type: ignore[call-arg]
    with pytest.raises(errors.UsageError, match="approve"):
        acp_launch.run("demo", "hi", cwd=launch.project, approve="some")  # type: ignore[arg-type]
    for timeouts in ({"initialise": 1.0}, {"silence": 0.0}, {"silence": float("nan")}):
        with pytest.raises(errors.UsageError, match="timeouts"):
            acp_launch.run("demo", "hi", cwd=launch.project, timeouts=timeouts)
    with pytest.raises(errors.UsageError, match="confined"):
        acp_launch.run("demo", "hi", cwd=launch.project, confined=True)
    with pytest.raises(errors.UsageError, match="null"):
        acp_launch.run("demo", "hi", cwd="a\0b")
    with pytest.raises(errors.UsageError, match="option=value"):
        acp_launch.run("demo", "hi", cwd=launch.project, options={"": "x"})
    with pytest.raises(errors.UsageError, match="empty"):
        acp_launch.run("demo", " ", cwd=launch.project)
    with pytest.raises(errors.UsageError):
        acp_launch.run("demo", "hi", cwd=launch.project, session="a\nb")


def test_a_profile_is_loaded_with_all_its_problems(launch: Launcher) -> None:
    launch.profile("polite", mcp_servers={"one": {"command": "true"}})
    profile = acp_launch.load_profile("p", cwd=launch.project)
    assert list(profile.mcp_servers) == ["one"]
    file = launch.write({"agent": {"command": 1}, "sesion": {}})
    for name in ("p", file):
        with pytest.raises(errors.ProfileError) as wrong:
            acp_launch.load_profile(name, cwd=launch.project)
        told = launch("run", "p", "hi", "-o", "json").events[-1]["problems"]
        assert len(told) > 1
        assert [{**each.as_json(), "file": ".acp-launch/p.yaml"} for each in wrong.value.problems] == told
        assert all(each.file.endswith(".acp-launch/p.yaml") for each in wrong.value.problems)


def test_no_secret_is_in_an_event_an_error_or_a_repr(planted: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT_OF_TWO", planted.env["PORT_OF_TWO"])
    heard: list[str] = []
    for arguments in ((), ("fail",), ("die",), ("ask",)):
        blabber(planted, *arguments)
        try:
            heard.append(repr(acp_launch.run("p", "hi", cwd=planted.project, trust=True, on_event=hear(heard))))
        except LaunchError as error:
            heard += [repr(error), str(error), error.fix, *error.detail, repr(error.cause), repr(error.problems)]
    text = "\n".join(heard)
    assert seen(text) == []
    assert "***" in text
    assert CANARIES


def hear(heard: list[str]) -> Callable[[AnyEvent], None]:
    return lambda event: heard.extend((repr(event), encode(event).decode()))
