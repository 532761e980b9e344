"""The user's attention is called when a question waits or a long turn ends, and the terminal is left as it was."""

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.document.scalars import Duration
from acp_launch.interactive.attention import (
    ASK_OSC_99,
    BELL,
    FOCUS_IN,
    FOCUS_OUT,
    POP_TITLE,
    PUSH_TITLE,
    REPORT_FOCUS,
    REPORT_NO_FOCUS,
    ST,
    Abilities,
    Answers,
    Attention,
    abilities,
    notification,
    plain,
    title,
)
from acp_launch.interactive.front import Mood, Status
from acp_launch.interactive.keyboard import Keyboard
from acp_launch.settings.model import AttentionSettings
from tests.cli.test_run_interactive import sitting
from tests.clock import Clock
from tests.interactive.screen import STATUS, Terminal, driver
from tests.process.liveness import PATIENCE

ENTER, CTRL_Z = "\r", "\x1a"
XTERM = Abilities(protocol="osc777", title=True)
ANSWER = f"\x1b]99;i=acp-launch:p=?;p=title,body{ST}"


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


@pytest.mark.parametrize(
    ("environ", "able"),
    [
        ({"TERM": "dumb"}, Abilities()),
        ({"TERM": "linux"}, Abilities()),
        ({"TERM": "xterm-256color"}, XTERM),
        ({"TERM": "xterm-kitty"}, Abilities(protocol="osc9", may_answer=True, title=True, reports=True)),
        ({"TERM": "foot"}, Abilities(protocol="osc777", may_answer=True, title=True, reports=True)),
        ({"TERM_PROGRAM": "WezTerm"}, Abilities(protocol="osc9", title=True, reports=True)),
        (
            {"TERM_PROGRAM": "ghostty", "TERM_PROGRAM_VERSION": "1.2.0"},
            Abilities(protocol="osc9", title=True, reports=True, progress=True),
        ),
        (
            {"TERM_PROGRAM": "ghostty", "TERM_PROGRAM_VERSION": "1.1.3"},
            Abilities(protocol="osc9", title=True, reports=True),
        ),
        (
            {"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.6.6"},
            Abilities(protocol="osc9", title=True, reports=True, progress=True),
        ),
        (
            {"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.5.14"},
            Abilities(protocol="osc9", title=True, reports=True),
        ),
        ({"WT_SESSION": "x"}, Abilities(protocol="osc777", title=True, reports=True, progress=True)),
        ({"ConEmuANSI": "ON"}, Abilities(protocol="osc777", title=True, progress=True)),
        ({"VTE_VERSION": "7600"}, Abilities(protocol="osc777", title=True, reports=True)),
        ({"VTE_VERSION": "8002"}, Abilities(protocol="osc777", title=True, reports=True, progress=True)),
        ({"TMUX": "x", "WT_SESSION": "x"}, Abilities(protocol="osc777", title=True, carrier="tmux")),
        ({"TMUX": "x", "WEZTERM_PANE": "1"}, Abilities(protocol="osc9", title=True, carrier="tmux")),
        ({"STY": "x"}, Abilities(protocol="osc777", carrier="screen")),
    ],
)
def test_a_terminal_is_known_by_its_environment(environ: dict[str, str], able: Abilities) -> None:
    assert abilities({"TERM": "xterm-256color", **environ}) == able


# What is told


def test_each_protocol_has_its_own_form() -> None:
    assert notification("demo asks", "osc9", "") == "\x1b]9;demo asks\x1b\\"
    assert notification("demo asks", "osc777", "") == "\x1b]777;notify;acp-launch;demo asks\x1b\\"
    assert notification("demo asks", "osc99", "").endswith("p=body;demo asks\x1b\\")
    assert notification("demo asks", "", "tmux") == ""
    assert notification("demo asks", "osc9", "tmux") == "\x1bPtmux;\x1b\x1b]9;demo asks\x1b\x1b\\\x1b\\"
    assert notification("demo asks", "osc9", "screen") == "\x1bP\x1b]9;demo asks\x07\x1b\\"


