"""What the story of a session wants of whatever shows it: an application on a terminal, lines on a dumb one."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from acp_launch.session.person import Person


class Submitted(Struct, frozen=True):
    """A line, or several, was entered; never blank."""

    text: str


class Interrupted(Struct, frozen=True):
    """Ctrl-C where it means something: nothing was typed that it could have cleared, or a turn is running."""


class Left(Struct, frozen=True):
    """Ctrl-D on an empty line, or the end of input."""


Event = Submitted | Interrupted | Left
Mood = Literal["starting", "idle", "working", "asking", "cancelling", "down"]


class Status(Struct, frozen=True, kw_only=True):
    """What the status line tells; empty and None for what is not known."""

    agent: str = ""
    profile: str = ""
    session: str = ""
    title: str = ""
    mode: str = ""
    model: str = ""
    used: int | None = None  # tokens of the context
    size: int | None = None
    cost: str = ""
    servers_up: int = 0
    servers_down: int = 0
    mood: Mood = "starting"


class Word(Struct, frozen=True):
    """Something that can be completed: what is inserted, what is shown beside it, and the hint of what comes next."""

    text: str
    meaning: str = ""
    hint: str = ""


class Vocabulary(Struct, frozen=True, kw_only=True):
    """What can be completed now. `commands` are ours (`:help`), `slash` the agent's (`/plan`), each with its sigil;
    `values` the words after a command of ours, by the words before: `(":mode",)`, `(":set", "model")`."""

    commands: tuple[Word, ...] = ()
    slash: tuple[Word, ...] = ()
    values: Mapping[tuple[str, ...], tuple[Word, ...]] = {}
    directories: tuple[Path, ...] = ()  # the session's roots, where `@path` looks: the first is its cwd


class Front(Protocol):
    """The shown side of an interactive session."""

    events: "asyncio.Queue[Event]"
    person: Person

    async def run(self) -> None:
        """Show it and take input until `close`; the terminal is as it was afterwards, however this ends."""

    def close(self) -> None: ...

    def status(self, status: Status) -> None: ...

    def vocabulary(self, vocabulary: Vocabulary) -> None: ...

    def queued(self, prompts: Sequence[str]) -> None:
        """What was entered during a turn and waits for its end."""

    def offer(self, text: str) -> None:
        """Put text where the next prompt is typed, to be edited; never over what the user is typing."""

    def suspended(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal, in its usual mode, to another program while the block runs."""
