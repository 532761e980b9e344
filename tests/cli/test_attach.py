"""Ring 3. Terminals on a session of a host: they come and go, also in the middle of a turn (docs/up.md)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from acp_launch.served.connections import MAX_EVENTS
from acp_launch.served.wire import MISSED, RELOADED
from tests.cli.hosted import brought_up, up
from tests.cli.launcher import Launcher, command
from tests.interactive.screen import Terminal, on_screen

ENTER = "\r"


@pytest.fixture
def demo(launch: Launcher) -> Launcher:
    """A profile with the demo agent."""
    launch.write({"extends": "demo"})
    return launch


@contextmanager
def at(launcher: Launcher, *words: str, columns: int = 100) -> Iterator[Terminal]:
    with on_screen(*command(*words), cwd=launcher.project, columns=columns, rows=30, env=launcher.env) as terminal:
        yield terminal


@pytest.mark.promise("attach")
def test_a_turn_goes_on_while_terminals_come_and_go(demo: Launcher) -> None:
    with up(demo) as host, at(demo, "run", "p", "-s", "work") as first:
        first.until("ready ·")
        first.types("count 400" + ENTER)
        first.until("1 2 3 4 5")
        with at(demo, "attach") as second:
            second.until("❯ count 400")
            second.until("1 2 3 4 5 6 7 8 9")
            first.types(":detach" + ENTER)
            assert first.ends() == 0
            assert "resume: acp-launch attach work" in "\n".join(first.all)
            second.types("\x1b")  # Escape interrupts the turn, wherever it was begun
            second.until("interrupted")
            second.until("ready ·")
            second.types("add 20 22" + ENTER)
            second.until("42")
            second.types(":quit" + ENTER)
            assert second.ends() == 0
        assert host.run("history", "-s", "work").code == 0


def test_a_question_waits_for_a_terminal_after_the_first_one_is_gone(demo: Launcher) -> None:
    with up(demo):
        with at(demo, "run", "p", "-s", "work") as first:
            first.until("ready ·")
            first.types("note kept" + ENTER)
            first.until("[y]")
        with at(demo, "attach", "work") as second:
            second.until("[y]")
            shown = "\n".join(second.all)
            assert "resumed work" in shown[: shown.index("[y]")], "a question stands below the history"
            second.types("y")
            second.until("Noted: kept")
            second.until("ready ·")
            second.types(":quit" + ENTER)
            assert second.ends() == 0


# Says more than a host keeps events, and ends with a word. An agent that can load a session says something else then.
TALKER = """
import json

def prompt(request):
    session = script.session_of(request)
    chunk = {{"sessionUpdate": "agent_message_chunk", "content": {{"type": "text", "text": "x"}}}}
    message = {{"jsonrpc": "2.0", "method": "session/update", "params": {{"sessionId": session, "update": chunk}}}}
    script.write((json.dumps(message).encode() + b"\\n") * {count})
    script.say(session, " the whole answer")
    script.end(request)

def load(request):
    script.update(script.session_of(request), "user_message_chunk", content={{"type": "text", "text": "asked"}})
    script.say(script.session_of(request), "as the agent has it")
    script.answer(request, {{}})

