"""
What a front and a host say to each other: ACP, one message a line, in which the host is the agent.

The host begins with `+` and a line end, as it listens. Then the front is a client of ACP. What ACP has no words for has
methods that begin with `_acp-launch/`:

    host     event {type, time, …}             an event of a session besides updates, as scripts read it (`-o json`)
             news {turn, isIdle, …}            how the session stands: a `FrontNews`
             ask {sessionId, question}         a question about a tool call, for the user
    front    join {sessionId}                  answered as session/prompt, when the running turn ends
             follow {sessionId}                what follows the history is wanted; a prompt and join say so too
             take {sessionId}                  makes this front the one that drives the session
             status {}                         the sessions and servers
             servers {}, restart {server}      the states of the servers; restarts one
             reload {digest}                   takes the servers of the profile with this content: a `Reloaded`
             cancel {name}                     cancels the turn of the session with this name; whether one ran
             renew {}                          starts the agent again, after a login that wants it
             detach {}                         lets the turn of this front go on without it

`_meta.acp-launch` of session/new, load and resume is an `AttachOptions`.
"""

import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from acp_launch.errors import LaunchError
from acp_launch.process.lifecycle import Standing
from acp_launch.protocol.conversation import OURS
from acp_launch.protocol.jsonrpc import INTERNAL_ERROR, Fault, as_line, notification
from acp_launch.session.events import AnyEvent, NamedError, encode, name_error, restore_error
from acp_launch.waits import format_time

READY = b"+\n"
META = "acp-launch"  # the member of `_meta`

EVENT, NEWS, ASK = f"{OURS}event", f"{OURS}news", f"{OURS}ask"
JOIN, FOLLOW, TAKE, STATUS = f"{OURS}join", f"{OURS}follow", f"{OURS}take", f"{OURS}status"
SERVERS = f"{OURS}servers"
RESTART, RENEW, DETACH = f"{OURS}restart", f"{OURS}renew", f"{OURS}detach"
RELOAD = f"{OURS}reload"
CANCEL = f"{OURS}cancel"
COMPARE = f"{OURS}compare"  # of the server host: `SharedLikeness` of each process with the name of this server

RELOADED = "more happened in this session than is kept; this is the agent's own history of it"
TAKEN = "questions about this session are asked on another terminal from now on; :take takes them back"
MISSED = "some events are not shown: there were too many to keep"


class AttachOptions(Struct, frozen=True, kw_only=True):
    """How a front enters a session, and what it is told there. `name` is ours for the session."""

    name: str
    can_ask: bool  # whether a user can be asked there
    approve: Literal["all", "reads", "none"] | None = None  # `--approve` of its turns
    read_only: bool = False  # it drives nothing
    from_last_turn: bool = False  # it begins with the latest turn, in place of the history
    restart: bool = False  # the session begins anew, although it is open
    continues: bool = False  # `session/new` continues the session if there is one
    own_turns_only: bool = False  # it is not shown the turns of others
    close_after_turn: bool = False  # the session is closed after the turn, if this front has opened it
    acp_only: bool = False  # it speaks nothing but ACP: it is asked so, and shows the prompts of others
    several: bool = False  # it stays in the sessions that it has entered before, also after the agent's end


class SessionStatus(Struct, frozen=True, kw_only=True):
    """A session of a host. `since` is when its state began, in Unix seconds; `fronts` how many are attached.

    `queued` is how many prompts wait for the turn's end.
    """

    name: str
    title: str
    state: str  # idle, works or asks
    since: float
    fronts: int
    queued: int = 0


class HostStatus(Struct, frozen=True, kw_only=True):
    """A host: its agent by its own name, its sessions and servers.

    `past` are the names of sessions that are not open any more, and whose latest turn can be waited for.
    """

    pid: int
    agent: str
    sessions: tuple[SessionStatus, ...]
    servers: tuple[Standing, ...]
    past: tuple[str, ...] = ()


class SharedUse(Struct, frozen=True, kw_only=True):
    """A launch that uses a process of the server host: "serve claude", its id and its pid."""

    label: str
    launch: str
    pid: int


class SharedStanding(Struct, frozen=True, kw_only=True):
    """A process of the server host. `name` is `github#2` for a second server of that name; `since` is in Unix seconds.

    `log` is the name of its log file; `uses` has each launch once, and is empty while nothing uses it.
    """

    name: str
    state: str
    since: float
    pid: int | None
    restarts: int
    log: str
    uses: tuple[SharedUse, ...]


class SharedLikeness(Struct, frozen=True, kw_only=True):
    """A process of the server host, and how it differs from a server that a launch would ask it for."""

    pid: int | None
    labels: tuple[str, ...]
    differences: tuple[str, ...]


class ServerHostStatus(Struct, frozen=True, kw_only=True):
    """What the server host answers to `STATUS`."""

    pid: int
    servers: tuple[SharedStanding, ...]


class Reloaded(Struct, frozen=True, kw_only=True):
    """What has become of the servers of a host, by their names. `servers` is the state of all."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    servers: tuple[Standing, ...] = ()


class FrontNews(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How a session stands, as far as it has changed.

    `turn` is the prompt of another front whose turn has begun, `is_idle` that a turn has ended. `is_asked` is whether a
    front is asked, `denied` the tool call that the user could not be asked about.
    """

    turn: str | None = None
    is_idle: bool = False
    is_asked: bool | None = None
    denied: str = ""


def event_line(event: AnyEvent) -> bytes:
    """Return the line of an event, which is recorded now."""
    timed = replace(event, time=format_time(time.time()))
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}\n' % (EVENT.encode(), encode(timed))


def news_line(news: FrontNews) -> bytes:
    return as_line(notification(NEWS, news))


# Errors of the host, which a front raises as its own.


def as_fault(error: LaunchError) -> tuple[int, str, object]:
    """Return an error as code, message and data; what the agent answered goes on as it was."""
    if error.reply is not None:
        return error.reply
    return INTERNAL_ERROR, error.message, {META: msgspec.to_builtins(name_error(error))}


def read_own_error(fault: Fault) -> LaunchError | None:
    """Return the host's own error; None for an answer of the agent."""
    if not isinstance(fault.data, dict) or META not in fault.data:
        return None
    try:
        return restore_error(*msgspec.convert(fault.data[META], NamedError))
    except msgspec.ValidationError:
        return None


def member(params: Mapping[str, Any]) -> object:
    """Return our member of `_meta`."""
    meta = params.get("_meta")
    return meta.get(META) if isinstance(meta, dict) else None
