"""Questions on a real terminal: a key answers what could be read, and nothing that was typed before it."""

import os
from pathlib import Path

import pytest

from tests.interactive.screen import Terminal, driver, framed

ENTER, ESCAPE, CTRL_C, CTRL_D, UP = "\r", "\x1b", "\x03", "\x04", "\x1b[A"
OPEN = "[y] Allow once  [a] Allow always  [n] Reject"


def ask(terminal: Terminal) -> None:
    terminal.types(f"choose{ENTER}", until=OPEN)


def test_enter_answers_nothing_and_says_which_keys_do(terminal: Terminal) -> None:
    ask(terminal)
    terminal.types(ENTER)
    terminal.until("▐ Enter does not answer; press y, a, n, or Escape to dismiss the question\n▐ Allow it?")
    terminal.types("n", until="chosen n")


def test_a_capital_n_in_a_turn_refuses_and_ends_the_turn_for_what_is_typed_next(terminal: Terminal) -> None:
    ask(terminal)
    terminal.types("N")  # between turns it is an n
    terminal.until("chosen n")
    terminal.types(f"mood working{ENTER}", until="working")
    ask(terminal)
    assert "[N] No, and type what to do instead" in terminal.shown
    terminal.types("N", until="Redirected")
    assert terminal.shown.count("chosen n") == 2
    assert "▐ Allow it? No, and type what to do instead" in terminal.shown


