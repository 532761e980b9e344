"""
Set what the profile and the command line want of a session: mode, then `session.config`, then `--set`.

One after the other, each looked up in the list as the last answer left it, for one change may alter the other options
(C-52). What holds already is not sent. What the agent does not offer is an error that says what it offers.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from acp_launch.document.keypath import KeyPath
from acp_launch.errors import AgentRefused, SessionError, UsageError
from acp_launch.protocol import acp
from acp_launch.protocol.jsonrpc import Call
from acp_launch.session.connection import Connection
from acp_launch.session.opening import KNOB
from acp_launch.session.options.option import Option, Options, Value, match, one_line
from acp_launch.session.options.state import SessionState
from acp_launch.session.options.wanted import NotOffered, find, value_of


class Wish(Struct, frozen=True):
    """`option` is an id, a category or a name; `origin` begins every message about it: a place, or `--set …`."""

    option: str
    value: Value
    origin: str


def wished(text: str) -> Wish:
    """The value of one `--set`: all after the first `=` is the value.

    Raises:
        UsageError: there is no `=`, or nothing before it.
    """
    option, equals, value = text.partition("=")
    if not equals or not option.strip():
        raise UsageError(f'--set takes option=value, not "{text}"', fix="for example: --set model=opus")
    return Wish(option.strip(), value, f"--set {text}")


def wishes(
    mode: str | None, config: Mapping[str, Value], sets: Sequence[str], *, place: Callable[[KeyPath], str]
) -> list[Wish]:
    """Everything wanted of a session, in the order in which it is set; `place` says where in the profile a key is.

    Raises:
        UsageError: as `wished`.
    """
    found = [] if mode is None else [Wish("mode", mode, place(("session", "mode")))]
    found += [Wish(option, value, place(("session", "config", option))) for option, value in config.items()]
    return found + [wished(text) for text in sets]


async def configure(
    connection: Connection, state: SessionState, session_id: str, wanted: Sequence[Wish], *, limit: float
) -> None:
    """Fulfil every wish, `limit` seconds for each; of two about one option only the later.

    The observer is told of a wish that does not hold in the end: the agent decides what it says its value is.

    Raises:
        As `fulfil`.
    """
    done: dict[str, tuple[Wish, Value]] = {}
    for wish in _latest(state.options, wanted):
        option, value = await fulfil(connection, state, session_id, wish, limit=limit)
        done[option.id] = (wish, value)
    for id, (wish, value) in done.items():
        _check(connection, state, id, wish, value)


async def fulfil(
    connection: Connection, state: SessionState, session_id: str, wish: Wish, *, limit: float
) -> tuple[Option, Value]:
    """Set one option; gives it as it was, and the value as it was sent.

    Raises:
        NotOffered: the agent has no such option, or no such value for it.
        SessionError: it refused to set it.
        AgentError, AuthRequired, WaitExpired: as `Connection.call`.
    """
    try:
        option = find(state.options, wish.option)
        value = value_of(option, wish.value)
    except NotOffered as error:
        raise NotOffered(f"{wish.origin}: {error.message}", fix=error.fix) from None
    if option.current == value:
        return option, value
    call = _call(connection, session_id, option, value)
    lists = state.lists
    try:
        result = await connection.call(call, what=f"answer to {call.method} from the agent", limit=limit, knob=KNOB)
    except AgentRefused as error:
        raise SessionError(f"{wish.origin}: {error.message}", fix=error.fix, detail=error.detail) from None
    state.answered(option, value, acp.decoded(result), lists=lists)
    return option, value


def _check(connection: Connection, state: SessionState, id: str, wish: Wish, value: Value) -> None:
    """An agent may make another of a value, or change one option with the next; that is worth a word."""
    found = next((option for option in state.options if option.id == id), None)
    if found is not None and found.current != value:
        wanted = one_line(wish.value) or str(wish.value).lower()
        connection.observer.note(f'{wish.origin}: the agent has "{one_line(id)}" at "{found.shown}", not "{wanted}"')


def _call(connection: Connection, session_id: str, option: Option, value: Value) -> Call:
    say = connection.conversation
    if option.source == "option":
        return say.set_option(session_id, option.id, value)
    way = say.set_mode if option.source == "mode" else say.set_model
    return way(session_id, str(value))


def _latest(options: Options, wanted: Sequence[Wish]) -> list[Wish]:
    """Without those that a later one is about too: the command line goes before the profile."""
    latest: dict[str, Wish] = {}
    for wish in wanted:
        option = match(options, wish.option)
        latest[option.id if option else wish.option] = wish
    return list(latest.values())
