"""
Elevated MCP sessions: a conversation with a server that outlives the connection to it. Sans-IO.

    session/start  {}                                   → {"sessionId"}
    session/resume {"sessionId", "lastSessionEventId"?} → {"resumed": true, "catchup": whether nothing was lost}
    session/end    {"sessionId"}                        → {}

From `session/start` on, each notification to the agent has a `sessionEventId`, and is kept in a window. When the
connection is lost the server's process goes on, for a while. A further connection of the agent, over a shim or over
HTTP, may resume the session with the last id it has: the conversation moves to it, and the older connection is closed.
The answer comes first, then what was missed, then what follows.

A connection has one session at a time, and all its notifications belong to it; so after `session/end` it gets none.
Answers to requests of a lost connection are dropped. The server's own requests that wait for an answer are sent again,
under ids of ours.

`Elevation` stands between the connection and the exchange of one conversation. `Elevations` are those of a launch.
`Upstream` is the other half: our session with a server that has them, which a new connection to it goes on with.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from acp_launch.bridge.conversation import BROKEN, each
from acp_launch.mcp.era import CANCELLED, INITIALIZE, INITIALIZED, PROGRESS, UPDATED, is_stateless
from acp_launch.mcp.message import cancelled_id, reported_token, wanted_token
from acp_launch.protocol import jsonrpc, splice
from acp_launch.protocol.acp import decoded, mapping
from acp_launch.protocol.jsonrpc import Envelope, Mishaps, key
from acp_launch.protocol.window import Window
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.bridge.conversation import ConversationState, Restorer

START, RESUME, END = "session/start", "session/resume", "session/end"
METHODS = frozenset({START, RESUME, END})
EVENT_ID = "sessionEventId"
MOST = 32  # sessions of one server, as each holds a process
FORGOTTEN = 1000  # cancelled requests of the agent that are remembered
LOST = 10_000  # requests of lost connections that are remembered
HELD = 4 * 1024 * 1024  # bytes of the server's requests that can be sent again
DIGITS = 12  # of the number in the id of an event
HAS_SESSION = "this connection has a session; another session needs another connection"
THE_AGENT = "the agent"
UNKNOWN = jsonrpc.SERVER_LOST  # the code of all that has to do with a session that cannot be resumed
STATUS, LIST_CHANGED = "notifications/tasks/status", "/list_changed"
# What an answer to these says of us: the path to the capabilities, and the name of ours there.
ADVERTISED = {
    INITIALIZE: (("result", "capabilities", "experimental"), "session-elevation"),
    "server/discover": (("result", "capabilities", "extensions"), "acp-launch/session-elevation"),
}


class _Named(Struct):
    session: str = msgspec.field(name="sessionId")
    last: Raw | UnsetType = msgspec.field(default=UNSET, name="lastSessionEventId")


class _About(Struct):
    uri: str | UnsetType = UNSET
    task: str | UnsetType = msgspec.field(default=UNSET, name="taskId")


_named, _about, _text = msgspec.json.Decoder(_Named), msgspec.json.Decoder(_About), msgspec.json.Decoder(str)


def superseding(method: str, params: Raw) -> Hashable | None:
    """Return a key that a later notification shares if it makes this one needless; None if none ever does."""
    if method.endswith(LIST_CHANGED):
        return method
    if method == PROGRESS:
        token = reported_token(params)
        return None if token is None else (method, key(token))
    if method not in (UPDATED, STATUS):
        return None
    about = jsonrpc.read(_about, params)
    what = UNSET if about is None else about.uri if method == UPDATED else about.task
    return None if what is UNSET else (method, what)


class Conversation(Protocol):
    """A server's process with its exchange, and the connection of the agent, if there is one."""

    @property
    def is_connected(self) -> bool: ...

    def deliver(self, line: bytes) -> None:
        """Write a message to the agent's connection."""

    def take(self, line: bytes) -> None:
        """Give a message of the agent to the exchange."""

    def unsubscribe(self) -> None:
        """End the subscriptions at the server."""

    def now(self) -> float: ...

    def move(self, elevation: "Elevation") -> None:
        """Move the agent's connection to another conversation, whose own is closed; this conversation ends."""

    def release(self) -> None:
        """End the conversation, if the agent has no connection to it."""