def test_a_key_pressed_before_the_question_could_be_seen_is_no_answer(terminal: Terminal, tmp_path: Path) -> None:
    """It waits in the terminal while nobody listens, and is read after the question was asked."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    terminal.types(f"deaf {pipe}{ENTER}")
    with pipe.open("wb"):  # opens when the story has begun to read, and hears nothing else
        terminal.types("y")
    terminal.until("❯ y")
    terminal.until(OPEN)
    assert "chosen" not in terminal.shown
    terminal.types("n", until="chosen n")
    assert "❯ y" in terminal.shown


def test_a_user_who_is_typing_when_a_question_comes_goes_on_typing(terminal: Terminal) -> None:
    terminal.types(f"choose{ENTER}and ", until="Allow once")
    for word in ("any", "way"):
        assert OPEN not in terminal.shown, "it opens after a pause only"
        terminal.types(word, until=word)
    terminal.until("❯ and anyway")
    terminal.until(OPEN)
    assert "chosen" not in terminal.shown
    terminal.types("y", until="chosen y")
    terminal.types(ENTER, until="submitted 1 lines 10 characters: and anyway")


def test_several_keys_in_one_piece_and_a_paste_are_typed_text_and_no_answer(terminal: Terminal) -> None:
    """As they come from a paste, and from somebody who typed while we were busy."""
    ask(terminal)
    terminal.types("yes", until="❯ yes")
    terminal.until(OPEN)
    terminal.pastes("y")
    terminal.until("❯ yesy")
    terminal.until(OPEN)
    assert "chosen" not in terminal.shown
    terminal.types("n", until="chosen n")


@pytest.mark.parametrize(("key", "said"), [(CTRL_C, "chosen None"), (CTRL_D, "Left")])
def test_a_question_is_dismissed_and_ctrl_d_leaves_as_it_does_elsewhere(
    terminal: Terminal, key: str, said: str
) -> None:
    ask(terminal)
    terminal.types(key, until=said)
    assert "Interrupted" not in terminal.shown


def test_ctrl_c_in_a_turn_interrupts_it_and_leaves_its_question_to_the_story(terminal: Terminal) -> None:
    terminal.types(f"mood asking{ENTER}choose{ENTER}", until=OPEN)
    terminal.types(CTRL_C)
    terminal.until_it(lambda: "chosen" not in terminal.shown, "no answer")
    terminal.types("y", until="chosen y")
    assert "Interrupted" in terminal.all


@pytest.mark.sample(1)
@pytest.mark.parametrize(("columns", "rows"), [(10, 3), (10, 2), (20, 4), (80, 3)])
def test_on_the_smallest_screen_the_keys_that_answer_are_shown(tmp_path: Path, columns: int, rows: int) -> None:
    with driver("story", str(tmp_path / "history"), columns=columns, rows=rows) as terminal:
        terminal.until("❯")
        terminal.types(f"choose{ENTER}", until="[y/a/n] A")
        terminal.types("y")
        terminal.until_it(lambda: "chosen y" in terminal.all, "the answer")


def test_a_question_stands_above_the_prompt_and_nothing_moves_until_one_key_answers_it(terminal: Terminal) -> None:
    """What is printed and drawn meanwhile comes afterwards."""
    terminal.types(f"show 2{ENTER}choose{ENTER}say meanwhile{ENTER}", until=OPEN)
    *shown, status = terminal.shown.splitlines()
    assert shown == ["", "▐ It wants to remove x", "▐ Allow it?", f"▐ {OPEN}", *framed()[:-1]]
    assert status.startswith("● waiting for you")
    terminal.types("A", until="chosen a")
    terminal.until("row 1")
    assert terminal.shown.splitlines() == [
        "",
        "▐ It wants to remove x",
        "▐ Allow it? Allow always",
        "said meanwhile",
        "chosen a",
        *("row 0", "row 1", *framed()),
    ]


def test_two_questions_are_asked_one_after_the_other(terminal: Terminal) -> None:
    terminal.types(f"choose{ENTER}choose{ENTER}", until=OPEN)
    terminal.types("y", until="chosen y")
    terminal.until(OPEN)
    terminal.types("n", until="chosen n")


def test_a_question_that_is_withdrawn_leaves_what_was_typed(terminal: Terminal) -> None:
    terminal.types(f"choose{ENTER}", until="Allow once")
    terminal.types(f"withdrawn{ENTER}my draft", until="withdrawn\n")
    terminal.until("❯ my draft")
    assert OPEN not in terminal.shown
    gone = "▐ Allow it? (no longer asked)"
    assert terminal.shown.splitlines() == ["", "▐ It wants to remove x", gone, "withdrawn", *framed("my draft")]


def test_a_line_is_asked_for_where_one_types_and_the_draft_comes_back(terminal: Terminal) -> None:
    terminal.types(f"line Bob{ENTER}my draft", until="❯ my draft")
    terminal.until_it(lambda: terminal.rows[2].startswith("▐ Your name? [Bob]") and terminal.cursor == (19, 2), "line")
    *_, line, _, status = terminal.shown.splitlines()
    assert line == "▐ Your name? [Bob]"
    assert status.startswith("● waiting for you")
    terminal.types("Ada Lovelace", until="▐ Your name? [Bob] Ada Lovelace")
    terminal.types(ENTER, until="named Ada Lovelace")
    terminal.until("❯ my draft")
    terminal.types(CTRL_C)
    terminal.until_gone("my draft")
    terminal.types(UP)
    terminal.until("❯ line Bob")  # the answer is not in the history


def test_an_empty_line_gives_the_default_and_what_dismisses_it_nothing(terminal: Terminal) -> None:
    for key, named in ((ENTER, "named Bob"), (ESCAPE, "named back"), (CTRL_D, "named None")):
        terminal.types(f"line Bob{ENTER}")
        terminal.until_it(lambda: terminal.cursor[0] == 19, "the line")
        terminal.types(key, until=named)


def test_ctrl_c_clears_a_line_first_and_dismisses_it_then(terminal: Terminal) -> None:
    terminal.types(f"line Bob{ENTER}")
    terminal.until_it(lambda: terminal.cursor[0] == 19, "the line")
    terminal.types("Ada", until="[Bob] Ada")
    terminal.types(CTRL_C)
    terminal.until_gone("Ada")
    terminal.types(CTRL_C, until="named None")


def test_a_form_is_filled_in_without_waiting_but_its_last_question_is_not_answered_by_it(terminal: Terminal) -> None:
    terminal.types(f"form{ENTER}")
    terminal.until_it(lambda: terminal.cursor[0] == 9, "the first line")
    terminal.types(f"one{ENTER}", until="Second?")
    terminal.types(f"two{ENTER}", until="Send it?")
    terminal.until(OPEN)
    terminal.types("y", until="form one two y")
