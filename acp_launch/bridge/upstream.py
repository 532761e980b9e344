"""
Our half of an elevated session with a server that has them: a conversation that a new connection goes on with. Sans-IO.

After the agent's handshake the server is asked for a session (`session/start`), by request of the profile only. When
its process, or the connection to it, was replaced, the session is resumed with the last event that the agent has got;
then the server still knows log level and subscriptions, and sends what was missed. If it does not know the session any
more, its state is restored as that of any other server. If it cannot say what was missed, the agent is told that its
lists and resources may have changed.

The agent notices nothing of this, and no message waits for it. elevation.py is the other half, towards the agent.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from acp_launch.bridge.conversation import Answered, ConversationState, Restorer
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.waits import stretch

START, RESUME, END = "session/start", "session/resume", "session/end"
PATIENCE = stretch(2.0)  # seconds for an answer; a server may say nothing to a method that it does not know
UNKNOWN = (
    jsonrpc.METHOD_NOT_FOUND,
    jsonrpc.INVALID_PARAMS,
    jsonrpc.INVALID_REQUEST,
)  # codes of servers without sessions
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
    """The session of one conversation with a server, over all of its processes."""

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
        take: Answered = self._take
        self._method, self._deadline = method, self._state.ports.now() + PATIENCE
        self._asked = self._restorer.ask(method, params, take)

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
        if code is None or code in UNKNOWN:
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
