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
Requests have our numbers for the server, so that answers for a lost connection are known, and dropped. The
server's own requests that wait for an answer are sent again, under our ids.

`Elevation` stands between the connection and the exchange of one conversation. `Elevations` are all of a launch.
`Upstream` is the other half: our session with a server that has them, which a new connection to it goes on with.
"""

from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, Literal, Protocol

from msgspec import UNSET, Raw, Struct

from acp_launch.bridge.conversation import ConversationState, Restorer, answer_broken, each
from acp_launch.bridge.ledger import NULL, NumberedRequests
from acp_launch.mcp.message import CANCELLED, INITIALIZE, INITIALIZED, PROGRESS, UPDATED, reported_token
from acp_launch.private import compare_digest
from acp_launch.protocol import jsonrpc, splice
from acp_launch.protocol.acp import decoded, mapping
from acp_launch.protocol.jsonrpc import Envelope, key
from acp_launch.protocol.window import Window
from acp_launch.waits import stretch

START, RESUME, END = "session/start", "session/resume", "session/end"
METHODS = frozenset({START, RESUME, END})
EVENT_ID = "sessionEventId"
MAX_SESSIONS = 32  # of one server, as each holds a process
HAS_SESSION = "this connection has a session; another session needs another connection"
UNKNOWN = jsonrpc.SERVER_LOST  # the code of all that has to do with a session that cannot be resumed
CAPABILITIES, CAPABILITY = ("result", "capabilities", "experimental"), "session-elevation"


def superseding(method: str, params: Raw) -> Hashable | None:
    """Return a key that a later notification shares if it makes this one needless; None if none ever does."""
    if method.endswith("/list_changed"):
        return method
    if method == PROGRESS:
        token = reported_token(params)
        return None if token is None else (method, key(token))
    uri = jsonrpc.text_at(params, "uri") if method == UPDATED else None
    return None if uri is None else (method, uri)


class Conversation(Protocol):
    """A server's process with its exchange, and the connection of the agent, if there is one."""

    @property
    def is_connected(self) -> bool: ...

    def deliver(self, line: bytes) -> None:
        """Write a message to the agent's connection."""

    def from_agent(self, line: bytes) -> None:
        """Give a message of the agent to the exchange."""

    def move(self, elevation: "Elevation") -> None:
        """Move the agent's connection to another conversation, whose own is closed; this conversation ends."""

    def release(self) -> None:
        """End the conversation, if the agent has no connection to it."""


class Elevations:
    """The elevated sessions of a launch. A session is known by its id to the agent's connections to its server only."""

    def __init__(self, make_id: Callable[[], str]) -> None:
        """`make_id` returns ids that cannot be guessed."""
        self.numbers = count(1)  # ids of requests, which none of the servers has from two connections
        self._make_id = make_id
        self._sessions: dict[str, dict[str, Elevation]] = {}

    def open(self, elevation: "Elevation") -> str | None:
        """Return the id of a new session; None if there are too many that are connected."""
        sessions = self._sessions.setdefault(elevation.server, {})
        if len(sessions) >= MAX_SESSIONS:
            away = next((one for one in sessions.values() if not one.conversation.is_connected), None)
            if away is None:
                return None
            away.end()
            away.conversation.release()
        sessions[id := self._make_id()] = elevation
        return id

    def find(self, server: str, id: str) -> "Elevation | None":
        given = id.encode(errors="replace")
        found = [one for known, one in self._sessions.get(server, {}).items() if compare_digest(known.encode(), given)]
        return found[0] if found else None

    def close(self, elevation: "Elevation", id: str) -> None:
        self._sessions.get(elevation.server, {}).pop(id, None)


