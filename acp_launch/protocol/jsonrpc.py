"""
JSON-RPC 2.0, one message per line: messages, the framing of lines, and the pairing of requests with answers.

Only the envelope is decoded. `id`, `params`, `result` and `error` are `msgspec.Raw`: an id is returned exactly as it
was received (C-6: `1`, `"1"`, `0` and `null` are four different ids), and parameters are decoded once, by the code
that knows their type.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from acp_launch.protocol import splice
from acp_launch.protocol.acp import decoded, mapping
from acp_launch.protocol.splice import written
from acp_launch.regex import regex

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000  # ACP v1, "Error codes"
NOT_FOUND = -32002
CANCELLED = -32800
SERVER_LOST = -32010  # ours: the MCP server does not answer

T = TypeVar("T")

BOM = b"\xef\xbb\xbf"
STARTS = (b"{", b"[", b" ", b"\t", BOM[:1])  # first bytes of a line that may be a message; quicker than to decode it


class Envelope(msgspec.Struct, gc=False):
    """Any of the three kinds of message; the members that are set decide which."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Fault(msgspec.Struct, frozen=True):
    """A JSON-RPC error object, read leniently, because users need its text most."""

    code: int = INTERNAL_ERROR
    message: str = "unknown error"
    data: Any = None


_envelope = msgspec.json.Decoder(Envelope)
_fault = msgspec.json.Decoder(Fault)
_members, _text = msgspec.json.Decoder(dict[str, Raw]), msgspec.json.Decoder(str)


def decode(line: bytes) -> Envelope | None:
    """Return the message on a line; None if it is not one (C-3, C-4: text, scalars, arrays, blank lines)."""
    try:
        if not line.isascii():
            line.decode()  # the decoder does not check Raw members, which are passed on
        return _envelope.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        is_deep = False
    except RecursionError:
        is_deep = True
    if line.startswith(BOM):
        return decode(line.removeprefix(BOM))
    return _read_leniently(line, is_deep=is_deep)


def _read_leniently(line: bytes, *, is_deep: bool) -> Envelope | None:
    """Read a message that the decoder rejects although it is JSON; its members stay unchanged.

    Such messages contain half a surrogate pair, which JavaScript programs make when they cut an emoji, or deep nesting.
    """
    if not (is_deep or (b"\\ud" in line.lower() and is_json(line))):
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


def is_json(line: bytes) -> bool:
    """Tell whether a line is JSON of any kind; one that is nested too deeply passes for it."""
    try:
        json.loads(line.decode())  # given bytes, json accepts other encodings than UTF-8
    except ValueError:
        return False
    except RecursionError:
        pass
    return True


def batch(line: bytes) -> list[bytes] | None:
    """Return the messages of a JSON-RPC batch (MCP 2025-03-26), unchanged; None if the line is not a batch."""
    if line[:64].lstrip()[:1] != b"[":
        return None

    try:
        return [line[start:end] for start, end in splice.elements(line)]
    except splice.Malformed:
        return None


