"""What an interactive session asks of its terminal, and the events it gets: an application, or lines on a dumb one."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from acp_launch.session.events import Person

if TYPE_CHECKING:
    from acp_launch.console.draw.live_region import Canvas


class Submitted(Struct, frozen=True):
    """Entered text of one or more lines; never blank."""

    text: str


SIGIL = ":"
WORDS = ("exit", "quit")  # alone on a line they leave, as in a shell


def is_ours(text: str) -> bool:
    """Return whether entered text is a command instead of a prompt. A space before `exit` makes it a prompt."""
    return text.rstrip() in WORDS or (text.startswith(SIGIL) and not text.startswith(SIGIL * 2))


class Interrupted(Struct, frozen=True):
    """Ctrl-C with an effect: there was no typed text to clear, or a turn is running."""


class Left(Struct, frozen=True):
    """Ctrl-D on an empty line, or the end of input."""


class HungUp(Left, frozen=True):
    """The terminal is gone."""


class Cancelled(Struct, frozen=True):
    """Escape during a turn. It never leaves the session, however often it is pressed."""


class Redirected(Struct, frozen=True):
    """The user refuses a tool call, and types what the agent shall do instead."""


class Unqueued(Struct, frozen=True):
    """Up on an empty line: the prompt that was queued last is wanted back on the line."""


class Began(Struct, frozen=True):
    """A turn has begun that another front of the host has asked for, with this prompt; or it runs already."""

    text: str


Key = Literal["modes", "keys", "unfold"]


class Pressed(Struct, frozen=True):
    """A key that the session acts on: the agent's next mode, the help of keys, the folded pieces."""

    key: Key


Event = Submitted | Interrupted | Left | Cancelled | Redirected | Unqueued | Pressed | Began
Phase = Literal["starting", "idle", "working", "asking", "cancelling", "down"]


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
    servers_silent: int = 0  # they have not answered yet
    servers_down: int = 0
    phase: Phase = "starting"


class Activity(Struct, frozen=True):
    """The present activity, for how many seconds, and a remark about it. The text is redacted and harmless."""

    what: str
    seconds: float | None = None
    remark: str = ""


def elapsed(time: float) -> str:
    """Format whole seconds: `12 s`, `2 min 5 s`, `1 h 2 min`."""
    minutes, rest = divmod(int(time), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Word(Struct, frozen=True):
    """A completion: the inserted text, the meaning shown next to it, and a hint about what follows."""

    text: str
    meaning: str = ""
    hint: str = ""


class Vocabulary(Struct, frozen=True, kw_only=True):
    """All current completions. `commands` are ours (`:help`), `slash` the agent's (`/plan`), each with its sigil;
    `values` are the words after our commands, by the words before: `(":mode",)`, `(":set", "model")`."""

    commands: tuple[Word, ...] = ()
    slash: tuple[Word, ...] = ()
    values: Mapping[tuple[str, ...], tuple[Word, ...]] = {}
    directories: tuple[Path, ...] = ()  # the session's roots for `@path`; the first is its cwd


class Front(Protocol):
    """The visible side of an interactive session."""

    events: "asyncio.Queue[Event]"
    person: Person

    @property
    def canvas(self) -> "Canvas | None":
        """Return the canvas for the session; None if it is written line by line."""

    async def run(self) -> None:
        """Show the session and take input until `close`; the terminal is always restored."""

    def close(self) -> None: ...

    def status(self, status: Status) -> None: ...

    def watch(self, activity: Callable[[], Activity | None]) -> None:
        """Ask this function for the activity whenever it is shown; None without one."""

    def vocabulary(self, vocabulary: Vocabulary) -> None: ...

    def queued(self, prompts: Sequence[str]) -> None:
        """Show the prompts that were entered during a turn and wait for its end."""

    def offer(self, text: str) -> None:
        """Put text into the prompt for editing; never over text that the user is typing."""

    def take_back(self, text: str) -> None:
        """Put a prompt of the queue on the line, above those that were taken back before."""

    def interrupt(self) -> None:
        """Handle a SIGINT like Ctrl-C."""

    def suspended(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal, in its usual mode, to another program while the block runs."""


def possible() -> bool:
    """Return whether an interactive session is possible: stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def can_draw() -> bool:
    """Return whether the terminal can be drawn on, and is stdout too."""
    return possible() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
