"""Plain lines: a dumb terminal, and a terminal to type on while stdout is a pipe."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interactive.screen import DRIVERS, Terminal, driver, on_screen

ENTER, ESCAPE, CTRL_C, CTRL_D = "\n", "\x1b", "\x03", "\x04"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with driver("story", str(tmp_path / "history"), env={"TERM": "dumb"}) as terminal:
        terminal.until(">")
        yield terminal
        assert "\x1b" not in terminal.raw.decode()


def test_a_line_is_a_prompt_and_one_that_ends_with_a_backslash_goes_on(terminal: Terminal) -> None:
    terminal.types(f"say hello{ENTER}", until="said hello")
    terminal.types(f"one\\{ENTER}two{ENTER}", until="submitted 2 lines 7 characters: one ... two")
    terminal.types(f"quit{ENTER}")
    assert terminal.ends() == 0
    assert terminal.all[-2:] == ["the end", "threads 1"]


def test_it_invites_whenever_it_is_ready_again(terminal: Terminal) -> None:
    terminal.types(f"mood working{ENTER}mood idle{ENTER}")
    terminal.until_it(lambda: terminal.shown.endswith("mood idle\n>"), "an invitation")
    terminal.types(ENTER)
    terminal.until_it(lambda: terminal.shown.endswith("mood idle\n>\n>"), "another one")
    terminal.types(f"mood idle{ENTER}")
    terminal.until_it(lambda: terminal.shown.endswith("> mood idle\n>"), "one for every entry")


def test_a_question_is_answered_by_one_key_as_on_any_terminal(terminal: Terminal) -> None:
    terminal.types(f"choose{ENTER}", until="[n] Reject")
    assert terminal.shown.splitlines() == [
        *("> choose", "", "▐ It wants to remove x", "▐ Allow it?"),
        "▐ [y] Allow once  [a] Allow always  [n] Reject",
    ]
    terminal.types("A", until="chosen a")
    assert "▐ Allow it? Allow always" in terminal.shown
    terminal.types(f"say and on{ENTER}")  # by lines again
    terminal.until("said and on")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("typed", "key"), [("n\n", "n"), ("Y", "y"), ("yes\n", "y"), (CTRL_D, "None"), (ESCAPE, "None")]
)
def test_a_question_takes_a_line_too_and_is_dismissed_as_anywhere(terminal: Terminal, typed: str, key: str) -> None:
    terminal.types(f"choose{ENTER}", until="[n] Reject")
    terminal.types(typed, until=f"chosen {key}")


def test_what_was_typed_before_a_question_is_no_answer(terminal: Terminal, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    terminal.types(f"deaf {pipe}{ENTER}")
    with pipe.open("wb"):
        terminal.types(f"y{ENTER}")
        terminal.until_it(lambda: terminal.shown.splitlines()[-1] == "y", "the echo")
    terminal.until("[n] Reject")
    terminal.types("n", until="chosen n")


def test_a_line_is_asked_for_with_its_default(terminal: Terminal) -> None:
    terminal.types(f"line Bob{ENTER}", until="Your name? [Bob]")
    terminal.types(ENTER, until="named Bob")


def test_the_end_of_input_leaves(terminal: Terminal) -> None:
    terminal.types(CTRL_D)
    assert terminal.ends() == 0
    assert terminal.all[1:] == ["Left", "the end", "threads 1"]


def test_a_program_may_have_the_terminal(terminal: Terminal) -> None:
    terminal.types(f"child{ENTER}", until="child: tty True")
    terminal.types(f"words{ENTER}", until="child ended 0")
    terminal.types(f"say back{ENTER}", until="said back")


def test_what_waits_and_what_was_not_sent_is_said(terminal: Terminal) -> None:
    terminal.types(f"queue one{ENTER}offer the old prompt{ENTER}", until="queued: one")
    terminal.until("not sent:\nthe old prompt")


def test_with_stdout_in_a_pipe_only_what_is_said_goes_there(tmp_path: Path) -> None:
    said = tmp_path / "said"
    program = f'exec "$0" "$1" "$2" > {said}'
    story = [sys.executable, str(DRIVERS / "story.py"), str(tmp_path / "history")]
    with on_screen("sh", "-c", program, *story) as terminal:
        terminal.until(">")
        terminal.types(f"choose{ENTER}", until="[y] Allow once")
        terminal.types("y", until="Allow it? Allow once")
        terminal.types(f"say x{ENTER}quit{ENTER}")
        assert terminal.ends() == 0
    assert said.read_text().splitlines() == ["chosen y", "said x", "the end", "threads 1"]


def test_a_terminal_that_goes_away_leaves(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    with driver("orphan", str(tmp_path / "history"), str(ended), env={"TERM": "dumb"}) as terminal:
        terminal.until(">")
        terminal.hang_up()
        assert terminal.process.wait(20) == 0
    assert ended.read_text() == "Left"


def test_a_signal_ends_it(terminal: Terminal) -> None:
    os.kill(terminal.process.pid, signal.SIGTERM)
    assert terminal.ends() == 0
    terminal.until("cancelled")