class Elevation:
    """The agent's side of one conversation: its messages come in here, and those for it go out here."""

    def __init__(
        self, conversation: Conversation, state: ConversationState, restorer: Restorer, sessions: Elevations
    ) -> None:
        self.server, self.conversation = state.server, conversation
        self.id = ""  # of the session; empty without one
        self._state, self._restorer, self._sessions = state, restorer, sessions
        self._window = Window()
        self._is_silent = False  # a session has ended, and no other one has begun
        self._is_introduced = False  # the agent's connection has done its handshake
        self._requests = NumberedRequests(sessions.numbers)

    # Messages of the agent.

    def from_agent(self, line: bytes) -> None:
        def broke(part: bytes, error: Exception) -> None:
            self._state.mishaps.add("the agent", error)
            answer_broken(part, self.conversation.deliver, self.conversation.from_agent)

        if (rest := each(line, self._agent_says, broke)) is not None:
            self.conversation.from_agent(rest)

    def _agent_says(self, line: bytes) -> bytes | None:
        message = jsonrpc.decode(line)
        if message is None or message.method is UNSET:
            return line
        if message.method in METHODS:
            self._session(message)
            return None
        if message.id is not UNSET:
            return self._requests.forward(line, message)
        if message.method == INITIALIZED:
            self._is_introduced = all(asked.method != INITIALIZE for asked in self._requests.open.values())
        return self._requests.cancel(message.params, line) if message.method == CANCELLED else line

    # Messages for the agent.

    def to_agent(self, line: bytes) -> None:
        def broke(part: bytes, error: Exception) -> None:
            self._state.mishaps.add(f"the MCP server {self.server}", error)
            answer_broken(part, self.conversation.from_agent, self.conversation.deliver)

        rest = each(line, self._server_says, broke)
        if rest is not None and (self.conversation.is_connected or not self.id):
            self.conversation.deliver(rest)

    def _server_says(self, line: bytes) -> bytes | None:
        message = jsonrpc.decode(line)
        if message is None:
            return line
        if message.method is UNSET:
            return line if message.id is UNSET else self._answers(message, message.id, line)
        if message.id is not UNSET or message.method == CANCELLED:  # it is not an event of the session
            return line
        return self._notifies(message.method, message.params, line)

    def _answers(self, message: Envelope, id: Raw, line: bytes) -> bytes | None:
        if bytes(id) == NULL:  # about a line that cannot be read
            return line
        settled = self._requests.settle(id, line)
        if settled is None:
            return None  # for a connection that was lost
        asked, line = settled
        if asked.method == INITIALIZE and message.result is not UNSET and bytes(message.result)[:1] == b"{":
            line = splice.without(line, CAPABILITIES, (CAPABILITY,))
            line = splice.with_members(line, CAPABILITIES, b'"%s":{"catchup":true}' % CAPABILITY.encode())
        return line

    def _notifies(self, method: str, params: Raw, line: bytes) -> bytes | None:
        if self._is_silent:
            return None
        if method == PROGRESS:
            progress = self._requests.progress(params, line)
            if progress is None:
                return None
            line = progress[1]
        if not self.id:
            return line
        number = self._window.newest + 1
        if EVENT_ID.encode() in line:  # of a session between us and the server
            line = splice.without(line, ("params",), (EVENT_ID,))
        line = splice.with_members(line, ("params",), b'"%s":"%s"' % (EVENT_ID.encode(), self._event(number).encode()))
        self._window.append(line, key=superseding(method, params), now=self._state.ports.now())
        return line

    def _event(self, number: int) -> str:
        return f"{self.id}.{number:012}"

    # The connection.

    def on_gone(self) -> bool:
        """Note the loss of the agent's connection; return whether the conversation must wait for another one."""
        self._requests.open.clear()
        self._is_introduced = False
        return bool(self.id)

    def end(self) -> None:
        """End the session, if there is one: nothing of it is delivered any more."""
        if self.id:
            self._sessions.close(self, self.id)
            self.id, self._window, self._is_silent = "", Window(), True
            self._restorer.unsubscribe()

    # Requests about sessions.

    def _session(self, message: Envelope) -> None:
        if message.id is UNSET:
            return
        id = message.id.copy()
        if not self._is_introduced:
            self._refuse(id, jsonrpc.INVALID_REQUEST, "no_handshake", "the handshake comes before a session")
        elif message.method == START:
            self._start(id)
        elif (named := jsonrpc.text_at(message.params, "sessionId")) is None:
            self.conversation.deliver(jsonrpc.error(id, jsonrpc.INVALID_PARAMS, f"{message.method} needs a sessionId"))
        elif (found := self._sessions.find(self.server, named)) is None:
            self._refuse(id, UNKNOWN, "unknown_session", "there is no such session, or it has expired")
        elif message.method == RESUME:
            self._resume(id, found, jsonrpc.text_at(message.params, "lastSessionEventId") or "")
        else:
            found.end()
            self.conversation.deliver(jsonrpc.result(id, {}))
            found.conversation.release()

    def _start(self, id: Raw) -> None:
        if self.id:
            self._refuse(id, jsonrpc.INVALID_REQUEST, "has_session", HAS_SESSION)
        elif (session := self._sessions.open(self)) is None:
            self._refuse(id, UNKNOWN, "too_many_sessions", f"{MAX_SESSIONS} sessions of this server are connected")
        else:
            self.id, self._is_silent = session, False
            self.conversation.deliver(jsonrpc.result(id, {"sessionId": session}))

    def _resume(self, id: Raw, found: "Elevation", last: str) -> None:
        if found is self:
            self._catch_up(id, last)
        elif self.id:
            self._refuse(id, jsonrpc.INVALID_REQUEST, "has_session", HAS_SESSION)
        else:
            self.conversation.move(found)
            found._is_introduced = True
            found._catch_up(id, last)
            for question in found._state.questions.ask_again():
                found._state.ports.to_agent(question)

    def _catch_up(self, id: Raw, last: str) -> None:
        missed = self._window.since(self._number(last), self._state.ports.now())
        self.conversation.deliver(jsonrpc.result(id, {"resumed": True, "catchup": missed is not None}))
        for _, line in missed or ():
            self.conversation.deliver(line)

    def _number(self, last: str) -> int | None:
        """Return the number of an event of this session; None if it is not an id of one."""
        digits = last.rpartition(".")[2]
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) == 12 else 0
        return number if number and last == self._event(number) else None

    def _refuse(self, id: Raw, code: int, reason: str, why: str) -> None:
        self.conversation.deliver(jsonrpc.error(id, code, why, {"reason": reason}))


