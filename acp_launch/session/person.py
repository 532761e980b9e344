"""Somebody to ask: the console implements this for a terminal, tests play a part in it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct

Tone = Literal["plain", "dim", "heading", "warning", "quote", "faint"]  # the last two: words of others


class Choice(Struct, frozen=True):
    """One way to answer. `key` is what is typed for it: a letter or a digit, in lower case."""

    key: str
    label: str


class Answer(Struct, frozen=True):
    """What was said to a permission question; `option_id` None means none of the options. `always` is to be kept."""

    option_id: str | None
    always: bool = False


class Person(Protocol):
    """Asked one question at a time: whatever is said or asked stands inside `async with person.floor()`.

    A question ends early by being cancelled; it then leaves the terminal as it was. None means that it was dismissed:
    the end of input, or Escape.
    """

    def floor(self) -> AbstractAsyncContextManager[None]: ...

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Lines above a question. Neither redacted nor made harmless here: whoever calls has done both."""

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        """The key that was chosen."""

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        """One line of text, without its end; an empty one gives `default`."""


class Ask(Protocol):
    """Asks a person about a tool call (merged) and the options the agent offered."""

    async def __call__(self, call: dict[str, Any], options: list[Any]) -> Answer: ...
