"""
The messages of MCP in both of its eras, which are read leniently. Pure.

A malformed optional member counts as omitted, and a bad item of a list is dropped alone. Only required members must be
valid. The version in a server's answer to the handshake is the one both use from then on.

Until 2025-11-25 a client begins with a *handshake*, and the server may send requests. Since 2026-07-28 MCP is
*stateless*: each request carries its version in `_meta` (`is_stateless`). The two eras are `legacy` and `modern`, as
in a profile. The `ProtocolInfo` keeps the era that a server has shown for its next process.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch import __version__
from acp_launch.errors import RemoteProtocolError
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping, sequence, text
from acp_launch.protocol.jsonrpc import Envelope, with_id
from acp_launch.protocol.splice import at, replaced, written
from acp_launch.regex import regex

LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # with a handshake, newest first
MODERN_VERSIONS = ("2026-07-28",)
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

MAX_PROGRESS = 1e300
CLIENT_INFO = {"name": "acp-launch", "version": __version__}
HELLO: dict[str, Any] = {"protocolVersion": LEGACY_VERSIONS[0], "capabilities": {}, "clientInfo": CLIENT_INFO}
ROOTS_CAPABILITY: dict[str, Any] = {"roots": {"listChanged": True}}
LISTS = {  # method → the capability that offers it, and the member of its result
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
    "prompts/list": ("prompts", "prompts"),
}
PAGES = 1000  # pages of a list that are read, as a server's pages may never end
RELEASE = "use a release of it that speaks one of"
OURS = ", ".join(LEGACY_VERSIONS)


class ServerInfo(Struct, frozen=True):
    """A server's answer to `initialize`. Omitted texts are empty."""

    name: str
    title: str
    version: str
    protocol_version: str
    capabilities: dict[str, Any]
    instructions: str

    def offers(self, what: str) -> bool:
        return isinstance(self.capabilities.get(what), dict)


class Tool(Struct, frozen=True):
    """One entry of `tools/list`; `listing` is the whole entry."""

    name: str
    description: str
    schema: dict[str, Any]
    listing: dict[str, Any]

    @property
    def properties(self) -> dict[str, Any]:
        return mapping(self.schema.get("properties"))

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(name for name in sequence(self.schema.get("required")) if isinstance(name, str))


class Progress(Struct, frozen=True):
    """The progress of a request. `total` is None if the server does not know it."""

    done: float
    total: float | None
    message: str


class LogMessage(Struct, frozen=True):
    """A log message of the server."""

    level: str
    logger: str
    text: str


def read_server(label: str, result: Raw) -> ServerInfo:
    """Read a server's answer to `initialize`; `label` names the server in messages.

    Raises:
        RemoteProtocolError: the answer lacks a protocol version, or names one that is not supported.
    """
    answer = mapping(decoded(result))
    version = answer.get("protocolVersion")
    if not isinstance(version, str):
        raise RemoteProtocolError(f"{label} names no protocol version in its answer to initialize")
    if version not in LEGACY_VERSIONS:
        raise RemoteProtocolError(f'{label} speaks MCP "{version}", which acp-launch does not', fix=f"{RELEASE} {OURS}")
    about = mapping(answer.get("serverInfo"))
    return ServerInfo(
        name=text(about.get("name")),
        title=text(about.get("title")),
        version=text(about.get("version")),
        protocol_version=version,
        capabilities=mapping(answer.get("capabilities")),
        instructions=text(answer.get("instructions")),
    )


def read_tools(items: list[dict[str, Any]]) -> Iterator[Tool]:
    """Yield the tools that have a name; the others could not be called."""
    for item in items:
        if isinstance(name := item.get("name"), str):
            description = text(item.get("description")) or text(item.get("title"))
            yield Tool(name, description, mapping(item.get("inputSchema")), item)


def read_progress(params: Raw) -> Progress:
    said = mapping(decoded(params))
    done, total = _number(said.get("progress")), said.get("total")
    return Progress(done, None if total is None else _number(total), text(said.get("message")))


def read_log_message(params: Raw) -> LogMessage:
    """Read a log message; data that is not a string is shown as JSON."""
    said = mapping(decoded(params))
    what = said.get("data")
    return LogMessage(
        text(said.get("level")), text(said.get("logger")), what if isinstance(what, str) else json.dumps(what)
    )