# Towards the server.


ANSWER_TIMEOUT = stretch(2.0)  # a server may say nothing to a method that it does not know
# The codes by which a server without sessions refuses one.
WITHOUT_SESSIONS = (jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS, jsonrpc.INVALID_REQUEST)
MAX_EVENT_ID_BYTES = 1024


class Sessions(Struct):
    """The facts about a server's sessions, for all conversations. `mode` is the profile's `session_elevation`."""

    mode: Literal["probe", "on"]
    is_missing: bool = False  # it has none
    is_deadly: bool = False  # it ended when it was asked
    is_told: bool = False  # the user was told


class Upstream:
    """The session of one conversation with a server, over all of its processes. The agent notices nothing of it.

    After the agent's handshake the server is asked for a session, by request of the profile only. When its process, or
    the connection to it, was replaced, the session is resumed with the last event that the agent has got; then the
    server still knows log level and subscriptions, and sends what was missed. If it does not know the session any more,
    its state is restored as for any other server. If it cannot say what was missed, the agent is told that its
    lists and resources may have changed.
    """

    def __init__(self, state: ConversationState, restorer: Restorer, sessions: Sessions) -> None:
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
        event = jsonrpc.member(params, EVENT_ID) if is_begun else None
        if event is not None and len(bytes(event)) <= MAX_EVENT_ID_BYTES:
            self._last = event.copy()

    def on_gone(self) -> None:
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
        self._method, self._deadline = method, self._state.ports.now() + ANSWER_TIMEOUT
        self._asked = self._restorer.ask(method, params, self._take)

    def _take(self, message: Envelope, line: bytes) -> None:
        """Take an answer, or an empty message in its place."""
        self._asked = b""
        said = {} if message.result is UNSET else mapping(decoded(message.result))
        if self._method == START:
            self._started(said, None if message.error is UNSET else jsonrpc.fault(message.error).code)
        else:
            if said.get("resumed") is not True:
                self._id, self._last = "", None
                self._restorer.begin()
                return
            self._is_done = True
            if said.get("catchup") is not True:
                self._restorer.notify_all_changed()

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
