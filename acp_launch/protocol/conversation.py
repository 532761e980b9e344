"""
An ACP v1 conversation from the client's side, sans-IO: lines in, events out, and the lines that we may send.

    FRESH ── initialize ──▶ INITIALIZING ── its answer ──▶ OPEN      nothing else is sent before OPEN (C-15)

    session:  new, resume ──────────────────▶ idle ◀──▶ in a turn
              load ──▶ replaying ──▶ in a turn        with the first prompt

A loaded session replays until its first prompt, not until the answer to `session/load`: gemini sends most of its
history after that answer (docs/agents.md). Updates for a session whose id we do not know yet are stored, within bounds,
until `session/new` is answered (C-43). Unknown messages are ignored (C-8, C-9, C-58).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Raw, Struct, field

from acp_launch.errors import AgentError, LocalProtocolError
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.acp import Offers
from acp_launch.protocol.jsonrpc import Answered, Call, Called, Junk, Notified, Peer

# Early updates: those for sessions whose id we do not know yet. copilot sends one; a broken agent in a loop must not
# fill memory.
EARLY_UPDATES = 1_000
EARLY_BYTES = 8 * 1024 * 1024

# Events: the meaning of an agent's lines.


How = Literal["new", "load", "resume", "fork"]


class Updated(Struct, frozen=True, gc=False):
    """
    One `session/update`; `update` is the bytes of its `update` member, untouched.

    It belongs to the history of a loaded session (`replay`), to the turn that runs, or to neither (`outside`). `line`
    is the whole message where messages pass to an editor (`Conversation.pass_on`), else empty.
    """

    session_id: str
    kind: str
    update: Raw
    replay: bool
    outside: bool = False
    line: bytes = b""


# Updates with text of a message; all others report actions or state.
WORDS = frozenset({"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"})


class Opened(Struct, frozen=True):
    """A session is open. This event comes right before its stored updates. `number` is our request's."""

    session_id: str
    how: How
    result: Raw
    number: int
    line: bytes  # the answer


class PermissionAsked(Struct, frozen=True):
    """The agent asks for permission."""

    id: Raw
    session_id: str
    tool_call: dict[str, Any]
    options: list[Any]
    line: bytes


class ServiceAsked(Struct, frozen=True):
    """A request that we serve; `session_id` is empty if it has no session, such as a form during a login."""

    id: Raw
    method: str
    session_id: str
    params: dict[str, Any]


class Completed(Struct, frozen=True):
    """The agent reports that the purpose of an opened url is fulfilled (`elicitation/complete`)."""

    elicitation_id: str


class Extension(Struct, frozen=True):
    """A notification of our host beyond ACP: its method begins with `OURS`."""

    method: str
    params: Raw


class Withdrawn(Struct, frozen=True):
    """The agent withdrew its own request (`$/cancel_request`); it must still be answered (C-65)."""

    id: Raw
    line: bytes


class Passing(Struct, frozen=True):
    """A message of the agent for the editor: a request with its id, or a notification without one."""

    id: Raw | None
    method: str
    params: Raw
    line: bytes


class Reply(Struct, frozen=True):
    """A line to send: the answer to a request that we do not serve."""

    line: bytes


Event = (
    Updated
    | Opened
    | PermissionAsked
    | ServiceAsked
    | Completed
    | Withdrawn
    | Passing
    | Extension
    | Reply
    | Answered
    | Junk
)


ELICITATION = "elicitation/create"
OURS = "_acp-launch/"  # begins the methods of our own (ACP "extensibility")

NOTHING: tuple[Event, ...] = ()


class _Session(Struct):
    replaying: bool = False
    prompt: int | None = None
    is_working: bool = False  # a turn runs that another front of the host began
    cancelling: bool = False
    asking: list[Raw] = field(default_factory=list)

    def begin(self, turn: Call) -> Call:
        """Begin a turn. It ends the replay of a loaded session."""
        self.prompt, self.cancelling, self.replaying = turn.number, False, False
        return turn


