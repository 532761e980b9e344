"""Stopping and going on, under a shell with job control (drivers/shell.py)."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.interactive.screen import DRIVERS, STATUS, Terminal, framed, on_screen

ENTER, CTRL_Z = "\r", "\x1a"


def shell(history: Path) -> list[str]:
    return [sys.executable, str(DRIVERS / "shell.py"), str(DRIVERS / "story.py"), str(history)]


def job(terminal: Terminal) -> int:
    (child,) = psutil.Process(terminal.process.pid).children()
    return child.pid


def stopped(terminal: Terminal, times: int = 1) -> None:
    terminal.until_it(lambda: terminal.shown.count("stopped") == times and _has_shell(terminal), "a stop")


def goes_on(terminal: Terminal) -> None:
    terminal.types("fg\n")
    terminal.until_it(lambda: _rows(terminal, "$ fg", *framed("my draft")), "what was there before")
    terminal.types(f"\x15say back{ENTER}")
    terminal.until_it(lambda: _rows(terminal, "$ fg", "said back", *framed()), "what was said")


def _has_shell(terminal: Terminal) -> bool:
    """Whether the shell has the cursor; after a stop that was not announced its prompt stands over our rows."""
    return terminal.rows[terminal.cursor[1]].startswith("$")


def _rows(terminal: Terminal, first: str, *others: str) -> bool:
    """The last rows; the first may go on with what the shell has written over."""
    shown = terminal.shown.splitlines()[-len(others) - 1 :]
    return shown[0].startswith(first) and shown[1:] == [*others]


def test_ctrl_z_stops_and_fg_draws_it_anew(tmp_path: Path) -> None:
    with on_screen(*shell(tmp_path / "history")) as terminal:
        for times in (1, 2):
            terminal.until(STATUS)
            terminal.types("my draft", until="❯ my draft")
            terminal.types(CTRL_Z)
            stopped(terminal, times)
            assert "cooked: True" in terminal.shown
            assert STATUS not in terminal.shown, "it leaves nothing behind"
            goes_on(terminal)
        terminal.types(f"quit{ENTER}", until="ended: 0")
        assert terminal.ends() == 0


@pytest.mark.parametrize(("number", "is_cooked"), [(signal.SIGTSTP, True), (signal.SIGSTOP, False)])
def test_after_a_stop_by_a_signal_the_terminal_is_taken_again(tmp_path: Path, number: int, is_cooked: bool) -> None:
    """SIGSTOP is unannounced: the shell has changed the mode of the terminal, and written on it."""
    with on_screen(*shell(tmp_path / "history")) as terminal:
        terminal.until(STATUS)
        terminal.types("my draft", until="❯ my draft")
        os.kill(job(terminal), number)
        stopped(terminal)
        assert f"cooked: {is_cooked}" in terminal.shown
        goes_on(terminal)


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_an_open_question_is_drawn_again_with_what_stands_above_it(tmp_path: Path, number: int) -> None:
    with on_screen(*shell(tmp_path / "history")) as terminal:
        terminal.until(STATUS)
        terminal.types(f"choose{ENTER}", until="[y]")
        above = next(row for row in terminal.rows if "It wants to remove x" in row)
        os.kill(job(terminal), number)
        stopped(terminal)
        terminal.types("fg\n")
        terminal.until_it(lambda: above in terminal.shown.partition("$ fg")[2], "the question")
        terminal.until_it(lambda: "[y]" in terminal.shown.partition("$ fg")[2], "its answers")
