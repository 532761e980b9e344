"""The keys of a session on a real terminal: what ends something, what goes to the session, and the user's editor."""

import shlex
import sys
from pathlib import Path

import pytest

from tests.interactive.screen import STATUS, Terminal, driver, framed

ENTER, ESCAPE, CTRL_C, CTRL_G, CTRL_O = "\r", "\x1b", "\x03", "\x07", "\x0f"
SHIFT_TAB, UP, RIGHT, CTRL_R = "\x1b[Z", "\x1b[A", "\x1b[C", "\x12"
OPEN = "[y] Allow once  [a] Allow always  [n] Reject"
# An editor that says how private its file is, then saves other text; or fails.
EDITOR = """
import os, sys, pathlib
path = pathlib.Path(sys.argv[-1])
seen = path.read_text()
modes = oct(path.stat().st_mode & 0o777), oct(path.parent.stat().st_mode & 0o777)
pathlib.Path(sys.argv[1]).write_text("\\n".join([str(path), seen, *modes, str(os.isatty(0))]))
if sys.argv[2] == "fails":
    sys.exit(3)
path.write_text(sys.argv[2].replace("|", "\\n") + "\\n")
"""


def test_escape_interrupts_a_turn_and_keeps_what_is_typed(terminal: Terminal) -> None:
    terminal.types(f"mood working{ENTER}", until="working")
    terminal.types("draft", until="\u276f draft")
    terminal.types(ESCAPE, until="Cancelled")
    assert "\u276f draft" in terminal.shown


def test_escape_closes_the_menu_before_it_interrupts(terminal: Terminal) -> None:
    terminal.types(f"mood working{ENTER}/", until="Look around")
    terminal.types(ESCAPE)
    terminal.until_gone("Look around")
    assert "Cancelled" not in terminal.shown
    terminal.types(ESCAPE, until="Cancelled")


def test_escape_dismisses_the_question_before_it_interrupts(terminal: Terminal) -> None:
    terminal.types(f"mood working{ENTER}choose{ENTER}", until=OPEN)
    terminal.types(ESCAPE, until="chosen None")
    assert "Cancelled" not in terminal.shown
    terminal.types(ESCAPE, until="Cancelled")


def test_escape_ends_a_search_and_nothing_else(terminal: Terminal) -> None:
    terminal.types(f"mood working{ENTER}{CTRL_R}moo", until="I-search backward: moo")
    terminal.types(ESCAPE)
    terminal.until_gone("I-search")
    assert "Cancelled" not in terminal.shown


@pytest.mark.sample(1)
@pytest.mark.parametrize("keys", [f"{ESCAPE}{ENTER}", f"{UP}", f"{RIGHT}", f"{ESCAPE}b", SHIFT_TAB])
def test_a_key_that_begins_with_escape_does_not_interrupt(terminal: Terminal, keys: str) -> None:
    """Alt-Enter, arrows, Alt-B: their bytes come in one piece, also over ssh."""
    terminal.types(f"mood working{ENTER}", until="working")
    terminal.types(f"one{keys}")
    terminal.types(f"two{CTRL_G}")  # without an editor there is a word about it, after the keys before it
    terminal.until("EDITOR")
    assert "Cancelled" not in terminal.shown


@pytest.fixture(autouse=True)
def no_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed on this machine is not what the tests find."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "no-such-editor")


def test_escape_twice_on_an_empty_line_brings_the_last_prompt_back(terminal: Terminal) -> None:
    terminal.types(f"say hello{ENTER}", until="said hello")
    terminal.types(f":help{ENTER}")  # a command is no prompt
    terminal.until("submitted 1 lines 5 characters")
    for _ in range(3):  # one more, where a busy machine let too much time pass; on a line with text it does nothing
        terminal.types(ESCAPE)
    terminal.until("\u276f say hello")


def test_escape_twice_leaves_a_draft_alone(terminal: Terminal) -> None:
    terminal.types(f"say hello{ENTER}", until="said hello")
    terminal.types("draft", until="\u276f draft")
    terminal.types(f"{ESCAPE}{ESCAPE}")
    terminal.types(f"!{ENTER}", until="submitted 1 lines 6 characters: draft!")


def test_keys_for_the_session_go_there_from_an_empty_line_and_are_text_elsewhere(terminal: Terminal) -> None:
    terminal.types("?", until="Pressed keys")
    terminal.types(SHIFT_TAB, until="Pressed modes")
    terminal.types(CTRL_O, until="Pressed unfold")
    terminal.types("why", until="\u276f why")
    terminal.types(f"?{ENTER}", until="submitted 1 lines 4 characters: why?")
    terminal.pastes("?")
    terminal.until("\u276f ?")


def test_shift_tab_goes_back_in_an_open_menu(terminal: Terminal) -> None:
    terminal.types("/pl", until="Think first")
    terminal.types(SHIFT_TAB, until="\u276f /plan")
    assert "Pressed" not in terminal.shown


def test_up_takes_back_what_is_queued_the_last_first(terminal: Terminal) -> None:
    terminal.types(f"queue one two three{ENTER}", until="queued: three")
    terminal.types(UP, until="\u276f three")
    terminal.until_gone("queued: three")
    terminal.types(UP, until="\u276f two\n  three")
    terminal.until_gone("queued: two")
    terminal.types(CTRL_C)
    terminal.until_it(lambda: terminal.shown.splitlines()[-5:] == ["queued: one", *framed()], "one queued prompt")
    terminal.types(f"draft{UP}")
    terminal.until("\u276f queue one two three")  # the history: typed text is not mixed with the queue


@pytest.fixture
def editor(tmp_path: Path) -> str:
    script = tmp_path / "an editor.py"
    script.write_text(EDITOR)
    return shlex.join([sys.executable, str(script), str(tmp_path / "seen")])


def test_the_editor_gets_the_text_privately_and_gives_back_what_was_saved(
    tmp_path: Path, history: str, editor: str
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {"VISUAL": f"{editor} 'first|second'", "EDITOR": "false", "TMPDIR": str(temporary)}
    with driver("story", history, env=env) as terminal:
        terminal.until(STATUS)
        terminal.types(f"a draft{ESCAPE}{ENTER}more{CTRL_G}", until="\u276f first\n  second")
        terminal.types(ENTER, until="submitted 2 lines 12 characters: first ... second")
        path, *seen = (tmp_path / "seen").read_text().split("\n")
        assert seen == ["a draft", "more", "", "0o600", "0o700", "True"]
        assert Path(path).is_relative_to(temporary)
        assert not [*temporary.iterdir()]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("editor_env", "said"),
    [
        ("{} fails", "exited with status 3; the prompt was not changed"),
        ("no-such-editor", "▐ the editor no-such-editor was not found; set EDITOR to its command"),
        ("'unfinished", "▐ VISUAL or EDITOR is not a command: 'unfinished; set EDITOR to its command"),
    ],
)
def test_an_editor_that_fails_leaves_the_text_as_it_was(history: str, editor: str, editor_env: str, said: str) -> None:
    with driver("story", history, columns=120, env={"EDITOR": editor_env.format(editor)}) as terminal:
        terminal.until("ready")
        terminal.types(f"a draft{CTRL_G}", until=said)
        terminal.until("\u276f a draft")
        terminal.types(ENTER, until="submitted 1 lines 7 characters: a draft")
