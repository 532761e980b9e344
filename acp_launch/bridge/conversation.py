"""The state that both sides of a conversation share (see exchange.py), its ports and its observer. Sans-IO."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from acp_launch.bridge.health import Health
from acp_launch.bridge.ledger import Asked, Ledger, Numbers, Questions, Queue, Waiting
from acp_launch.bridge.messages import Lost
from acp_launch.process.lifecycle import Change
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.protocol.mishap import Mishaps

if TYPE_CHECKING:
    from acp_launch.bridge.toolpolicy import ToolPolicy

# What an agent was shown of a server's lists, in few bytes: enough to tell whether another process of the same server
# shows the same, and to say how many tools there are. Pages add up (MCP "pagination").


# method → (member of the result, what to send when it differs)
LISTS = {
    "tools/list": ("tools", "notifications/tools/list_changed"),
    "prompts/list": ("prompts", "notifications/prompts/list_changed"),
    "resources/list": ("resources", "notifications/resources/list_changed"),
    "resources/templates/list": ("resourceTemplates", "notifications/resources/list_changed"),
}
CURSOR = "nextCursor"
PAGES = 1000  # a server whose pages never end is not followed further


class Listing:
    """One list, fed page by page; two are the same when their `digest` and `count` are."""

    def __init__(self, method: str) -> None:
        from hashlib import blake2b  # loads OpenSSL: not while an agent is being started

        self._member = LISTS[method][0]
        self._hash = blake2b(digest_size=16)
        self.count = 0
        self.pages = 0

    def add(self, result: Raw) -> str | None:
        """Take a page; the cursor of the next one, None at the end."""
        from acp_launch.protocol import splice

        self.pages += 1
        page = bytes(result)
        try:
            found = {member.key: member for member in splice.members(page)}
            for start, end in splice.elements(page, found[self._member].start) if self._member in found else ():
                self._hash.update(_canonical(page[start:end]))
                self.count += 1
        except splice.Malformed:
            return None
        following = found.get(CURSOR)
        if following is None or not splice.is_text(page, following.start) or self.pages >= PAGES:
            return None
        return splice.text(page, following.start)

    def same(self, other: "Listing") -> bool:
        return self.count == other.count and self._hash.digest() == other._hash.digest()


def _canonical(item: bytes) -> bytes:
    """The same for two ways to write the same value, a server may order its members anew with every start; but for
    values that only few can read."""
    try:
        return msgspec.json.encode(msgspec.json.decode(item), order="sorted") + b"\n"
    except (msgspec.DecodeError, RecursionError):
        return item + b"\n"


# What a conversation must not lose when its server starts anew: the agent's own handshake, byte for byte; the logging
# level; what it subscribed to; what it was shown of the lists. Pure.


SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE = "logging/setLevel", "resources/subscribe", "resources/unsubscribe"
INITIALIZE, INITIALIZED = "initialize", "notifications/initialized"
REMEMBERED = frozenset({SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE, *LISTS})  # requests whose parameters are kept


class _Uri(Struct):
    uri: str


class _Cursor(Struct):
    cursor: str | None = None


_uri, _cursor = msgspec.json.Decoder(_Uri), msgspec.json.Decoder(_Cursor)


class Memory:
    """Fed with what passed; everything in it was understood by the server at that time."""

    def __init__(self) -> None:
        self.initialize: bytes = b""  # the agent's own line; empty while there was none
        self.initialized: bytes = b""
        self.lists: dict[str, Listing] = {}
        self._level: Raw | None = None
        self._subscriptions: dict[str, Raw] = {}

    def answered(self, method: str, params: Raw, result: Raw) -> None:
        """The server has done what `method` asked for."""
        if method in LISTS:
            self._shown(method, params, result)
        elif method == SET_LEVEL:
            self._level = params
        else:
            self._subscribed(method, params)

    def wishes(self) -> Iterator[tuple[str, Raw]]:
        """What to ask of a new process once it knows the agent: methods and their parameters."""
        if self._level is not None:
            yield SET_LEVEL, self._level
        for params in self._subscriptions.values():
            yield SUBSCRIBE, params

    def _shown(self, method: str, params: Raw, result: Raw) -> None:
        asked = jsonrpc.read(_cursor, params)
        if asked is None:
            return
        if asked.cursor is None or method not in self.lists:
            self.lists[method] = Listing(method)
        self.lists[method].add(result)

    def _subscribed(self, method: str, params: Raw) -> None:
        resource = jsonrpc.read(_uri, params)
        if resource is None:
            return
        if method == SUBSCRIBE:
            self._subscriptions[resource.uri] = params
        else:
            self._subscriptions.pop(resource.uri, None)


Phase = Literal["absent", "replaying", "open", "final"]
CANCELLED, PROGRESS, PING = "notifications/cancelled", "notifications/progress", "ping"


class ServerObserver(Protocol):
    """Watches the MCP servers of a launch. It is told and does not answer; `server` may be `github#2`."""

    def changed(self, change: Change) -> None:
        """A step in the life of a server's process."""

    def listed(self) -> None:
        """The agent was shown the tools of a server."""

    def note(self, text: str) -> None:
        """Something the user may want to know; it may quote what was sent."""

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        """`what` has been awaited for so long; at `limit` it is given up."""

    def log(self, server: str) -> Callable[[bytes], None]:
        """The log of a server's stderr."""

    def log_end(self, server: str) -> None:
        """No more comes for that log."""

    async def tell(self) -> None:
        """Pass on what was told, once. It is called again and again beside the servers."""


