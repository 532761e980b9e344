"""Ring 3. Keys and words of an interactive session that concern the agent, the session and the user's shell."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_launch.interactive.commands import ALIASES
from tests.cli.test_run_interactive import ENTER, after, asks, leaves, sitting
from tests.interactive.screen import Terminal

ESCAPE, SHIFT_TAB, UP, CTRL_C, CTRL_O = "\x1b", "\x1b[Z", "\x1b[A", "\x03", "\x0f"
FILLER = Path(__file__).parents[1] / "agents" / "filler.py"
DEMO = shlex.join([sys.executable, "-I", "-m", "acp_launch.demo.agent"])
FIRST = "/ runs a command of the agent, : one of ours, @ attaches a file, ? shows the keys"


@pytest.fixture
def filler(tmp_path: Path) -> Iterator[Terminal]:
    with sitting("--agent", shlex.join([sys.executable, "-I", "-S", str(FILLER)]), cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        yield terminal


def is_done(terminal: Terminal, prompt: str) -> None:
    terminal.types(prompt + ENTER)
    terminal.until_it(lambda: f"done: {prompt}" in after(terminal, prompt), f"an answer to {prompt}")
    terminal.until("ready ·")


def test_shift_tab_sets_the_next_mode_and_never_one_that_asks_nothing(filler: Terminal) -> None:
    def status() -> str:
        return filler.shown.splitlines()[-1]

    filler.until_it(lambda: "Ask" in status(), "the first mode")
    filler.types(SHIFT_TAB)
    filler.until_it(lambda: "Edit" in status(), "the next mode")
    filler.types(SHIFT_TAB)
    filler.until_it(lambda: "Ask" in status(), "the first mode again")
    assert "Yolo" not in "\n".join(filler.all)
    assert ":mode" not in "\n".join(filler.all), "it is a quiet key"
    leaves(filler)


def test_ctrl_o_prints_what_was_folded_once_and_whole(filler: Terminal) -> None:
    is_done(filler, "work")
    assert "file 12" not in "\n".join(filler.all)
    filler.types(CTRL_O)
    filler.until("  file 19")
    rows = [row.strip() for row in filler.all]
    begun = rows.index("⊟ thought")
    assert rows[begun + 1 : begun + 4] == ["First I look.", "Then I think.", "That is the end of my thought."]
    begun = rows.index("⊟ List the files")
    assert rows[begun + 1 : begun + 21] == [f"file {number}" for number in range(20)]
    filler.types(CTRL_O)
    filler.until("▐ Ctrl-O: nothing is folded")
    is_done(filler, "work")
    is_done(filler, "fill 10")
    filler.types(CTRL_O)
    filler.until_it(lambda: "\n".join(filler.all).count("nothing is folded") == 2, "only the last turn counts")
    leaves(filler)


def test_a_question_mark_shows_the_keys_and_what_the_status_line_leaves_out(filler: Terminal) -> None:
    is_done(filler, "fill 42")
    filler.types("?")
    filler.until("context: 42 of 100 tokens (42%)")
    shown = "\n".join(filler.all)
    for said in ("Shift-Tab", "Ctrl-G", "Ctrl-O", "agent: test-agent", "mode: Ask", "session: "):
        assert said in shown
    assert filler.rows[filler.cursor[1]] == "\u276f", "the key is not typed"
    leaves(filler)


def test_the_first_session_of_a_user_says_what_the_first_keys_do_and_no_other(tmp_path: Path) -> None:
    for is_said in (True, False):
        with sitting(cwd=tmp_path) as terminal:
            terminal.until("ready ·")
            assert (f"▐ {FIRST}" in terminal.all) == is_said
            leaves(terminal)
            assert "resume:" not in "\n".join(terminal.all), "the session had no turn"


@pytest.mark.parametrize("word", ["exit", ":wq"])
def test_a_word_that_leaves_elsewhere_leaves_here(tmp_path: Path, word: str) -> None:
    """Where it cannot be remembered that it was said, nothing is said about keys."""
    (Path(os.environ["ACP_LAUNCH_STATE_DIR"]) / "interactive").mkdir(parents=True)
    assert {name for name, command in ALIASES.items() if command == ":quit"} >= {word}
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        assert FIRST not in terminal.shown
        terminal.types(word + ENTER)
        assert terminal.ends() == 0
        is_told = f"▐ {word} is :quit here; with a space before it, it goes to the agent" in terminal.all
        assert is_told == (word == "exit")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("demo", "--cwd", "below"), "acp-launch run demo --cwd below --continue"),
        (("demo", "--session", "two words"), "acp-launch run demo --session 'two words'"),
        (("--agent", DEMO), f"acp-launch run --agent {shlex.quote(DEMO)} --continue"),
    ],
)
def test_leaving_says_how_to_come_back(tmp_path: Path, arguments: tuple[str, ...], command: str) -> None:
    (tmp_path / "below").mkdir()
    with sitting(*arguments, cwd=tmp_path, columns=200) as terminal:
        asks(terminal, "help")
        leaves(terminal)
        assert f"▐ resume: {command}" in terminal.all


def test_the_context_is_shown_by_kind_with_what_was_attached(tmp_path: Path, filler: Terminal) -> None:
    (tmp_path / "notes.txt").write_text("milk\n")
    is_done(filler, "fill 41")
    filler.types(f"look @notes.txt{ENTER}")
    filler.until("attached: notes.txt")
    filler.until("ready ·")
    filler.types(f":context{ENTER}")
    filler.until("turns here: 2")
    rows = [row.strip() for row in after(filler, "look @notes.txt")]
    begun = next(number for number, row in enumerate(rows) if row.endswith(":context"))
    said = [row.lstrip("▐ ") for row in rows[begun + 1 :]]
    assert said[:2] == ["context: 41 of 100 tokens (41%)", "turns here: 2"]
    assert not any("Tokens" in row for row in said), "the tokens of a turn are told in words"
    assert re.match(r"attached: notes\.txt", said[2])
    leaves(filler)


def test_a_context_that_becomes_nearly_full_is_said_once_each_time(filler: Terminal) -> None:
    def warnings() -> list[str]:
        return [row for row in filler.all if "of the context is used" in row]

    is_done(filler, "fill 79")
    assert warnings() == []
    is_done(filler, "fill 80")
    filler.until("▐ 80% of the context is used; /compact shortens it; :context says more")
    is_done(filler, "fill 85")
    assert len(warnings()) == 1
    is_done(filler, "fill 20")
    is_done(filler, "fill 90")
    filler.until("▐ 90% of the context is used")
    leaves(filler)
    assert len(warnings()) == 2
