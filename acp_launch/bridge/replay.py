"""
What a conversation must not lose when its server starts anew: the agent's own handshake, byte for byte; the logging
level; what it subscribed to; what it was shown of the lists. Pure.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from acp_launch.bridge.listing import LISTS, Listing
from acp_launch.protocol import jsonrpc

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
