"""The parts between prompt_toolkit, rich and the terminal, each alone."""

import io
import os
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.keys import Keys
from rich.console import Console
from rich.segment import ControlType, Segment
from rich.style import Style
from rich.text import Text

from acp_launch.interactive.application import _complete as tab
from acp_launch.interactive.application import entered, of_choice
from acp_launch.interactive.questions import ScreenQuestions
from acp_launch.interactive.screen import BEGIN, END, SessionCanvas, Tty, fragments, redirect_streams


def board(columns: int = 20) -> SessionCanvas:
    console = Console(file=io.StringIO(), color_system=None, highlight=False)
    return SessionCanvas(console, lambda: Size(rows=5, columns=columns), lambda: None)


def test_prints_are_rendered_at_the_width_of_the_terminal_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    drawn = board(columns=10)
    drawn.print(Text("one two three"))
    assert drawn.take() == "one two \r\nthree\r\n"
    assert drawn.width == 10


def test_prints_wait_during_a_question_and_its_own_text_does_not() -> None:
    drawn = board()
    drawn.print(Text("before"))
    drawn.show(Text("row"))
    drawn.hold()
    drawn.print(Text("meanwhile"))
    drawn.say(Text("the question"))
    assert drawn.rows(20) == []
    assert drawn.take() == "before\r\nthe question\r\n"
    drawn.release()
    assert drawn.take() == "meanwhile\r\n"
    assert drawn.rows(20) == [[("", "row")]]


def test_what_is_printed_out_of_the_rows_is_never_in_both() -> None:
    drawn = board()
    drawn.show(Text("42"))
    drawn.begin()
    assert (drawn.take(), drawn.rows(20)) == ("", [[("", "42")]])
    drawn.end()
    drawn.print(Text("42"))
    drawn.show(Text("next"))
    drawn.begin()  # for a key, before the next frame is due
    assert (drawn.take(), drawn.rows(20)) == ("42\r\n", [[("", "next")]])


def test_what_is_shown_is_gone_after_close_and_erase_tells_whether_it_was_there() -> None:
    drawn = board()
    assert not drawn.erase()
    drawn.show(Text("row"))
    assert drawn.erase()
    drawn.close()
    assert drawn.rows(20) == []


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (None, ""),
        ("bold dim italic underline reverse strike", "bold dim italic underline reverse strike"),
        ("red on bright_white", "fg:ansired bg:ansiwhite"),
        ("color(208)", "fg:#ff8700"),
        ("#010203", "fg:#010203"),
        ("default", "fg:default"),
    ],
)
def test_a_style_of_rich_is_one_of_prompt_toolkit(style: str | None, expected: str) -> None:
    parsed = Style.parse(style) if style else None
    assert fragments([Segment("x", parsed)]) == [(expected, "x")]


def test_control_codes_are_not_drawn() -> None:
    assert fragments([Segment("\x1b[2J", None, [(ControlType.CLEAR,)]), Segment("x")]) == [("", "x")]


def test_a_frame_leaves_as_one_piece_and_an_empty_one_not_at_all() -> None:
    ours, theirs = os.pipe()
    tty = Tty(theirs, "utf-8", lambda: None)
    tty.write("set up")
    tty.flush()
    assert os.read(ours, 100) == b"set up"
    tty.begin()
    tty.end()
    tty.begin()
    tty.write("a")
    tty.flush()
    tty.write("b")
    tty.end()
    assert os.read(ours, 100).decode() == f"{BEGIN}ab{END}"
    os.close(ours)
    os.close(theirs)


def test_a_terminal_that_is_gone_is_told_once_it_is_written_to() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    lost: list[str] = []
    tty = Tty(theirs, "utf-8", lambda: lost.append("lost"))
    tty.write("x")
    tty.flush()
    os.close(theirs)
    assert lost == ["lost"]


class Screenlike(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_stream_that_is_a_terminal_is_written_above_and_another_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen, log, above = Screenlike(), io.StringIO(), list[str]()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", log)
    with redirect_streams(above.append):
        print("one")
        print("half", end="")
        assert sys.stdout.isatty()
        assert above == ["one\n"]
        print("logged", file=sys.stderr)
    assert above == ["one\n", "half\n"]
    assert sys.stdout is screen
    assert (screen.getvalue(), log.getvalue()) == ("", "logged\n")


def test_a_key_that_is_no_choice_is_neither_an_answer_nor_typed() -> None:
    asking, prompt = ScreenQuestions(board(), lambda: None, lambda question: (80, 24)), Buffer()
    (binding,) = of_choice(asking, prompt, lambda: None).get_bindings_for_keys((Keys.Up,))
    event = SimpleNamespace(data="\x1b[A", app=SimpleNamespace(key_processor=SimpleNamespace(input_queue=[])))
    binding.handler(cast(Any, event))
    assert prompt.text == ""


@pytest.mark.parametrize(
    ("names", "typed"), [(["back.txt"], ["@back.txt"]), (["back", "bad"], ["@back", "@bad", "@ba"])]
)
def test_the_only_completion_is_not_taken_back_by_another_tab(names: list[str], typed: list[str]) -> None:
    prompt = Buffer()
    prompt.insert_text("@ba")
    prompt._set_completions([Completion(name, start_position=-2) for name in names])
    for expected in typed:
        tab(prompt)
        assert prompt.text == expected
    assert (prompt.complete_state is None) == (len(names) == 1)


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("one\ntwo\nhalf", "one\rtwo\rhalf"),
        ("a\n\x1b[200~b\nc\x1b[201~\nd\n", "a\r\x1b[200~b\nc\x1b[201~\rd\r"),
        ("a\n\x1b[200~b\nc", "a\r\x1b[200~b\nc"),
        ("a\n\0", "a\r"),
    ],
)
def test_enter_that_was_typed_before_the_terminal_was_ours_is_enter(typed: str, keys: str) -> None:
    assert entered(typed) == keys
