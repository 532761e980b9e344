"""
The events of a session: what every output shows, `-o json` writes, a host sends to its fronts, and a batch keeps; one
object a line.

Also the interfaces of what shows a session, asks the user, and serves the agent's requests.

docs/scripting.md documents each type and member; `acp-launch schema --events` prints the JSON Schema. Members and types
may be added later. What an agent said is `Raw`: it is never decoded and encoded again, so unknown members are not lost.
"""

import json
import operator
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from acp_launch import errors
from acp_launch.errors import AgentError, LaunchError, ProblemsError
from acp_launch.problem import Problem, summary
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.conversation import How, Updated
from acp_launch.protocol.splice import replace_halves, written

if TYPE_CHECKING:
    from acp_launch.secret.redact import Redactor


S = TypeVar("S", bound=Struct)


class TimedEvent(Struct, frozen=True, tag_field="type", rename="camel"):
    """`time` is in UTC, as "2026-11-27T08:30:00.250Z": when it was written or recorded. It is empty before."""

    time: str = ""


class InitializedEvent(TimedEvent, frozen=True, kw_only=True, tag="initialized"):
    """The agent's whole answer to `initialize`."""

    result: Raw


class SessionEvent(TimedEvent, frozen=True, kw_only=True, tag="session"):
    """A session is open, and its history, if any, was replayed. `session_id` is the agent's, `name` ours.

    `replayed` counts the updates of its history, `turns` its prompts. `title` is the one that the store has of a
    session that is resumed.
    """

    session_id: str
    name: str
    how: How
    replayed: int = 0
    result: Raw
    turns: int = 0
    title: str = ""


class AgentEvent(TimedEvent, frozen=True, kw_only=True):
    """One ACP `session/update`."""

    session_id: str
    update: Raw

    @property
    def body(self) -> dict[str, Any]:
        """The update, decoded anew each time."""
        return acp.mapping(acp.decoded(self.update))

    @property
    def text(self) -> str:
        """The piece of the agent's answer; empty if it is another update."""
        body = self.body
        is_answer = body.get("sessionUpdate") == "agent_message_chunk"
        return acp.text(acp.mapping(body.get("content")).get("text")) if is_answer else ""


class UpdateEvent(AgentEvent, frozen=True, kw_only=True, tag="update"):
    """One ACP `session/update` of a turn."""


class ReplayEvent(AgentEvent, frozen=True, kw_only=True, tag="replay"):
    """One update of a loaded session's history."""


class OutsideEvent(AgentEvent, frozen=True, kw_only=True, tag="outside"):
    """One update with text that came while no turn ran."""


class PermissionEvent(TimedEvent, frozen=True, kw_only=True, tag="permission"):
    """A question and its answer; `by` names what decided. `option_id` None means `cancelled`."""

    tool_call: dict[str, Any]
    options: Sequence[Any]
    allowed: bool
    option_id: str | None
    by: str
    title: str


class UnaskedEvent(TimedEvent, frozen=True, kw_only=True, tag="unasked"):
    """A tool call runs without a question, although the part `by` of the policy does not allow it."""

    tool_call: dict[str, Any]
    by: str


class FileEvent(TimedEvent, frozen=True, kw_only=True, tag="file"):
    """We read or wrote a file for the agent. `old` is None for a new file, or one that was only read."""

    path: str
    how: Literal["read", "write"]
    outcome: Literal["done", "refused", "failed"]
    reason: str | None = None  # why not
    created: bool = False
    old: str | None = None
    new: str | None = None


class TerminalEvent(TimedEvent, frozen=True, kw_only=True, tag="terminal"):
    """A step of a command that we run for the agent: it began (`output` empty), printed more, or ended.

    `command` is the whole command line, as shown to the user, and `output` is new since the last step. `exit` is "exit
    status 1", "signal SIGKILL", or "it was refused: …"; None while it runs.
    """

    terminal_id: str
    command: str
    cwd: str
    output: str = ""
    exit: str | None = None


class CancelledEvent(TimedEvent, frozen=True, kw_only=True, tag="cancelled"):
    """The turn is being cancelled; the agent is given up after `limit` seconds."""

    tool_calls: Sequence[dict[str, Any]]
    limit: float


class WaitingEvent(TimedEvent, frozen=True, kw_only=True, tag="waiting"):
    """A wait has lasted `seconds`; at `limit` it becomes an error."""

    what: str = field(name="for")
    seconds: float
    limit: float


class NoteEvent(TimedEvent, frozen=True, kw_only=True, tag="note"):
    """Something a user should know."""

    text: str


class ServersEvent(TimedEvent, frozen=True, kw_only=True, tag="servers"):
    """The state of the agent's servers: after a session has opened, or after a turn."""

    when: Literal["opened", "turn"]
    servers: Sequence[Standing]


class ResultEvent(TimedEvent, frozen=True, kw_only=True, tag="result"):
    """The turn is over. `result` is the agent's whole answer, `text` its final message, which the writer of events
    adds.

    `denied` is the last tool call that was denied, unless work went on; without a writer of events, only one that the
    user could not be asked about.
    """

    stop_reason: str
    text: str = ""
    usage: Mapping[str, Any] | None = None
    denied: str | None = None
    denied_by: str | None = None
    result: Raw


class ErrorProblem(Struct, frozen=True, kw_only=True):
    """A member of `ErrorEvent`."""

    file: str
    line: int
    column: int
    path: str
    message: str
    fix: str
    severity: str


class ErrorEvent(TimedEvent, frozen=True, kw_only=True, tag="error"):
    """The last line of a run that failed. `code` and `data` are from the agent's JSON-RPC error."""

    exit_code: int
    message: str
    fix: str
    detail: Sequence[str]
    problems: Sequence[ErrorProblem]
    code: int | None
    data: Any


