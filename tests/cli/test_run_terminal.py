"""Ring 3. What a person at a terminal sees and types (the demo agent, a real pty)."""

import os
from pathlib import Path

import pytest

from acp_launch.session.client import GRACE_SECONDS
from acp_launch.waits import seconds
from tests.cli.terminal import Terminal, on_terminal

CTRL_C = "\x03"
CTRL_D = "\x04"


@pytest.fixture
def env() -> dict[str, str]:
    return {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}


def asked(terminal: Terminal) -> None:
    terminal.until("The agent asks for permission: Note: buy milk")
    terminal.until("Allow it?")
    terminal.until("[y] Allow once")


@pytest.mark.promise("permission")
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("y\n", "Noted: buy milk"),
        (CTRL_D, "I did not do it: permission was refused."),
    ],
)
def test_a_person_is_asked_and_the_answer_counts(tmp_path: Path, env: dict[str, str], typed: str, said: str) -> None:
    with on_terminal("run", "demo", "note buy milk", cwd=tmp_path, env=env) as terminal:
        asked(terminal)
        terminal.types(typed)
        assert terminal.ends() == 0
    assert said in terminal.text
    assert "▐ Allow it? " in terminal.text and "(you)" not in terminal.text, "the answer stands below its question"


def test_ctrl_c_cancels_the_turn_and_leaves_the_terminal_whole(tmp_path: Path, env: dict[str, str]) -> None:
    with on_terminal("run", "demo", "count 10000", cwd=tmp_path, env=env) as terminal:
        terminal.until("1 2 3")
        terminal.types(CTRL_C)
        assert terminal.ends() == 130
    assert f"acp-launch: cancelling the turn (timeout {seconds(GRACE_SECONDS)}); Ctrl-C stops at once" in terminal.text
    assert terminal.text.count("acp-launch: cancelled") == 1
    shown, hidden = terminal.raw.rfind(b"\x1b[?25h"), terminal.raw.rfind(b"\x1b[?25l")
    assert shown > hidden, "the cursor is visible again"


def test_a_limit_for_the_run_needs_a_prompt_and_one_for_a_wait_does_not(tmp_path: Path, env: dict[str, str]) -> None:
    with on_terminal("run", "demo", "--timeout", "2m", cwd=tmp_path, env=env) as terminal:
        assert terminal.ends() == 2
    assert "acp-launch: --timeout needs a prompt" in terminal.text
    with on_terminal("run", "demo", "--timeout", "silence=2m", cwd=tmp_path, env=env | {"TERM": "dumb"}) as terminal:
        terminal.until("> ")
        terminal.types(CTRL_D)
        assert terminal.ends() == 0
