"""
The eras of MCP, and the knowledge of a server's. Pure.

Until 2025-11-25 a client begins with a *handshake*, and the server may send requests. Since 2026-07-28 MCP is
*stateless*: each request carries its version in `_meta` (`is_stateless`). The profile and the user call the two
`legacy` and `modern`. The `ProtocolInfo` keeps the era that a server has shown for its next process.
"""

import base64
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.mcp.message import VERSIONS
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.protocol.splice import written
from acp_launch.regex import regex

HANDSHAKE = VERSIONS  # newest first
STATELESS = ("2026-07-28",)
PREFIX = "io.modelcontextprotocol/"
VERSION, CLIENT = PREFIX + "protocolVersion", PREFIX + "clientInfo"
CAPABILITIES, LEVEL = PREFIX + "clientCapabilities", PREFIX + "logLevel"
OF_REQUESTS = (VERSION, CLIENT, CAPABILITIES, LEVEL)  # members of the `_meta` of a stateless request
SERVER, SUBSCRIPTION = PREFIX + "serverInfo", PREFIX + "subscriptionId"

INITIALIZE, INITIALIZED, DISCOVER, PING = "initialize", "notifications/initialized", "server/discover", "ping"
TOOLS, CALL, LISTEN = "tools/list", "tools/call", "subscriptions/listen"
CANCELLED, PROGRESS, LOG = "notifications/cancelled", "notifications/progress", "notifications/message"
SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE = "logging/setLevel", "resources/subscribe", "resources/unsubscribe"
UPDATED, ROOTS_CHANGED = "notifications/resources/updated", "notifications/roots/list_changed"
SAMPLING, ELICITATION, ROOTS = "sampling/createMessage", "elicitation/create", "roots/list"

NAMED = {CALL: "name", "prompts/get": "name", "resources/read": "uri"}  # method → the parameter in `Mcp-Name`

_PLAIN = regex(r"[\x20-\x7e]*+")
_SENTINEL = regex(r"=\?base64\?.*\?=")

UNSUPPORTED = -32022
RESERVED = range(-32099, -32019)  # codes that only stateless servers use
REFUSALS = (jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS, jsonrpc.INVALID_REQUEST)  # how they refuse `initialize`

Side = Literal["handshake", "stateless"]


class Discovered(Struct):
    """The parts of a `server/discover` result that are used."""

    versions: list[str] = field(name="supportedVersions")
    capabilities: Raw = Raw(b"{}")
    instructions: Raw | UnsetType = UNSET
    server: Raw | UnsetType = field(default=UNSET, name="serverInfo")
    meta: Raw = field(default_factory=lambda: Raw(b"{}"), name="_meta")


_versions = msgspec.json.Decoder(list[str])
_discovered = msgspec.json.Decoder(Discovered)


def is_stateless(params: Raw) -> bool:
    """Tell whether a request with these parameters is of the era without a handshake."""
    return bool(version_of(params))


def version_of(params: Raw) -> str:
    """Return the version in the `_meta` of a stateless request; empty for one of the era with a handshake."""
    return jsonrpc.text_at(params, "_meta", VERSION) or ""


def encode_header(value: str) -> str:
    """Write a value as a header: as it is where that is safe, else as Base64 of UTF-8 between marks."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _SENTINEL.fullmatch(value):
        return value
    encoded = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"=?base64?{encoded}?="


def request_headers(version: str, method: str, params: Raw) -> dict[str, str]:
    """Return the headers that repeat parts of a stateless request; its server refuses one that differs from them."""
    headers = {"MCP-Protocol-Version": encode_header(version), "Mcp-Method": encode_header(method)}
    if method in NAMED and (name := jsonrpc.text_at(params, NAMED[method])):
        headers["Mcp-Name"] = encode_header(name)
    return headers


def supported_versions(error: Raw) -> list[str] | None:
    """Return the versions that a server names in its error -32022; None if it is another error, or names none."""
    found = jsonrpc.member(error, "data", "supported") if jsonrpc.fault(error).code == UNSUPPORTED else None
    return None if found is None else jsonrpc.read(_versions, found)


def suggests_stateless(error: Raw) -> bool:
    """Tell whether a server that refuses the handshake with this error may have none.

    False also if it names its versions and none is ours: the user must see them (M-16).
    """
    code, versions = jsonrpc.fault(error).code, supported_versions(error)
    is_ours = versions is None or any(version in STATELESS for version in versions)
    return is_ours and (code in REFUSALS or code in RESERVED)


def read_discovered(message: Envelope) -> Discovered | None:
    """Read an answer to `server/discover`; None if it is not such a result."""
    return None if message.result is UNSET else jsonrpc.read(_discovered, message.result)


def meta(version: str, client: Raw, capabilities: Raw, level: str = "") -> bytes:
    """Write the members of the `_meta` of a stateless request, without the brackets around them."""
    members = {VERSION: version, CLIENT: client, CAPABILITIES: capabilities} | ({LEVEL: level} if level else {})
    return written(members)[1:-1]


def no_discovery(id: Raw, server: str) -> bytes:
    """Refuse `server/discover`, so that the agent begins with a handshake."""
    said = f'MCP server "{server}" has not answered {DISCOVER}; begin with {INITIALIZE}'
    return jsonrpc.error(id, jsonrpc.METHOD_NOT_FOUND, said)


class ProtocolInfo(Struct):
    """What is known of a server's era.

    `server` is set if it speaks only that era, as far as is known. `version` is the stateless one that we offer it.
    """

    server: Side | None = None
    version: str = STATELESS[0]
    is_pinned: bool = False

    def learn(self, server: Side | None) -> None:
        if not self.is_pinned:
            self.server = server


def pinned_era(protocol: str, type: str = "") -> ProtocolInfo:
    """Read the key `protocol` of a profile: `auto`, `legacy`, `modern`, or a version; and a remote server's `type`."""
    if protocol == "legacy" or protocol in HANDSHAKE or type == "sse":  # HTTP+SSE is a transport of 2024-11-05
        return ProtocolInfo("handshake", is_pinned=True)
    if protocol == "modern" or protocol in STATELESS:
        return ProtocolInfo("stateless", protocol if protocol in STATELESS else STATELESS[0], is_pinned=True)
    return ProtocolInfo()
