"""Problems on stderr for people, on stdout as JSON for scripts (docs/scripting.md)."""

import json

import pytest

from acp_launch.console.problems import show
from acp_launch.problem import Problem

WRONG = Problem("work.yaml", 7, 7, "agent.command", '"x" is not on PATH', "install it")
ODD = Problem("work.yaml", 9, 1, "", "looks odd", "", "warning")


def shown(problems: list[Problem], capsys: pytest.CaptureFixture[str]) -> str:
    show(problems, as_json=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_people_get_every_problem_and_a_closing_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown([WRONG, ODD, WRONG], capsys) == (
        'work.yaml:7:7: agent.command: "x" is not on PATH\n    fix: install it\n'
        "work.yaml:9:1: warning: looks odd\n"
        'work.yaml:7:7: agent.command: "x" is not on PATH\n    fix: install it\n'
        "2 problems, 1 warning; nothing was started\n"
    )


def test_warnings_alone_stop_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown([ODD], capsys) == "work.yaml:9:1: warning: looks odd\n"


def test_the_outcome_is_the_callers(capsys: pytest.CaptureFixture[str]) -> None:
    show([WRONG], as_json=False, outcome="1 of 3 profiles cannot be used")
    assert capsys.readouterr().err.endswith("\n1 problem; 1 of 3 profiles cannot be used\n")


def test_a_foreign_profile_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = Problem("\x1b[2Jf.yaml", 1, 1, "a.\x1b]0;x\x07", "found \x1b[31m\nfake line", "\x1b[8m")
    assert shown([evil], capsys) == (
        "\\x1b[2Jf.yaml:1:1: a.\\x1b]0;x\\x07: found \\x1b[31m\\nfake line\n    fix: \\x1b[8m\n"
        "1 problem; nothing was started\n"
    )


def test_scripts_get_the_same_as_data_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    show([WRONG], as_json=True)
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out) == {
        "problems": [
            {
                "file": "work.yaml",
                "line": 7,
                "column": 7,
                "path": "agent.command",
                "message": '"x" is not on PATH',
                "fix": "install it",
                "severity": "error",
            }
        ]
    }


def test_colour_is_for_terminals_that_want_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sys.stderr.isatty", lambda: True)
        patched.delenv("NO_COLOR")
        patched.setenv("TERM", "xterm")
        coloured = shown([WRONG], capsys)
        patched.setenv("NO_COLOR", "1")
        plain = shown([WRONG], capsys)
    assert "\x1b[31m" in coloured and "\x1b" not in plain
    assert coloured.replace("\x1b[31m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") == plain
