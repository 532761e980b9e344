"""
Our side of a conversation with an MCP server, sans-IO: lines in, events out.

What the server may ask of us is answered here: `ping`, and `roots/list`, which is all we ever declare. The rest of what
it could ask (sampling, elicitation) was not offered, so it gets -32601. Batches of 2025-03-26 are read, never sent.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import msgspec
from msgspec import Raw, Struct

from acp_launch.errors import RemoteProtocolError
from acp_launch.mcp import message, roots
from acp_launch.mcp.message import Progress, Said
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.peer import Answered, Call, Called, Junk, Notified, Peer

# Escapes as they follow each other: a surrogate pair, any other character, or a short one (an escaped backslash too).
_ESCAPE = re.compile(rb"\\(?:(u[dD][89abAB]..\\u[dD][c-fC-F]..)|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
_HALVES = (b"\\ud", b"\\uD")
_batch = msgspec.json.Decoder(list[Raw])


class Reply(Struct, frozen=True):
    """A line to send: the answer to what the server asked."""

    line: bytes


Event = Answered | Junk | Reply | Progress | Said


class Client:
    def __init__(self, directories: Sequence[PurePath], *, declares_roots: bool = False) -> None:
        """`directories` are the roots. They are told to a server that asks, declared or not, as a launch does.

        Servers offer more to a client that declares them than most agents are shown.
        """
        self.roots_asked = 0
        self._capabilities = message.ROOTS if declares_roots else {}
        self._roots = roots.listing(directories)
        self._peer = Peer()

    def initialize(self) -> Call:
        return self._peer.call(
            "initialize",
            {
                "protocolVersion": message.VERSIONS[0],
                "capabilities": self._capabilities,
                "clientInfo": message.CLIENT_INFO,
            },
        )

    def call(self, method: str, params: object) -> Call:
        return self._peer.call(method, params)

    def initialized(self) -> bytes:
        return jsonrpc.notification("notifications/initialized", {})

    def cancelled(self, number: int, reason: str) -> bytes:
        """Nobody waits any more for the answer to request `number`, which may come all the same."""
        return jsonrpc.notification("notifications/cancelled", {"requestId": number, "reason": reason})

    def receive(self, line: bytes) -> Iterator[Event]:
        """
        Raises:
            RemoteProtocolError: what we say comes back.
        """
        if any(half in line for half in _HALVES):
            line = _whole(line)
        if line.lstrip()[:1] != b"[":
            yield from self._one(line)
            return
        try:
            elements = _batch.decode(line)
        except (msgspec.DecodeError, RecursionError):
            yield Junk("a line that is no JSON-RPC message")
            return
        for element in elements:
            yield from self._one(bytes(element))

    def spoilt(self, line: bytes) -> Iterator[tuple[int | None, bytes]]:
        """What the messages of a line are still due whose handling failed (`Peer.spoilt`)."""
        return map(self._peer.spoilt, jsonrpc.batch(line) or [line])

    def _one(self, line: bytes) -> Iterator[Event]:
        incoming = self._peer.receive(line)
        if isinstance(incoming, Called):
            yield Reply(self._reply(incoming))
        elif isinstance(incoming, Notified):
            yield from _news(incoming)
        else:
            yield incoming

    def _reply(self, asked: Called) -> bytes:
        if asked.method == "ping":
            return self._peer.respond(asked.id, {})
        if asked.method == "roots/list":
            self.roots_asked += 1
            return self._peer.respond(asked.id, self._roots)
        if asked.method == "initialize":
            raise RemoteProtocolError("this is no MCP server: it only echoes what it is sent")
        return self._peer.refuse(asked.id, jsonrpc.METHOD_NOT_FOUND, f"acp-launch does not offer {asked.method}")


def _whole(line: bytes) -> bytes:
    """With every half of a surrogate pair that stands alone replaced: JavaScript servers cut emojis, and msgspec would
    refuse the line."""
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[2] else found[0], line)


def _news(told: Notified) -> Iterator[Event]:
    if told.method == "notifications/progress":
        yield message.read_progress(told.params)
    elif told.method == "notifications/message":
        yield message.read_said(told.params)
