"""The user's attention is called when a question waits or a long turn ends, and the terminal is left as it was."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.document.scalars import Duration
from acp_launch.interactive.attention import BELL, POP_TITLE, PUSH_TITLE, ST, Attention, can_retitle, title
from acp_launch.interactive.terminal import Phase, Status
from acp_launch.settings.model import AttentionSettings
from tests.cli.test_run_interactive import full, sitting
from tests.clock import Clock
from tests.interactive.screen import STATUS, Terminal, driver

ENTER = "\r"


@pytest.fixture
def attention(clock: Clock) -> Callable[..., Attention]:
    def made(**settings: object) -> Attention:
        chosen = AttentionSettings(**settings)  # type: ignore[arg-type]
        found = Attention(chosen, "demo", lambda text: text.replace("s3cret", "***"), clock, has_title=True)
        found.enter()
        found.take()
        return found

    return made


def show(called: Attention, *phases: Phase, session: str = "fix-42") -> None:
    for phase in phases:
        called.show(Status(phase=phase, profile="demo", session=session), is_asked=phase == "asking")


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"TERM": "linux"}, {"STY": "x"}, {"TERM": "screen-256color"}])
def test_a_terminal_that_cannot_give_the_title_back_keeps_it(environ: dict[str, str]) -> None:
    known = {"TERM": "xterm-256color", **environ}
    assert can_retitle({"TERM": "xterm-256color"})
    assert not can_retitle(known)
    assert can_retitle({**known, "TMUX": "x"}) is ("TERM" not in environ or "screen" in environ["TERM"])


@pytest.mark.parametrize("text", ["a\x07b", "a\x1b\\b", "a\x9cb", "a;b", "a\nb", "▐ a", "a\u202eb", "x" * 500])
def test_no_text_can_end_the_title_or_begin_another_sequence(text: str) -> None:
    told = title(text).removeprefix("\x1b]2;").removesuffix(ST)
    assert told.isprintable()
    assert ";" not in told
    assert len(told) <= 80


def test_a_question_rings_once_and_the_title_holds_nothing_secret(attention: Callable[..., Attention]) -> None:
    called = attention()
    show(called, "asking", session="s3cret")
    assert called.take() == f"{BELL}\x1b]2;asks you: demo · ***{ST}"
    assert called.take() == ""
    show(called, "asking", session="s3cret")
    assert called.take() == ""


def test_a_question_that_is_answered_before_it_rings_does_not(attention: Callable[..., Attention]) -> None:
    called = attention(title=False)
    show(called, "asking", "working")
    assert called.take() == ""


@pytest.mark.parametrize(("phases", "rings"), [("working asking working", True), ("working cancelling", False)])
@pytest.mark.parametrize("after", [10, 60])
def test_the_end_of_a_turn_rings_if_it_took_long_and_was_not_cancelled(
    attention: Callable[..., Attention], clock: Clock, phases: str, rings: bool, after: int
) -> None:
    called = attention(title=False, after=Duration(after))
    for took, is_long in ((after - 0.5, False), (after + 0.5, True)):
        show(called, "idle", *phases.split())  # type: ignore[arg-type]
        clock.now += took
        show(called, "idle")
        assert called.take() == (BELL if rings and is_long else "")


def test_the_end_of_a_turn_with_another_behind_it_does_not_ring(
    attention: Callable[..., Attention], clock: Clock
) -> None:
    called = attention(title=False)
    show(called, "working")
    clock.now += 60
    show(called, "idle", "working")
    assert called.take() == ""


def test_everything_can_be_turned_off(attention: Callable[..., Attention]) -> None:
    called = attention(bell=False, title=False)
    show(called, "asking")
    assert called.take() == called.leave() == ""


def test_the_title_follows_the_state_and_is_undone(attention: Callable[..., Attention]) -> None:
    called = attention()
    show(called, "working", "working")
    assert called.take() == f"\x1b]2;working: demo · fix-42{ST}"
    show(called, "idle", session="")
    assert called.take() == f"\x1b]2;ready: demo{ST}"
    assert called.leave() == POP_TITLE
    assert (called.leave(), called.take()) == ("", "")
    called.enter()
    assert called.take().startswith(f"{PUSH_TITLE}\x1b]2;ready"), "what is there afterwards is not known"


# On a terminal


def waits_for(terminal: Terminal, written: str) -> None:
    terminal.until_it(lambda: written.encode() in terminal.raw, repr(written))


def test_a_question_rings_on_a_terminal(history: str) -> None:
    with driver("story", history) as terminal:
        terminal.until(STATUS)
        terminal.types(f"choose{ENTER}")
        waits_for(terminal, BELL)


def is_restored(terminal: Terminal) -> None:
    raw = terminal.raw.decode()
    assert raw.count(PUSH_TITLE) == raw.count(POP_TITLE) >= 1
    assert raw.rfind(POP_TITLE) > raw.rfind("\x1b]2;"), "no title after the old one is back"


@pytest.mark.sample(1)
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
        assert terminal.is_cooked()


def test_another_program_gets_the_terminal_as_it_was(history: str) -> None:
    with driver("story", history) as terminal:
        terminal.until(STATUS)
        terminal.types(f"child{ENTER}", until="child: tty True")
        is_restored(terminal)
        terminal.types("words\n", until="child ended 0")
        assert terminal.raw.count(PUSH_TITLE.encode()) == 2


def test_a_hangup_in_a_turn_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"count 10000{ENTER}")
        waits_for(terminal, "\x1b]2;working: demo")
        os.kill(terminal.process.pid, signal.SIGHUP)
        terminal.ends()
        is_restored(terminal)


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
