"""The interface that asks the user a question. The console implements it for a terminal; tests have their own."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from msgspec import Raw, Struct

from acp_launch.protocol import acp

# The last four are for text from others: "added" and "removed" are lines of a change.
Tone = Literal["plain", "dim", "heading", "warning", "quote", "faint", "added", "removed"]
USER, EDITOR = "you", "the editor"  # what the record and the notices call the one that decided
DENIED = "it was denied"  # instead, of a call that ran all the same
Holds = Literal["once", "session", "always"]  # how long an answer holds; `always`: until the user forgets it


class Choice(Struct, frozen=True):
    """One way to answer. `key` is what the user types for it: a letter or a digit, in lower case."""

    key: str
    label: str


class ToolQuestion(Struct, frozen=True, kw_only=True):
    """A tool call (merged) that the user is asked about, and the options the agent offered.

    `announced` is the call's title before the question changed it. `is_keepable` is whether an answer can be
    remembered; `scope` then says for which calls, if known.
    """

    call: dict[str, Any]
    options: list[Any]
    announced: str = ""
    is_keepable: bool = True
    scope: str = ""


class Answer(Struct, frozen=True):
    """The answer to a permission question; `option_id` None means none of the options. `by` is who has decided."""

    option_id: str | None
    holds: Holds = "once"
    by: str = USER


def editor_answer(result: Raw, options: Sequence[Any]) -> Answer:
    """Read the answer of an editor to `session/request_permission`. What it allows or denies for always holds for its
    session with us, too.
    """
    id = acp.text(acp.mapping(acp.mapping(acp.decoded(result)).get("outcome")).get("optionId")) or None
    kind = next((option.get("kind") for option in map(acp.mapping, options) if option.get("optionId") == id), "")
    return Answer(id, holds="session" if acp.text(kind).endswith("_always") else "once", by=EDITOR)


class Person(Protocol):
    """Asks one question at a time: text and questions belong inside `async with person.floor()`.

    A question ends early by being cancelled; it then restores the terminal. None means that it was dismissed: the end
    of input, or Escape.
    """

    def floor(self) -> AbstractAsyncContextManager[None]:
        """Wait for the turn to ask."""

    def room(self, prompt: str, choices: Sequence[Choice]) -> tuple[int, int]:
        """Return the columns of a line above such a question, and the rows left for such lines."""

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Show lines above a question. The caller has redacted and escaped them."""

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        """Return the chosen key."""

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        """Return one line of text, without its end; an empty one gives `default`."""


class Ask(Protocol):
    """Asks the user a permission question."""

    async def __call__(self, question: ToolQuestion) -> Answer: ...