def read(decoder: "msgspec.json.Decoder[T]", raw: Raw) -> T | None:
    """Decode a part of a message; None if it has another shape, or is nested too deeply."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def members(raw: Raw) -> dict[str, Raw] | None:
    """Return the members of an object as they are written; None if it is not one."""
    return read(_members, raw)


def member(raw: Raw, *path: str) -> Raw | None:
    """Return the value at `path` of a part of a message; None if there is none."""
    for name in path:
        found = (members(raw) or {}).get(name)
        if found is None:
            return None
        raw = found
    return raw


def text_at(raw: Raw, *path: str) -> str | None:
    """Return the text at `path` of a part of a message; None if there is none."""
    found = member(raw, *path)
    return None if found is None else read(_text, found)


def fault(raw: Raw) -> Fault:
    """Read an `error` member of any shape."""
    return read(_fault, raw) or _tolerated_fault(bytes(raw))


def _tolerated_fault(written: bytes) -> Fault:
    """Return its message, and its code if it is a number; without a message, all of it as text."""
    said = mapping(decoded(written))
    if not isinstance(message := said.get("message"), str):
        return Fault(message=written.decode(errors="replace"))
    code = said.get("code")
    return Fault(code if isinstance(code, int) else INTERNAL_ERROR, message)


# Our messages, without the newline that ends them on a pipe (`as_line`).


def as_line(message: bytes) -> bytes:
    """Copy a message with a newline at its end."""
    return message + b"\n"


def request(id: int | Raw, method: str, params: object = None) -> bytes:
    body: dict[str, object] = {"jsonrpc": "2.0", "id": id, "method": method}
    return written(body if params is None else {**body, "params": params})


def notification(method: str, params: object = None) -> bytes:
    body: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    return written(body if params is None else {**body, "params": params})


def result(id: Raw, value: object) -> bytes:
    return written({"jsonrpc": "2.0", "id": id, "result": value})


def error(id: Raw, code: int, message: str, data: object = None) -> bytes:
    said = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return written({"jsonrpc": "2.0", "id": id, "error": said})


# Lines in a byte stream, independent of its chunks (ACP v1 "transports", stdio).


LONG_LINE_BYTES = 1024 * 1024
_NEWLINE = ord("\n")  # searching for a number is faster than for bytes


ENDS = 1024  # bytes of each end of a line that is skipped


class LineTooLong(Exception):  # noqa: N818 - not our error
    """Raised when the other side sends more than the limit without a newline; the text completes "sent …".

    `head` and `tail` are the ends of a line that was skipped.
    """

    def __init__(self, text: str, head: bytes = b"", tail: bytes = b"") -> None:
        super().__init__(text)
        self.head, self.tail = head, tail


class LineFramer:
    """Splits bytes into lines, in time linear in the bytes.

    A line is joined once, when its newline comes. A long one is collected in one buffer instead, because many chunks
    would leave memory fragmented.
    """

    def __init__(self, *, limit: int, skip: Callable[[LineTooLong], None] | None = None) -> None:
        """`limit` is the longest line accepted, in bytes, without its newline. A longer one is skipped if `skip` is
        given, which hears of it at its end.
        """
        self._limit, self._skip = limit, skip
        self._skipping: tuple[bytes, bytes, int] | None = None  # both ends of the line so far, and its bytes
        self._parts: list[bytes] = []
        self._long = bytearray()
        self._held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield each line that `chunk` completes, without its newline.

        Raises:
            LineTooLong: after the lines before it were yielded, unless such lines are skipped.
        """
        if self._skipping is not None:
            part, newline, chunk = chunk.partition(b"\n")
            self._pass_over(part)
            if not newline:
                return
            self._skip_line()
        if chunk and not self._held and chunk.find(_NEWLINE) == len(chunk) - 1 <= self._limit:
            yield chunk[:-1]  # one whole line, as most chunks of a pipe are
            return
        first, *rest = chunk.split(b"\n")
        self._hold(first)
        if not rest:
            return
        if self._skipping is None:
            yield self._whole()
        else:
            self._skip_line()
        tail = rest.pop()
        for line in rest:
            if len(line) <= self._limit:  # nothing is held before it
                yield line
                continue
            self._hold(line)
            self._skip_line()
        self._hold(tail)

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        if self._held > self._limit:
            if self._skip is None:
                self._forget()
                raise LineTooLong(f"a line of more than {self._limit:,} bytes")
            self._long += b"".join([*self._parts, part])
            self._skipping = bytes(self._long[:ENDS]), bytes(self._long[-ENDS:]), self._held
            self._forget()
        elif self._held > LONG_LINE_BYTES:
            self._long += b"".join([*self._parts, part])
            self._parts = []
        elif part:
            self._parts.append(part)

    def _whole(self) -> bytes:
        """Return the collected line and drop it: otherwise a long one would be held twice."""
        line = bytes(self._long) if self._long else b"".join(self._parts)
        self._forget()
        return line

    def _forget(self) -> None:
        self._parts, self._long, self._held = [], bytearray(), 0

    def _pass_over(self, part: bytes) -> None:
        assert self._skipping is not None
        head, tail, size = self._skipping
        self._skipping = head, (tail + part[-ENDS:])[-ENDS:], size + len(part)

    def _skip_line(self) -> None:
        assert self._skipping is not None and self._skip is not None
        (head, tail, size), self._skipping = self._skipping, None
        self._skip(LineTooLong(f"a line of {size:,} bytes, where {self._limit:,} are allowed", head, tail))


