"""The interface between an interactive session and its front: an application on a terminal, or lines on a dumb one."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from acp_launch.session.person import Person


class Submitted(Struct, frozen=True):
    """Entered text of one or more lines; never blank."""

    text: str


class Interrupted(Struct, frozen=True):
    """Ctrl-C with an effect: there was no typed text to clear, or a turn is running."""


class Left(Struct, frozen=True):
    """Ctrl-D on an empty line, or the end of input."""


Event = Submitted | Interrupted | Left
Mood = Literal["starting", "idle", "working", "asking", "cancelling", "down"]


class Status(Struct, frozen=True, kw_only=True):
    """The content of the status line; empty or None if unknown."""

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
    """A completion: the inserted text, the meaning shown next to it, and a hint about what follows."""

    text: str
    meaning: str = ""
    hint: str = ""


class Vocabulary(Struct, frozen=True, kw_only=True):
    """All current completions. `commands` are ours (`:help`), `slash` the agent's (`/plan`), each with its sigil;
    `values` are the words after a command of ours, by the words before: `(":mode",)`, `(":set", "model")`."""

    commands: tuple[Word, ...] = ()
    slash: tuple[Word, ...] = ()
    values: Mapping[tuple[str, ...], tuple[Word, ...]] = {}
    directories: tuple[Path, ...] = ()  # the session's roots for `@path`; the first is its cwd


class Front(Protocol):
    """The visible side of an interactive session."""

    events: "asyncio.Queue[Event]"
    person: Person

    async def run(self) -> None:
        """Show the session and take input until `close`; the terminal is always restored."""

    def close(self) -> None: ...

    def status(self, status: Status) -> None: ...

    def vocabulary(self, vocabulary: Vocabulary) -> None: ...

    def queued(self, prompts: Sequence[str]) -> None:
        """Show the prompts that were entered during a turn and wait for its end."""

    def offer(self, text: str) -> None:
        """Put text into the prompt for editing; never over text that the user is typing."""

    def suspended(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal, in its usual mode, to another program while the block runs."""
