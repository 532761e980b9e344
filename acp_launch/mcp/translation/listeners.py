"""
The subscriptions of an agent of MCP 2026-07-28 on a server with a handshake. Sans-IO.

Such a server has one subscription for each resource, and tells changes of its lists without being asked.
"""

import msgspec
from msgspec import UNSET, Raw, Struct, field

from acp_launch.mcp import era
from acp_launch.mcp.era import Crossing
from acp_launch.mcp.translation import envelope
from acp_launch.protocol import edits, jsonrpc
from acp_launch.protocol.ids import key
from acp_launch.protocol.jsonrpc import Envelope


class _Uri(Struct):
    uri: str = ""


class Filter(Struct):
    tools: bool | None = field(default=None, name="toolsListChanged")
    prompts: bool | None = field(default=None, name="promptsListChanged")
    resources: bool | None = field(default=None, name="resourcesListChanged")
    uris: list[str] | None = field(default=None, name="resourceSubscriptions")


class Listen(Struct):
    notifications: Filter


class _Offer(Struct):
    changes: bool | None = field(default=None, name="listChanged")
    subscribe: bool | None = None


_uri, _listen = msgspec.json.Decoder(_Uri), msgspec.json.Decoder(Listen)
_offer = msgspec.json.Decoder(_Offer)


def wanted(params: Raw) -> Filter | None:
    """Read what a `subscriptions/listen` asks for; None if it does not say."""
    found = jsonrpc.read(_listen, params)
    return None if found is None else found.notifications


class Listener(Struct, eq=False):
    """A `subscriptions/listen` of the agent."""

    id: Raw
    methods: set[str]  # of the list changes that it gets
    uris: list[str]
    agreed: list[str] = field(default_factory=list)
    waits_for: int = 0  # answers to `resources/subscribe`
    is_acknowledged: bool = False


class Listeners:
    """The agent's subscriptions, on a server that has one for each resource and tells list changes to everyone."""

    methods = frozenset({*era.FLAGS, era.UPDATED})  # of the notifications that go to listeners only

    def __init__(self, adapter: Crossing) -> None:
        self._adapter = adapter
        self._open: dict[bytes, Listener] = {}
        self._offers: dict[str, _Offer] = {}

    def offered(self, capabilities: Raw) -> None:
        members = envelope.members(capabilities) or {}
        self._offers = {name: jsonrpc.read(_offer, raw) or _Offer() for name, raw in members.items()}

    def open(self, id: Raw, wanted: Filter) -> None:
        """Subscribe to the resources, and acknowledge what the server has agreed to."""
        asked = {"toolsListChanged": wanted.tools, "promptsListChanged": wanted.prompts}
        asked["resourcesListChanged"] = wanted.resources
        methods = {method for method, (name, flag) in era.FLAGS.items() if asked[flag] and self._offer(name).changes}
        uris = list(dict.fromkeys(wanted.uris or ())) if self._offer("resources").subscribe else []
        listener = self._open[key(id)] = Listener(id, methods, uris)
        for uri in uris:
            self._subscribe(listener, uri)
        self._acknowledge(listener)

    def close(self, id: Raw) -> bool:
        """End a subscription that the agent cancels; return whether there was one."""
        listener = self._open.pop(key(id), None)
        if listener is None:
            return False
        for uri in listener.agreed:
            self._unsubscribe(uri)
        return True

    def tell(self, method: str, params: Raw, line: bytes) -> None:
        """Pass a notification on to those who listen for it."""
        uri = (jsonrpc.read(_uri, params) or _Uri()).uri
        is_known = any(uri in listener.agreed for listener in self._open.values())
        for listener in list(self._open.values()):
            if not listener.is_acknowledged:
                continue
            if method in listener.methods:
                self._adapter.up(_stamped(line, listener))
            elif method == era.UPDATED and (uri in listener.agreed or (listener.agreed and not is_known)):
                self._adapter.up(_stamped(line, listener))  # also a part of a resource that it has subscribed to

    def _offer(self, name: str) -> _Offer:
        return self._offers.get(name) or _Offer()

    def _subscribe(self, listener: Listener, uri: str) -> None:
        if any(uri in other.agreed for other in self._open.values()):
            listener.agreed.append(uri)
            return
        listener.waits_for += 1

        def take(message: Envelope, line: bytes) -> None:
            listener.waits_for -= 1
            if message.result is not UNSET:
                listener.agreed.append(uri)
                if self._open.get(key(listener.id)) is not listener:
                    self._unsubscribe(uri)
            self._acknowledge(listener)

        self._adapter.ask(era.SUBSCRIBE, {"uri": uri}, take)

    def _unsubscribe(self, uri: str) -> None:
        if not any(uri in other.uris for other in self._open.values()):
            self._adapter.ask(era.UNSUBSCRIBE, {"uri": uri}, lambda message, line: None)

    def _acknowledge(self, listener: Listener) -> None:
        if listener.waits_for or self._open.get(key(listener.id)) is not listener:
            return
        listener.is_acknowledged = True
        agreed: dict[str, object] = {era.FLAGS[method][1]: True for method in sorted(listener.methods)}
        if listener.agreed:
            agreed["resourceSubscriptions"] = listener.agreed
        params = {"_meta": {era.SUBSCRIPTION: listener.id}, "notifications": agreed}
        self._adapter.up(jsonrpc.notification(era.ACKNOWLEDGED, params))


def _stamped(line: bytes, listener: Listener) -> bytes:
    return edits.with_meta(line, b'"' + era.SUBSCRIPTION.encode() + b'":' + bytes(listener.id))
