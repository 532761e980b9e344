"""
The state of a conversation that both sides of an exchange share, its ports, and the observer of servers. Sans-IO.

`ConversationState` is the shared state. `ConversationMemory` and `Listing` hold what a new process of the server must
be told, and `Restorer` tells it after a restart. `ServerGone` answers in place of a server that is gone.
`ServerObserver` and `Ports` are the interfaces to the outside.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from acp_launch.bridge.ledger import Health, Ledger, OpenRequest, Questions, Queue, Waiting, make_ids
from acp_launch.mcp.message import (
    CALL,
    DISCOVER,
    INITIALIZE,
    LISTS,
    PAGES,
    PING,
    SET_LEVEL,
    SUBSCRIBE,
    TOOLS,
    UNSUBSCRIBE,
    UPDATED,
    ProtocolInfo,
    capabilities,
)
from acp_launch.private import blake2b
from acp_launch.process.lifecycle import Change
from acp_launch.protocol import jsonrpc, splice
from acp_launch.protocol.jsonrpc import Envelope, Mishaps, text_at

if TYPE_CHECKING:
    from acp_launch.bridge.cached import CachedAnswers
    from acp_launch.bridge.toolpolicy import ToolPolicy

# What the bridge itself says. Its error codes are in the range that JSON-RPC leaves to implementations and MCP
# 2026-07-28 leaves free (-32000 to -32019).

TIMED_OUT = -32011
RESTARTING, NOT_STARTED = "it is being started again", "could not be started"
GIVEN_UP = b"!given-up"  # to the server host, from a launch whose call took too long; no message begins so
BROKEN = "this message was not passed on, by a bug in acp-launch"
WORDS = 5  # stderr lines in a message, because most agents show only the message


class ServerGone(Struct, frozen=True, kw_only=True):
    """The reason why a server cannot answer now; `comes_back` says what happens next, empty if nothing does."""

    server: str
    why: str
    comes_back: str = ""
    stderr: Sequence[str] = ()

    def line(self, id: Raw, method: str, *, was_sent: bool) -> bytes:
        """Build the answer to request `id`; `was_sent` tells whether the server may have begun with it."""
        during = f" during {method}, whose outcome is unknown" if was_sent else ""
        message = f'MCP server "{self.server}" {self.why}{during}'
        if self.comes_back:
            message += f"; {self.comes_back}"
        elif self.stderr:
            message += "; its last stderr lines: " + " / ".join(self.stderr[-WORDS:])
        return jsonrpc.error(id, jsonrpc.SERVER_LOST, message, {"server": self.server, "stderr": list(self.stderr)})


def describe_gone(change: Change, name: str) -> ServerGone:
    """Describe a lost server to the agent, without the path of a program that could not be started."""
    if change.state == "resting":
        return ServerGone(server=name, why=change.exit or NOT_STARTED, comes_back=RESTARTING, stderr=change.detail)
    if change.state == "asleep":
        return ServerGone(server=name, why=change.exit or "was not running", comes_back="it is being started")
    why = "; ".join(filter(None, (change.exit, change.reason))) if change.exit else NOT_STARTED
    return ServerGone(server=name, why=f"failed: {why}", stderr=change.detail)


One = Callable[[bytes], bytes | None]  # takes a message, and returns the bytes to pass on
Broke = Callable[[bytes, Exception], None]


def each(line: bytes, one: One, broke: Broke) -> bytes | None:
    """Pass every message of a line through `one`; a batch stays unchanged if all of it passes.

    If `one` raises, `broke` gets the error, and the message does not pass.
    """
    parts = jsonrpc.batch(line)
    if not parts:
        return _contained(line, one, broke)
    passed = [rest for part in parts if (rest := _contained(part, one, broke)) is not None]
    if passed == parts:
        return line
    return b"[" + b",".join(passed) + b"]" if passed else None


def _contained(part: bytes, one: One, broke: Broke) -> bytes | None:
    try:
        return one(part)
    except Exception as error:
        broke(part, error)
        return None


def answer_broken(line: bytes, to_asker: Callable[[bytes], None], to_asked: Callable[[bytes], None]) -> None:
    """Answer a request that we failed to handle, or put an error in the place of such an answer."""
    message = jsonrpc.decode(line)
    if message is not None and message.id is not UNSET:
        send = to_asked if message.method is UNSET else to_asker
        send(jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, BROKEN))


PRESENTING = frozenset({INITIALIZE, DISCOVER})  # their answers say what a server offers

# Digests of a server's lists as the agent has seen them. They tell whether a new process has the same lists, and how
# many tools there are.

CURSOR = "nextCursor"


def change_of(method: str) -> str:
    """Return the notification that a list differs."""
    return f"notifications/{LISTS[method][0]}/list_changed"


class Listing:
    """The digest and length of one list, fed page by page (MCP "pagination")."""

    def __init__(self, method: str) -> None:
        self._member = LISTS[method][1]
        self._hash = blake2b(digest_size=16)
        self.count = 0
        self.pages = 0

    def add(self, result: Raw) -> str | None:
        """Add a page; return the cursor of the next one, None at the end."""
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
    """Write a value in one form, because a server may order members anew with every start.

    Values that msgspec cannot decode are compared as they are.
    """
    try:
        return msgspec.json.encode(msgspec.json.decode(item), order="sorted") + b"\n"
    except (msgspec.DecodeError, RecursionError):
        return item + b"\n"


# The memory of a conversation for a restart of its server. Pure.

REMEMBERED = frozenset({SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE, *LISTS})  # requests whose parameters are kept


def _page(params: Raw) -> str:
    """Return the cursor of the page that a request asks for, empty for the first."""
    return text_at(params, "cursor") or ""


class ConversationMemory:
    """The state that a restart of the server must not lose: handshake, logging level, subscriptions, seen lists.

    It holds only requests that the server has answered without an error.
    """

    def __init__(self) -> None:
        self.initialize: bytes = b""  # the agent's own line, byte for byte; empty before its handshake
        self.initialized: bytes = b""
        self.lists: dict[str, Listing] = {}
        self._level: Raw | None = None
        self.subscriptions: dict[str, Raw] = {}  # by the address of the resource

    def answered(self, method: str, params: Raw, result: Raw) -> None:
        """Note a request that the server has carried out."""
        if method in LISTS:
            if text_at(params, "cursor") is None or method not in self.lists:
                self.lists[method] = Listing(method)
            self.lists[method].add(result)
        elif method == SET_LEVEL:
            self._level = params
        elif (uri := text_at(params, "uri")) is None:
            return
        elif method == SUBSCRIBE:
            self.subscriptions[uri] = params
        else:
            self.subscriptions.pop(uri, None)

    def requests_to_repeat(self) -> Iterator[tuple[str, Raw]]:
        """Yield the requests for a new process after the handshake: methods and parameters."""
        if self._level is not None:
            yield SET_LEVEL, self._level
        for params in self.subscriptions.values():
            yield SUBSCRIBE, params


Phase = Literal["absent", "asleep", "replaying", "open", "final"]


class ServerObserver(Protocol):
    """Watches the MCP servers of a launch; `server` may be `github#2`."""

    def changed(self, change: Change) -> None:
        """Note a state change of a server's process."""

    def listed(self) -> None:
        """Note that the agent has seen the tools of a server."""

    def note(self, text: str) -> None:
        """Show a line to the user; it may quote a message."""

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        """Report a wait for `what` of so many seconds, which ends at `limit`."""

    def log(self, server: str) -> Callable[[bytes], None]:
        """Return the function that logs a server's stderr."""

    def log_end(self, server: str) -> None:
        """Note that nothing more comes for that log."""

    async def tell(self) -> None:
        """Pass on the observed events once; called again and again while the servers run."""