class Elevations:
    """The elevated sessions of a launch. A session is known by its id to the agent's connections to its server only."""

    def __init__(self, make_id: Callable[[], str]) -> None:
        """`make_id` returns ids that cannot be guessed."""
        self._make_id = make_id
        self._sessions: dict[str, dict[str, Elevation]] = {}

    def open(self, elevation: "Elevation") -> str | None:
        """Return the id of a new session; None if there are too many that are connected."""
        sessions = self._sessions.setdefault(elevation.server, {})
        if len(sessions) >= MOST:
            away = next((one for one in sessions.values() if not one.conversation.is_connected), None)
            if away is None:
                return None
            away.end()
            away.conversation.release()
        sessions[id := self._make_id()] = elevation
        return id

    def find(self, server: str, id: str) -> "Elevation | None":
        from hmac import compare_digest  # loads OpenSSL, which would delay the agent's start

        given = id.encode(errors="replace")
        found = [one for known, one in self._sessions.get(server, {}).items() if compare_digest(known.encode(), given)]
        return found[0] if found else None

    def close(self, elevation: "Elevation", id: str) -> None:
        self._sessions.get(elevation.server, {}).pop(id, None)


class AgentRequest(Struct):
    """A request of the agent at the exchange; `id` and `token` are its own, if the exchange knows others."""

    method: str
    id: Raw | None = None
    sent_token: bytes | None = None
    token: Raw | None = None


