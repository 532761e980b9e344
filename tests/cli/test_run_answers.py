"""Ring 3. How long an answer to a permission question lives, and what a person sees before they give one."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.launcher import AGENTS, Launcher
from tests.cli.terminal import on_terminal
from tests.cli.test_run_interactive import ENTER, after, leaves, sitting
from tests.interactive.screen import Terminal

NOTE = ("run", "demo", "note buy milk")
GOOD = "Allow for good, listed by acp-launch permission list"
DENIED = "denied: Note: buy milk (permissions.default: ask, and no terminal to ask on)"


@pytest.fixture
def demo(launch: Launcher) -> Launcher:
    launch.env["TERM"] = "xterm-256color"
    return launch


def answered(launch: Launcher, key: str, *arguments: str) -> str:
    """What a run of one prompt shows on a terminal, whose question is answered with a key."""
    with on_terminal(*arguments, cwd=launch.project, env=launch.env) as terminal:
        terminal.until("[n] ")
        terminal.types(key)
        assert terminal.ends() == 0
        return re.sub(r"\n▐ +\| ", " ", terminal.text)  # rows that were broken


def by(launch: Launcher, profile: str = "demo") -> list[tuple[str, str]]:
    """Who answered what, by the record."""
    log = launch("permission", "log", profile, "--json").out.splitlines()
    return [(entry["answer"], entry["by"]) for entry in map(json.loads, log)]


def test_what_is_allowed_in_this_session_is_asked_again_in_the_next_run(demo: Launcher) -> None:
    """The label is the agent's: "Always allow in this session"."""
    text = answered(demo, "a", *NOTE)
    assert "[a] Always allow in this session" in text
    assert "▐ Allow it? Always allow in this session\n" in text
    assert "allowed: Note: buy milk" not in text, "it stands right above"
    piped = demo(*NOTE)
    assert (piped.code, DENIED in piped.err) == (10, True)
    assert demo("permission", "list", "demo").err == 'no answers are remembered for "demo" here\n'
    assert by(demo) == [("allow", "you, in this session"), ("deny", DENIED.partition("(")[2][:-1])]


@pytest.mark.promise("permission")
def test_what_is_allowed_for_good_is_said_to_be_listed_and_holds_until_it_is_forgotten(demo: Launcher) -> None:
    text = answered(demo, "g", *NOTE)
    assert f"[g] {GOOD} demo\n" in text
    assert f"▐ Allow it? {GOOD} demo\n" in text
    assert "allowed: Note: buy milk" not in text
    listed = demo("permission", "list", "demo").out.decode().splitlines()
    assert [line.split()[:5] for line in listed[1:]] == [["1", "always", "allow", "edit", "Note:"]]
    piped = demo(*NOTE)
    assert (piped.code, "(your earlier answer: always allow)" in piped.err) == (0, True)
    demo("permission", "forget", "demo", "--all")
    assert demo(*NOTE).code == 10


def question(terminal: Terminal, prompt: str) -> None:
    terminal.until("ready ·")
    terminal.types(prompt + ENTER)
    terminal.until_it(lambda: any("[a] Always allow in this" in row for row in after(terminal, prompt)), "a question")


def goes_through(terminal: Terminal, prompt: str, said: str) -> None:
    """It is done, and nobody was asked."""
    terminal.until("ready ·")
    before = terminal.all.count(said)
    terminal.types(prompt + ENTER)
    terminal.until_it(lambda: terminal.all.count(said) > before, said)
    assert not any("asks for permission" in row for row in after(terminal, prompt))


def test_a_session_answer_holds_in_its_session_and_comes_back_with_it(tmp_path: Path) -> None:
    """The demo agent asks again in a session that it loads: then it is answered."""
    (tmp_path / "a.txt").write_text("zero\n")
    with sitting("demo", "--session", "one", cwd=tmp_path) as terminal:
        question(terminal, "edit a.txt one")
        terminal.types("a")
        goes_through(terminal, "edit a.txt two", "a.txt is written, through the client.")
        terminal.types(f":permissions{ENTER}")
        terminal.until("allow in this session: edit")
        terminal.types(f":new two{ENTER}")
        terminal.until("· two ·")
        terminal.until("ready ·")
        question(terminal, "edit a.txt three")
        terminal.types("n")
        terminal.until("I did not do it: permission was refused.")
        terminal.until("ready ·")
        terminal.types(f":permissions{ENTER}")
        terminal.until("default: ask")
        assert not any("allow in this session" in row for row in after(terminal, "edit a.txt three"))
        terminal.types(f":switch one{ENTER}")
        terminal.until("· one ·")
        goes_through(terminal, "edit a.txt four", "a.txt is written, through the client.")
        leaves(terminal)
    assert (tmp_path / "a.txt").read_text() == "zero\none\ntwo\nfour\n"


def test_an_answer_that_cannot_be_kept_for_good_holds_in_its_session_and_is_said_to(demo: Launcher) -> None:
    with on_terminal(*NOTE, cwd=demo.project, env=demo.env) as terminal:
        terminal.until("[n] ")
        (demo.state / "permissions").write_text("in the way")
        terminal.types("g")
        assert terminal.ends() == 0
        text = " ".join(terminal.text.split())
    assert (
        "the answer applies only to this session and could not be saved: cannot read or write the remembered answers in"
        in text
    )
    assert by(demo) == [("allow", "you, in this session")]


def test_what_is_kept_for_good_elsewhere_is_listed_there(launch: Launcher) -> None:
    elsewhere = launch.project / "elsewhere"
    (elsewhere / ".acp-launch").mkdir(parents=True)
    words = [sys.executable, "-I", "-S", str(AGENTS / "asker.py"), "allow_once,reject_once", 'input={"path": "a"}']
    agent = shlex.join(words)
    text = "".join(answered(launch, "g", "run", "--cwd", "elsewhere", "--agent", agent, "hi").split())
    assert f"listedbycd{elsewhere};acp-launchpermissionlist--'--agentpython" in text
