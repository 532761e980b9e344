"""What is offered at the tab key, asked as fish asks, where a candidate and its description are one line."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from acp_launch.cli import app
from acp_launch.cli.completion import SOURCES, offer
from acp_launch.session.store import Record, Registry, open_registry
from tests.cli.launcher import Launcher
from tests.cli.verbs import commands
from tests.patience import PATIENCE
from tests.test_architecture import HEAVY, loaded

HOSTILE = [
    *("\x1b]0;owned\x07", "two\nlines", "tab\there", "‮desrever", "-rf", " ", "x" * 201),
    *("my prof", "it's", "$(touch pwned)", "`touch pwned`", "back\\slash", "st*r", "semi;colon", "am&p", "[b]", "~t"),
]


@pytest.fixture
def project(launch: Launcher) -> Launcher:
    """A repository of its own, in which `p` has servers and one session."""
    (launch.project / ".git").mkdir()
    launch.write({"agent": {"command": "x"}, "mcp_servers": {"git": {"command": "g"}}})
    with open_registry(launch.state) as registry:
        for name, profile in (("fix-42", "p"), ("other", "q")):
            save(registry, launch.project, profile=profile, name=name)
    return launch


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key press is given up after 2 s, which a busy machine may need."""
    monkeypatch.setattr(app, "COMPLETION_TIMEOUT", 60.0)


def save(registry: Registry, project: Path, **of: str) -> None:
    about = dict.fromkeys(("session_id", "agent_name", "agent_version", "agent_command", "cwd"), "x")
    texts = {"project": str(project), "title": "A title", **about, **of}
    registry.save(convert({**texts, "created": 1.0, "last_used": 2.0}, Record))


