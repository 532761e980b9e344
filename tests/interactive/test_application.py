"""The application on a real terminal, with a story that does what it is told (drivers/story.py)."""

from pathlib import Path

import pytest

from acp_launch.interactive.screen import BEGIN, END
from tests.interactive.screen import STATUS, Terminal, driver, framed, status
from tests.patience import PATIENCE

ENTER, ESCAPE, CTRL_C, CTRL_D, CTRL_L, CTRL_R, UP = "\r", "\x1b", "\x03", "\x04", "\x0c", "\x12", "\x1b[A"


def ended(terminal: Terminal) -> list[str]:
    """Leave, and give all that is there then."""
    terminal.types(f"quit{ENTER}")
    assert terminal.ends() == 0
    assert terminal.is_cooked()
    return terminal.all


def test_what_is_printed_stands_above_the_prompt_and_stays_when_the_session_is_left(terminal: Terminal) -> None:
    terminal.types(f"say hello{ENTER}", until="said hello")
    assert terminal.shown.splitlines() == ["said hello", *framed()]
    assert ended(terminal) == ["said hello", "the end", "threads 1"]


def test_a_long_stream_leaves_no_stale_rows(terminal: Terminal) -> None:
    """Rows that come and go, with prints between them, and more of both than the screen holds."""
    terminal.types(f"stream 1000{ENTER}", until="streamed")
    lines = [f"line {number}" for number in range(0, 1000, 3)]
    assert terminal.all == [*lines, "streamed", *framed()]
    assert ended(terminal) == [*lines, "streamed", "the end", "threads 1"]


def test_a_region_taller_than_the_screen_shows_its_end(terminal: Terminal) -> None:
    terminal.types(f"show 100{ENTER}", until="row 99")
    assert terminal.rows == [*(f"row {number}" for number in range(80, 100)), *framed()]
    terminal.types(f"show 2{ENTER}")
    terminal.until_gone("row 99")
    assert [row for row in terminal.rows if row] == ["row 0", "row 1", *framed()]


@pytest.mark.whole
def test_a_turn_of_a_hundred_thousand_updates_keeps_up_and_lets_one_type(terminal: Terminal) -> None:
    terminal.types(f"many 100000{ENTER}still here", until="❯ still here")
    assert "all said" not in terminal.shown
    terminal.until("all said")
    assert terminal.all == [
        *(f"line {number}" for number in range(0, 100_000, 100)),
        "all said",
        *framed("still here"),
    ]
    frames = terminal.raw.count(BEGIN.encode())
    assert frames < 1000, f"{frames} frames for 100,000 updates"


def test_alt_enter_and_ctrl_j_begin_a_new_line(terminal: Terminal) -> None:
    terminal.types("one")
    terminal.types(f"{ESCAPE}{ENTER}two")
    terminal.types("\nthree", until="three")
    assert terminal.rows[:6] == [*framed("one", "two", "three")]
    terminal.types(ENTER, until="submitted 3 lines 13 characters: one ... three")


def test_a_paste_of_five_thousand_lines_is_not_sent_before_enter(terminal: Terminal) -> None:
    pasted = "\n".join(f"pasted {number}" for number in range(5000))
    terminal.pastes(pasted)
    terminal.until("pasted 4999")
    assert "submitted" not in "\n".join(terminal.all)
    assert terminal.rows[10] == STATUS, "it takes a third of the screen"
    terminal.types(ENTER, until=f"submitted 5000 lines {len(pasted)} characters: pasted 0 ... pasted 4999")


def test_ctrl_c_clears_what_was_typed_and_interrupts_otherwise(terminal: Terminal) -> None:
    terminal.types("draft", until="❯ draft")
    terminal.types(CTRL_C)
    terminal.until_gone("draft")
    assert "Interrupted" not in terminal.shown
    terminal.types(CTRL_C, until="Interrupted")


def test_ctrl_c_in_a_turn_interrupts_it_and_keeps_the_draft(terminal: Terminal) -> None:
    terminal.types(f"mood working{ENTER}", until="working · esc interrupts")
    terminal.types(f"draft{CTRL_C}", until="Interrupted")
    terminal.until("❯ draft")


def test_ctrl_d_leaves_when_nothing_is_typed(terminal: Terminal) -> None:
    terminal.types("ab\x01")  # and to the beginning of the line
    terminal.until("❯ ab")
    terminal.types(CTRL_D, until="❯ b\n")
    terminal.types(f"{CTRL_D}{CTRL_D}")
    assert terminal.ends() == 0
    assert terminal.all == ["Left", "the end", "threads 1"]


def test_what_is_entered_is_not_sent_when_it_is_blank(terminal: Terminal) -> None:
    terminal.types(f"  {ENTER}say x{ENTER}", until="said x")
    assert terminal.shown.splitlines() == ["said x", *framed()]


