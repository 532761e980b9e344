"""
The headers of a request of MCP 2026-07-28, which repeat parts of its body ("streamable HTTP", "custom headers"). Pure.

A server refuses a request whose headers differ from its body. A tool may want arguments of a call as headers, too: its
schema names them by `x-mcp-header`. A tool that does so in a way that is not allowed must not be shown.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import mapping, sequence
from acp_launch.regex import regex

VERSION = "io.modelcontextprotocol/protocolVersion"  # in `_meta`: makes a request one of this era
_VERSION, _MARK = VERSION.encode(), b"x-mcp-header"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # method → the parameter in `Mcp-Name`
MARK = "x-mcp-header"
TOKEN = regex(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++")  # RFC 9110, section 5.6.2
TYPES = ("string", "integer", "boolean")
MOST = 100  # arguments of a tool as headers
TOOLS = 1000  # tools whose headers are remembered

Steps = tuple[str, ...]  # the names of nested properties
_Place = tuple[()] | tuple["_Place", str]  # the same, sharing what they begin with: schemas may be deep and wide

_PLAIN = regex(r"[\x20-\x7e]*+")
_SENTINEL = regex(r"=\?base64\?.*\?=")
_ONE = ("items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties")
_SCHEMAS = (*_ONE, "not", "if", "then", "else", "contentSchema")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("patternProperties", "dependentSchemas", "$defs", "definitions")


class _Meta(Struct):
    version: str = msgspec.field(default="", name=VERSION)


class Params(Struct):
    """The parameters of a request, as far as headers repeat them."""

    name: str = ""
    uri: str = ""
    arguments: Raw = Raw(b"{}")
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")


_params = msgspec.json.Decoder(Params)


def version_of(line: bytes, params: Raw) -> str:
    """Return the protocol version that a message carries in its `_meta`; empty for one of the older era."""
    if _VERSION not in line:
        return ""
    read = jsonrpc.read(_params, params)
    return read.meta.version if read else ""


def written(value: str) -> str:
    """Write a value as a header: as it is where that is safe, else as Base64 of UTF-8 between marks."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _SENTINEL.fullmatch(value):
        return value
    encoded = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"=?base64?{encoded}?="


def request_headers(method: str, params: Raw, tools: Mapping[str, Mapping[Steps, str]]) -> dict[str, str]:
    """Return the headers of a request; `tools` are the arguments that the tools want as headers."""
    headers = {"Mcp-Method": written(method)}
    if method not in NAMED or (read := jsonrpc.read(_params, params)) is None:
        return headers
    if name := read.uri if NAMED[method] == "uri" else read.name:
        headers["Mcp-Name"] = written(name)
    if method == "tools/call" and (wanted := tools.get(read.name)):
        headers |= _arguments(wanted, read.arguments)
    return headers


def _arguments(wanted: Mapping[Steps, str], arguments: Raw) -> dict[str, str]:
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    found: dict[str, str] = {}
    for steps, token in wanted.items():
        said = _said(_at(given, steps))
        if said is not None:
            found[f"Mcp-Param-{token}"] = written(said)
    return found


def _at(value: object, steps: Steps) -> object:
    for step in steps:
        value = mapping(value).get(step)
    return value


def _said(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | float):
        return str(value)
    try:
        return str(value) if isinstance(value, int) else None
    except ValueError:  # a number of thousands of digits
        return None


def wanted_headers(schema: object) -> dict[Steps, str]:
    """Return which arguments a tool wants as headers, by its `inputSchema`.

    Raises:
        ValueError: it names a header in a way that is not allowed; the text says why.
    """
    found: dict[Steps, str] = {}
    tokens: set[str] = set()
    for place, part in _parts(schema):
        if MARK not in part:
            continue
        if not place:
            raise ValueError(f"{MARK} is not at a property that can be reached through properties alone")
        if len(found) == MOST:
            raise ValueError(f"more than {MOST} arguments have {MARK}")
        steps, token = _steps(place), part[MARK]
        where = ".".join(steps)
        if not isinstance(token, str) or not TOKEN.fullmatch(token):
            raise ValueError(f"the {MARK} of {where} is not a header's name")
        if part.get("type") not in TYPES:
            raise ValueError(f"{where} has {MARK}, but is neither a string nor an integer nor a boolean")
        if token.lower() in tokens:
            raise ValueError(f"two arguments have the {MARK} {token}")
        tokens.add(token.lower())
        found[steps] = token
    return found


def _steps(place: "_Place") -> Steps:
    steps: list[str] = []
    while place:
        place, name = place
        steps.append(name)
    return tuple(reversed(steps))


def _parts(schema: object) -> Iterator[tuple["_Place | None", Mapping[str, Any]]]:
    """Yield every schema in a schema, and by which properties it is reached; None if not by properties alone.

    References are not followed.
    """
    stack: list[tuple[_Place | None, object]] = [((), schema)]
    while stack:
        place, part = stack.pop()
        if not isinstance(part, dict):
            continue
        yield place, part
        for name, below in mapping(part.get("properties")).items():
            stack.append((None if place is None else (place, name), below))
        stack += [(None, part[word]) for word in _SCHEMAS if word in part]
        stack += [(None, below) for word in _LISTS for below in sequence(part.get(word))]
        stack += [(None, below) for word in _MAPS for below in mapping(part.get(word)).values()]


class _Tool(Struct):
    name: str = ""
    schema: Raw = msgspec.field(default=Raw(b"{}"), name="inputSchema")


class ToolHeaders:
    """What the tools of a server want as headers, learned from its answers to `tools/list`."""

    def __init__(self) -> None:
        self.wanted: dict[str, Mapping[Steps, str]] = {}

    def shown(self, line: bytes) -> tuple[bytes, list[str]]:
        """Learn from an answer; return it without the tools that must not be shown, and what is wrong with them."""
        if _MARK not in line:
            return line, []
        from acp_launch.protocol import splice

        try:
            result = next(member for member in splice.members(line) if member.key == "result")
            tools = next(member for member in splice.members(line, result.start) if member.key == "tools")
            spans = splice.elements(line, tools.start)
        except (splice.Malformed, StopIteration):
            return line, []
        wrong, reasons = [], []
        for start, end in spans:
            if (why := self._learn(line[start:end])) is not None:
                wrong.append((start, end))
                reasons.append(why)
        return (splice.without_spans(line, wrong) if wrong else line), reasons

    def _learn(self, written: bytes) -> str | None:
        try:
            tool = msgspec.json.decode(written, type=_Tool)
            schema = msgspec.json.decode(tool.schema)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        self.wanted.pop(tool.name, None)
        try:
            wanted = wanted_headers(schema)
        except ValueError as fault:
            return f'the tool "{tool.name[:80]}" is left out: {fault}'
        if wanted and len(self.wanted) < TOOLS:
            self.wanted[tool.name] = wanted
        return None


def unwritten(header: str) -> str | None:
    """Read a header as `written` writes it; None if its Base64 is wrong."""
    if not _SENTINEL.fullmatch(header):
        return header
    encoded = header[len("=?base64?") : -len("?=")]
    try:
        value = base64.b64decode(encoded, validate=True)
        return value.decode() if base64.b64encode(value).decode() == encoded else None
    except ValueError:  # UnicodeDecodeError and binascii.Error are
        return None