@pytest.mark.parametrize("text", ["a\x07b", "a\x1b\\b", "a\x9cb", "a;b", "a\nb", "▐ a", "a\u202eb", "x" * 500])
def test_no_text_can_end_its_sequence_or_begin_another(text: str) -> None:
    told = plain(text)
    assert told.isprintable()
    assert ";" not in told
    assert len(told) <= 80
    assert title(text) == f"\x1b]2;{told}{ST}"


def test_a_question_is_told_once_with_the_bell_and_nothing_secret(attention: Callable[..., Attention]) -> None:
    called = attention()
    called.ask("asks for permission: run s3cret")
    assert called.take() == f"\x1b]777;notify;acp-launch;demo asks for permission: run ***{ST}{BELL}"
    assert called.take() == ""


def test_a_question_that_is_answered_before_it_is_told_is_not_told(attention: Callable[..., Attention]) -> None:
    called = attention()
    called.ask("asks you")
    called.unask()
    assert called.take() == ""


@pytest.mark.parametrize(("took", "is_told"), [(10.5, True), (9.5, False)])
def test_the_end_of_a_turn_is_told_if_it_took_long(
    attention: Callable[..., Attention], clock: Clock, took: float, is_told: bool
) -> None:
    called = attention(title=False)
    for mood in ("idle", "working", "asking", "working"):
        called.show(of(mood))
    clock.now += took
    called.show(of("idle"))
    assert ("demo has answered" in called.take()) is is_told


