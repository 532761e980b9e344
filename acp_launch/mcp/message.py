"""
The MCP messages that a client reads, decoded leniently, and the answer to `roots/list`.

A malformed optional member counts as omitted, and a bad item of a list is dropped alone. Only required members must be
valid. The versions with a handshake are supported; the version in a server's answer is the one both use from then on.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from msgspec import Raw, Struct

from acp_launch import __version__
from acp_launch.errors import RemoteProtocolError
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping, sequence, text
from acp_launch.protocol.splice import at, replaced, with_id
from acp_launch.regex import regex

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first
MAX_PROGRESS = 1e300
CLIENT_INFO = {"name": "acp-launch", "version": __version__}
HELLO: dict[str, Any] = {"protocolVersion": VERSIONS[0], "capabilities": {}, "clientInfo": CLIENT_INFO}
ROOTS: dict[str, Any] = {"roots": {"listChanged": True}}  # as a capability
LISTS = {  # method → the capability that offers it, and the member of its result
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
    "prompts/list": ("prompts", "prompts"),
}
PAGES = 1000  # pages of a list that are read, as a server's pages may never end
RELEASE = "use a release of it that speaks one of"
OURS = ", ".join(VERSIONS)


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
    if version not in VERSIONS:
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
SUBSCRIPTION = ("result", "_meta", "io.modelcontextprotocol/subscriptionId")
_BEGINNING = regex(rb'\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"id"\s*+:\s*+(?P<id>[0-9]++)\s*+[,}]')


def renumber(line: bytes, number: int) -> tuple[bytes, Raw | None]:
    """Give a request our id and progress token; return its own token, if it has one."""
    ours, token, is_plain = b"%d" % number, None, b"\\u00" not in line  # no key is hidden by an escape
    found = None if is_plain and b'"progressToken"' not in line else at(line, TOKEN)
    if found is not None:
        token, line = Raw(line[found[0] : found[1]]), line[: found[0]] + ours + line[found[1] :]
    begins = _BEGINNING.match(line)
    if begins and is_plain and line.count(b'"id"') == 1:  # most are so, and need not be looked through
        return line[: begins.start("id")] + ours + line[begins.end("id") :], token
    return with_id(line, Raw(ours)), token


def answer_to(line: bytes, id: Raw, number: int) -> bytes:
    """Give an answer the id of its request, also where it names a subscription."""
    if SUBSCRIPTION[-1].encode() in line:
        line = replaced(line, SUBSCRIPTION, bytes(id))
    begins = _BEGINNING.match(line)
    if begins and begins["id"] == b"%d" % number:  # most do, and a long result need not be looked through
        return line[: begins.start("id")] + bytes(id) + line[begins.end("id") :]
    return with_id(line, id)


def capabilities(said: Raw) -> dict[str, Raw] | None:
    """Return the capabilities in the parameters or the result of `initialize`, or of `server/discover`.

    None if they cannot be read.
    """
    found = jsonrpc.member(said, "capabilities")
    return None if found is None else jsonrpc.members(found)