NamedError = tuple[str, ErrorEvent]
"""An error on its way to another process: the name of its class, and its event."""


def describe_error(error: LaunchError) -> ErrorEvent:
    """Return the event that ends a run which failed; problems have their own messages and fixes."""
    code, _, data = error.reply or error.cause or (None, "", None)
    return ErrorEvent(
        exit_code=error.exit_code,
        message=summary(error.problems, error.outcome) if isinstance(error, ProblemsError) else error.message,
        fix=error.fix,
        detail=error.detail,
        problems=[ErrorProblem(**each._asdict()) for each in error.problems],
        code=code,
        data=data,
    )


def name_error(error: LaunchError) -> NamedError:
    return type(error).__name__, describe_error(error)


def restore_error(kind: str, event: ErrorEvent) -> LaunchError:
    """Return the error that an event tells of, of its own class if this version knows it."""
    known = getattr(errors, kind, None)
    made = known if isinstance(known, type) and issubclass(known, LaunchError) else AgentError
    problems = tuple(Problem(**msgspec.to_builtins(each)) for each in event.problems)
    message = "\n".join(map(str, problems)) if issubclass(made, ProblemsError) else event.message
    error = made.__new__(made)
    LaunchError.__init__(error, message, fix=event.fix, detail=event.detail)
    error.exit_code, error.problems = event.exit_code, problems
    error.cause = None if event.code is None else (event.code, event.message, event.data)
    return error


AnyEvent = (
    InitializedEvent
    | SessionEvent
    | ReplayEvent
    | OutsideEvent
    | UpdateEvent
    | PermissionEvent
    | UnaskedEvent
    | FileEvent
    | TerminalEvent
    | CancelledEvent
    | WaitingEvent
    | Change
    | ServersEvent
    | NoteEvent
    | ResultEvent
    | ErrorEvent
)
ServerEvent = Change  # the same value wherever a step in the life of a server is told
TYPES: tuple[type[Struct], ...] = AnyEvent.__args__
"""Every type, in the order of the documentation."""


def encode(event: AnyEvent) -> bytes:
    """Encode an event as one line without its end. Invisible characters in it are as they were."""
    return written(event)


def decode(line: bytes) -> AnyEvent | None:
    """Decode a line; None if it is not an event that is known here. Halves of characters become question marks."""
    decoder = _get_decoder()
    with suppress(msgspec.DecodeError, RecursionError):
        return decoder.decode(line)
    with suppress(msgspec.DecodeError, RecursionError):
        return decoder.decode(msgspec.json.encode(replace_halves(acp.decoded(line))))
    return None


@cache
def _get_decoder() -> "msgspec.json.Decoder[AnyEvent]":
    return msgspec.json.Decoder(AnyEvent)


def write_schema() -> str:
    """Return the JSON Schema (draft 2020-12) of a line."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(AnyEvent)}
    for described in schema["$defs"].values():  # all members are written, also those that have a default here
        described["required"] = [*described["properties"]]
        for member in described["properties"].values():
            member.pop("default", None)
    return json.dumps(schema, indent=2) + "\n"


# Members whose values are ours or the protocol's.
OURS = frozenset({"time", "by", "how", "state", "outcome", "when", "fault", "stop_reason"})


def redact(event: S, source: "Redactor") -> S:
    """Return an event without secrets: the same one, if it has none."""
    return event if source.is_empty else _redact_struct(event, source)


def _redact_struct(struct: S, source: "Redactor") -> S:
    members = {name: getattr(struct, name) for name in struct.__struct_fields__ if name not in OURS}
    changed = {name: new for name, old in members.items() if (new := _redact_member(old, source)) is not old}
    return replace(struct, **changed) if changed else struct


def _redact_member(value: Any, source: "Redactor") -> Any:
    if isinstance(value, Raw):
        said = bytes(value)
        hidden = source.raw_json(said)
        return value if hidden is said else Raw(hidden)
    if isinstance(value, Struct):
        return _redact_struct(value, source)
    if isinstance(value, tuple | list):
        members = [_redact_member(each, source) for each in value]
        return value if all(map(operator.is_, members, value)) else type(value)(members)
    return source.tree(value)


# What the agent asks, as a program that uses the Python API is asked.


class AnswerOption(Struct, frozen=True):
    """An answer to a `PermissionQuestion`; `kind` is allow_once, reject_always or such a word."""

    id: str
    name: str
    kind: str


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """Whether the agent may make a tool call, which is `call` as the agent describes it."""

    session: str
    title: str
    kind: str
    call: Mapping[str, Any]
    options: tuple[AnswerOption, ...]


class FormQuestion(Struct, frozen=True, kw_only=True):
    """Something that the agent wants to be filled in (`schema` is JSON Schema), or visited (`url`)."""

    session: str
    message: str
    schema: Mapping[str, Any] | None
    url: str | None


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
    """A receiver of all that happens in a session."""

    def update(self, update: Updated) -> None:
        """Show an update. Called in wire order, 100,000 times in a long turn, so it must be fast."""

    def show(self, event: AnyEvent) -> None:
        """Show any other event, or ignore it. One about a server may also come within a message of the agent."""

    async def drain(self) -> None:
        """Return when there is room for more; until then the agent is not read (back-pressure)."""


def show_note(observer: Observer, text: str) -> None:
    observer.show(NoteEvent(text=text))


class Decision(Struct, frozen=True):
    """The answer to a question.

    `option_id` None answers `cancelled`; `is_unasked`: denied because no user could be asked.
    """

    allowed: bool
    option_id: str | None
    by: str
    is_unasked: bool = False
