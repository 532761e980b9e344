"""The `:` commands of an interactive session, and what users of other programs type for them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acp_launch.errors import UsageError
from acp_launch.interactive import commands
from acp_launch.interactive.state import Leave
from acp_launch.session.options import Choosable, Option

MODEL = Option(id="model", name="Model", current="s", choices=(Choosable("s", "Small"), Choosable("l", "Large")))
VERBOSE = Option(id="verbose", name="Verbose", description="Say more", kind="boolean", current=False)


def session(*offered: str, options: tuple[Option, ...] = (), name: str = "work") -> Any:
    state = SimpleNamespace(commands=[SimpleNamespace(name=each) for each in offered], options=options)
    return SimpleNamespace(client=SimpleNamespace(state=state), held_session=SimpleNamespace(name=name))


def said_by(text: str, current: Any) -> tuple[list[str], object]:
    """What a command prints, and how it changes the session."""
    said: list[str] = []
    fresh = SimpleNamespace(fresh=lambda: "a new session")
    interactive = SimpleNamespace(
        say=lambda text, style="": said.append(text), show_command=said.append, held_sessions=fresh
    )
    return said, asyncio.run(commands.run(cast(Any, interactive), current, text))


@pytest.mark.parametrize("text", ["/exit", "/model", "/model fast", "/help", "/resume", "/clear", "!ls", ":x", "exit"])
def test_habits_from_other_programs_are_commands_of_ours(text: str) -> None:
    assert commands.is_for_us(text, session("plan"))


@pytest.mark.parametrize(
    "text",
    [
        *(" /exit", " !ls", "!", "! is a mark", "/etc/passwd: what is it?", "/plan the work", "/login"),
        *("/clear all the caches of the tests", "/help me with this", "::x", "exit now"),
    ],
)
def test_a_prompt_is_a_prompt(text: str) -> None:
    assert not commands.is_for_us(text, session("plan"))


def test_what_the_agent_offers_is_its_own() -> None:
    assert not commands.is_for_us("/clear", session("clear"))


def test_a_habit_is_said_by_its_name_here() -> None:
    said, outcome = said_by("/exit", session())
    assert said == ["/exit", "/exit is :quit here; with a space before it, it goes to the agent"]
    assert outcome == Leave(0)


def test_a_command_of_a_shell_is_refused_with_the_way_to_a_shell() -> None:
    with pytest.raises(UsageError) as caught:
        commands.find_command("!ls -l")
    assert caught.value.message == "! runs no command here"
    assert caught.value.fix.startswith("with a space before it, it goes to the agent; Ctrl-Z")


def test_options_are_listed_with_their_values() -> None:
    current = session(options=(MODEL, VERBOSE))
    assert said_by(":set", current)[0] == [
        *(":set", "model = Small  ", "    s | l"),
        *("verbose = off  Say more", "    on | off"),
    ]
    assert said_by(":model", current)[0] == [":model", "Model: Small", " * s  Small", "   l  Large"]
    assert said_by(":model", session())[0] == [":model", "this agent has no models to choose from"]
