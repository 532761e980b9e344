"""
The headers of a request of MCP 2026-07-28, which repeat parts of its body ("streamable HTTP"). Pure.

A server refuses a request whose headers differ from its body.
"""

import base64

import msgspec
from msgspec import Raw, Struct

from acp_launch.protocol import jsonrpc
from acp_launch.regex import regex

VERSION = "io.modelcontextprotocol/protocolVersion"  # in `_meta`: makes a request one of this era
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # method → the parameter in `Mcp-Name`

_PLAIN = regex(r"[\x20-\x7e]*+")
_SENTINEL = regex(r"=\?base64\?.*\?=")


class _Meta(Struct):
    version: str = msgspec.field(default="", name=VERSION)


class _Params(Struct):
    """The parameters of a request, as far as headers repeat them."""

    name: str = ""
    uri: str = ""
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")


_params = msgspec.json.Decoder(_Params)


def version_of(params: Raw) -> str:
    """Return the protocol version that a message carries in its `_meta`; empty for one of the older era."""
    read = jsonrpc.read(_params, params)
    return read.meta.version if read else ""


def encode_header(value: str) -> str:
    """Write a value as a header: as it is where that is safe, else as Base64 of UTF-8 between marks."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _SENTINEL.fullmatch(value):
        return value
    encoded = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"=?base64?{encoded}?="


def request_headers(method: str, params: Raw) -> dict[str, str]:
    headers = {"Mcp-Method": encode_header(method)}
    if method in NAMED and (read := jsonrpc.read(_params, params)) is not None:
        name = read.uri if NAMED[method] == "uri" else read.name
        headers |= {"Mcp-Name": encode_header(name)} if name else {}
    return headers