# One side of a JSON-RPC connection, sans-IO: the open requests of both sides.
#
# There are two id spaces (C-6): the numbers of our requests, and the ids of the other side's, which are kept as bytes.
# Each request of the other side is answered exactly once; an answer without a request is junk, not an error (C-3).


NULL = Raw(b"null")
DIGITS = 18  # the longest number of our requests
BROKEN = "this request was not handled because of a bug in acp-launch"


class Called(Struct, frozen=True):
    """A request of the other side; answer with `respond`, `refuse` or `settle`."""

    id: Raw
    method: str
    params: Raw
    line: bytes


class Notified(Struct, frozen=True):
    """A notification of the other side."""

    method: str
    params: Raw
    line: bytes


class Answered(Struct, frozen=True):
    """The answer to our request `number`: `result`, or `fault` if it was refused."""

    number: int
    method: str
    result: Raw
    fault: Fault | None
    line: bytes


class Junk(Struct, frozen=True):
    """Not a message, or an answer to nothing; `reason` never quotes parameters (C-3)."""

    reason: str


Incoming = Called | Notified | Answered | Junk


class Call(Struct, frozen=True):
    """Our request, ready to be written."""

    number: int
    method: str
    line: bytes


class Peer:
    """Our side of a connection."""

    def __init__(self) -> None:
        self._next = 0
        self.allow_duplicate_ids = False  # whether a second request with the id of an open one is a request, too
        self._asked: dict[bytes, tuple[int, str]] = {}
        self._owed: dict[bytes, int] = {}  # by id: how many requests are open
        self._settled = b""  # the request answered since the last message, if any

    def call(self, method: str, params: object) -> Call:
        number = self._number(method)
        return Call(number, method, as_line(request(number, method, params)))

    def _number(self, method: str) -> int:
        self._next += 1
        self._asked[str(self._next - 1).encode()] = (self._next - 1, method)
        return self._next - 1

    def pass_on(self, method: str, line: bytes) -> Call:
        """Return another side's request as ours: its id is our number, all other bytes stay."""
        number = self._number(method)
        return Call(number, method, as_line(with_id(line, Raw(b"%d" % number))))

    def receive(self, line: bytes) -> Incoming:
        self._settled = b""
        message = decode(line)
        if message is None:
            return Junk("a line that is not a JSON-RPC message" if line.strip() else "a blank line")
        if message.method is UNSET:
            return self._answer(message, line)
        method = str(message.method)
        if message.id is UNSET:
            return Notified(method, message.params, line)
        return self._receive_request(message.id, method, message.params, line)

    def respond(self, id: Raw, value: object) -> bytes:
        """Return the answer to the other side's request `id`; b"" if it was answered already."""
        return as_line(result(id, value)) if self._settle(id) else b""

    def refuse(self, id: Raw, code: int, message: str, data: object = None) -> bytes:
        return as_line(error(id, code, message, data)) if self._settle(id) else b""

    def settle(self, id: Raw, line: bytes) -> bytes:
        """Return the answer to the other side's request `id`: another side's answer, whose other bytes stay."""
        return as_line(with_id(line, id)) if self._settle(id) else b""

    def recover(self, line: bytes) -> tuple[int | None, bytes]:
        """Settle a message whose handling failed. Return the number of our request that it answers, and the line that
        answers the other side's request."""
        message = decode(line)
        if message is None or message.id is UNSET:
            return None, b""
        if message.method is UNSET:
            id = bytes(message.id)
            self._asked.pop(id, None)
            return (int(id) if id.isdigit() and len(id) <= DIGITS else None), b""
        if bytes(message.id) == self._settled:
            return None, b""
        self._owed.pop(bytes(message.id), None)
        return None, as_line(error(message.id, INTERNAL_ERROR, BROKEN))

    def owes(self, id: Raw) -> bool:
        """Return whether the other side's request `id` still needs an answer."""
        return bytes(id) in self._owed

    def _receive_request(self, id: Raw, method: str, params: Raw, line: bytes) -> Incoming:
        if bytes(id) in self._owed and not self.allow_duplicate_ids:
            return Junk(f"a second {method} request with the id of an open request")
        # Raw may be a view into its chunk, and the id outlives the chunk.
        kept = id.copy()
        self._owed[bytes(kept)] = self._owed.get(bytes(kept), 0) + 1
        return Called(kept, method, params, line)

    def _answer(self, message: Envelope, line: bytes) -> Incoming:
        if message.id is UNSET:
            return Junk("a JSON object that is not a JSON-RPC message")
        asked = self._asked.pop(bytes(message.id), None)
        if asked is None:
            return Junk("an answer to a request that was never made")
        number, method = asked
        if message.error is not UNSET and bytes(message.error) != b"null":
            return Answered(number, method, NULL, fault(message.error), line)
        return Answered(number, method, NULL if message.result is UNSET else message.result, None, line)

    def _settle(self, id: Raw) -> bool:
        """Note an answer. Returns whether one was owed: each request is answered once."""
        if not (open := self._owed.pop(bytes(id), 0)):
            return False
        if open > 1:
            self._owed[bytes(id)] = open - 1
        self._settled = bytes(id)
        return True