class Ports(Protocol):
    """The two sides of a conversation and its server's process. Must not call the exchange from within these."""

    def to_agent(self, line: bytes) -> None:
        """One message, without its newline; kept until the agent has come."""

    def to_server(self, line: bytes) -> None: ...

    def alive(self) -> None:
        """The server has said something sensible."""

    def ready(self) -> None:
        """It has answered the agent's handshake."""

    def wedged(self, reason: str) -> None:
        """Its process is of no use any more; `reason` completes "the server …"."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""


class ConversationState:
    """`policy` is None where every tool is allowed; `directories` are the session's, for `roots/list`.

    `process` is what the server's process is called, `github#2` for one; `call` is `timeouts.call` in seconds; with
    `gives_roots` the server is told that it may ask for them.
    """

    def __init__(
        self,
        server: str,
        ports: Ports,
        observer: ServerObserver,
        policy: "ToolPolicy | None",
        directories: Sequence[PurePath],
        *,
        call: float | None,
        health: Health,
        gives_roots: bool,
        process: str = "",
    ) -> None:
        self.server, self.process, self.policy, self.directories = server, process or server, policy, directories
        self.ports, self.observer = ports, observer
        self.call, self.health, self.gives_roots = call, health, gives_roots
        self.phase: Phase = "absent"
        self.memory = Memory()
        self.ledger, self.questions, self.queue = Ledger(), Questions(), Queue()
        self.mishaps = Mishaps(observer.note)
        self.lost = Lost(server=server, why="has not been started yet")
        self.agent_has_roots = False
        self.handshake = b""  # the key of the agent's `initialize`
        self.is_ready = False
        self.has_asked = False  # the agent has, anything
        self.is_modern = False  # it shakes no hands (messages.py), so we ping nothing before it speaks
        self.was_pinged = False  # we pinged the process that is there now, before the agent spoke to it
        self.opening: Waiting | None = None  # the first request of a modern agent, until it is answered

    def forward(self, asked: Asked, line: bytes) -> bytes | None:
        """A request on its way to the server: the line to send now, None when it has to wait or is refused."""
        if self.phase == "open":
            asked.silent_since = self.ports.now()
            self.ledger.ask(asked)
            return line
        if self.phase == "final" or not self.queue.put(Waiting(line, asked, self.ports.now())):
            self.refuse(asked)
        return None

    def refuse(self, asked: Asked, *, was_sent: bool = False) -> None:
        self.ports.to_agent(self.lost.line(asked.id, asked.method, was_sent=was_sent))

    def open(self) -> None:
        """From here on everything passes; what waited goes first."""
        self.phase = "open"
        for waiting in self.queue.take_all():
            if waiting.asked is not None:
                self.ledger.ask(waiting.asked)
                waiting.asked.silent_since = self.ports.now()
            self.ports.to_server(waiting.line)

    def become_ready(self) -> None:
        if not self.is_ready:
            self.is_ready = True
            self.ports.ready()

    def pong(self, asked: Asked) -> None:
        self.ports.to_agent(jsonrpc.result(asked.id, {}))


# What we ask a server ourselves: a ping, and after a restart what a new process must know and may have changed.
# Sans-IO.
#
# The answers are ours and never reach the agent. It hears `list_changed` for the lists that differ from what it was
# shown, each kind once.


Answered = Callable[[Envelope, bytes], None]


class Restorer:
    def __init__(self, state: ConversationState) -> None:
        self._state = state
        self._numbers = Numbers()
        self._open: dict[bytes, Answered] = {}
        self._told: set[str] = set()

    def answered(self, message: Envelope, line: bytes) -> bool:
        """Whether this answer was for us."""
        assert message.id is not UNSET
        take = self._open.pop(bytes(message.id), None)
        if take is not None:
            take(message, line)
        return take is not None

    def forget(self) -> None:
        """The process is gone; nothing will be answered."""
        self._open.clear()

    def ping(self) -> None:
        self._ask(PING, None, self._pong)

    def begin(self) -> None:
        """Tell a new process what the old one knew; ask for the lists."""
        self._told.clear()
        for method, params in self._state.memory.wishes():
            self._ask(method, params, self._noted(method))
        for method, known in self._state.memory.lists.items():
            self._list(method, known, Listing(method), None)

    def _ask(self, method: str, params: object, take: Answered) -> None:
        id = self._numbers.fresh({**self._open, **self._state.ledger.open})
        self._open[id] = take
        self._state.ports.to_server(jsonrpc.request(Raw(id), method, params))

    def _pong(self, message: Envelope, line: bytes) -> None:
        self._state.health.knows_ping = True

    def _noted(self, method: str) -> Answered:
        def take(message: Envelope, line: bytes) -> None:
            if message.error is not UNSET:
                said = jsonrpc.fault(message.error).message
                self._state.observer.note(f"{self._state.server} refused {method} after its restart: {said}")

        return take

    def _list(self, method: str, known: Listing, listing: Listing, cursor: str | None) -> None:
        """Compare what there is with what the agent knows, unless it has looked again by itself meanwhile."""

        def take(message: Envelope, line: bytes) -> None:
            if message.result is UNSET or self._state.memory.lists.get(method) is not known:
                return
            following = listing.add(self._visible(method, message, line))
            if following is not None:
                self._list(method, known, listing, following)
            elif not listing.same(known):
                self._tell(LISTS[method][1])

        self._ask(method, None if cursor is None else {"cursor": cursor}, take)

    def _visible(self, method: str, message: Envelope, line: bytes) -> Raw:
        """The page as the agent would be shown it; an error shows nothing."""
        if method == "tools/list" and self._state.policy:
            message = jsonrpc.decode(self._state.policy.filtered(line)[0]) or message
        return Raw(b"{}") if message.result is UNSET else message.result

    def _tell(self, notification: str) -> None:
        if notification not in self._told:
            self._told.add(notification)
            self._state.ports.to_agent(jsonrpc.notification(notification))
