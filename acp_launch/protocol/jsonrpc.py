"""
JSON-RPC 2.0, one message a line: the envelope is decoded, what it carries stays bytes.

`id`, `params`, `result` and `error` are `msgspec.Raw`: an id goes back exactly as it came (C-6: `1`, `"1"`, `0`
and `null` are four different ids), and parameters are decoded once, by whoever knows their type.
"""

from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from acp_launch.protocol.written import written

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000  # ACP v1, "Error codes"
NOT_FOUND = -32002
CANCELLED = -32800

T = TypeVar("T")

BOM = b"\xef\xbb\xbf"


class Envelope(msgspec.Struct, gc=False):
    """Any of the three kinds of message; which one is decided by what is set."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Fault(msgspec.Struct, frozen=True):
    """A JSON-RPC error object; tolerant, because its text is what a person will need most."""

    code: int = INTERNAL_ERROR
    message: str = "unknown error"
    data: Any = None


_envelope = msgspec.json.Decoder(Envelope)
_fault = msgspec.json.Decoder(Fault)
_code = msgspec.json.Decoder(int)


def decode(line: bytes) -> Envelope | None:
    """The message on a line, or None when it is not one (C-3, C-4: text, scalars, arrays, blank lines)."""
    try:
        if not line.isascii():
            line.decode()  # what is kept as Raw is not checked by the decoder, and goes on to others
        return _envelope.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        is_deep = False
    except RecursionError:
        is_deep = True
    if line.startswith(BOM):
        return decode(line.removeprefix(BOM))
    return _tolerated(line, is_deep=is_deep)


def _tolerated(line: bytes, *, is_deep: bool) -> Envelope | None:
    """A message the decoder refuses, although JSON allows it: half a surrogate pair, which is what programs in
    JavaScript make of an emoji they cut; a thousand brackets within each other. What it carries stays as it is."""
    from acp_launch.protocol import splice  # regular expressions: rarely needed, not for nothing

    if not (is_deep or (b"\\ud" in line.lower() and _is_json(line))):
        return None
    try:
        found = {member.key: member for member in splice.members(line)}
        method = splice.text(line, found["method"].start) if "method" in found else UNSET
    except (ValueError, RecursionError):
        return None
    carried = {
        name: Raw(line[found[name].start : found[name].end])
        for name in ("id", "params", "result", "error")
        if name in found
    }
    return Envelope(method=method, **carried)


def _is_json(line: bytes) -> bool:
    import json

    try:
        json.loads(line.decode())  # of bytes it would take what is not UTF-8
    except (ValueError, RecursionError):
        return False
    return True


def batch(line: bytes) -> list[bytes] | None:
    """The messages of a JSON-RPC batch (MCP 2025-03-26), each as it stands there; None when the line is none."""
    if line[:64].lstrip()[:1] != b"[":
        return None
    from acp_launch.protocol import splice

    try:
        return [line[start:end] for start, end in splice.elements(line)]
    except splice.Malformed:
        return None


def read(decoder: "msgspec.json.Decoder[T]", raw: Raw) -> T | None:
    """What a part of a message says; None when it is of another shape, or nested too deeply to look into."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def fault(raw: Raw) -> Fault:
    """Read an `error` member, whatever shape it has."""
    return read(_fault, raw) or _tolerated_fault(bytes(raw))


def _tolerated_fault(written: bytes) -> Fault:
    """At least its message, and its code if it is a number; all of it as it is written where it has none."""
    from acp_launch.protocol import splice

    try:
        found = {member.key: member for member in splice.members(written)}
        message = splice.text(written, found["message"].start)
    except (splice.Malformed, KeyError):
        return Fault(message=written.decode(errors="replace"))
    code = found.get("code")
    number = read(_code, Raw(written[code.start : code.end])) if code else None
    return Fault(INTERNAL_ERROR if number is None else number, message)


def request(number: int, method: str, params: object) -> bytes:
    return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notification(method: str, params: object) -> bytes:
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def result(id: Raw, value: object) -> bytes:
    return _line({"jsonrpc": "2.0", "id": id, "result": value})


def error(id: Raw, code: int, message: str, data: object = None) -> bytes:
    said = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return _line({"jsonrpc": "2.0", "id": id, "error": said})


def _line(message: dict[str, object]) -> bytes:
    return written(message) + b"\n"
