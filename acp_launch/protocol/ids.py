"""
JSON-RPC ids as dictionary keys (MCP "base protocol"). Pure.

An id is compared as the bytes it came in: `1`, `"1"` and `1.0` are three. Only strings are compared decoded, because an
answer may write them differently (`"\\u0061"` for `"a"`).
"""

import msgspec
from msgspec import Raw

from acp_launch.protocol.acp import decoded
from acp_launch.protocol.written import written

_BACKSLASH, _QUOTE = ord("\\"), ord('"')  # comparing and searching for numbers is faster than for bytes


def key(id: Raw) -> bytes:
    """Return the same key for all spellings of an id. It never fails, even if the id holds half a surrogate pair."""
    text = bytes(id)
    if text[0] != _QUOTE or (_BACKSLASH not in text and text.isascii()):
        return text
    try:
        return msgspec.json.encode(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = decoded(text)  # as `protocol.jsonrpc` lets it pass
        return text if said is None else written(said)
