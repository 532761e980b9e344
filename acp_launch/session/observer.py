"""The interfaces of what shows a session, asks the user, and serves the agent's requests."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from msgspec import Raw, Struct

from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.conversation import Updated
from acp_launch.session.events import AnyEvent, NoteEvent

# The last four are for text from others: "added" and "removed" are lines of a change.
Tone = Literal["plain", "dim", "heading", "warning", "quote", "faint", "added", "removed"]
USER, EDITOR = "you", "the editor"  # what the record and the notices call the one that decided
DENIED = "it was denied"  # instead, of a call that ran all the same
Way = Literal["asked", "unasked", "service"]  # why a tool call is judged: see the permission log
Holds = Literal["once", "session", "always"]  # how long an answer holds; `always`: until the user forgets it


class Choice(Struct, frozen=True):
    """One way to answer. `key` is what the user types for it: a letter or a digit; one in upper case is not the same as
    in lower case, where both are offered.
    """

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


BACK = "\x1b"  # instead of a line: the user wants to go back


class Person(Protocol):
    """Asks one question at a time: text and questions belong inside `async with person.floor()`.

    A question ends early by being cancelled; it then restores the terminal. None means that it was dismissed: the end
    of input, or Escape at one that a key answers.
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
        """Return one line of text, without its end; an empty one gives `default`, Escape gives `BACK`."""


Ask = Callable[[ToolQuestion], Coroutine[Any, Any, Answer]]  # asks the user a permission question
# Takes the params of a request, which are known to be an object, and returns the result.
Serve = Callable[[dict[str, Any]], Awaitable[object]]
Services = Mapping[str, Serve]  # by method


class Refusal(Exception):  # noqa: N818 - the name states the fault
    """Raised by a service to answer the request with this JSON-RPC error. `message` is one short sentence."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def invalid(message: str) -> Refusal:
    """Return the refusal for wrong params."""
    return Refusal(jsonrpc.INVALID_PARAMS, message)


def missing(what: str, data: object = None) -> Refusal:
    """Return the refusal for a file, directory or terminal that does not exist."""
    return Refusal(jsonrpc.NOT_FOUND, what, data)


class Said(Struct, frozen=True):
    """The words of a turn, and the titles of its tool calls."""

    answer: str = ""
    tools: tuple[str, ...] = ()


class TurnEnd(Struct, frozen=True):
    """The end of a turn, for the caller of the turn; observers are told a `ResultEvent`."""

    stop_reason: str
    usage: dict[str, Any] | None
    denied: str  # the tool call that the user could not be asked about, if that ended the work; else empty
    title: str  # the session's title from the agent; empty if it has none
    said: Said = Said()


class Observer(Protocol):
    """What is told all that happens in a session."""

    def update(self, update: Updated) -> None:
        """Show an update. Called in wire order, 100,000 times in a long turn, so it must be fast."""

    def show(self, event: AnyEvent) -> None:
        """Show any other event, or ignore it. One about a server may also come within a message of the agent."""

    async def drain(self) -> None:
        """Return when there is room for more; the agent is not read meanwhile (back-pressure)."""


def show_note(observer: Observer, text: str) -> None:
    observer.show(NoteEvent(text=text))
