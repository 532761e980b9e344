"""What is shown of an agent's stderr while it runs, and what others get of its environment."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acp_launch.app.start import stderr_log, visible_env
from acp_launch.plan.resolve import resolve
from acp_launch.profile.discover import Found
from acp_launch.profile.load import load


def test_a_character_that_is_cut_between_two_chunks_is_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: Any = SimpleNamespace(state=tmp_path)
    plan: Any = SimpleNamespace(profile="p", project=tmp_path)
    with stderr_log(settings, plan, echo=True) as log:
        for chunk in (b"caf\xc3", b"\xa9, \xff", b" \xe2\x98"):
            log(chunk)
    assert capsys.readouterr().err == "caf\u00e9, \ufffd \ufffd"
    [file] = (tmp_path / "log").iterdir()
    assert file.read_bytes() == b"caf\xc3\xa9, \xff \xe2\x98"


def test_what_is_shown_of_it_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines, tabs and words stay; colours go, and every other control is made visible. The file has it as it came."""
    settings: Any = SimpleNamespace(state=tmp_path)
    plan: Any = SimpleNamespace(profile="p", project=tmp_path)
    said = "\x1b[1;31mred\x1b[0m\ttab\n\x1b]52;c;eA==\x07\x1b]0;title\x07\x1b[2J\u202eolleh\x9b2J\n".encode()
    with stderr_log(settings, plan, echo=True) as log:
        log(said)
    shown = "red\ttab\n\\x1b]52;c;eA==\\x07\\x1b]0;title\\x07\\x1b[2J\\u202eolleh\\x9b2J\n"
    assert capsys.readouterr().err == shown
    [file] = (tmp_path / "log").iterdir()
    assert file.read_bytes() == said


def test_commands_that_run_for_the_agent_may_import_from_the_project(tmp_path: Path) -> None:
    """The agent itself may not, in a profile of one's own; its secrets are its own as well."""
    file = tmp_path / "p.yaml"
    env = '{TOKEN: "${secret:t}", A: b}'
    file.write_text(f"version: 1\nagent: {{command: '${{python}}', args: [-m, x], inherit_env: [], env: {env}}}\n")
    made = resolve(load(Found("p", file, tmp_path, "user")), cwd=tmp_path, environ={})
    assert made.plan is not None
    assert sorted(made.plan.agent.env) == ["A", "PYTHONSAFEPATH", "TOKEN"]
    assert visible_env(made.plan) == {"A": "b"}