def test_what_waits_is_shown_dimmed_above_the_prompt(terminal: Terminal) -> None:
    terminal.types(f"queue one two three four five{ENTER}", until="queued")
    assert terminal.shown.splitlines() == ["queued: one", "queued: two", "queued: three", "and 2 more", *framed()]


def test_an_offered_text_is_put_where_one_types_but_never_over_what_is_typed(terminal: Terminal) -> None:
    terminal.types(f"offer the old prompt{ENTER}mine", until="mine")
    if "❯ the old promptmine" not in terminal.shown:  # it came while something was typed
        assert "❯ mine" in terminal.shown
        terminal.types(CTRL_C)
    terminal.until("❯ the old prompt")


def test_ctrl_l_begins_at_the_top_and_what_was_there_can_be_scrolled_back_to(terminal: Terminal) -> None:
    terminal.types(f"say before{ENTER}", until="said before")
    terminal.types(CTRL_L)
    terminal.until_gone("said before")
    terminal.until(STATUS)
    assert terminal.rows[:4] == [*framed()]
    assert "said before" in terminal.all


@pytest.mark.sample(1)
@pytest.mark.parametrize("text", [r"evil\x1b[2J\x1b]0;title\x07", r"two\nlines", r"\x9b31m", r"\u202eabc"])
def test_a_hostile_text_cannot_drive_the_terminal_from_the_status_line(terminal: Terminal, text: str) -> None:
    before = len(terminal.raw)
    terminal.types(f"status {text}{ENTER}say done{ENTER}", until="said done")
    terminal.until(text)
    written = terminal.raw[before:].decode()
    assert not any(mark in written for mark in ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\u202e"))
    assert terminal.shown.splitlines()[-1] == status(right=f"{text} · fix-42")


def test_a_terminal_that_becomes_narrow_and_wide_again_is_drawn_anew(terminal: Terminal) -> None:
    """The rows that the terminal wraps meanwhile are ours to take away (screen.Paper wraps like most terminals)."""
    terminal.types(f"say {'long ' * 12}{ENTER}", until="said long")
    terminal.types(f"show 3{ENTER}", until="row 2")
    terminal.types("a draft that does not fit into twenty columns", until="twenty columns")
    terminal.until_it(lambda: terminal.raw.endswith(END.encode()), "the end of the frame, drawn for this width")
    terminal.resize(20, 24)
    terminal.until_it(lambda: terminal.shown.endswith("ready          agent"), "a status line that fits")
    said = [row for row in terminal.shown.splitlines() if "long" in row]
    assert len(said) == 4
    assert terminal.shown.splitlines()[4:] == [
        *("row 0", "row 1", "row 2"),
        *framed("a draft that does", "not fit into twent", "y columns", columns=20, left="ready", right="agent"),
    ]
    terminal.resize(100, 30)
    terminal.until("❯ a draft that does not fit into twenty columns")
    terminal.until(status(100))
    assert [row for row in terminal.shown.splitlines() if "long" not in row] == [
        *("row 0", "row 1", "row 2"),
        *framed("a draft that does not fit into twenty columns", columns=100),
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("columns", "rows"), [(20, 10), (10, 4), (5, 2), (1, 1)])
def test_a_tiny_terminal_works(history: str, columns: int, rows: int) -> None:
    with driver("story", history, columns=columns, rows=rows) as terminal:
        terminal.until_it(lambda: END.encode() in terminal.raw, "a frame")
        terminal.types(f"show 9{ENTER}choose{ENTER}say x{ENTER}/pl\t{CTRL_C}quit{ENTER}")
        assert terminal.ends() == 0
        assert terminal.is_cooked()


def test_the_terminal_is_given_back_when_the_story_breaks(terminal: Terminal) -> None:
    terminal.types(f"crash{ENTER}")
    assert terminal.ends() == 1
    assert terminal.is_cooked()
    assert "RuntimeError: the story broke" in terminal.shown
    assert "fix-42" not in terminal.shown


def test_a_program_may_have_the_terminal_and_gives_it_back(terminal: Terminal) -> None:
    terminal.types(f"show 2{ENTER}", until="row 1")
    terminal.types(f"child{ENTER}")
    terminal.until_it(lambda: "child: tty True" in terminal.shown and terminal.cursor == (0, 1), "a whole line")
    assert terminal.is_cooked()
    assert terminal.shown.splitlines() == ["child: tty True"]
    terminal.types("words\n", until="child ended 0")
    assert terminal.shown.splitlines() == [
        *("child: tty True", "words", "child: heard words", "printed meanwhile", "child ended 0"),
        *("row 0", "row 1", *framed()),
    ]


def test_a_terminal_that_goes_away_ends_the_session(history: str, tmp_path: Path) -> None:
    """Somebody who ignores SIGHUP is told of it all the same."""
    ended = tmp_path / "ended"
    with driver("orphan", history, str(ended)) as terminal:
        terminal.until(STATUS)
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE) == 0
    assert ended.read_text() == "HungUp"