class Elevation:
    """The agent's side of one conversation: its messages come in here, and those for it go out here."""

    def __init__(self, server: str, conversation: Conversation, sessions: Elevations, mishaps: Mishaps) -> None:
        self.server, self.conversation = server, conversation
        self.id = ""  # of the session; empty without one
        self._sessions, self._mishaps = sessions, mishaps
        self._window = Window()
        self._is_silent = False  # a session has ended, and no other one has begun
        self._is_introduced = False  # the agent's connection has done its handshake
        self._is_stateless = False  # the session is of the era that has none
        self._open: dict[bytes, AgentRequest] = {}  # by their ids at the exchange
        self._lost: dict[bytes, AgentRequest] = {}  # the same of connections that were lost
        self._cancelled: dict[bytes, None] = {}  # those of them that need not be answered; the oldest first
        self._renamed: dict[bytes, bytes] = {}  # ids of open requests → at the exchange, where they differ
        self._questions: dict[bytes, bytes] = {}  # the server's open requests by id; empty if too large to keep
        self._held = 0  # bytes of them
        self._again: dict[bytes, bytes] = {}  # id under which one was sent again → its id at the exchange
        self._made = 0  # ids

    # Messages of the agent.

    def from_agent(self, line: bytes) -> None:
        rest = each(line, self._agent_says, lambda part, error: self._broke(THE_AGENT, part, error))
        if rest is not None:
            self.conversation.take(rest)

    def _agent_says(self, line: bytes) -> bytes | None:
        message = jsonrpc.decode(line)
        if message is None:
            return line
        if message.method is UNSET:
            return line if message.id is UNSET else self._agent_answers(message.id, line)
        if message.method in METHODS:
            self._session(message)
            return None
        if message.id is not UNSET:
            return self._asks(message, message.id, line)
        if message.method == INITIALIZED:
            self._is_introduced = all(asked.method != INITIALIZE for asked in self._open.values())
        return self._cancels(message, line) if message.method == CANCELLED else line

    def _asks(self, message: Envelope, id: Raw, line: bytes) -> bytes:
        """Note a request; rename what a request of a lost connection, which is still open, has called itself."""
        asked, number = AgentRequest(str(message.method)), key(id)
        if number in self._lost:
            asked.id = id.copy()
            self._renamed[number] = number = self._fresh()
            line = splice.with_id(line, Raw(number))
        if (token := wanted_token(message.params)) is not None:
            asked.sent_token = key(token)
            if any(lost.sent_token == asked.sent_token for lost in self._lost.values()):
                asked.token, asked.sent_token = token.copy(), self._fresh()
                line = splice.replaced(line, ("params", "_meta", "progressToken"), asked.sent_token)
        self._open[number] = asked
        return line

    def _cancels(self, message: Envelope, line: bytes) -> bytes:
        about = cancelled_id(message.params)
        if about is None:
            return line
        number = self._renamed.get(key(about), key(about))
        if number in self._open:
            self._cancelled[number] = None
        if len(self._cancelled) > FORGOTTEN:
            del self._cancelled[oldest := next(iter(self._cancelled))]
            self._open.pop(oldest, None)
        return line if number == key(about) else splice.replaced(line, ("params", "requestId"), number)

    def _agent_answers(self, id: Raw, line: bytes) -> bytes | None:
        number = key(id)
        own = self._again.pop(number, None)
        if own is None and number in self._again.values():
            return None  # of a connection that was lost; the question was asked again
        self._settle(own or number)
        return line if own is None else splice.with_id(line, Raw(own))

    def _settle(self, number: bytes) -> None:
        self._held -= len(self._questions.pop(number, b""))

    # Messages for the agent.

    def to_agent(self, line: bytes) -> None:
        rest = each(
            line, self._server_says, lambda part, error: self._broke(f"the MCP server {self.server}", part, error)
        )
        if rest is not None and (self.conversation.is_connected or not self.id):
            self.conversation.deliver(rest)

    def _server_says(self, line: bytes) -> bytes | None:
        message = jsonrpc.decode(line)
        if message is None:
            return line
        if message.method is UNSET:
            return line if message.id is UNSET else self._answers(message, message.id, line)
        if message.id is not UNSET:
            return self._questioned(message.id, line)
        if message.method == CANCELLED:
            return self._withdraws(message, line)
        return self._notifies(message.method, message.params, line)

    def _answers(self, message: Envelope, id: Raw, line: bytes) -> bytes | None:
        number = key(id)
        if self._lost.pop(number, None) is not None:
            return None
        asked = self._open.pop(number, None)
        self._cancelled.pop(number, None)
        if asked is None:
            return line
        if asked.method in ADVERTISED and message.result is not UNSET and bytes(message.result)[:1] == b"{":
            path, name = ADVERTISED[asked.method]
            line = splice.with_members(
                splice.without(line, path, (name,)), path, b'"%s":{"catchup":true}' % name.encode()
            )
        if asked.id is None:
            return line
        self._renamed.pop(key(asked.id), None)
        return splice.with_id(line, asked.id)

    def _questioned(self, id: Raw, line: bytes) -> bytes:
        kept = line if self._held + len(line) <= HELD else b""
        self._questions[key(id)] = kept
        self._held += len(kept)
        if self.id and not self.conversation.is_connected and not kept:
            self._unheard(key(id))
        return line

    def _withdraws(self, message: Envelope, line: bytes) -> bytes:
        """Pass on that the server has cancelled a request of its own. It is not an event of the session."""
        about = cancelled_id(message.params)
        if about is None:
            return line
        self._settle(own := key(about))
        for again, number in self._again.items():
            if number == own:
                del self._again[again]
                return splice.replaced(line, ("params", "requestId"), again)
        return line

    def _notifies(self, method: str, params: Raw, line: bytes) -> bytes | None:
        if self._is_silent:
            return None
        if method == PROGRESS and (token := reported_token(params)) is not None:
            line = self._progressed(key(token), line)
        if not self.id:
            return line
        number = self._window.newest + 1
        if EVENT_ID.encode() in line:  # of a session between us and the server
            line = splice.without(line, ("params",), (EVENT_ID,))
        line = splice.with_params(line, b'"%s":"%s"' % (EVENT_ID.encode(), self._event(number)))
        self._window.append(line, key=superseding(method, params), now=self.conversation.now())
        return line

    def _progressed(self, token: bytes, line: bytes) -> bytes:
        for asked in self._open.values():
            if asked.token is not None and asked.sent_token == token:
                return splice.replaced(line, ("params", "progressToken"), bytes(asked.token))
        return line

    def _event(self, number: int) -> bytes:
        return b"%s.%0*d" % (self.id.encode(), DIGITS, number)

    # The connection.

    def lost(self) -> bool:
        """Note the loss of the agent's connection; return whether the conversation must wait for another one."""
        self._lost |= self._open
        for oldest in list(self._lost)[:-LOST]:
            del self._lost[oldest]
        for gone in (self._open, self._cancelled, self._renamed, self._again):
            gone.clear()
        self._is_introduced = False
        if not self.id:
            return False
        for number in [number for number, line in self._questions.items() if not line]:
            self._unheard(number)
        return True

    def _unheard(self, number: bytes) -> None:
        """Answer a request of the server that cannot be sent again."""
        self._settle(number)
        said = "the agent's connection was lost"
        self.conversation.take(jsonrpc.error(Raw(number), jsonrpc.INTERNAL_ERROR, said))

    def end(self) -> None:
        """End the session, if there is one: nothing of it is delivered any more."""
        if self.id:
            self._sessions.close(self, self.id)
            self.id, self._window, self._is_silent = "", Window(), True
            self.conversation.unsubscribe()

    # Requests about sessions.

    def _session(self, message: Envelope) -> None:
        if message.id is UNSET:
            return
        id, is_newer = message.id.copy(), is_stateless(message.params)
        if not (self._is_introduced or is_newer):
            self._refuse(id, jsonrpc.INVALID_REQUEST, "no_handshake", "the handshake comes before a session")
        elif message.method == START:
            self._start(id, is_stateless=is_newer)
        elif (named := jsonrpc.read(_named, message.params)) is None:
            self.conversation.deliver(jsonrpc.error(id, jsonrpc.INVALID_PARAMS, f"{message.method} needs a sessionId"))
        elif (found := self._sessions.find(self.server, named.session)) is None:
            self._refuse(id, UNKNOWN, "unknown_session", "there is no such session, or it has expired")
        elif message.method == RESUME:
            self._resume(id, found, named.last, is_stateless=is_newer)
        else:
            found.end()
            self.conversation.deliver(jsonrpc.result(id, {}))
            found.conversation.release()

    def _start(self, id: Raw, *, is_stateless: bool) -> None:
        if self.id:
            self._refuse(id, jsonrpc.INVALID_REQUEST, "has_session", HAS_SESSION)
            return
        session = self._sessions.open(self)
        if session is None:
            self._refuse(id, UNKNOWN, "too_many_sessions", f"{MOST} sessions of this server are connected")
            return
        self.id, self._is_stateless, self._is_silent = session, is_stateless, False
        self.conversation.deliver(jsonrpc.result(id, {"sessionId": session}))

    def _resume(self, id: Raw, found: "Elevation", last: Raw | UnsetType, *, is_stateless: bool) -> None:
        if found is self:
            self._catch_up(id, last)
        elif self.id:
            self._refuse(id, jsonrpc.INVALID_REQUEST, "has_session", HAS_SESSION)
        elif found._is_stateless != is_stateless:
            self._refuse(id, jsonrpc.INVALID_REQUEST, "era_conflict", "the session was begun in the other era of MCP")
        else:
            is_introduced = self._is_introduced
            self.conversation.move(found)
            found._is_introduced = is_introduced
            found._catch_up(id, last)
            found._ask_again()

    def _catch_up(self, id: Raw, last: Raw | UnsetType) -> None:
        missed = self._window.since(self._number(last), self.conversation.now())
        self.conversation.deliver(jsonrpc.result(id, {"resumed": True, "catchup": missed is not None}))
        for _, line in missed or ():
            self.conversation.deliver(line)

    def _number(self, last: Raw | UnsetType) -> int | None:
        """Return the number of an event of this session; None if it is not an id of one."""
        text = None if last is UNSET else jsonrpc.read(_text, last)
        digits = (text or "").removeprefix(f"{self.id}.")
        is_one = text == f"{self.id}.{digits}" and digits.isascii() and digits.isdigit() and len(digits) == DIGITS
        return int(digits) or None if is_one else None

    def _ask_again(self) -> None:
        """Send the server's open requests to a new connection, under new ids: it may have heard of others before."""
        for number, line in self._questions.items():
            again = self._fresh()
            self._again[again] = number
            self.conversation.deliver(splice.with_id(line, Raw(again)))

    # Private.

    def _refuse(self, id: Raw, code: int, reason: str, why: str) -> None:
        self.conversation.deliver(jsonrpc.error(id, code, why, {"reason": reason}))

    def _fresh(self) -> bytes:
        self._made += 1
        return b'"acp-launch:again:%d"' % self._made

    def _broke(self, whose: str, line: bytes, error: Exception) -> None:
        """A message that we failed to handle gets no further; the side that waits for its result is told."""
        self._mishaps.add(whose, error)
        message = jsonrpc.decode(line)
        if message is None or message.id is UNSET:
            return
        told = jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, BROKEN)
        if (whose == THE_AGENT) == (message.method is not UNSET):
            self.conversation.deliver(told)
        else:
            self.conversation.take(told)