class Conversation:
    """The state of a connection to an agent."""

    def __init__(self) -> None:
        self._peer = peer = Peer()
        self.pass_on, self.settle, self.recover = peer.pass_on, peer.settle, peer.recover
        self.serve, self.refuse = peer.respond, peer.refuse  # answer a request that we serve
        self._phase: Literal["fresh", "initializing", "open"] = "fresh"
        self._negotiated: acp.Negotiated | None = None
        self._served: frozenset[str] = frozenset()
        self._sessions: dict[str, _Session] = {}
        self._opening: dict[int, tuple[How, str]] = {}
        self._early: list[Updated] = []  # until `session/new` is answered (C-43)
        self._early_bytes = 0
        self._passes = False

    # messages to send

    def initialize(self, offers: Offers | None = None) -> Call:
        """Return the first message, which is sent alone; `negotiated` reads its answer (C-15, C-16, C-18)."""
        offers = offers or Offers()
        self._begin()
        self._served = offers.methods
        return self._peer.call(
            "initialize",
            {
                "protocolVersion": acp.PROTOCOL_VERSION,
                "clientCapabilities": offers.as_json(),
                "clientInfo": acp.CLIENT_INFO,
            },
        )

    def initialize_for(self, line: bytes) -> Call:
        """Return an editor's `initialize` in place of ours. Its capabilities are the editor's, so what we do not take
        from the agent is for the editor: it comes as `Passing`.
        """
        self._begin()
        self._passes = self._peer.allow_duplicate_ids = True
        return self._peer.pass_on("initialize", line)

    def _begin(self) -> None:
        if self._phase != "fresh":
            raise LocalProtocolError("initialize is sent once")
        self._phase = "initializing"

    def negotiated(self, result: Raw) -> acp.Negotiated:
        """Read the answer to `initialize`, which opens the conversation."""
        self._negotiated = acp.read_negotiated(result)
        self._phase = "open"
        return self._negotiated

    def serving(self, methods: Iterable[str]) -> None:
        """Serve these requests too; the handshake does not offer them."""
        self._served |= frozenset(methods)

    def forward(self, method: str, params: object, *, needs: str = "") -> Call:
        """Return a request as it is; `needs` is the capability that the agent must advertise for it, if any."""
        able = self._able()
        if needs and not getattr(able, needs):
            raise LocalProtocolError(f"the agent does not advertise {method}")
        return self._peer.call(method, params)

    def open(
        self,
        how: How,
        session_id: str,
        *,
        cwd: str,
        servers: Sequence[object],
        directories: Sequence[str],
        meta: Mapping[str, object] | None = None,
        asked: Mapping[str, object] | None = None,
    ) -> Call:
        """Return the request that opens a session; `session_id` is empty for `new`.

        The servers are always sent, and again on every load (C-38); directories only if the agent advertises support
        for them (C-41). `meta` is `_meta`. `asked` are the params of an editor, which stay but for the servers; what it
        asks for passes, also if the agent does not advertise it.
        """
        is_known = how in ("load", "resume")
        params: dict[str, object] = {"sessionId": session_id} if is_known else {}
        params |= {**({"cwd": cwd} if asked is None else asked), "mcpServers": list(servers)}
        if directories and self._able().additional_directories:
            params["additionalDirectories"] = list(directories)
        if meta is not None:
            params["_meta"] = meta
        call = self.forward(f"session/{how}", params, needs=how if is_known and asked is None else "")  # C-31, C-32
        if is_known:
            self._sessions[session_id] = _Session(replaying=how == "load")
        self._opening[call.number] = (how, session_id)
        return call

    def replayed(self) -> Call:
        """Return a request of our own, which every agent refuses (ACP "extensibility"). All that the agent sent before
        its answer was ready when it received the request."""
        return self.forward(f"{OURS}replayed", {})

    def list_sessions(self, *, cwd: str | None = None, cursor: str | None = None) -> Call:
        params = ({} if cwd is None else {"cwd": cwd}) | ({} if cursor is None else {"cursor": cursor})
        return self.forward("session/list", params, needs="list")  # C-34

    def end(self, how: Literal["close", "delete"], session_id: str) -> Call:
        return self.forward(f"session/{how}", {"sessionId": session_id}, needs=how)  # C-33, C-35

    def authenticate(self, method_id: str) -> Call:
        """Return a request for a login by the agent itself; not for `terminal` methods (C-23, C-24)."""
        self._able()
        offered = self._negotiated.auth_methods if self._negotiated else ()
        if not any(method.id == method_id and method.type == "agent" and not method.command for method in offered):
            raise LocalProtocolError(f"the agent does not advertise the login {method_id}")
        return self._peer.call("authenticate", {"methodId": method_id})

    def logout(self) -> Call:
        return self.forward("logout", {}, needs="logout")  # C-29

    def set_mode(self, session_id: str, mode_id: str) -> Call:
        return self.forward("session/set_mode", {"sessionId": session_id, "modeId": mode_id})

    def set_model(self, session_id: str, model_id: str) -> Call:
        """Return a request that was removed from ACP on 2026-06-01; agents without config options need it."""
        return self.forward("session/set_model", {"sessionId": session_id, "modelId": model_id})

    def set_option(self, session_id: str, config_id: str, value: str | bool) -> Call:
        """Return a request to set an option. A boolean names its type, a choice does not (C-51)."""
        params = {"sessionId": session_id, "configId": config_id, "value": value}
        return self.forward(
            "session/set_config_option", params | ({"type": "boolean"} if isinstance(value, bool) else {})
        )

    def prompt(self, session_id: str, blocks: Sequence[object]) -> Call:
        """Begin a turn, at most one at a time in a session (C-67)."""
        session = self._sessions[session_id]
        if session.prompt is not None:
            raise LocalProtocolError("a turn is running in this session")
        return session.begin(self._peer.call("session/prompt", {"sessionId": session_id, "prompt": list(blocks)}))

    def join(self, session_id: str) -> Call:
        """Return a request to a host that is answered as the prompt of the turn that runs there."""
        return self._sessions[session_id].begin(self._peer.call(f"{OURS}join", {"sessionId": session_id}))

    def working(self, session_id: str, *, is_working: bool) -> None:
        """Note that a turn of another front has begun, or ended."""
        if (session := self._sessions.get(session_id)) is not None:
            session.is_working = is_working
            session.replaying = session.replaying and not is_working

    def cancel(self, session_id: str) -> list[bytes]:
        """Return `session/cancel`, and `cancelled` for every permission question of the session (C-61)."""
        session = self._sessions[session_id]
        session.cancelling = True
        lines = [jsonrpc.as_line(jsonrpc.notification("session/cancel", {"sessionId": session_id}))]
        return lines + [self.permit(session_id, id, None) for id in list(session.asking)]

    def permit(self, session_id: str, id: Raw, option_id: str | None) -> bytes:
        """Answer a permission question with an offered option, or `cancelled`; b"" if it was answered already."""
        self._forget(session_id, id)
        outcome = {"outcome": "cancelled"} if option_id is None else {"outcome": "selected", "optionId": option_id}
        return self._peer.respond(id, {"outcome": outcome})

    def withdraw(self, session_id: str, id: Raw) -> bytes:
        """Answer a request that the agent withdrew with -32800; b"" if it was answered already."""
        self._forget(session_id, id)
        return self._peer.refuse(id, jsonrpc.CANCELLED, "request cancelled")

    # received messages

    def receive(self, line: bytes) -> Sequence[Event]:
        """Return the events of one line, in the order in which they must be handled (C-10)."""
        if (update := acp.read_update_line(line)) is not None:  # first, as a turn has very many
            return self._receive_update(update, line)
        message = self._peer.receive(line)
        if isinstance(message, Notified):
            return self._receive_notification(message)
        if isinstance(message, Answered):
            return self._end_prompt(message)
        if isinstance(message, Called):
            return (self._receive_request(message),)
        return (message,)

    def _receive_notification(self, message: Notified) -> Sequence[Event]:
        if message.method == "session/update":
            if (update := acp.read_update(message.params)) is not None:
                return self._receive_update(update, message.line)
            if not self._passes:
                return (Junk("a session/update that is malformed, or has no sessionId or kind"),)
        if message.method == "$/cancel_request":
            wanted = jsonrpc.member(message.params, "requestId")
            if wanted is None or not self._peer.owes(wanted):
                return NOTHING
            return (Withdrawn(wanted.copy(), message.line),)
        if message.method.startswith(OURS):
            return (Extension(message.method, message.params.copy()),)
        if self._passes:
            return (Passing(None, message.method, message.params, message.line),)
        if message.method == "elicitation/complete":
            found = acp.text(acp.mapping(acp.decoded(message.params)).get("elicitationId"))
            return (Completed(found),) if found else NOTHING
        return NOTHING  # C-9

    def _receive_update(self, update: tuple[str, str, Raw], line: bytes) -> Sequence[Event]:
        session_id, kind, body = update
        session = self._sessions.get(session_id)
        if self._passes:  # to the editor, also of a session that we do not know
            return (Updated(session_id, kind, body, session is not None and session.replaying, False, line),)
        if session is None:
            return self._keep(Updated(session_id, kind, body.copy(), replay=False, outside=True))
        is_outside = session.prompt is None and not session.replaying and not session.is_working
        return (Updated(session_id, kind, body, session.replaying, is_outside),)

    def _keep(self, update: Updated) -> Sequence[Event]:
        self._early_bytes += len(bytes(update.update))
        if len(self._early) >= EARLY_UPDATES or self._early_bytes > EARLY_BYTES:
            return (Junk("an update for a session that was never opened, more than can be stored"),)
        self._early.append(update)
        return NOTHING

    def _end_prompt(self, message: Answered) -> Sequence[Event]:
        for session in self._sessions.values():
            if session.prompt == message.number:
                session.prompt = None
        opening = self._opening.pop(message.number, None)
        if opening is None or message.fault is not None:
            return (message,)
        how, session_id = opening
        if how in ("new", "fork"):
            session_id = acp.read_session_id(message.result)
            self._sessions.setdefault(session_id, _Session())
        opened = Opened(session_id, how, message.result.copy(), message.number, message.line)
        early = [update for update in self._early if update.session_id == session_id]
        self._early = [update for update in self._early if update.session_id != session_id]
        self._early_bytes = sum(len(bytes(update.update)) for update in self._early)
        return [opened, *early, message]

    def _receive_request(self, message: Called) -> Event:
        if message.method == "initialize" and self._phase == "initializing":
            raise AgentError("this is not an ACP agent: it echoes its input")
        if self._passes:
            return self._passing_request(message)
        if message.method in self._served:
            return self._service(message)
        if message.method != "session/request_permission":
            return Reply(self._peer.refuse(message.id, jsonrpc.METHOD_NOT_FOUND, "method not found"))  # C-8, C-68
        params = acp.mapping(acp.decoded(message.params))
        session_id, options = params.get("sessionId"), params.get("options")
        if not isinstance(session_id, str) or not isinstance(options, list):
            return Reply(self._peer.refuse(message.id, jsonrpc.INVALID_PARAMS, "sessionId and options are required"))
        session = self._sessions.setdefault(session_id, _Session())
        session.asking.append(message.id)
        if session.cancelling:  # a late question of a cancelled turn (C-61)
            return Reply(self.permit(session_id, message.id, None))
        return PermissionAsked(message.id, session_id, acp.mapping(params.get("toolCall")), options, message.line)

    def _passing_request(self, message: Called) -> Event:
        """Return a request for the editor; a question about a tool call in our session is judged first."""
        if message.method == "session/request_permission":
            params = acp.mapping(acp.decoded(message.params))
            session_id = acp.text(params.get("sessionId"))
            if session_id in self._sessions:
                call, options = acp.mapping(params.get("toolCall")), acp.sequence(params.get("options"))
                return PermissionAsked(message.id, session_id, call, options, message.line)
        return Passing(message.id, message.method, message.params.copy(), message.line)

    def _service(self, message: Called) -> Event:
        params = acp.decoded(message.params)
        if not isinstance(params, dict):
            return Reply(self._peer.refuse(message.id, jsonrpc.INVALID_PARAMS, "params must be an object"))
        session_id = acp.text(params.get("sessionId"))
        session = self._sessions.get(session_id)
        if message.method == ELICITATION:
            if session is not None and session.cancelling:  # the user is not asked about a cancelled turn
                return Reply(self._peer.respond(message.id, {"action": "cancel"}))
        elif session is None:  # files and commands need a session
            return Reply(self._peer.refuse(message.id, jsonrpc.INVALID_PARAMS, "no such session is open"))
        return ServiceAsked(message.id, message.method, session_id, params)

    def _able(self) -> acp.Capabilities:
        if self._negotiated is None:
            raise LocalProtocolError("nothing may be sent before initialize is answered")  # C-15
        return self._negotiated.capabilities

    def _forget(self, session_id: str, id: Raw) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            session.asking = [other for other in session.asking if bytes(other) != bytes(id)]
