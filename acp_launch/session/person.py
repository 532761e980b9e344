"""Somebody to ask: the console implements this for a terminal, tests play a part in it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct

Tone = Literal["plain", "dim", "heading", "warning", "quote", "faint"]  # the last two: words of others
Holds = Literal["once", "session", "always"]  # how long an answer lives: `always` is until it is forgotten by hand


class Choice(Struct, frozen=True):
    """One way to answer. `key` is what is typed for it: a letter or a digit, in lower case."""

    key: str
    label: str


class ToolQuestion(Struct, frozen=True, kw_only=True):
    """
    A tool call (merged) that a person is asked about, and the options the agent offered. `announced` is what the call
    was called before the question called it something else. `is_keepable` is whether an answer could be kept at all.
    """

    call: dict[str, Any]
    options: list[Any]
    announced: str = ""
    is_keepable: bool = True


class Answer(Struct, frozen=True):
    """What was said to a permission question; `option_id` None means none of the options."""

    option_id: str | None
    holds: Holds = "once"


class Person(Protocol):
    """Asked one question at a time: whatever is said or asked stands inside `async with person.floor()`.

    A question ends early by being cancelled; it then leaves the terminal as it was. None means that it was dismissed:
    the end of input, or Escape.
    """

    def floor(self) -> AbstractAsyncContextManager[None]: ...

    def room(self, prompt: str, choices: Sequence[Choice]) -> tuple[int, int]:
        """The columns of a line above such a question, and the rows that it leaves for them."""

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Lines above a question. Neither redacted nor made harmless here: whoever calls has done both."""

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        """The key that was chosen."""

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        """One line of text, without its end; an empty one gives `default`."""


class Ask(Protocol):
    """Asks a person."""

    async def __call__(self, question: ToolQuestion) -> Answer: ...