class Ports(Protocol):
    """The two sides of a conversation and its server's process. They must not call the exchange."""

    def to_agent(self, line: bytes) -> None:
        """Send the agent one message, without its newline; it is held until the agent has connected."""

    def to_server(self, line: bytes) -> None: ...

    def alive(self) -> None:
        """Note that the server has sent a valid message."""

    def ready(self) -> None:
        """Note that the server has answered the agent's handshake."""

    def refused(self, hello: bytes, refusal: bytes) -> bool:
        """Take the server's refusal of the handshake `hello`; return whether another answer to it follows."""

    def wedged(self, reason: str) -> None:
        """Give up the server's process; `reason` is a verb phrase: "does not answer"."""

    def now(self) -> float:
        """Return the seconds of a monotonic clock."""


class Introduction(Struct):
    """How the agent has begun.

    `handshake` is the key of its `initialize`. `client` is its name among the cached answers of a lazy server, once it
    has begun the handshake.
    """

    handshake: bytes = b""
    client: str = ""
    has_roots: bool = False  # it answers `roots/list` itself
    has_asked: bool = False  # it has sent a request
    is_stateless: bool = False  # its first one needs no handshake


class ConversationState:
    """The state of one conversation.

    `server` is its name for the agent, `process` its process's: `github#2`. `policy` is None if every tool
    is allowed. `directories` are the session's, for `roots/list`. `call` is `timeouts.call` in seconds. With
    `gives_roots` the server is told that it may ask for roots. `cached` are the answers of a lazy server. `knowledge`
    is of the server's era.
    """

    def __init__(
        self,
        server: str,
        ports: Ports,
        observer: ServerObserver,
        policy: "ToolPolicy | None",
        directories: Sequence[PurePath],
        *,
        call: float | None = None,
        gives_roots: bool = False,
        process: str = "",
        cached: "CachedAnswers | None" = None,
        knowledge: ProtocolInfo | None = None,
    ) -> None:
        self.cached = cached
        self.knowledge = knowledge or ProtocolInfo()  # may be shared with other conversations
        self.server, self.process, self.policy, self.directories = server, process or server, policy, directories
        self.ports, self.observer = ports, observer
        self.call, self.health, self.gives_roots = call, Health(), gives_roots
        self.needs_inspection = policy is not None or call is not None  # no line takes the way of `forward_fast`
        self.phase: Phase = "absent"
        self.memory = ConversationMemory()
        self.ledger, self.questions, self.queue = Ledger(), Questions(), Queue()
        self.mishaps = Mishaps(observer.note)
        self.introduction = Introduction()
        self.lost = ServerGone(server=server, why="has not been started yet")
        self.is_ready = False
        self.offers_tools = True  # unless its handshake said otherwise
        self.knows_tools = False  # the agent has read the list, or called one

    @property
    def is_introducing(self) -> bool:
        """Whether the agent's handshake has no answer yet."""
        asked = self.ledger.open.get(self.introduction.handshake)
        return asked is not None and asked.method == INITIALIZE

    @property
    def is_open(self) -> bool:
        """Whether the server gets the agent's messages now."""
        return self.phase == "open" and not self.is_introducing

    @property
    def is_cached(self) -> bool:
        """Whether a handshake is answered in place of the server."""
        return self.phase == "asleep" and self.cached is not None and self.cached.is_known

    def take_over(self, other: "ConversationState") -> None:
        """Serve the agent of another conversation, which has done its handshake there."""
        if other.memory.initialize and self.phase != "replaying":
            self.memory.initialize, self.memory.initialized = other.memory.initialize, other.memory.initialized
            mine, its = self.introduction, other.introduction
            mine.handshake, mine.has_roots = its.handshake, its.has_roots

    def introduce(self, params: Raw) -> None:
        """Note whose conversation this is, from the agent's `initialize`."""
        if self.cached is not None:
            from acp_launch.bridge.cached import client

            self.introduction.client = client(params)

    def answer_from_cache(self, asked: OpenRequest) -> bool:
        """Answer a request in place of a server that is asleep; False if that is not possible."""
        if self.phase != "asleep" or self.cached is None or not self.memory.initialize:
            return False
        if asked.method == SET_LEVEL:
            found = Raw(b"{}") if self.cached.takes_level(self.introduction.client) else None
        elif asked.method == INITIALIZE:
            found = self.cached.find(self.introduction.client, INITIALIZE)
        elif asked.method in LISTS:
            found = self.cached.find(self.introduction.client, asked.method, _page(asked.params))
        else:
            return False
        if found is None:
            return False
        line = jsonrpc.result(asked.id, found)
        answer = jsonrpc.decode(line)
        assert answer is not None
        self.ports.to_agent(self.done(asked, answer, line))
        return True

    def done(self, asked: OpenRequest, message: Envelope, line: bytes) -> bytes:
        """Note a result; return the line for the agent."""
        assert message.result is not UNSET
        if self.cached is not None:
            self.cache_answer(asked.method, message.result, _page(asked.params))
        if asked.method in PRESENTING:
            offered = capabilities(message.result)
            self.offers_tools = offered is None or "tools" in offered
        if self.phase != "asleep" and (asked.method == INITIALIZE or not self.memory.initialize):
            self.become_ready()  # since 2026-07-28 there is no handshake
        if asked.method == TOOLS and self.policy:
            line, _ = self.policy.filtered(line)
            message = jsonrpc.decode(line) or message
        if asked.method in REMEMBERED:
            assert message.result is not UNSET
            self.memory.answered(asked.method, asked.params, message.result)
        if asked.method in (TOOLS, CALL):
            self.knows_tools = True
        if asked.method == TOOLS:
            self.observer.listed()
        return line

    def cache_answer(self, method: str, result: Raw, cursor: str = "") -> None:
        """Keep an answer of the server for the time when it is asleep."""
        if self.cached is None or self.phase == "asleep" or not self.memory.initialize:
            return
        if method == INITIALIZE or method in LISTS:
            self.cached.cache_answer(self.introduction.client, method, result, cursor)

    def drop_cached(self, notification: str) -> None:
        """Drop the lists that the server says have changed."""
        if self.cached is not None:
            changed = (method for method in LISTS if change_of(method) == notification)
            self.cached.forget(self.introduction.client, *changed)

    def forward(self, asked: OpenRequest, line: bytes) -> bytes | None:
        """Take a request for the server; return the line to send now, or None if it must wait or is refused."""
        if self.is_open:
            asked.silent_since = self.ports.now()
            self.ledger.ask(asked)
            return line
        if self.phase == "final" or not self.queue.put(Waiting(line, asked, self.ports.now())):
            self.refuse(asked)
        return None

    def refuse(self, asked: OpenRequest, *, was_sent: bool = False) -> None:
        self.ports.to_agent(self.lost.line(asked.id, asked.method, was_sent=was_sent))

    def open(self) -> None:
        """Let all messages pass from now on, the queued ones first."""
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

    def pong(self, asked: OpenRequest) -> None:
        self.ports.to_agent(jsonrpc.result(asked.id, {}))


