"""The user's attention is called when a question waits or a long turn ends, and the terminal is left as it was."""

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.document.scalars import Duration
from acp_launch.interactive.attention import (
    BELL,
    FOCUS_IN,
    FOCUS_OUT,
    POP_TITLE,
    PUSH_TITLE,
    REPORT_FOCUS,
    REPORT_NO_FOCUS,
    ST,
    Abilities,
    Attention,
    abilities,
    title,
)
from acp_launch.interactive.front import Mood, Status
from acp_launch.interactive.keyboard import Keyboard
from acp_launch.settings.model import AttentionSettings
from tests.cli.test_run_interactive import full, sitting
from tests.clock import Clock
from tests.interactive.screen import STATUS, Terminal, driver
from tests.patience import PATIENCE

ENTER, CTRL_Z = "\r", "\x1a"
XTERM = Abilities(title=True)
KNOWN = Abilities(title=True, reports=True)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attention(clock: Clock) -> Callable[..., Attention]:
    def made(able: Abilities = XTERM, **settings: object) -> Attention:
        chosen = AttentionSettings(**settings)  # type: ignore[arg-type]
        found = Attention(chosen, able, "demo", lambda text: text.replace("s3cret", "***"), clock)
        found.enter()
        found.take()
        return found

    return made


def of(mood: Mood, session: str = "fix-42") -> Status:
    return Status(mood=mood, profile="demo", session=session)


# Which terminal understands what


def test_a_terminal_is_known_by_its_environment() -> None:
    for environ, able in [
        ({"TERM": "dumb"}, Abilities()),
        ({"TERM": "linux"}, Abilities()),
        ({"TERM": "xterm-256color"}, XTERM),
        ({"TERM": "xterm-kitty"}, KNOWN),
        ({"TERM": "foot"}, KNOWN),
        ({"TERM_PROGRAM": "WezTerm"}, KNOWN),
        ({"WT_SESSION": "x"}, KNOWN),
        ({"VTE_VERSION": "7600"}, KNOWN),
        ({"TMUX": "x", "WT_SESSION": "x"}, XTERM),
        ({"STY": "x"}, Abilities()),
        ({"TERM": "screen-256color"}, Abilities()),
    ]:
        assert abilities({"TERM": "xterm-256color", **environ}) == able


# What is told


@pytest.mark.parametrize("text", ["a\x07b", "a\x1b\\b", "a\x9cb", "a;b", "a\nb", "▐ a", "a\u202eb", "x" * 500])
def test_no_text_can_end_the_title_or_begin_another_sequence(text: str) -> None:
    told = title(text).removeprefix("\x1b]2;").removesuffix(ST)
    assert told.isprintable()
    assert ";" not in told
    assert len(told) <= 80


def test_a_question_rings_once_and_the_title_holds_nothing_secret(attention: Callable[..., Attention]) -> None:
    called = attention()
    called.show(of("asking", "s3cret"))
    called.ask()
    assert called.take() == f"{BELL}\x1b]2;asks you: demo · ***{ST}"
    assert called.take() == ""


def test_a_question_that_is_answered_before_it_rings_does_not(attention: Callable[..., Attention]) -> None:
    called = attention()
    called.ask()
    called.unask()
    assert called.take() == ""


@pytest.mark.parametrize(("took", "rings"), [(10.5, True), (9.5, False)])
def test_the_end_of_a_turn_rings_if_it_took_long(
    attention: Callable[..., Attention], clock: Clock, took: float, rings: bool
) -> None:
    called = attention(title=False)
    for mood in ("idle", "working", "asking", "working"):
        called.show(of(mood))
    clock.now += took
    called.show(of("idle"))
    assert called.take() == (BELL if rings else "")


def test_a_cancelled_turn_and_one_with_another_behind_it_do_not_ring(
    attention: Callable[..., Attention], clock: Clock
) -> None:
    called = attention(title=False)
    called.show(of("working"))
    clock.now += 60
    called.show(of("cancelling"))
    called.show(of("idle"))
    assert called.take() == ""
    called.show(of("working"))
    clock.now += 60
    called.show(of("idle"))
    called.show(of("working"))  # a queued prompt
    assert called.take() == ""


def test_a_focused_terminal_is_left_in_peace(attention: Callable[..., Attention]) -> None:
    called = attention()
    called.focus(True)
    called.ask()
    assert called.take() == ""
    called.focus(False)
    called.ask()
    assert BELL in called.take()


def test_a_terminal_known_to_report_its_focus_is_focused_at_first(attention: Callable[..., Attention]) -> None:
    called = attention(KNOWN)
    called.ask()
    assert called.take() == ""


def test_everything_can_be_turned_off(attention: Callable[..., Attention]) -> None:
    called = attention(bell=False, title=False)
    called.show(of("working"))
    called.ask()
    assert called.take() == ""
    assert called.leave() == REPORT_NO_FOCUS


def test_the_seconds_can_be_chosen(attention: Callable[..., Attention], clock: Clock) -> None:
    called = attention(Abilities(), after=Duration(60))
    for took, rings in ((50, ""), (70, BELL)):
        called.show(of("working"))
        clock.now += took
        called.show(of("idle"))
        assert called.take() == rings


