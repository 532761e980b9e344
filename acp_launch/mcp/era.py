"""
The eras of MCP, and the adapter between an agent of one and a server of the other. Sans-IO: lines in, lines out.

*Legacy* (2024-11-05 … 2025-11-25) has a handshake and requests of the server; *modern* (2026-07-28) has neither: each
request carries its version in `_meta` (`is_modern`). One `Adapter` stands between a conversation and one process. The
`Knowledge` keeps the era that a server has shown for its next process.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Literal, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.mcp.message import VERSIONS
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.protocol.written import written

LEGACY = VERSIONS  # newest first
MODERN = ("2026-07-28",)
PREFIX = "io.modelcontextprotocol/"
VERSION, CLIENT = PREFIX + "protocolVersion", PREFIX + "clientInfo"
CAPABILITIES, LEVEL = PREFIX + "clientCapabilities", PREFIX + "logLevel"
OF_REQUESTS = (VERSION, CLIENT, CAPABILITIES, LEVEL)  # members of `_meta` that make a request modern
SERVER, SUBSCRIPTION = PREFIX + "serverInfo", PREFIX + "subscriptionId"

INITIALIZE, INITIALIZED, DISCOVER, PING = "initialize", "notifications/initialized", "server/discover", "ping"
LISTEN, ACKNOWLEDGED = "subscriptions/listen", "notifications/subscriptions/acknowledged"
CANCELLED, PROGRESS, SAID = "notifications/cancelled", "notifications/progress", "notifications/message"
SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE = "logging/setLevel", "resources/subscribe", "resources/unsubscribe"
UPDATED = "notifications/resources/updated"
SAMPLING, ELICITATION, ROOTS = "sampling/createMessage", "elicitation/create", "roots/list"
ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})  # requests that may need input
FLAGS = {  # method of a notification → (capability of the server, member of a subscription's filter)
    "notifications/tools/list_changed": ("tools", "toolsListChanged"),
    "notifications/prompts/list_changed": ("prompts", "promptsListChanged"),
    "notifications/resources/list_changed": ("resources", "resourcesListChanged"),
}

INVALID_REQUEST = -32600
RESERVED = range(-32099, -32019)  # codes that only modern servers use
UNSUPPORTED = -32022
OURS = "acp-launch/"  # prefix of the ids of the adapter's own requests; the exchange has another
SILENCE = 2.0  # seconds after which a silent stdio server counts as legacy
DOUBT = 1.0  # seconds after which a server that has not answered another request is asked for its era
HELD, HELD_BYTES = 1000, 16 * 1024 * 1024  # messages that wait until the era is known

Side = Literal["legacy", "modern"]
Take = Callable[[Envelope, bytes], None]


class _Meta(Struct):
    version: Raw | UnsetType = field(default=UNSET, name=VERSION)


class _Params(Struct):
    meta: _Meta = field(default_factory=_Meta, name="_meta")


class _Supported(Struct):
    supported: list[str]


class _Unsupported(Struct):
    data: _Supported


class Discovered(Struct):
    """The parts of a `server/discover` result that are used."""

    versions: list[str] = field(name="supportedVersions")
    capabilities: Raw = Raw(b"{}")
    instructions: Raw | UnsetType = UNSET
    server: Raw | UnsetType = field(default=UNSET, name="serverInfo")
    meta: Raw = field(default_factory=lambda: Raw(b"{}"), name="_meta")


_params = msgspec.json.Decoder(_Params)
_unsupported = msgspec.json.Decoder(_Unsupported)
_discovered = msgspec.json.Decoder(Discovered)


def is_modern(params: Raw) -> bool:
    """Tell whether a request with these parameters is of the era without a handshake."""
    found = jsonrpc.read(_params, params)
    return found is not None and found.meta.version is not UNSET


def supported(error: Raw) -> list[str] | None:
    """Return the versions that a server names in its error -32022; None if it is another error, or names none."""
    if jsonrpc.fault(error).code != UNSUPPORTED:
        return None
    found = jsonrpc.read(_unsupported, error)
    return None if found is None else found.data.supported


def discovered(message: Envelope) -> Discovered | None:
    """Read an answer to `server/discover`; None if it is not such a result."""
    return None if message.result is UNSET else jsonrpc.read(_discovered, message.result)


def is_object(raw: Raw | UnsetType) -> bool:
    return raw is not UNSET and bytes(raw).lstrip()[:1] == b"{"


def meta(version: str, client: Raw, capabilities: Raw, level: str = "") -> bytes:
    """Write the members that a modern request has in its `_meta`, without the brackets around them."""
    members = {VERSION: version, CLIENT: client, CAPABILITIES: capabilities} | ({LEVEL: level} if level else {})
    return written(members)[1:-1]


class Knowledge(Struct):
    """What is known of a server's era.

    `server` is set if it speaks only that era, as far as is known; `seen` is the era of its latest conversation, which
    is up to the client if the server speaks both. `version` is the one that we offer it, empty for the newest.
    """

    server: Side | None = None
    seen: Side | None = None
    version: str = ""
    is_pinned: bool = False
    has_ended_early: bool = False  # a process has ended on a first message of the newer era

    def learn(self, server: Side | None) -> None:
        self.seen = server
        if not self.is_pinned:
            self.server = server


def pinned(protocol: str) -> Knowledge:
    """Read the key `protocol` of a profile: `auto`, `legacy`, `modern`, or a version."""
    if protocol in ("legacy", "modern"):
        return Knowledge("legacy" if protocol == "legacy" else "modern", is_pinned=True)
    if protocol in (*LEGACY, *MODERN):
        return Knowledge("legacy" if protocol in LEGACY else "modern", version=protocol, is_pinned=True)
    return Knowledge()


class Ports(Protocol):
    """The two sides of an adapter. They must not call it."""

    def to_agent(self, line: bytes) -> None:
        """Pass on a message as if the server had sent it."""

    def to_server(self, line: bytes) -> None: ...

    def heard(self) -> None:
        """Note that the server has sent a message that does not reach the agent."""

    def broke(self, whose: str, error: Exception) -> None:
        """Report a message of `whose` that we failed to handle."""

    def now(self) -> float:
        """Return the seconds of a monotonic clock."""


class Translator(Protocol):
    """Handles the messages of a conversation whose sides may be of different eras."""

    def from_agent(self, message: Envelope, line: bytes) -> None: ...

    def from_server(self, message: Envelope, line: bytes) -> None: ...

    def unsent(self, lines: Iterable[bytes]) -> list[bytes]:
        """Return the agent's own messages for those that never reached the server, when its process has ended."""