# Messages that pass on under another id; all their other bytes stay.


_BEGINNING = regex(rb'\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"id"\s*+:\s*+(?P<id>[0-9]++|"[^"\\]*+")\s*+[,}]')


def with_id(line: bytes, id: Raw, *, was: int | None = None) -> bytes:
    """Replace the id of a message. `was` is the id that it was read to have, if it is a number."""
    begins = _BEGINNING.match(line)  # most begin with it, and need not be looked through
    if begins and (begins["id"] == b"%d" % was if was is not None else _has_one_id(line)):
        return line[: begins.start("id")] + bytes(id) + line[begins.end("id") :]
    member = splice.find(line, 0, "id")
    return line if member is None else line[: member.start] + bytes(id) + line[member.end :]


def _has_one_id(line: bytes) -> bool:
    return line.count(b'"id"') == 1 and b"\\u00" not in line  # no key is hidden by an escape


# Ids as dictionary keys (MCP "base protocol"). An id is compared as the bytes it came in: `1`, `"1"` and `1.0` are
# three. Only strings are compared decoded, because an answer may write them differently (`"\u0061"` for `"a"`).


_BACKSLASH, _QUOTE = ord("\\"), ord('"')  # comparing and searching for numbers is faster than for bytes


def key(id: Raw) -> bytes:
    """Return the same key for all spellings of an id. It never fails, even if the id holds half a surrogate pair."""
    text = bytes(id)
    if text[0] != _QUOTE or (_BACKSLASH not in text and text.isascii()):
        return text
    try:
        return msgspec.json.encode(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = decoded(text)  # as `decode` lets it pass
        return text if said is None else written(said)


# Reports of messages that we failed to handle, by a bug: each failure loses that message only. The
# report names the place in our code, for a bug report. It never quotes the message, which may contain a secret.


PACKAGE = __name__.partition(".")[0]
REPORTED = (1, 100, 10_000)  # the failures at one place that are reported: an agent may send many such messages


class Mishaps:
    """Counts failures and reports some of them."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """`note` takes a sentence for the user."""
        self._note = note
        self._counts: Counter[str] = Counter()

    def add(self, whose: str, error: Exception) -> None:
        """Report a message of `whose` ("the agent") that was not handled because of `error`."""
        kind = f"{type(error).__name__} in {_place_of(error)}"
        if count := self._count(kind):
            so_far = f"; {count:,} so far" if count > 1 else ""
            self._note(
                f"a message of {whose} was skipped because of a bug in acp-launch; please report it ({kind}{so_far})"
            )

    def add_junk(self, whose: str, reason: str) -> None:
        """Report a line in `whose` ("the stdout of the agent") that is not a message."""
        if count := self._count(""):
            self._note(f"{whose} holds {reason}; ignored ({count} so far)")

    def _count(self, kind: str) -> int:
        """Count a failure; return how many of its kind there are, 0 if that is not to be reported."""
        self._counts[kind] += 1
        return self._counts[kind] if self._counts[kind] in REPORTED else 0


def _place_of(error: Exception) -> str:
    """Return the innermost line of our code: `bridge.link:24`."""
    place, step = "another package", error.__traceback__
    while step is not None:
        module = str(step.tb_frame.f_globals.get("__name__"))
        if module.startswith(f"{PACKAGE}."):
            place = f"{module.removeprefix(f'{PACKAGE}.')}:{step.tb_lineno}"
        step = step.tb_next
    return place