def test_a_cancelled_turn_and_one_with_another_behind_it_are_not_told(
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
    called.ask("asks you")
    assert called.take() == ""
    called.focus(False)
    called.ask("asks you")
    assert BELL in called.take()


def test_a_terminal_known_to_report_its_focus_is_focused_at_first(attention: Callable[..., Attention]) -> None:
    called = attention(Abilities(protocol="osc9", reports=True))
    called.ask("asks you")
    assert called.take() == ""


def test_everything_can_be_turned_off(attention: Callable[..., Attention]) -> None:
    able = Abilities(protocol="osc9", title=True, progress=True)
    called = attention(able, bell=False, notify="never", title=False, progress="never")
    called.show(of("working"))
    called.ask("asks you")
    assert called.take() == ""
    assert called.leave() == REPORT_NO_FOCUS


def test_a_protocol_and_the_seconds_can_be_chosen(attention: Callable[..., Attention], clock: Clock) -> None:
    called = attention(Abilities(), notify="osc9", bell=False, after=Duration(60), progress="always")
    called.show(of("working"))
    assert called.take() == f"\x1b]9;4;3;0{ST}"
    clock.now += 50
    called.show(of("idle"))
    assert called.take() == f"\x1b]9;4;0;0{ST}"
    called.ask("asks you")
    assert called.take() == f"\x1b]9;demo asks you{ST}"


def test_the_title_and_the_progress_follow_the_state_and_are_undone(attention: Callable[..., Attention]) -> None:
    called = attention(Abilities(title=True, progress=True))
    called.show(of("working"))
    assert called.take() == f"\x1b]2;working: demo · fix-42{ST}\x1b]9;4;3;0{ST}"
    called.show(of("working"))
    assert called.take() == ""
    called.show(of("asking", ""))
    assert called.take() == f"\x1b]2;asks you: demo{ST}\x1b]9;4;4;100{ST}"
    assert called.leave() == f"\x1b]9;4;0;0{ST}{REPORT_NO_FOCUS}{POP_TITLE}"
    assert (called.leave(), called.take()) == ("", "")
    called.enter()
    taken = PUSH_TITLE + REPORT_FOCUS + "\x1b]2;asks you"
    assert called.take().startswith(taken), "what is there afterwards is not known"


# OSC 99, where it is answered


@pytest.mark.parametrize("cut", range(2, len(ANSWER)))
def test_an_answer_is_taken_out_of_the_keys_also_in_pieces(cut: int, clock: Clock) -> None:
    heard: list[bool] = []
    answers = Answers(lambda: heard.append(True), clock)
    answers.wait()
    assert answers.without("ab" + ANSWER[:cut]) == "ab"
    assert answers.without(ANSWER[cut:] + "cd\x1b[A") == "cd\x1b[A"
    assert heard == [True]
    assert answers.without(ANSWER) == ANSWER, "one was asked for"


def test_keys_that_only_begin_like_an_answer_are_keys(clock: Clock) -> None:
    answers = Answers(lambda: None, clock)
    answers.wait()
    assert answers.without("\x1b") == "\x1b"
    assert answers.without("\x1b]x") == "\x1b]x"
    assert answers.without("\x1b]") == ""
    clock.now += 10
    assert answers.without("a") == "\x1b]a"
    assert answers.without("\x1b]") == "\x1b]"


def test_a_terminal_that_may_answer_is_asked_once(attention: Callable[..., Attention]) -> None:
    called = attention(Abilities(protocol="osc9", may_answer=True, title=True))
    called.leave()
    called.enter()
    assert called.take() == PUSH_TITLE + REPORT_FOCUS
    called.answers.without(ANSWER)
    called.ask("asks you")
    assert called.take().startswith("\x1b]99;")


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
        waits_for(terminal, f"\x1b]777;notify;acp-launch;acp-launch asks you{ST}{BELL}")


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


def test_the_answer_of_a_terminal_is_not_typed(history: str) -> None:
    with driver("story", history, env={"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}) as terminal:
        waits_for(terminal, ASK_OSC_99)
        terminal.types(f"{FOCUS_OUT}{ANSWER}choose{ENTER}")
        waits_for(terminal, "p=body;acp-launch asks you")
        assert "p=?" not in terminal.shown


def is_restored(terminal: Terminal) -> None:
    raw = terminal.raw.decode()
    assert raw.count(PUSH_TITLE) == raw.count(POP_TITLE) >= 1
    assert raw.rfind(POP_TITLE) > raw.rfind("\x1b]2;"), "no title after the old one is back"
    assert raw.rfind(REPORT_NO_FOCUS) > raw.rfind(REPORT_FOCUS)
    progress = [piece[:1] for piece in raw.split("\x1b]9;4;")[1:]]
    assert progress[-1:] in ([], ["0"])


@pytest.mark.parametrize("end", ["quit", "crash", signal.SIGTERM])
def test_the_terminal_is_left_as_it_was_however_it_ends(history: str, end: str | signal.Signals) -> None:
    with driver("story", history, env={"WT_SESSION": "x"}) as terminal:
        terminal.until(STATUS)
        terminal.types(f"mood working{ENTER}")
        waits_for(terminal, f"\x1b]2;working: acp-launch{ST}\x1b]9;4;3;0{ST}")
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
    with sitting(cwd=tmp_path, env={"WT_SESSION": "x"}) as terminal:
        terminal.until("ready ·")
        terminal.types(f"count 10000{ENTER}")
        waits_for(terminal, "\x1b]2;working: demo")
        os.kill(terminal.process.pid, number)
        terminal.ends()
        is_restored(terminal)


def test_a_permission_is_told_by_the_profile_and_the_kind_alone(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"shell echo s3cret{ENTER}")
        waits_for(terminal, f"\x1b]777;notify;acp-launch;demo asks for permission: run{ST}{BELL}")
        terminal.until("[n]")
        terminal.types("n")
        terminal.until("ready ·")


def test_nothing_an_agent_sends_rings_notifies_or_retitles(tmp_path: Path) -> None:
    with sitting("demo", "--session", "work", cwd=tmp_path, env={"WT_SESSION": "x"}) as terminal:
        terminal.until("ready ·")
        terminal.types(f"hostile{ENTER}")
        begun, over = b"\x1b]9;4;3;0", b"\x1b]9;4;0;0"
        terminal.until("the client is careful.")
        terminal.until_it(
            lambda: "ready ·" in terminal.shown and terminal.raw.rfind(begun) <= terminal.raw.rfind(over),
            "the end of the turn",
        )
        raw = terminal.raw.decode()
        assert BELL not in raw
        assert "\x1b]777" not in raw
        titles = {piece.partition(ST)[0] for piece in raw.split("\x1b]2;")[1:]}
        assert (
            titles == {"starting: demo", "starting: demo · work", "ready: demo · work", "working: demo · work"} & titles
        )
        # Titles and progress are written as often as there is time for: a short turn may have neither.
        assert {piece.partition(ST)[0] for piece in raw.split("\x1b]9;")[1:]} in ({"4;3;0", "4;0;0"}, set())
