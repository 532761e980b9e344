"""Ring 3. A program on the user's terminal: a real pty, and a shell with job control."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyte
import pytest

from acp_launch.errors import MachineError
from acp_launch.process.foreground import TIDY, available, foreground
from acp_launch.process.program import LocalProgram
from acp_launch.process.records import read_all
from tests.cli import forkserver
from tests.cli.terminal import Terminal, begun
from tests.patience import PATIENCE

from .launches import bury, gone
from .liveness import CHILDREN, Liveness, program

CTRL_C, CTRL_Z = "\x03", "\x1a"


@pytest.fixture(scope="module", autouse=True)
def fork_server() -> None:
    """It outlives the tests."""
    forkserver.completed(["--version"], env=os.environ, cwd=Path.cwd())


@contextmanager
def on_pty(*argv: str, alive: Liveness, stdout: int | None = None, **env: str) -> Iterator[Terminal]:
    ours, theirs = os.openpty()
    environment = {**os.environ, **alive.env, "TERM": "xterm", **env}
    with begun(argv, theirs, cwd=Path.cwd(), env=environment, stdout=stdout) as process:
        yield Terminal(ours, process)
        process.kill()
        process.wait(PATIENCE)
    os.close(ours)
    bury()


def lender(state: Path, argv: Sequence[str]) -> list[str]:
    return [sys.executable, str(CHILDREN / "lender.py"), str(state), json.dumps(argv)]


def verdict(terminal: Terminal) -> dict[str, Any]:
    """What the lender says in the end; everything the program left is gone by then."""
    assert terminal.ends() == 0
    (line,) = [line for line in terminal.text.splitlines() if line.startswith('{"how"')]
    said: dict[str, Any] = json.loads(line)
    assert said.pop("left") == []
    return said


def well(how: str) -> dict[str, Any]:
    """It ended so, and the terminal is as it was."""
    return {"how": how, "same": True, "in front": True}


@pytest.mark.promise("terminal")
@pytest.mark.sample(1)
@pytest.mark.parametrize(("word", "status"), [("please", 0), ("no", 3), (f"{CTRL_Z}please", 0)])
def test_it_talks_with_the_person_in_the_foreground_and_its_status_is_known(
    tmp_path: Path, alive: Liveness, word: str, status: int
) -> None:
    """C-27. Without a shell to return to, Ctrl-Z changes nothing."""
    with on_pty(*lender(tmp_path, program("in_front", "ask")), alive=alive) as terminal:
        terminal.until("in front: True; terminals: [True, True, True]\nword: ")
        terminal.types(f"{word}\n")
        assert verdict(terminal) == well(f"exited with status {status}")


@pytest.mark.parametrize(("word", "status", "term", "tidying"), [("please", 0, "dumb", b""), ("no", 3, "xterm", TIDY)])
def test_what_a_program_leaves_switched_on_is_switched_off_however_it_ends(
    tmp_path: Path, alive: Liveness, word: str, status: int, term: str, tidying: bytes
) -> None:
    """The alternate screen, mouse reports, a hidden cursor. The program itself ends in order, so no line is begun."""
    with on_pty(*lender(tmp_path, program("in_front", "untidy")), alive=alive, TERM=term) as terminal:
        terminal.until("word: ")
        terminal.types(f"{word}\n")
        assert verdict(terminal) == well(f"exited with status {status}")
    left = b"\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[?25l"
    assert left + b"word: " + word.encode() + b"\r\n" + tidying + b'{"how"' in terminal.raw


def test_tidying_erases_nothing_and_moves_no_cursor() -> None:
    screen = pyte.Screen(20, 4)
    stream = pyte.ByteStream(screen)
    stream.feed(b"one\r\ntwo")
    before = (list(screen.display), screen.cursor.x, screen.cursor.y)
    stream.feed(TIDY)
    assert (list(screen.display), screen.cursor.x, screen.cursor.y) == before
    assert not screen.cursor.hidden


def test_its_stdout_is_the_terminal_even_where_ours_is_not(tmp_path: Path, alive: Liveness) -> None:
    """Our stdout is for our answer."""
    reading, writing = os.pipe()
    with on_pty(*lender(tmp_path, program("in_front", "ask")), alive=alive, stdout=writing) as terminal:
        os.close(writing)
        terminal.until("in front: True; terminals: [True, True, True]\nword: ")
        terminal.types("please\n")
        assert terminal.ends() == 0
    with os.fdopen(reading) as answer:
        assert json.loads(answer.read())["how"] == "exited with status 0"


def test_a_program_that_is_killed_in_raw_mode_leaves_the_terminal_as_it_was(tmp_path: Path, alive: Liveness) -> None:
    with on_pty(*lender(tmp_path, program("in_front", "raw")), alive=alive, TERM="xterm") as terminal:
        assert verdict(terminal) == well("was killed by SIGKILL")
    assert terminal.raw.startswith(TIDY + b"\r\n")


def test_ctrl_c_ends_the_program_and_not_us(tmp_path: Path, alive: Liveness) -> None:
    with on_pty(*lender(tmp_path, program("in_front", "wait")), alive=alive) as terminal:
        terminal.until("waiter waits")
        terminal.types(CTRL_C)
        assert verdict(terminal) == well("was killed by SIGINT")


def test_being_cancelled_ends_it_however_deaf_it_is(tmp_path: Path, alive: Liveness) -> None:
    with on_pty(*lender(tmp_path, program("in_front", "deaf")), alive=alive) as terminal:
        terminal.until("deaf waits")
        alive.hear("deaf")
        terminal.process.send_signal(signal.SIGTERM)
        assert verdict(terminal) == well("cancelled")
        alive.assert_all_dead()


@pytest.mark.parametrize(("temper", "names"), [("leave", ["mate"]), ("scatter", ["loner", "hermit"])])
def test_what_it_leaves_in_our_session_or_elsewhere_ends_with_it(
    tmp_path: Path, alive: Liveness, temper: str, names: list[str]
) -> None:
    with on_pty(*lender(tmp_path, program("in_front", temper)), alive=alive) as terminal:
        alive.hear(*names)
        assert verdict(terminal) == well("exited with status 0")
        alive.assert_all_dead()


def test_the_guard_and_ps_know_it_and_it_does_not_outlive_us(tmp_path: Path, alive: Liveness) -> None:
    with on_pty(*lender(tmp_path, program("in_front", "deaf")), alive=alive) as terminal:
        terminal.until("deaf waits")
        alive.hear("deaf")
        (launch,) = read_all(tmp_path)
        assert [child.name for child in launch.children] == ["login"]
        upper, _ = launch.guards
        with gone(upper.pid):
            terminal.process.kill()
        alive.assert_all_dead()


def test_under_a_shell_ctrl_z_suspends_both_and_fg_continues_both(tmp_path: Path, alive: Liveness) -> None:
    with on_pty("/bin/sh", "-i", alive=alive, PS1="ready> ", ENV="") as terminal:
        terminal.until("ready> ")
        command = " ".join(f"'{word}'" for word in lender(tmp_path, program("in_front", "ask")))
        terminal.types(f"{command}\n")
        terminal.until("\nword: ")
        terminal.types(CTRL_Z)
        terminal.until("Stopped")
        terminal.types("echo in the sh''ell; fg\n")
        terminal.until("in the shell\n")
        terminal.types("please\n")
        terminal.until(json.dumps({**well("exited with status 0"), "left": []}))
        terminal.types("exit\n")
        assert terminal.ends() == 0


def test_a_program_that_cannot_be_started_is_an_error_and_the_terminal_stays_ours(
    tmp_path: Path, alive: Liveness
) -> None:
    with on_pty(*lender(tmp_path, ["/nowhere/login"]), alive=alive) as terminal:
        assert verdict(terminal) == well("/nowhere/login could not be started: there is no such file")


def test_without_a_terminal_it_says_so() -> None:
    """pytest's stdin is none."""
    assert not available()
    with pytest.raises(MachineError) as raised:
        asyncio.run(foreground(LocalProgram(name="login", argv=("/bin/true",), env={}, cwd=Path("/"))))
    assert str(raised.value) == (
        "this needs a terminal on stdin and stderr\n    fix: run it in a terminal, without redirecting them"
    )
