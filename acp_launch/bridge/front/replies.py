"""
The answers of the HTTP front: one JSON message, or a stream of events (MCP "streamable HTTP"). Pure.
"""

from typing import Protocol

from msgspec import Raw

from acp_launch.protocol import jsonrpc

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
ENDED = -32010  # as of a lost server: bridge/messages.py
NULL = Raw(b"null")
ALIVE = b": keep-alive\n\n"  # a comment, for clients and proxies that give up a silent connection


class Reply(Protocol):
    """The answer to one HTTP request. When the client is gone, nothing is sent any more."""

    takes_json: bool
    takes_events: bool
    is_open: bool  # the stream of events has begun
    is_gone: bool  # the client has closed the connection

    @property
    def is_full(self) -> bool:
        """Whether the client is too slow for what it is sent."""

    def answer(self, status: int, body: bytes = b"", *, session: str = "") -> None:
        """Send a whole answer; the body is JSON."""

    def open(self, *, session: str = "") -> None:
        """Begin a stream of events."""

    def write(self, event: bytes) -> None: ...

    def end(self) -> None:
        """End the stream of events."""


def event(message: bytes, id: str = "") -> bytes:
    """Write a message as an event. A carriage return would end its line; in JSON it can only be a blank."""
    name = f"id: {id}\n".encode() if id else b""
    return b"%bevent: message\ndata: %b\n\n" % (name, message.replace(b"\r", b" ").replace(b"\n", b" "))


def priming(id: str, retry: int) -> bytes:
    """Write the event that begins a stream: it gives the client an id to resume at, after `retry` milliseconds."""
    return f"id: {id}\nretry: {retry}\ndata:\n\n".encode()


def refuse(reply: Reply, status: int, code: int, why: str, *, id: Raw = NULL, data: object = None) -> None:
    """Answer a request with an error."""
    reply.answer(status, jsonrpc.error(id, code, why, data))