script.serve({{
    "initialize": lambda request: script.initialize(request, loadSession={loads}),
    "session/load": load,
    "session/prompt": prompt,
}})
"""


@pytest.mark.parametrize("loads", [False, True])
def test_a_session_of_which_events_were_lost_is_shown_by_what_is_kept_or_by_its_agent(
    launch: Launcher, loads: bool
) -> None:
    """The agent that has it open is not asked for its history, but another process of it."""
    launch.scripted(TALKER.format(count=MAX_EVENTS + 10, loads=loads))
    with brought_up(launch, "run", "p", "hi", "--detach", "-s", "big") as host:
        answer = b"x" * (MAX_EVENTS + 10) + b" the whole answer\n"
        assert launch.forked("session", "wait", "big", "-o", "quiet").out == answer
        agents = len(host.alive())
        with at(launch, "attach") as terminal:
            terminal.until("as the agent has it" if loads else "the whole answer")
            terminal.until("ready ·")
            shown = " ".join("\n".join(terminal.all).split())
            assert (RELOADED in shown, MISSED in shown) == (loads, not loads)
            assert len(host.alive()) == agents
            terminal.types("\x04")
            assert terminal.ends() == 0
        assert host.methods.count("initialize") == host.methods.count("session/load") + 1 == loads + 1
        waited = launch.forked("session", "wait", "big", "-o", "quiet")
        assert (waited.code, waited.out) == (0, answer), waited.err


def test_an_answer_is_kept_for_those_who_wait_while_its_session_is_opened_again_without_a_turn(demo: Launcher) -> None:
    with up(demo) as host:
        assert host.run("add 20 22").code == 0
        (closed,) = json.loads(demo("session", "list", "--json").out)["sessions"]
        for name, code, out in ((closed["name"], 0, b"42\n"), ("fresh", 3, b"")):
            with at(demo, "run", "p", "-s", name) as terminal:
                terminal.until("ready ·")
                waited = demo.forked("session", "wait", name, "-o", "quiet")
                assert (waited.code, waited.out) == (code, out), waited.err
                terminal.types(":quit" + ENTER)
                assert terminal.ends() == 0
        assert waited.err.endswith("fix: to see its history: acp-launch attach fresh\n")
    gone = demo.forked("session", "wait", "fresh")
    assert (gone.code, "acp-launch attach fresh shows a session that is open" in gone.err) == (3, True), gone.err


def test_the_terminal_that_sent_the_prompt_is_asked(demo: Launcher) -> None:
    with up(demo), at(demo, "run", "p", "-s", "work") as first:
        first.until("ready ·")
        with at(demo, "attach") as second:
            second.until("ready ·")
            second.types("note kept" + ENTER)
            first.until("are asked on another terminal from now on")
            second.until("[y]")
            second.types("y")
            first.until("Noted: kept")
            second.until("ready ·")
            first.types("note again" + ENTER)
            second.until("are asked on another terminal from now on")
            first.until("[y]")
            first.types("y")
            second.until("Noted: again")
            second.until("ready ·")
            second.types(":quit" + ENTER)
            assert second.ends() == 0


@pytest.mark.promise("attach")
def test_a_question_is_taken_by_another_terminal_which_sees_that_it_is_asked_elsewhere(demo: Launcher) -> None:
    """Each sees what is sent from elsewhere."""
    demo.extend(permissions={"rules": [{"deny": {"path": "**/.env"}}]})
    with up(demo) as host, at(demo, "run", "p", "-s", "work") as first:
        first.until("ready ·")
        assert host.run("add 20 22", "-s", "work").out == b"42\n"
        first.until("❯ add 20 22")
        first.until("42")
        first.until("ready ·")
        first.types(":servers" + ENTER)
        first.until_it(lambda: any(row.startswith("▐   notes ready in") for row in first.all), "its state")
        first.types(":permissions" + ENTER)
        first.until("permissions.rules[0] (.acp-launch/p.yaml:")
        assert "--approve" not in first.shown, "the host's rules hold"
        first.types("note kept" + ENTER)
        first.until("[y]")
        alone = demo.forked()
        assert "hosts     p is up; work waits for you: acp-launch attach work\n" in alone.out.decode()
        with at(demo, "attach") as second:
            second.until("asked on another terminal ·")
            second.types(":take" + ENTER)
            second.until("[y]")
            first.until("Allow it? (no longer asked)")
            first.until("asked on another terminal ·")
            second.types("y")
            first.until("Noted: kept")
            first.until("ready ·")
            second.until("ready ·")


def test_attach_says_what_there_is(demo: Launcher) -> None:
    none = demo.forked("attach")
    assert (none.code, none.err) == (
        2,
        "acp-launch: attach needs a terminal\n    fix: without one: acp-launch run PROFILE PROMPT\n",
    )
    with at(demo, "attach") as terminal:
        terminal.until("no profile is up")
        assert terminal.ends() == 3
    with up(demo) as host:
        with at(demo, "attach", "other") as terminal:
            terminal.until('no session "other" is open in a host')
            assert terminal.ends() == 3
        assert host.run("add 1 1", "-s", "one").code == 0
        assert host.run("add 1 1", "-s", "two").code == 0
        with at(demo, "attach") as terminal:
            terminal.until("▸ one      add 1 1  idle   p")
            terminal.until("  two      add 1 1  idle   p")
            terminal.types("two" + ENTER)
            terminal.until("resumed two")
            terminal.types(":detach" + ENTER)
            assert terminal.ends() == 0
            assert "resume: acp-launch attach two" in terminal.all[-1], "also before its first prompt"
        demo.env["TERM"] = "dumb"
        with at(demo, "attach") as terminal:
            terminal.until("several sessions are open: one (p, idle), two (p, idle)")
            assert terminal.ends() == 3


def test_a_session_that_a_terminal_switches_away_from_stays_open_at_the_agent(launch: Launcher) -> None:
    """The host has it open, also for others."""
    launch.profile("replayer")
    with up(launch) as host, at(launch, "run", "p", "-s", "one") as terminal:
        terminal.until("ready ·")
        terminal.types("hi" + ENTER)
        terminal.until("live 1")
        terminal.types(":new two" + ENTER)
        terminal.until("p · two")
        assert host.run("again", "-s", "one").out == b"live 2\n"
        assert "session/close" not in host.methods


def test_a_terminal_whose_launch_is_its_own_is_told_that_no_other_could_take_it_over(demo: Launcher) -> None:
    with at(demo, "run", "p", "-s", "work") as terminal:
        terminal.until("ready ·")
        terminal.types(":take" + ENTER)
        terminal.until("only this terminal is attached to the session")
        terminal.types(":detach" + ENTER)
        terminal.until("this launch ends with its terminal")
        terminal.until("fix: to keep one running: acp-launch up p")
        terminal.types(":quit" + ENTER)
        assert terminal.ends() == 0
