"""
Which era of MCP an agent speaks. Pure.

Since 2026-07-28 there is no handshake and no ping: every request carries its version in `_meta`. A server of both eras
goes by the first request it gets ("stdio, choosing the era"); was that our ping, it refuses what a newer agent asks.
"""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.protocol import jsonrpc

WRONG_ERA = -32600  # what such a server says then
WRONGED = "took our ping for the protocol of its client, which is a newer one"  # completes "the server …"


class _Meta(Struct):
    version: Raw | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")


class _Params(Struct):
    meta: _Meta = field(default_factory=_Meta, name="_meta")


_params = msgspec.json.Decoder(_Params)


def is_modern(params: Raw) -> bool:
    """Whether a request with these parameters is of the era without a handshake."""
    found = jsonrpc.read(_params, params)
    return found is not None and found.meta.version is not UNSET
