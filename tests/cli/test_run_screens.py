"""Ring 3. What an interactive session looks like, and what it withstands: the real program, an agent, a real pty."""

import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from acp_launch.process.records import read_all
from tests.agents.demo import ATTACKS
from tests.cli.launcher import MARK, alive, kill_all
from tests.cli.test_run_interactive import CTRL_C, ENTER, asks, full, leaves, said, sitting
from tests.interactive.screen import Terminal, on_screen
from tests.patience import PATIENCE
from tests.seat.roll import Watched

ESCAPE = "\x1b"
PLAIN = {"NO_COLOR": "", "TERM": "xterm-256color"}
# Every sequence that may be written: modes of the keyboard and of drawing, the cursor, erasing, colours.
TITLE = r"\x1b\]2;(?:starting|ready|working|asks you|cancelling|down): [\w-]+(?: · [\w-]+)?\x1b\\"
OURS = re.compile(r"\x1b\[(?:\?(?:1|7|12|25|1004|2004|2026)[hl]|\d*[ABCDJK]|\d*(;\d*)?H|[\d;]*m|2[23];2t)|" + TITLE)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff]")


def sends(terminal: Terminal, prompt: str) -> None:
    """Enter a prompt once the session is ready, and wait until it stands above its answer."""
    terminal.until("ready ·")
    before = terminal.all.count(said(prompt))
    terminal.types(prompt + ENTER)
    terminal.until_it(lambda: terminal.all.count(said(prompt)) > before, f"{prompt!r} above its answer")


@contextmanager
def watched(launcher: int, mark: str) -> Iterator[Callable[[], list[str]]]:
    """A launch with its guard and all it started; the function returns once they are dead, and gives their commands."""
    (launch,) = read_all(Path(os.environ["ACP_LAUNCH_STATE_DIR"]))
    assert launch.launcher.pid == launcher
    ours = psutil.Process(launcher)
    processes = [ours, *ours.children(recursive=True)]
    with ExitStack() as stack:
        seen = [Watched(process.pid) for process in processes]
        for process in seen:
            stack.callback(process.close)
        stack.callback(kill_all, mark)
        commands = [" ".join(process.cmdline()) for process in processes]

        def all_die() -> list[str]:
            for process in seen:
                process.dies()
            assert alive(mark) == []
            return commands

        yield all_die


def is_clean(terminal: Terminal) -> None:
    """Nothing was written to the terminal but what we write ourselves."""
    text = terminal.raw.decode()
    left = OURS.sub("", text)
    assert ESCAPE not in left, repr(left[left.index(ESCAPE) - 40 : left.index(ESCAPE) + 40])
    assert CONTROL.findall(left) == []


@pytest.mark.promise("terminal")
@pytest.mark.sample(1)
@pytest.mark.parametrize("colours", [{"NO_COLOR": "1"}, PLAIN])
def test_escape_sequences_of_an_agent_never_reach_the_terminal(tmp_path: Path, colours: dict[str, str]) -> None:
    with sitting(full(), cwd=tmp_path, env=colours) as terminal:
        asks(terminal, "hostile")
        shown = "\n".join(terminal.all)
        assert "If you can read this list and your terminal is as it was, the client is careful." in shown
        for visible in (
            r"\x1b]0;owned by the agent\x07",
            r"\x1b]52;c;cm0gLXJmIH4=\x07",
            r"\x1b[?1049h\x1b[?25l",
            "[bold red]",
        ):
            assert visible in shown
        assert r">\u202egnp.exe\u202c \u2066txet\u2069<" in shown
        assert not [row for row in terminal.all if row.startswith(("▐ acp-launch: type", "▐ Allow ls?"))]
        is_clean(terminal)
        for attack in ATTACKS.values():
            assert CONTROL.search(attack) is None or attack.encode() not in terminal.raw
        leaves(terminal)
        is_clean(terminal)


@contextmanager
def in_a_turn(directory: Path) -> Iterator[tuple[Terminal, Callable[[], list[str]]]]:
    """A session in the midst of a turn; the function returns once all its processes are dead."""
    mark = uuid.uuid4().hex
    argv = [sys.executable, "-m", "acp_launch", "run", "demo"]
    with on_screen(*argv, cwd=directory, env={MARK: mark}) as terminal:
        sends(terminal, "count 10000")
        terminal.until("1 2 3")
        with watched(terminal.process.pid, mark) as all_die:
            yield terminal, all_die


@pytest.mark.promise("kill")
def test_killing_us_in_a_turn_leaves_no_process(tmp_path: Path) -> None:
    with in_a_turn(tmp_path) as (terminal, all_die):
        os.kill(terminal.process.pid, signal.SIGKILL)
        assert terminal.ends() == -signal.SIGKILL
        programs = all_die()
    for program in ("acp_launch run demo", "acp_launch.demo.agent", "acp_launch.demo.server", "shim.py", "guard"):
        assert any(program in name for name in programs), programs


def test_a_terminal_that_hangs_up_leaves_no_process(tmp_path: Path) -> None:
    with in_a_turn(tmp_path) as (terminal, all_die):
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE) == 128 + signal.SIGHUP
        all_die()


@pytest.mark.parametrize(("options", "env"), [(("--plain",), PLAIN), ((), {"NO_COLOR": "1"})])
def test_nothing_moves_and_nothing_is_coloured_for_who_wants_it_plain(
    tmp_path: Path, options: tuple[str, ...], env: dict[str, str]
) -> None:
    os.mkfifo(tmp_path / "hold")
    with sitting("demo", "--approve", "all", *options, cwd=tmp_path, env=env) as terminal:
        sends(terminal, "shell echo one; exec cat hold; :")
        terminal.until("● running echo one; exec cat hold; : · esc interrupts")
        terminal.types(CTRL_C)
        terminal.until("ready ·")
        leaves(terminal)
        written = terminal.raw.decode()
        assert re.findall("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", written) == []
        assert re.findall(r"\x1b\[(?:\d+;)*[349]\d(?:;\d+)*m", written) == []