Answered = Callable[[Envelope, bytes], None]


class Restorer:
    """Our own requests to a server: pings, and after a restart the restoration of its state.

    The answers never reach the agent. It gets `list_changed` for each kind of list that differs from what it has seen,
    once for each kind.
    """

    def __init__(self, state: ConversationState) -> None:
        self._state = state
        self._ids = make_ids()
        self.open: dict[bytes, Answered] = {}  # those without an answer, by their ids
        self._told: set[str] = set()

    def answered(self, message: Envelope, line: bytes) -> bool:
        """Take an answer to our request; return whether it was one."""
        assert message.id is not UNSET
        take = self.open.pop(bytes(message.id), None)
        if take is not None:
            take(message, line)
        return take is not None

    def forget(self) -> None:
        """Drop all open requests, because the process has ended."""
        self.open.clear()

    def ping(self) -> None:
        self.ask(PING, None, self._pong)

    def begin(self) -> None:
        """Restore the state in a new process, and ask for its lists."""
        self._told.clear()
        for method, params in self._state.memory.requests_to_repeat():
            self.ask(method, params, self._noted(method))
        for method, known in self._state.memory.lists.items():
            self._list(method, known, Listing(method), None)

    def unsubscribe(self) -> None:
        """End the subscriptions at the server."""
        left, self._state.memory.subscriptions = self._state.memory.subscriptions, {}
        for params in left.values() if self._state.phase == "open" else ():
            self.ask(UNSUBSCRIBE, params, lambda message, line: None)

    def ask(self, method: str, params: object, on_answer: Answered) -> bytes:
        """Send our request, whose answer `on_answer` gets; return its id."""
        id = next(self._ids)
        self.open[id] = on_answer
        self._state.ports.to_server(jsonrpc.request(Raw(id), method, params))
        return id

    def drop(self, id: bytes) -> None:
        """Do not wait for an answer any more."""
        self.open.pop(id, None)

    def notify_all_changed(self) -> None:
        """Tell the agent that all it has seen may have changed."""
        self._told.clear()
        for method in self._state.memory.lists:
            self._tell(change_of(method))
        for uri in self._state.memory.subscriptions:
            self._state.ports.to_agent(jsonrpc.notification(UPDATED, {"uri": uri}))

    def _pong(self, message: Envelope, line: bytes) -> None:
        self._state.health.knows_ping = True

    def _noted(self, method: str) -> Answered:
        def on_answer(message: Envelope, line: bytes) -> None:
            if message.error is not UNSET:
                said = jsonrpc.fault(message.error).message
                self._state.observer.note(f"{self._state.process} refused {method} after its restart: {said}")

        return on_answer

    def _list(self, method: str, known: Listing, listing: Listing, cursor: str | None) -> None:
        """Compare a list with the one the agent has seen, unless the agent has asked for it again."""

        def on_answer(message: Envelope, line: bytes) -> None:
            if message.result is UNSET or self._state.memory.lists.get(method) is not known:
                self._state.drop_cached(change_of(method))
                return
            self._state.cache_answer(method, message.result, cursor or "")
            following = listing.add(self._visible(method, message, line))
            if following is not None:
                self._list(method, known, listing, following)
            elif not listing.same(known):
                self._tell(change_of(method))

        self.ask(method, None if cursor is None else {"cursor": cursor}, on_answer)

    def _visible(self, method: str, message: Envelope, line: bytes) -> Raw:
        """Return a page as the agent would see it; an error counts as empty."""
        if method == "tools/list" and self._state.policy:
            message = jsonrpc.decode(self._state.policy.filtered(line)[0]) or message
        return Raw(b"{}") if message.result is UNSET else message.result

    def _tell(self, notification: str) -> None:
        if notification not in self._told:
            self._told.add(notification)
            self._state.ports.to_agent(jsonrpc.notification(notification))
