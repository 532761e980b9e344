"""
JSON-RPC ids as dictionary keys, and ids of our own (MCP "base protocol").

An id is kept as the bytes it came in: `1` and `"1"` are two, and so are `1` and `1.0`. Only a string may come back
written differently (`"\\u0061"` for `"a"`), so strings are keyed by what they say.
"""

from collections.abc import Container

import msgspec
from msgspec import Raw

from acp_launch.protocol.acp import decoded
from acp_launch.protocol.written import written

OURS = "acp-launch:"  # begins the ids of what we ask a server, or an agent, ourselves
NULL = b"null"


def key(id: Raw) -> bytes:
    """What two ways of writing the same id have in common. Never fails: an id may hold half a surrogate pair."""
    text = bytes(id)
    if not text.startswith(b'"') or (b"\\" not in text and text.isascii()):
        return text
    try:
        return msgspec.json.encode(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = decoded(text)  # as `protocol.jsonrpc` lets it pass
        return text if said is None else written(said)


class Numbers:
    """Gives ids nobody else in this conversation uses; `taken` are those the other side has open."""

    def __init__(self) -> None:
        self._next = 0

    def fresh(self, taken: Container[bytes]) -> bytes:
        while True:
            self._next += 1
            candidate = f'"{OURS}{self._next}"'.encode()
            if candidate not in taken:
                return candidate