def test_the_title_follows_the_state_and_is_undone(attention: Callable[..., Attention]) -> None:
    called = attention()
    called.show(of("working"))
    assert called.take() == f"\x1b]2;working: demo · fix-42{ST}"
    called.show(of("working"))
    assert called.take() == ""
    called.show(of("asking", ""))
    assert called.take() == f"\x1b]2;asks you: demo{ST}"
    assert called.leave() == f"{REPORT_NO_FOCUS}{POP_TITLE}"
    assert (called.leave(), called.take()) == ("", "")
    called.enter()
    taken = PUSH_TITLE + REPORT_FOCUS + "\x1b]2;asks you"
    assert called.take().startswith(taken), "what is there afterwards is not known"


# On a terminal


@pytest.fixture
def history(tmp_path: Path) -> str:
    return str(tmp_path / "history")


def waits_for(terminal: Terminal, written: str) -> None:
    terminal.until_it(lambda: written.encode() in terminal.raw, repr(written))


def test_a_question_rings_on_a_terminal_that_does_not_report(history: str) -> None:
    with driver("story", history) as terminal:
        terminal.until(STATUS)
        terminal.types(f"choose{ENTER}")
        waits_for(terminal, BELL)


def test_a_question_rings_only_without_focus_and_reports_are_no_keys(history: str) -> None:
    with driver("story", history) as terminal:
        terminal.until(STATUS)
        terminal.types(f"{FOCUS_IN}choose{ENTER}")
        terminal.until("[y] Allow once")
        assert BELL.encode() not in terminal.raw
        terminal.types("n")
        terminal.until("chosen n")
        terminal.types(f"choose{ENTER}{FOCUS_OUT}")
        terminal.until_it(lambda: terminal.raw.count(BELL.encode()) == 1, "the bell")
        terminal.until("[y] Allow once")
        terminal.types("y")
        terminal.until("chosen y")
        terminal.types(f"{FOCUS_IN}ab")
        terminal.until("❯ ab")


def test_a_report_that_comes_in_two_pieces_is_no_key() -> None:
    ours, theirs = os.openpty()
    heard: list[bool] = []
    with open(theirs) as stdin:  # noqa: PTH123
        keyboard = Keyboard(stdin, focus=heard.append)
        with keyboard.raw_mode():
            for piece, keys in ((FOCUS_IN[:2], []), (f"{FOCUS_IN[2:]}ab", ["a", "b"])):
                os.write(ours, piece.encode())
                assert select.select([stdin], [], [], PATIENCE)[0]
                assert [key.data for key in keyboard.read_keys()] == keys
    os.close(ours)
    assert heard == [True]


def is_restored(terminal: Terminal) -> None:
    raw = terminal.raw.decode()
    assert raw.count(PUSH_TITLE) == raw.count(POP_TITLE) >= 1
    assert raw.rfind(POP_TITLE) > raw.rfind("\x1b]2;"), "no title after the old one is back"
    assert raw.rfind(REPORT_NO_FOCUS) > raw.rfind(REPORT_FOCUS)


@pytest.mark.parametrize("end", ["quit", "crash", signal.SIGTERM])
def test_the_terminal_is_left_as_it_was_however_it_ends(history: str, end: str | signal.Signals) -> None:
    with driver("story", history) as terminal:
        terminal.until(STATUS)
        terminal.types(f"mood working{ENTER}")
        waits_for(terminal, f"\x1b]2;working: acp-launch{ST}")
        if isinstance(end, str):
            terminal.types(f"{end}{ENTER}")
        else:
            os.kill(terminal.process.pid, end)
        terminal.ends()
        is_restored(terminal)


def test_another_program_gets_the_terminal_as_it_was(history: str) -> None:
    with driver("story", history) as terminal:
        terminal.until(STATUS)
        terminal.types(f"child{ENTER}")
        terminal.until("child: tty True")
        is_restored(terminal)
        terminal.types("words\n")
        terminal.until("child ended 0")
        assert terminal.raw.count(PUSH_TITLE.encode()) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_a_turn_leaves_the_terminal_as_it_was(tmp_path: Path, number: signal.Signals) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"count 10000{ENTER}")
        waits_for(terminal, "\x1b]2;working: demo")
        os.kill(terminal.process.pid, number)
        terminal.ends()
        is_restored(terminal)


def test_a_permission_rings(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"shell echo s3cret{ENTER}")
        waits_for(terminal, BELL)
        terminal.until("[n]")
        terminal.types("n")
        terminal.until("ready ·")


def test_nothing_an_agent_sends_rings_notifies_or_retitles(tmp_path: Path) -> None:
    with sitting(full(), "--session", "work", cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"hostile{ENTER}")
        begun, over = b"\x1b]2;working", b"\x1b]2;ready"
        terminal.until("the client is careful.")
        terminal.until_it(
            lambda: "ready ·" in terminal.shown and terminal.raw.rfind(begun) <= terminal.raw.rfind(over),
            "the end of the turn",
        )
        raw = terminal.raw.decode()
        assert BELL not in raw
        assert "\x1b]777" not in raw
        assert "\x1b]9;" not in raw
        titles = {piece.partition(ST)[0] for piece in raw.split("\x1b]2;")[1:]}
        assert (
            titles == {"starting: full", "starting: full · work", "ready: full · work", "working: full · work"} & titles
        )
