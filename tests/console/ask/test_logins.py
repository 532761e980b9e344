"""What a person is shown before they log in: everything, and nothing that drives the terminal."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from acp_launch.console.ask import logins
from acp_launch.console.ask.logins import LoginQuestions, as_json, command_line, table
from acp_launch.console.stderr import AgentStderr
from acp_launch.process.program import LocalProgram
from acp_launch.protocol.acp import AuthMethod, read
from acp_launch.session.events import Choice, Tone
from tests.looped import looped
from tests.secret.canaries import knowing

HOSTILE = "\x1b]0;owned\x07Log\nin"
OLD = AuthMethod("old", HOSTILE, command=("agent", "a b"), command_env={"A": "\x1b[2J", "B": "it's"})
PROGRAM = LocalProgram("login", ("/opt/agent", "a b", "x\n"), {"PATH": "/bin"}, Path("/w"))


@dataclass
class Person:
    """Answers `key` to every question; says what stood on the floor."""

    key: str | None
    said: list[str] = field(default_factory=list)
    offered: list[Choice] = field(default_factory=list)
    has_floor: bool = False

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[None]:
        self.has_floor = True
        yield
        self.has_floor = False

    def room(self, prompt: str, choices: Sequence[Choice]) -> tuple[int, int]:
        raise AssertionError("nothing here is too long")

    def say(self, text: str, tone: Tone = "plain") -> None:
        assert self.has_floor
        self.said.append(text)

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        assert self.has_floor
        self.offered = list(choices)
        return self.key

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        raise AssertionError("nothing is typed here")


def test_each_method_has_a_key_of_its_own_and_n_is_none_of_them() -> None:
    methods = [AuthMethod(f"m{number}", f"Method {number}") for number in range(40)]
    person = Person("o")
    chosen = asyncio.run(LoginQuestions(person).which("agent", methods))
    assert chosen == methods[22]
    keys = [choice.key for choice in person.offered]
    assert (len(keys), len(set(keys)), keys[-1]) == (35, 35, "n")
    assert asyncio.run(LoginQuestions(Person("n")).which("agent", methods)) is None
    assert asyncio.run(LoginQuestions(Person(None)).which("agent", methods)) is None


def test_methods_are_shown_on_one_line_each_without_control_characters_and_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logins, "redactor", knowing("hunter2-hunter2"))
    person = Person("1")
    method = AuthMethod("a", HOSTILE, "with\nhunter2-hunter2")
    assert asyncio.run(LoginQuestions(person).which("\x1bagent", [method])) == method
    assert person.said == ["The agent \\x1bagent needs a login"]
    assert person.offered == [Choice("1", "\\x1b]0;owned\\x07Log in: with ***"), logins.NONE]


@pytest.mark.parametrize(("key", "allowed"), [("y", True), ("n", False), (None, False)])
def test_a_command_line_is_shown_as_a_shell_would_read_it_before_it_is_allowed(key: str | None, allowed: bool) -> None:
    person = Person(key)
    assert asyncio.run(LoginQuestions(person).consents(OLD, PROGRAM)) is allowed
    assert person.said == [
        '"\\x1b]0;owned\\x07Log\\nin" is a command that the agent chose, not your profile:',
        "    A='\\x1b[2J' B='it'\"'\"'s' /opt/agent 'a b' 'x\\n'",
        "    in /w",
    ]
    assert command_line(AuthMethod("a", "A"), PROGRAM) == "/opt/agent 'a b' 'x\n'"


@looped
async def test_the_agent_is_heard_while_it_logs_in_and_not_otherwise() -> None:
    kept, shown = bytearray(), io.StringIO()
    aloud = AgentStderr(kept.extend, shown)
    person = Person(None)
    aloud(b"before\n")
    async with LoginQuestions(person, aloud).waiting(OLD):
        aloud(b"open \x1b[1mhttps://example.com/\xc3")
        aloud(b"\xa9\n")
    aloud(b"after\n")
    assert shown.getvalue() == "open \\x1b[1mhttps://example.com/é\n"
    assert kept.decode() == "before\nopen \x1b[1mhttps://example.com/é\nafter\n"
    assert person.said == ['logging in with "\\x1b]0;owned\\x07Log\\nin"; Ctrl-C cancels']


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