def _number(value: object) -> float:
    """Return a number that can be shown, or 0; a server may send one of 400 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MAX_PROGRESS < value < MAX_PROGRESS:
        return 0.0
    return float(value)


# The answer to `roots/list` (M-47; MCP "roots").


def roots_result(directories: Sequence[PurePath]) -> dict[str, list[dict[str, str]]]:
    """Build the result of `roots/list`; the session's directory comes first, as servers take it as the primary root.

    URIs are percent-encoded, also bytes that are not text.
    """
    return {"roots": [{"uri": uri(directory), "name": directory.name or str(directory)} for directory in directories]}


def uri(directory: PurePath) -> str:
    return "file://" + quote(str(directory).encode(errors="surrogateescape"))


# Parts of other messages, as they are written there.


def cancelled_id(params: Raw) -> Raw | None:
    """Return the id of the request that a `notifications/cancelled` names; None if it names none."""
    return jsonrpc.member(params, "requestId")


def reported_token(params: Raw) -> Raw | None:
    """Return the token of a `notifications/progress`; None if it has none."""
    return jsonrpc.member(params, "progressToken")


def wanted_token(params: Raw) -> Raw | None:
    """Return the token under which a request wants to hear of its progress; None if it does not."""
    return jsonrpc.member(params, "_meta", "progressToken")


# Our ids and progress tokens, where several clients share a conversation.

TOKEN = ("params", "_meta", "progressToken")
SUBSCRIPTION_PLACE = ("result", "_meta", SUBSCRIPTION)


def renumber(line: bytes, number: int) -> tuple[bytes, Raw | None]:
    """Give a request our id and progress token; return its own token, if it has one."""
    ours, token, is_plain = b"%d" % number, None, b"\\u00" not in line  # no key is hidden by an escape
    found = None if is_plain and b'"progressToken"' not in line else at(line, TOKEN)
    if found is not None:
        token, line = Raw(line[found[0] : found[1]]), line[: found[0]] + ours + line[found[1] :]
    return with_id(line, Raw(ours)), token


def answer_to(line: bytes, id: Raw, number: int) -> bytes:
    """Give an answer the id of its request, also where it names a subscription."""
    if SUBSCRIPTION.encode() in line:
        line = replaced(line, SUBSCRIPTION_PLACE, bytes(id))
    return with_id(line, id, was=number)


def capabilities(said: Raw) -> dict[str, Raw] | None:
    """Return the capabilities in the parameters or the result of `initialize`, or of `server/discover`.

    None if they cannot be read.
    """
    found = jsonrpc.member(said, "capabilities")
    return None if found is None else jsonrpc.members(found)


# The two eras.

_PLAIN = regex(r"[\x20-\x7e]*+")
_SENTINEL = regex(r"=\?base64\?.*\?=")

UNSUPPORTED = -32022
RESERVED = range(-32099, -32019)  # codes that only stateless servers use
REFUSALS = (jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS, jsonrpc.INVALID_REQUEST)  # how they refuse `initialize`

Era = Literal["legacy", "modern"]


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
    is_ours = versions is None or any(version in MODERN_VERSIONS for version in versions)
    return is_ours and (code in REFUSALS or code in RESERVED)


def read_discovered(message: Envelope) -> Discovered | None:
    """Read an answer to `server/discover`; None if it is not such a result."""
    return None if message.result is UNSET else jsonrpc.read(_discovered, message.result)


def stateless_meta(version: str, client: Raw, capabilities: Raw, level: str = "") -> bytes:
    """Write the members of the `_meta` of a stateless request, without the brackets around them."""
    members = {VERSION: version, CLIENT: client, CAPABILITIES: capabilities} | ({LEVEL: level} if level else {})
    return written(members)[1:-1]


def no_discovery(id: Raw, server: str) -> bytes:
    """Refuse `server/discover`, so that the agent begins with a handshake."""
    said = f'MCP server "{server}" has not answered {DISCOVER}; begin with {INITIALIZE}'
    return jsonrpc.error(id, jsonrpc.METHOD_NOT_FOUND, said)


class ProtocolInfo(Struct):
    """The facts about a server's era.

    `server` is set if it speaks only that era, as far as is known. `version` is the modern one that we offer it.
    """

    server: Era | None = None
    version: str = MODERN_VERSIONS[0]
    is_pinned: bool = False

    def learn(self, server: Era | None) -> None:
        if not self.is_pinned:
            self.server = server


def pinned_era(protocol: str, type: str = "") -> ProtocolInfo:
    """Read the key `protocol` of a profile: `auto`, `legacy`, `modern`, or a version; and a remote server's `type`."""
    if protocol == "legacy" or protocol in LEGACY_VERSIONS or type == "sse":  # HTTP+SSE is a transport of 2024-11-05
        return ProtocolInfo("legacy", is_pinned=True)
    if protocol == "modern" or protocol in MODERN_VERSIONS:
        return ProtocolInfo("modern", protocol if protocol in MODERN_VERSIONS else MODERN_VERSIONS[0], is_pinned=True)
    return ProtocolInfo()
