"""The parts between prompt_toolkit, rich and the terminal, each alone."""

import asyncio
import io
import os
import sys
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyte
import pytest
from msgspec import Raw
from prompt_toolkit import Application as Toolkit
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples, fragment_list_to_text
from prompt_toolkit.input import DummyInput
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Screen as Cells
from prompt_toolkit.layout.screen import WritePosition
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.console import Console
from rich.segment import ControlType, Segment
from rich.style import Style
from rich.text import Text

from acp_launch.console.ask.terminal import StillClock
from acp_launch.interactive import screen
from acp_launch.interactive.application import _complete as tab
from acp_launch.interactive.application import of_choice
from acp_launch.interactive.layout import LastRows
from acp_launch.interactive.output import session_output
from acp_launch.interactive.questions import Question, ScreenQuestions
from acp_launch.interactive.screen import BEGIN, END, SessionCanvas, Tty, fragments, redirect_streams
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Updated
from acp_launch.session.events import Choice
from tests.clock import Clock
from tests.looped import looped


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


def test_a_frame_that_the_terminal_took_a_minute_for_delays_the_next_by_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after Ctrl-S and Ctrl-Q."""
    clock = Clock()
    monkeypatch.setattr(screen, "monotonic", clock)
    drawn = board()
    drawn.show(Text("old"))
    drawn.begin()
    assert drawn.rows(20) == [[("", "old")]]
    clock.now += 60
    drawn.end()
    drawn.show(Text("new"))
    clock.now += 0.9
    assert drawn.rows(20) == [[("", "old")]]
    clock.now += 0.2
    assert drawn.rows(20) == [[("", "new")]]


def test_a_slow_terminal_gets_no_more_in_a_frame_than_it_takes_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is read while it takes a frame, so that Ctrl-C in a flood would come late."""
    clock = Clock()
    monkeypatch.setattr(screen, "monotonic", clock)
    taken: list[int] = []

    def draw() -> None:
        drawn.begin()
        taken.append(len(drawn.take()))
        clock.now += taken[-1] / 10_000
        drawn.end()

    drawn = SessionCanvas(Console(file=io.StringIO()), lambda: Size(rows=5, columns=80), draw)

    drawn.write("x" * 50_000)
    draw()

    async def run() -> None:
        for _ in range(100):
            drawn.write("x" * 1_000)
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # what the loop was to do at once is done

    asyncio.run(run())
    assert sum(taken) >= 50_000 + 90_000
    assert max(taken[1:]) <= 11_000, taken


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
    asking, prompt = ScreenQuestions(board(), lambda: None, lambda question: (80, 24), StillClock()), Buffer()
    (binding,) = of_choice(asking, prompt, lambda: None).get_bindings_for_keys((Keys.Up,))
    event = SimpleNamespace(data="\x1b[A", app=SimpleNamespace(key_processor=SimpleNamespace(input_queue=[])))
    binding.handler(cast(Any, event))
    assert prompt.text == ""


@looped
async def test_enter_is_said_once_to_be_no_answer() -> None:
    drawn = board(columns=80)
    asking = ScreenQuestions(drawn, lambda: None, lambda question: (80, 24), StillClock())
    asking.question = Question("Allow it?", [Choice("y", "Yes")], is_open=True)
    asking.explain_keys()
    assert "Enter does not answer; press y, or Escape" in drawn.take()
    asking.explain_keys()
    assert drawn.take() == ""


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


def drawn_by_tail(*rows: list[tuple[str, str]], width: int = 10, height: int = 5) -> list[str]:
    """Return what each row shows, a cell after the other as prompt_toolkit goes along them."""
    screen = Cells()
    given = list(cast(list[StyleAndTextTuples], rows))
    LastRows(lambda width: given).write_to_screen(
        screen, MouseHandlers(), WritePosition(0, 0, width, height), "", False, None
    )
    shown = []
    for number in range(screen.height):
        row, x, text = screen.data_buffer[number], 0, ""
        while x <= max(row, default=-1):
            text += row[x].char
            x += row[x].width or 1
        shown.append(text)
    return shown


def test_the_drawn_rows_are_written_as_they_are_and_the_last_ones_if_not_all_fit() -> None:
    assert drawn_by_tail([("", "one "), ("bold", "two")], [("", "three")], height=2) == ["one two", "three"]
    assert drawn_by_tail([("", "one")], [("", "two")], [("", "three")], height=2) == ["two", "three"]


def test_a_drawn_row_has_no_spaces_at_its_end_unless_they_are_seen() -> None:
    assert drawn_by_tail([("", "one  "), ("", "  ")], [("reverse", "two ")], height=2) == ["one", "two "]


def test_a_drawn_row_ends_at_the_width_whatever_rich_thinks_of_its_characters() -> None:
    assert drawn_by_tail([("", "日本語"), ("", "日本語")], height=1) == ["日本語日本"]
    assert drawn_by_tail([("", "0123456789"), ("", "日本語")], height=1) == ["0123456789"]


def test_characters_that_would_move_the_cursor_of_a_drawn_row_are_escapes() -> None:
    assert drawn_by_tail([("", "a\x1bb\x07")], height=1) == ["a\\x1bb\\x07"]


def test_drawn_rows_replace_those_of_the_frame_before() -> None:
    """Through the renderer of prompt_toolkit, onto a terminal."""
    rows: list[StyleAndTextTuples] = []
    paper, written = pyte.Screen(12, 6), io.StringIO()
    output = Vt100_Output(written, lambda: Size(rows=6, columns=12), term="xterm", enable_cpr=False)
    layout = Layout(HSplit([LastRows(lambda width: rows), Window(FormattedTextControl("> typed"), height=1)]))
    app = Toolkit[None](layout, input=DummyInput(), output=output)
    frames: list[list[StyleAndTextTuples]] = [
        [[("", "one two")]],
        [[("", "one two six")], [("bold", "next")]],
        [[("", "one")], [("", "n"), ("bold", "e"), ("", " x")]],
        [[("bold", "日本"), ("", " one")]],
        [[("bold", "日"), ("", "  "), ("", "one")], [("", "")], [("", "   end")]],
        [[("bold", "日"), ("", " "), ("dim", "e")]],
        [],
        [[("", "one two")]],
    ]
    for frame in frames:
        rows[:] = frame
        app.renderer.render(app, layout)
        pyte.Stream(paper).feed(written.getvalue())
        written.truncate(written.seek(0))
        expected = [fragment_list_to_text(row).rstrip() for row in frame] + ["> typed"]
        shown = [row.rstrip() for row in paper.display]
        assert shown == expected + [""] * (6 - len(expected))


def test_a_chunk_of_a_message_is_decoded_once_for_all_that_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Raw] = []

    def counted(raw: Raw) -> tuple[str, str]:
        decoded.append(raw)
        return read_chunk(raw)

    read_chunk = acp.read_chunk
    monkeypatch.setattr(acp, "read_chunk", counted)
    drawn = board()
    output = session_output(drawn, lambda: 0.0)
    for kind, text in (("agent_thought_chunk", "I think"), ("agent_message_chunk", "Hello")):
        said = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
        output.update(Updated("s", kind, Raw(msgspec.json.encode(said)), replay=False))
    assert len(decoded) == 2
    assert [[*piece.parts] for piece in output.folded.take()] == [["I think"]]
    assert output.transcript.markdown("Story") == "# Story\n\n## Agent\n\nHello\n"
    assert list(map(fragment_list_to_text, drawn.rows(20))) == ["", "Hello"]
