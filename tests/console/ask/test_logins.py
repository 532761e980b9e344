"""What a person is shown before they log in: everything, and nothing that drives the terminal."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from acp_launch.console.ask import logins
from acp_launch.console.ask.logins import LoginQuestions, as_json, command_line, table
from acp_launch.console.stderr import AgentStderr
from acp_launch.process.program import LocalProgram
from acp_launch.protocol.acp import AuthMethod, read
from tests.console.person import Scripted
from tests.looped import looped
from tests.secret.canaries import knowing

HOSTILE = "\x1b]0;owned\x07Log\nin"
OLD = AuthMethod("old", HOSTILE, command=("agent", "a b"), command_env={"A": "\x1b[2J", "B": "it's"})
PROGRAM = LocalProgram("login", ("/opt/agent", "a b", "x\n"), {"PATH": "/bin"}, Path("/w"))


def test_each_method_has_a_key_of_its_own_and_n_is_none_of_them() -> None:
    methods = [AuthMethod(f"m{number}", f"Method {number}") for number in range(40)]
    person = Scripted("o", "n", None)
    chosen = [asyncio.run(LoginQuestions(person).which("agent", methods)) for _ in range(3)]
    assert chosen == [methods[22], None, None]
    keys = [each.split()[0] for each in person.told[1].removeprefix("Log in with: ").split(" / ")]
    assert (len(keys), len(set(keys)), keys[-1]) == (35, 35, "n")


def test_methods_are_shown_on_one_line_each_without_control_characters_and_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logins, "redactor", knowing("hunter2-hunter2"))
    person = Scripted("1")
    method = AuthMethod("a", HOSTILE, "with\nhunter2-hunter2")
    assert asyncio.run(LoginQuestions(person).which("\x1bagent", [method])) == method
    said, asked = person.told
    assert said == "The agent \\x1bagent needs a login"
    assert asked == (f"Log in with: 1 \\x1b]0;owned\\x07Log in: with *** / n {logins.NONE.label}")


@pytest.mark.parametrize(("key", "allowed"), [("y", True), ("n", False), (None, False)])
def test_a_command_line_is_shown_as_a_shell_would_read_it_before_it_is_allowed(key: str | None, allowed: bool) -> None:
    person = Scripted(key)
    assert asyncio.run(LoginQuestions(person).consents(OLD, PROGRAM)) is allowed
    assert person.told[:-1] == [
        '"\\x1b]0;owned\\x07Log\\nin" is a command that the agent chose, not your profile:',
        "    A='\\x1b[2J' B='it'\"'\"'s' /opt/agent 'a b' 'x\\n'",
        "    in /w",
    ]
    assert command_line(AuthMethod("a", "A"), PROGRAM) == "/opt/agent 'a b' 'x\n'"


@looped
async def test_the_agent_is_heard_while_it_logs_in_and_not_otherwise() -> None:
    kept, shown = bytearray(), io.StringIO()
    aloud = AgentStderr(kept.extend, shown)
    person = Scripted()
    aloud(b"before\n")
    async with LoginQuestions(person, aloud).waiting(OLD):
        aloud(b"open \x1b[1mhttps://example.com/\xc3")
        aloud(b"\xa9\n")
    aloud(b"after\n")
    assert shown.getvalue() == "open \\x1b[1mhttps://example.com/é\n"
    assert kept.decode() == "before\nopen \x1b[1mhttps://example.com/é\nafter\n"
    assert person.told == ['logging in with "\\x1b]0;owned\\x07Log\\nin"; Ctrl-C cancels']


def test_a_list_shows_neither_control_characters_nor_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "redactor", knowing("hunter2-hunter2"))
    methods = read(
        [
            {"id": "\x1b[2J", "name": HOSTILE, "description": "hunter2-hunter2"},
            {"id": "t", "name": "T", "type": "terminal", "args": ["--key", "hunter2-hunter2"], "env": {"A": "b"}},
        ]
    )
    shown = table(methods)
    assert "\x1b" not in shown and "hunter2" not in shown
    assert len(shown.splitlines()) == 3
    said = json.loads(json.dumps(as_json("a", methods)))
    assert said["methods"][1] == {
        "id": "t",
        "name": "T",
        "type": "terminal",
        "args": ["--key", "***"],
        "env": {"A": "b"},
    }