def press(typed: str) -> dict[str, Any]:
    """The environment in which fish asks about a line."""
    line = {"_TYPER_COMPLETE_ARGS": f"acp-launch {typed}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return {"_ACP_LAUNCH_COMPLETE": "complete_fish", **line}


def asked(launch: Launcher, typed: str) -> list[str]:
    """The whole answer; nothing is said besides."""
    ended = launch.within(**press(typed))
    assert (ended.code, ended.err) == (0, "")
    return ended.out.decode().splitlines()


def names(answer: Sequence[str]) -> list[str]:
    return [line.partition("\t")[0] for line in answer if line]


def files(directory: Path) -> dict[Path, tuple[int, bytes]]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def test_every_parameter_that_names_something_offers_candidates() -> None:
    """Else a completion would be silently missing."""
    things = {"PROFILE", "SESSION", "SERVER"}
    for name, command in commands().items():
        offer(command, name)
        for each in command.params:
            names_one = things & set(re.findall("[A-Z]+", str(getattr(each, "metavar", ""))))
            assert not names_one or "shell_complete" in vars(each), f"{name} {each.name}"


def test_every_source_belongs_to_a_verb() -> None:
    verbs = {word for name in commands() for word in (name, name.partition(" ")[0])}
    assert {re.sub("( ?[A-Z|]+)+$", "", key) for key in SOURCES} <= verbs


def test_verbs_options_and_choices_are_offered_with_what_they_do(project: Launcher) -> None:
    assert asked(project, "session re") == ["rename\tRename a session."]
    assert asked(project, "va")[0].startswith("validate\tCheck profiles: ")
    assert names(asked(project, "")) == [name for name in commands() if name and " " not in name]
    assert asked(project, "run --no-") == ["--no-replay\tResume without showing the history."]
    assert asked(project, "run --approve ") == ["all", "reads", "none"]
    assert asked(project, "completion ") == ["bash", "zsh", "fish"]
    assert "--new" not in names(asked(project, "run --new -"))
    another = project("completion", "csh")
    assert (another.code, "'csh' is not one of 'bash', 'zsh', 'fish'" in another.err) == (2, True)


@pytest.mark.promise("first steps")
def test_profiles_are_offered_nearest_first_and_the_sessions_of_the_profile(project: Launcher) -> None:
    answer = asked(project, "run ")
    assert (answer[0], "demo" in answer) == ("p", True)
    assert asked(project, "run p ") == [""]
    assert asked(project, "run p --session ") == ["fix-42"]
    assert asked(project, "session show ") == ["fix-42", "other"]


def test_a_session_that_is_being_written_is_seen_and_nothing_is_written(project: Launcher) -> None:
    """SQLite keeps the latest in a log beside the store, and its index in shared memory, while somebody has it open."""
    state = project.state
    with open_registry(state) as registry:
        save(registry, project.project, profile="p", name="just-now")
        before = files(state)
        assert [path.name for path in before if path.name.endswith(("-wal", "-shm"))] != []
        done = project.apart(**press("run p -s "))  # SQLite knows its own process
        assert set(names(done.out.decode().splitlines())) == {"fix-42", "just-now"}
        assert files(state) == before


def test_a_completion_writes_nothing(project: Launcher) -> None:
    places = (project.project.parent, Path(project.env["HOME"]))
    before = [*map(files, places)]
    for typed in ("run ", "run p -s ", "mcp list ", "secret rm "):
        asked(project, typed)
    assert [*map(files, places)] == before


def test_a_damaged_store_is_no_answer(project: Launcher) -> None:
    store = project.state / "sessions" / "sessions.db"
    for content in (b"", b"no database at all" * 100):
        store.write_bytes(content)
        assert asked(project, "run p -s ") == []
        assert store.read_bytes() == content


def test_servers_are_those_of_the_profile_on_the_line_and_of_what_it_extends(project: Launcher) -> None:
    servers = {"git": None, "own": {"command": "o"}}
    project.write({"extends": "p", "agent": {"command": "x"}, "mcp_servers": servers}, name="child")
    assert asked(project, "mcp tools p ") == ["git"]
    assert asked(project, "logs p ") == ["git"]
    assert names(asked(project, "mcp call child ")) == ["own"]


def test_secrets_come_from_the_index(project: Launcher) -> None:
    """No store is asked: the one these settings name would be started, and leave its mark."""
    state, config = project.state, project.config
    mark = project.project / "asked"
    config.mkdir()
    (config / "config.yaml").write_text(f"secrets: {{store: command, command: [touch, {mark}]}}\n")
    (state / "secrets.json").write_text(
        json.dumps({"version": 1, "stores": {"keyring": {"github": 1.0, "docs": None}}})
    )
    assert asked(project, "secret rm docs ") == ["github"]
    assert not mark.exists()


def test_a_name_that_means_more_to_a_terminal_or_a_shell_is_left_out(project: Launcher) -> None:
    """So is one that is no text."""
    for name in (*map(os.fsencode, HOSTILE), b"\xff"):
        with open(os.fsencode(project.project) + b"/.acp-launch/" + name + b".yaml", "wb") as file:  # noqa: PTH123
            file.write(b"version: 1\n")
    assert names(asked(project, "run ")) == ["p", "claude", "codex", "demo", "gemini", "opencode"]


def test_a_pipe_and_a_directory_among_the_profiles_do_not_block(project: Launcher) -> None:
    holder = project.project / ".acp-launch"
    os.mkfifo(holder / "pipe.yaml")
    (holder / "directory.yaml").mkdir()
    assert names(asked(project, "run "))[0] == "p"
    assert asked(project, "mcp tools ./.acp-launch/pipe.yaml ") == [""]


def test_the_number_of_candidates_is_limited(project: Launcher) -> None:
    for number in range(600):
        (project.project / ".acp-launch" / f"n{number}.yaml").touch()
    assert len(names(asked(project, "run "))) == 500


def test_a_disk_that_does_not_answer_is_given_up() -> None:
    """Reading a pipe that stays open and empty stands for it."""
    code = (
        "import os\n"
        "from acp_launch.__main__ import main\n"
        "from acp_launch.cli import app, completion\n"
        "ours, theirs = os.pipe()\n"
        "completion.SOURCES['PROFILE PROMPT'] = lambda context, settings: os.read(ours, 1)\n"
        "app.COMPLETION_TIMEOUT = 0.05\n"
        "main()\n"
    )
    env = {**os.environ, **press("run ")}
    ended = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=PATIENCE, check=True)
    assert (ended.stdout, ended.stderr) == (b"", b"")


def test_a_reader_that_is_gone_is_told_nothing(project: Launcher) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        ended = project(out=theirs, **press(""))
    finally:
        os.close(theirs)
    assert (ended.code, ended.err) == (0, "")


def test_a_completion_imports_the_verb_on_the_line_and_no_other() -> None:
    modules = loaded(**press("run de"))
    assert "acp_launch.cli.run" in modules
    assert not {"acp_launch.cli.machine", "acp_launch.cli.mcp", *HEAVY} & (modules - {"msgspec"})
