"""Ring 3. A session to sit in front of: the demo agent as a real process, a person at a real pty."""

import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.demo.client import FULL
from tests.interactive.screen import Terminal, on_screen

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"
DEAF = Path(__file__).parents[1] / "agents" / "deaf_to.py"
USED = re.compile(r"  (?:interrupted · )?[\d,]+ of [\d,]+ tokens")  # the last line of a turn
SOON = {"ACP_LAUNCH_TEST_PATIENCE": "0.3"}  # for what is told after seconds, and for what is waited out
LEAVES = "▐ to end the session: Ctrl-C again, or Ctrl-D"


@contextmanager
def sitting(*arguments: str, cwd: Path, columns: int = 100, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """`acp-launch run …` on a terminal; the status line says that it is ready, unless the agent wants something."""
    argv = [sys.executable, "-m", "acp_launch", "run", *(arguments or ("demo",))]
    with on_screen(*argv, cwd=cwd, columns=columns, rows=30, env=env) as terminal:
        yield terminal


def full() -> str:
    """Write a profile of the user's own, like `demo`, whose agent has the replies for tests; return its name."""
    file = Path(os.environ["ACP_LAUNCH_CONFIG_DIR"]) / "profiles" / "full.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"extends: demo\nagent:\n  command: {FULL[0]}\n  args: {json.dumps(FULL[1:])}\n")
    return file.stem


def children(pid: int, name: str) -> list[int]:
    """Processes below `pid` whose command line holds `name`."""
    below = psutil.Process(pid).children(recursive=True)
    return [each.pid for each in below if any(name in word for word in each.cmdline())]


def asks(terminal: Terminal, prompt: str, *, until: re.Pattern[str] = USED) -> None:
    """Enter a prompt once the session is ready, and wait for what ends its answer."""
    terminal.until("ready ·")
    before = terminal.all.count(said(prompt))
    terminal.types(prompt + ENTER)
    terminal.until_it(lambda: terminal.all.count(said(prompt)) > before, "the prompt above its answer")
    terminal.until_it(lambda: any(until.match(row) for row in after(terminal, prompt)), until.pattern)


def said(prompt: str) -> str:
    """How a prompt stands above its answer."""
    return f"\u276f {prompt}"


def after(terminal: Terminal, prompt: str) -> list[str]:
    """What stands below the last echo of a prompt."""
    rows = terminal.all
    places = [number for number, row in enumerate(rows) if row == said(prompt)]
    return rows[places[-1] + 1 :] if places else []


def leaves(terminal: Terminal, code: int = 0) -> None:
    terminal.types(CTRL_D)
    assert terminal.ends() == code
    assert terminal.is_cooked()


@pytest.mark.promise("answer")
def test_prompts_are_answered_one_after_the_other_and_ctrl_d_leaves(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        asks(terminal, "add 20 22")
        assert "42" in after(terminal, "add 20 22")
        asks(terminal, "history")
        assert any("the session had 1 turn" in row for row in after(terminal, "history"))
        leaves(terminal)


def test_a_named_session_is_continued_with_its_history_on_the_screen(tmp_path: Path) -> None:
    with sitting("demo", "--session", "work", cwd=tmp_path) as terminal:
        asks(terminal, "add 20 22")
        leaves(terminal)
    with sitting("demo", "--session", "work", cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        assert [row for row in terminal.all if row in (said("add 20 22"), "42")] == [said("add 20 22"), "42"]
        asks(terminal, "history")
        assert any("the session had 1 turn" in row for row in after(terminal, "history"))
        leaves(terminal)


def test_what_goes_along_with_a_prompt_is_said(tmp_path: Path) -> None:
    """A text that was pasted may mention a file that nobody meant to send."""
    (tmp_path / "my notes.txt").write_text("milk\n")
    (tmp_path / "data.bin").write_bytes(bytes(9))
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f'look @"my notes.txt" and @data.bin{ENTER}')
        terminal.until("attached: my notes.txt (text), data.bin (link)")
        terminal.until("ready ·")
        leaves(terminal)


@pytest.mark.promise("interrupt")
def test_ctrl_c_cancels_the_turn_and_keeps_the_session(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"count 10000{ENTER}")
        terminal.until("1 2 3")
        terminal.types(CTRL_C)
        terminal.until("  interrupted · ")
        terminal.until("ready ·")
        asks(terminal, "add 1 1")
        assert "2" in after(terminal, "add 1 1")
        assert sum("interrupted" in row for row in terminal.all) == 1
        leaves(terminal)


def test_ctrl_c_twice_leaves_whether_or_not_a_turn_runs(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(CTRL_C)
        terminal.until(LEAVES)
        terminal.types(CTRL_C)
        assert terminal.ends() == 130
        assert terminal.is_cooked()
    with sitting(full(), cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"hang{ENTER}")
        terminal.until("End me with a signal.")
        terminal.types(CTRL_C)
        terminal.until("cancelling ·")
        terminal.types(CTRL_C)
        assert terminal.ends() == 130
        assert terminal.is_cooked()


def test_a_turn_that_cannot_be_cancelled_is_given_up_as_announced(tmp_path: Path) -> None:
    """The agent counts as hung; whoever leaves meanwhile is not asked about it."""
    with sitting(full(), cwd=tmp_path, env=SOON) as terminal:
        terminal.until("ready ·")
        terminal.types(f"hang{ENTER}")
        terminal.until("End me with a signal.")
        terminal.types(CTRL_C)
        terminal.until("cancelling the turn (timeout 0.9 s); Ctrl-C stops at once")
        terminal.until("the agent did not stop within 0.9 s of the cancellation, so it was ended")
        terminal.until("[y] Restart it")
        terminal.types("y")
        terminal.until("the unanswered prompt is back in the input; edit or send it again")
        terminal.until_it(lambda: terminal.rows[terminal.cursor[1]] == "❯ hang", "the prompt to be edited")
        terminal.until("ready ·")
        terminal.types(ENTER)
        terminal.until_it(lambda: terminal.shown.count("End me with a signal.") == 2, "the second turn")
        leaves(terminal)
        assert terminal.shown.count("[y] Restart it") <= 1


@contextmanager
def typed_ahead(typed: str, *, cwd: Path, **env: str) -> Iterator[Terminal]:
    """A session that begins when `typed` is typed already, and the terminal is nobody's yet."""
    argv = ["sh", "-c", 'read -r go; exec "$@"', "sh", sys.executable, "-m", "acp_launch", "run", "demo"]
    with on_screen(*argv, cwd=cwd, columns=100, rows=40, env=env) as terminal:
        terminal.types(f"go\r{typed}")
        terminal.until(typed.split()[-1])  # its echo
        yield terminal


SUMS = f"add 1 1{ENTER}add 20 2{ENTER}add 300 3{ENTER}"


def test_each_line_that_was_typed_before_there_was_a_prompt_is_one(tmp_path: Path) -> None:
    with typed_ahead(f"{SUMS}add 4", cwd=tmp_path) as terminal:
        terminal.until_it(lambda: "303" in after(terminal, "add 300 3"), "the third answer")
        assert "2" in after(terminal, "add 1 1")
        assert "22" in after(terminal, "add 20 2")
        terminal.until_it(lambda: terminal.rows[terminal.cursor[1]] == "❯ add 4", "what is not entered yet")
        terminal.types(f"000 4{ENTER}")
        terminal.until_it(lambda: "4004" in after(terminal, "add 4000 4"), "its answer")
        leaves(terminal)


def test_what_waited_for_a_cancelled_turn_is_edited_again(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"count 10000{ENTER}")
        terminal.until("1 2 3")
        terminal.types(f"add 20 22{ENTER}")
        terminal.until("queued: add 20 22")
        terminal.types(CTRL_C)
        terminal.until("ready ·")
        terminal.until_it(lambda: terminal.rows[terminal.cursor[1]] == "❯ add 20 22", "the prompt to be edited")
        assert "42" not in terminal.all
        terminal.types(ENTER)
        terminal.until_it(lambda: "42" in after(terminal, "add 20 22"), "its answer")
        leaves(terminal)


@pytest.mark.promise("session")
def test_an_agent_that_died_is_started_again_and_nothing_is_sent_by_itself(tmp_path: Path) -> None:
    with sitting("demo", "--session", "work", cwd=tmp_path) as terminal:
        asks(terminal, "add 20 22")
        terminal.types(f":mode plan{ENTER}")
        terminal.until("· Plan ·")
        terminal.types(f"crash{ENTER}")
        terminal.until("the agent exited with status 3 before it answered session/prompt")
        terminal.until("[y] Restart it")
        terminal.types("y")
        terminal.until("the unanswered prompt is back in the input; edit or send it again")
        terminal.until("ready ·")
        terminal.until_it(lambda: terminal.rows[terminal.cursor[1]] == "❯ crash", "the prompt to be edited")
        terminal.until("· Plan ·")
        assert terminal.all.count(said("add 20 22")) == 1, "its history is not shown again"
        terminal.types(CTRL_C)
        asks(terminal, "history")
        terminal.types(f":servers{ENTER}")
        terminal.until_it(lambda: any("notes ready" in row for row in after(terminal, "history")), "its server")
        assert any("the session had 2 turns" in row for row in after(terminal, "history"))
        leaves(terminal)


def test_an_agent_that_died_may_be_left(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"crash{ENTER}")
        terminal.until("[n] Leave")
        terminal.types("n")
        assert terminal.ends() == 4
        assert terminal.is_cooked()


def test_an_agent_that_cannot_load_its_session_begins_a_new_one(tmp_path: Path) -> None:
    profile = tmp_path / "forgetful.yaml"
    crasher = Path(__file__).parents[1] / "agents" / "crasher.py"
    profile.write_text(
        f"version: 1\nagent:\n  command: {sys.executable}\n  args: [-I, -S, {crasher}, mid-turn, session/prompt]\n"
    )
    with sitting("--trust", str(profile), "--session", "work", cwd=tmp_path) as terminal:
        for _ in range(2):
            terminal.until("ready ·")
            terminal.types(f"my long prompt{ENTER}")
            terminal.until("[y] Restart it with a new session; it cannot resume this one")
            terminal.types("y")
            terminal.until("the unanswered prompt is back in the input; edit or send it again")
            terminal.until("ready ·")
            terminal.until_it(
                lambda: terminal.rows[terminal.cursor[1]] == "❯ my long prompt", "the prompt to be edited"
            )
            terminal.types(CTRL_C)
        leaves(terminal)


def test_our_commands(tmp_path: Path) -> None:
    with sitting("demo", "--session", "one", cwd=tmp_path) as terminal:
        asks(terminal, "add 20 22")
        terminal.types(f":help{ENTER}")
        terminal.until("end the session; it can be resumed later")
        terminal.types(f":servers{ENTER}")
        terminal.until_it(
            lambda: any(re.match(r"▐   notes ready in .*, 3 tools", row) for row in terminal.rows), "servers"
        )
        terminal.types(f":usage{ENTER}")
        terminal.until("turns here: 1")
        terminal.types(f":mode{ENTER}")
        terminal.until(" * ask")
        terminal.types(f":mode plan{ENTER}")
        terminal.until("Mode: Plan")
        terminal.types(f":mode plam{ENTER}")
        terminal.until('did you mean "plan"')
        terminal.types(f":set verbose on{ENTER}")
        terminal.until_it(lambda: any(row.endswith(": on") for row in terminal.rows), "the option")
        terminal.types(f":permissions{ENTER}")
        terminal.until("default: ask")
        terminal.types(f":halp{ENTER}")
        terminal.until("did you mean :help?")
        terminal.types(f"::add 1 1{ENTER}")
        terminal.until_it(lambda: bool(after(terminal, ":add 1 1")), "a prompt that begins with a colon")
        terminal.until("ready ·")
        terminal.types(f"/exit{ENTER}")
        assert terminal.ends() == 0, terminal.dump()


def test_another_session_is_gone_to_and_come_back_from(tmp_path: Path) -> None:
    with sitting("demo", "--session", "one", cwd=tmp_path) as terminal:
        asks(terminal, "add 20 22")
        terminal.types(f":new two{ENTER}")
        terminal.until_it(lambda: "· two ·" in terminal.rows[-1] or "· two ·" in terminal.shown, "the other session")
        asks(terminal, "history")
        assert any("the session had 0 turns" in row for row in after(terminal, "history"))
        terminal.types(f":sessions{ENTER}")
        terminal.until("* two")
        terminal.types(f":new one{ENTER}")
        terminal.until('session "one" already exists')
        terminal.types(f":switch on{ENTER}")
        terminal.until("fix: to open it: :new on; for a list: :sessions")
        terminal.types(f":switch one{ENTER}")
        terminal.until("· one ·")
        asks(terminal, "history")
        assert any("the session had 1 turn." in row for row in after(terminal, "history"))
        with sitting("demo", "--session", "two", cwd=tmp_path) as other:
            other.until("ready ·")  # it was let go of
            terminal.types(f":switch two{ENTER}")
            terminal.until('session "two" is in use by')
            terminal.until("ready ·")
            leaves(other)
        asks(terminal, "add 1 1")
        leaves(terminal)


def test_a_conversation_is_exported_and_no_file_is_overwritten(tmp_path: Path) -> None:
    with sitting("demo", "--session", "one", cwd=tmp_path) as terminal:
        asks(terminal, "add 20 22")
        terminal.types(f":export talk.md{ENTER}")
        terminal.until("exported to")
        terminal.types(f":export talk.md{ENTER}")
        terminal.until("File exists")
        leaves(terminal)
    written = (tmp_path / "talk.md").read_text()
    assert written.startswith("# add 20 22\n\n## You\n\nadd 20 22\n\n- Add 20 and 22: completed\n\n## Agent\n\n42")


def test_ctrl_c_is_never_in_vain(tmp_path: Path) -> None:
    """While a session is opened, and while an option is set, nothing but the keyboard may end the wait."""
    deaf = shlex.join([sys.executable, "-I", "-S", str(DEAF)])
    with sitting("--agent", f"{deaf} session/new", cwd=tmp_path, env=SOON) as terminal:
        terminal.until("starting")
        terminal.until("still waiting for the answer about a new session from the agent")
        terminal.types(CTRL_C)
        assert terminal.ends() == 130
        assert terminal.is_cooked()
    with sitting("--agent", f"{deaf} session/set_config_option", cwd=tmp_path, env=SOON) as terminal:
        terminal.until("ready ·")
        terminal.types(f":set model large{ENTER}")
        terminal.until("still waiting for")
        terminal.types(CTRL_C)
        terminal.until("cancelled")
        leaves(terminal)


def test_an_agent_that_dies_between_turns_is_noticed(tmp_path: Path) -> None:
    with sitting("--agent", shlex.join([sys.executable, "-I", "-S", str(DEAF), "never"]), cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        (agent,) = children(terminal.process.pid, "deaf_to.py")
        os.kill(agent, signal.SIGKILL)
        terminal.until("the agent was killed by SIGKILL")
        terminal.until("[n] Leave")
        terminal.types("n")
        assert terminal.ends() == 4