class Crossing(ABC):
    """What translators use of the adapter that they work for: both sides, our own requests, timers, held messages.

    `name` is the server's, for messages. `is_stdio` tells that silence and an early exit may mean an older era. With
    `gives_roots` the server may ask for roots, and the conversation answers.
    """

    def __init__(
        self, name: str, ports: Ports, knowledge: Knowledge, *, is_stdio: bool = True, gives_roots: bool = False
    ) -> None:
        self.name, self.knowledge = name, knowledge
        self.is_stdio, self.gives_roots = is_stdio, gives_roots
        self.is_needed = True
        self.was_pinged = False
        self.was_provoked = False  # its process has ended on the agent's first message, which it did not know
        self._ports = ports
        self._translator: Translator | None = None
        self._number = 0
        self._own: dict[bytes, Take] = {}
        self._timers: dict[int, tuple[float, Callable[[], None]]] = {}
        self._held: list[tuple[Envelope, bytes]] = []
        self._held_bytes = 0
        self._is_kept = False  # the server's message in hand has not been passed on

    @property
    def due(self) -> float | None:
        """The time of the next `tick`; None if there is none."""
        return min((when for when, _ in self._timers.values()), default=None)

    def tick(self) -> None:
        """Do what is due now."""
        now = self._ports.now()
        for number, (when, act) in list(self._timers.items()):
            if when <= now and self._timers.pop(number, None) is not None:
                act()

    @abstractmethod
    def from_agent(self, line: bytes) -> None:
        """Handle a line of the agent."""

    # For translators.

    def up(self, line: bytes) -> None:
        """Send a line to the agent."""
        self._is_kept = False
        self._ports.to_agent(line)

    def down(self, line: bytes) -> None:
        """Send a line to the server."""
        self._ports.to_server(line)

    def ask(self, method: str, params: object, take: Take) -> Raw:
        """Send a request of our own; `take` gets the answer. Returns its id."""
        id = self.fresh()
        self._own[bytes(id)] = take
        self.down(jsonrpc.request(id, method, params))
        return id

    def fresh(self) -> Raw:
        """Return an id of ours."""
        self._number += 1
        return Raw(f'"{OURS}{self._number}"'.encode())

    def after(self, seconds: float, act: Callable[[], None]) -> int:
        """Call `act` after so many seconds; the result is for `stop`."""
        self._number += 1
        self._timers[self._number] = self._ports.now() + seconds, act
        return self._number

    def stop(self, timer: int) -> None:
        self._timers.pop(timer, None)

    def hold(self, message: Envelope, line: bytes) -> None:
        """Keep a message of the agent until the era is known."""
        if len(self._held) >= HELD or self._held_bytes + len(line) > HELD_BYTES:
            if message.id is not UNSET and message.method is not UNSET:
                said = f'MCP server "{self.name}" has not answered yet, and too many requests wait for it'
                self.up(jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, said))
            return
        self._held.append((message, line))
        self._held_bytes += len(line)

    def release(self) -> None:
        """Handle the held messages now."""
        for _, line in self.take_held():
            self.from_agent(line)

    def leave(self, server: Side | None) -> None:
        """Leave the path: both sides speak the same era, that of the server."""
        self.knowledge.seen = server
        self._timers.clear()
        self._own.clear()
        self._translator, self.is_needed = None, False
        for _, line in self.take_held():
            self.down(line)

    def reset(self) -> None:
        """Begin again with the agent's next request."""
        self._timers.clear()
        self._translator = None
        self.release()

    def turn(self, line: bytes) -> None:
        """Let the agent change to the handshake."""
        self._own.clear()
        self._timers.clear()
        self._translator = None
        self.from_agent(line)
        self.release()

    def take_held(self) -> list[tuple[Envelope, bytes]]:
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def version(self) -> str:
        """Return the modern version that we offer."""
        return self.knowledge.version if self.knowledge.version in MODERN else MODERN[0]

    def check(self, ping: Envelope, members: bytes) -> None:
        """Answer a ping after any answer of a modern server, which knows no ping."""
        assert ping.id is not UNSET
        id = ping.id.copy()
        self.ask(DISCOVER, {"_meta": Raw(b"{" + members + b"}")}, lambda message, line: self.up(jsonrpc.result(id, {})))