# Towards the server.


PATIENCE = stretch(2.0)  # seconds for an answer; a server may say nothing to a method that it does not know
# The codes by which a server without sessions refuses one.
WITHOUT_SESSIONS = (jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS, jsonrpc.INVALID_REQUEST)
LONGEST = 1024  # bytes of an event's id


class _Event(Struct):
    id: Raw | UnsetType = msgspec.field(default=UNSET, name="sessionEventId")


_event = msgspec.json.Decoder(_Event)


class Sessions(Struct):
    """What is known of a server's sessions, by all its conversations. `mode` is the profile's `session_elevation`."""

    mode: Literal["probe", "on"]
    is_missing: bool = False  # it has none
    is_deadly: bool = False  # it ended when it was asked
    is_told: bool = False  # the user was told


class Upstream:
    """The session of one conversation with a server, over all of its processes. The agent notices nothing of it.

    After the agent's handshake the server is asked for a session, by request of the profile only. When its process, or
    the connection to it, was replaced, the session is resumed with the last event that the agent has got; then the
    server still knows log level and subscriptions, and sends what was missed. If it does not know the session any more,
    its state is restored as that of any other server. If it cannot say what was missed, the agent is told that its
    lists and resources may have changed.
    """

    def __init__(self, state: "ConversationState", restorer: "Restorer", sessions: Sessions) -> None:
        self._state, self._restorer, self._sessions = state, restorer, sessions
        self._id = ""  # of the session
        self._last: Raw | None = None  # the id of the last event
        self._asked = b""  # the id of our open request, and its method
        self._method = ""
        self._deadline = 0.0
        self._is_done = False  # this process was asked

    def tick(self) -> None:
        """Begin a session once the handshake is done; do without it if the server says nothing. Called now and then."""
        if self._asked:
            if self._state.ports.now() >= self._deadline:
                self._restorer.drop(self._asked)
                self._take(Envelope(), b"")
        elif self._state.phase == "open" and self._state.memory.initialized and not (self._is_done or self._is_refused):
            self._last = None
            self._ask(START, {})

    def resumes(self) -> bool:
        """Resume the session with a new process that has answered the handshake; False if there is none to resume."""
        if not self._id:
            return False
        last = {} if self._last is None else {"lastSessionEventId": self._last}
        self._ask(RESUME, {"sessionId": self._id, **last})
        return True

    def note(self, params: Raw) -> None:
        """Note an event that the agent gets."""
        is_begun = self._id or (self._asked and self._method == START)  # an event may overtake the answer
        event = jsonrpc.read(_event, params) if is_begun else None
        if event is not None and event.id is not UNSET and len(bytes(event.id)) <= LONGEST:
            self._last = event.id.copy()

    def lost(self) -> None:
        """Note the end of the process."""
        if self._asked and self._method == START:
            self._sessions.is_deadly = True
        self._asked, self._is_done = b"", False

    def end(self) -> None:
        """End the session, because the agent has left or the user wants a new one; the answer is not waited for."""
        if self._id and self._state.phase == "open":
            self._restorer.ask(END, {"sessionId": self._id}, lambda message, line: None)
        self._id = ""

    # Private.

    @property
    def _is_refused(self) -> bool:
        return self._sessions.is_deadly or (self._sessions.is_missing and self._sessions.mode == "probe")

    def _ask(self, method: str, params: dict[str, Any]) -> None:
        self._method, self._deadline = method, self._state.ports.now() + PATIENCE
        self._asked = self._restorer.ask(method, params, self._take)

    def _take(self, message: Envelope, line: bytes) -> None:
        """Take an answer, or an empty message in its place."""
        self._asked = b""
        said = {} if message.result is UNSET else mapping(decoded(message.result))
        if self._method == START:
            self._started(said, None if message.error is UNSET else jsonrpc.fault(message.error).code)
        else:
            self._resumed(said)

    def _started(self, said: dict[str, Any], code: int | None) -> None:
        self._is_done = True
        id = said.get("sessionId")
        if isinstance(id, str) and id:
            self._id = id
            return
        if code is None or code in WITHOUT_SESSIONS:
            self._sessions.is_missing = True
        if self._sessions.mode == "on" and not self._sessions.is_told:
            self._sessions.is_told = True
            self._state.observer.note(
                f"mcp server {self._state.server} has no sessions that can be resumed (session_elevation)"
            )

    def _resumed(self, said: dict[str, Any]) -> None:
        if said.get("resumed") is not True:
            self._id, self._last = "", None
            self._restorer.begin()
            return
        self._is_done = True
        if said.get("catchup") is not True:
            self._restorer.retell()
