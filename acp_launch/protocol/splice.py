"""
JSON as text: positions in it, in bytes, and edits of messages in place, where the rest stays unchanged; and JSON of any
text that a program or a file name may contain. Pure.

The text must be accepted by a JSON parser. The visited parts are checked as JSON; of the values in them only the end is
found, by strings and matching brackets. Takes linear time, and does not recurse.

In `written` text half a surrogate pair stays an escape; `visible` makes escapes of invisible characters, where a
user may read the text.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from acp_launch.regex import regex

Span = tuple[int, int]  # start, end

_BOM = b"\xef\xbb\xbf"
_BLANK = regex(rb"[ \t\n\r]*+")
_QUOTED = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_STRING = regex(_QUOTED)
_SCALAR = regex(rb"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null)(?![^\s,\]}])")
_STRUCTURE = regex(_QUOTED + rb'|[\[\]{}"]')  # a lone quote begins an unfinished string
_QUOTE, _COMMA, _COLON, _BRACE, _BRACKET = b'",:{['
_PLAIN = rb'\s*"(\w+)"\s*:\s*(' + _QUOTED + rb'|[^\s"\[\]{},:]++)\s*'  # a member that is no array and no object
_FIRST = regex(rb"(?:" + _BOM + rb")?\s*\{((?:" + _PLAIN + rb",)*)\s*(?:\"(\w+)\")?")
_LAST = regex(rb"((?:," + _PLAIN + rb")*)\}\s*\Z")
_MEMBER = regex(_PLAIN)
_CLOSING = {_BRACE: ord("}"), _BRACKET: ord("]")}


class Malformed(ValueError):  # noqa: N818
    """Raised if the text is not JSON; `at` is the offset."""

    def __init__(self, expected: str, at: int) -> None:
        super().__init__(f"expected {expected} at byte {at}")
        self.at = at


class Member(Struct, frozen=True):
    """A member of an object: its key, unescaped; the start of the key; start and end of the value."""

    key: str
    key_start: int
    start: int
    end: int


def members(data: bytes, start: int = 0) -> list[Member]:
    """
    Return the members of the object at `start`, in their order; a key may occur twice.

    Raises:
        Malformed: it is not an object, or it is broken.
    """
    return [Member(text(data, at), at, value, end) for at, value, end in _parts(data, start, _BRACE)]


def outer(head: bytes, tail: bytes) -> dict[str, bytes]:
    """
    Return the members of an object at both ends of its text that are no arrays and no objects, as they are written,
    and the key after those at its begin, with an empty value. The text may be cut after `head` and before `tail`.
    """
    found = {}
    if first := _FIRST.match(head):
        found = {key.decode(): value for key, value in _MEMBER.findall(first[1])}
        if first[4]:
            found.setdefault(first[4].decode(), b"")
    if last := _LAST.search(tail):
        found |= {key.decode(): value for key, value in _MEMBER.findall(last[1])}
    return found


def elements(data: bytes, start: int = 0) -> list[Span]:
    """
    Return start and end of the elements of the array at `start`.

    Raises:
        Malformed: it is not an array, or it is broken.
    """
    return [(value, end) for _, value, end in _parts(data, start, _BRACKET)]


def text(data: bytes, start: int) -> str:
    """
    Return the value of the string at `start`.

    Raises:
        Malformed: it is not a string.
    """
    written = data[start : _end_of_string(data, start)]
    try:
        return str(json.loads(written)) if b"\\" in written else written[1:-1].decode()
    except ValueError:
        raise Malformed("a string", start) from None


def is_text(data: bytes, start: int) -> bool:
    """Return whether the value at `start` is a string."""
    return _byte(data, start) == _QUOTE


def find(data: bytes, start: int, key: str) -> Member | None:
    """
    Return the member of this key of the object at `start`, the last one if there are several; None if there is none.

    Raises:
        Malformed: it is not an object, or it is broken.
    """
    return next((member for member in reversed(members(data, start)) if member.key == key), None)


def is_object(data: bytes, start: int) -> bool:
    return _byte(data, start) == _BRACE


def put(data: bytes, start: int, written: bytes) -> bytes:
    """Return the text with members in front of the others of the object at `start`: `"key":value,…` without an end."""
    at = _blank(data, len(_BOM) if start == 0 and data.startswith(_BOM) else start) + 1
    comma = b"" if _byte(data, _blank(data, at)) == _CLOSING[_BRACE] else b","
    return data[:at] + written + comma + data[at:]


def without_spans(data: bytes, spans: Iterable[Span]) -> bytes:
    """Return the text without these elements of its arrays or members of its objects, and without their commas."""
    pieces, done = [], 0
    for start, end in _cuts(data, spans):
        pieces.append(data[done:start])
        done = end
    return b"".join((*pieces, data[done:]))


def _cuts(data: bytes, spans: Iterable[Span]) -> list[Span]:
    cuts: list[Span] = []
    for start, end in sorted(spans):
        comma = _blank(data, end)
        if _byte(data, comma) == _COMMA:
            cuts.append((start, _blank(data, comma + 1)))
            continue
        while cuts and cuts[-1][1] == start:  # the array ends here, so the comma before these elements goes too
            start = cuts.pop()[0]
        before = len(data[:start].rstrip(b" \t\n\r")) - 1
        cuts.append((before if _byte(data, before) == _COMMA else start, end))
    return cuts


def _parts(data: bytes, start: int, opening: int) -> Iterator[tuple[int, int, int]]:
    """Yield the start of each part of the object or array at `start`, and start and end of its value."""
    at = _blank(data, len(_BOM) if start == 0 and data.startswith(_BOM) else start)
    if _byte(data, at) != opening:
        raise Malformed("an object" if opening == _BRACE else "an array", at)
    at = _blank(data, at + 1)
    if _byte(data, at) == _CLOSING[opening]:
        return
    while True:
        value = _value(data, at) if opening == _BRACE else at
        end = _end(data, value)
        yield at, value, end
        at = _blank(data, end)
        if _byte(data, at) == _CLOSING[opening]:
            return
        if _byte(data, at) != _COMMA:
            raise Malformed("a comma", at)
        at = _blank(data, at + 1)


def _value(data: bytes, key: int) -> int:
    colon = _blank(data, _end_of_string(data, key))
    if _byte(data, colon) != _COLON:
        raise Malformed("a colon", colon)
    return _blank(data, colon + 1)


def _end(data: bytes, at: int) -> int:
    first = _byte(data, at)
    if first == _QUOTE:
        return _end_of_string(data, at)
    if first in _CLOSING:
        return _end_of_brackets(data, at)
    scalar = _SCALAR.match(data, at)
    if not scalar:
        raise Malformed("a value", at)
    return scalar.end()


def _end_of_brackets(data: bytes, at: int) -> int:
    awaited = bytearray()
    for found in _STRUCTURE.finditer(data, at):
        byte = data[found.start()]
        if byte in _CLOSING:
            awaited.append(_CLOSING[byte])
        elif byte != _QUOTE:
            if byte != awaited.pop():
                raise Malformed("another bracket", found.start())
            if not awaited:
                return found.end()
        elif found.end() - found.start() == 1:
            raise Malformed("the end of a string", len(data))
    raise Malformed("a closing bracket", len(data))


def _end_of_string(data: bytes, at: int) -> int:
    found = _STRING.match(data, at)
    if not found:
        raise Malformed("a string", at)
    return found.end()


def _blank(data: bytes, at: int) -> int:
    found = _BLANK.match(data, at)
    return found.end() if found else at


def _byte(data: bytes, at: int) -> int:
    """Return the byte at `at`; -1 outside the text."""
    return data[at] if 0 <= at < len(data) else -1


# Edits of JSON-RPC messages in place: the id, members of `params`, `_meta` and `result`. All other bytes stay.
# `written` are members of an object as JSON, without the brackets around them: `"key":value,…`.


def without(line: bytes, path: Collection[str], keys: Collection[str]) -> bytes:
    """Remove members of the object at `path` (`("params", "_meta")`), if there is one."""
    place = at(line, path)
    if place is None or (path and not is_object(line, place[0])):
        return line
    found = members(line, place[0])
    return without_spans(line, [(each.key_start, each.end) for each in found if each.key in keys])


def replaced(line: bytes, path: Collection[str], written: bytes) -> bytes:
    """Replace the value at `path`, if there is one."""
    found = at(line, path)
    return line if found is None else line[: found[0]] + written + line[found[1] :]


def at(line: bytes, path: Collection[str]) -> Span | None:
    """Return start and end of the value at `path`; None if there is none."""
    start, end = 0, len(line)
    try:
        for key in path:
            member = find(line, start, key)
            if member is None:
                return None
            start, end = member.start, member.end
    except Malformed:  # a value on the way is not an object
        return None
    return start, end


def with_members(line: bytes, path: tuple[str, ...], written: bytes, start: int = 0) -> bytes:
    """Add members to the object at `path` of the object at `start`, which is made if it is missing."""
    if not path:
        return put(line, start, written)
    member = find(line, start, path[0])
    if member is not None and is_object(line, member.start):
        return with_members(line, path[1:], written, member.start)
    for key in reversed(path):
        written = b'"' + key.encode() + b'":{' + written + b"}"
    if member is not None:  # null, or no object at all
        line = without_spans(line, [(member.key_start, member.end)])
    return put(line, start, written)


PIECE_BYTES = 1 << 16  # a piece stays in the cache of a processor
# Control and formatting characters, separators of lines and paragraphs, halves of surrogate pairs (Unicode 15).
_HIDDEN = regex(
    "[\r\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_DELETE, _RETURN = b"\x7f\r"  # of ASCII; searching for a number is faster than for bytes


def _as_plain_number(value: object) -> float:
    """Return the number that a `Duration` or a `Size` is: msgspec encodes no class that is made from a number."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_encode = msgspec.json.Encoder(enc_hook=_as_plain_number).encode


def written(value: object) -> bytes:
    """Encode `value` as JSON. A `Raw` keeps its bytes, unless text outside UTF-8 requires encoding it again."""
    try:
        return bytes(_encode(value))
    except UnicodeEncodeError:
        return _encode_ascii(value)


def _encode_ascii(value: object) -> bytes:
    if isinstance(value, Struct) and (tag_field := value.__struct_config__.tag_field):
        named = {each.encode_name: getattr(value, each.name) for each in msgspec.structs.fields(value)}
        value = {tag_field: value.__struct_config__.tag, **named}
    if isinstance(value, dict):  # members of a message or an event may be Raw
        members = (json.dumps(key).encode() + b":" + written(member) for key, member in value.items())
        return b"{" + b",".join(members) + b"}"
    return json.dumps(value, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> object:
    return json.loads(bytes(value)) if isinstance(value, Raw) else msgspec.to_builtins(value)


def replace_halves(value: Any) -> Any:
    """Replace each half of a surrogate pair in plain values by a question mark: no file of JSON can hold it."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {replace_halves(key): replace_halves(each) for key, each in value.items()}
    return [*map(replace_halves, value)] if isinstance(value, list) else value


def visible(text: str) -> str:
    """Return an equivalent JSON text in which no character is invisible, changes the direction or drives a terminal."""
    if text.isascii() and "\x7f" not in text and "\r" not in text:  # the search takes 40 times as long
        return text
    return _HIDDEN.sub(_escape, text)


def visible_bytes(data: bytes | memoryview) -> Sequence[bytes | memoryview]:
    """Do the same as `visible` for a JSON text of any length, in pieces; a clean piece is returned unchanged."""
    if len(data) <= PIECE_BYTES:
        return (_visible(data),)
    return [_visible(piece) for piece in _pieces(memoryview(data))]


def _pieces(view: memoryview) -> Iterator[memoryview]:
    while len(view) > PIECE_BYTES:
        end = PIECE_BYTES
        while end > PIECE_BYTES - 4 and view[end] & 0xC0 == 0x80:  # do not split a character
            end -= 1
        yield view[:end]
        view = view[end:]
    yield view


def is_plain(data: bytes) -> bool:
    """Whether a look at the bytes shows that no character needs to become an escape."""
    return data.isascii() and _DELETE not in data and _RETURN not in data


def _visible(data: bytes | memoryview) -> bytes | memoryview:
    copied = data.tobytes() if isinstance(data, memoryview) else data
    if is_plain(copied):
        return data
    text = copied.decode(errors="replace")
    return data if text.isprintable() and "\ufffd" not in text else visible(text).encode()


def _escape(found: re.Match[str]) -> str:
    """Escape a character. A carriage return can only stand between two members, so it becomes a space."""
    if found[0] == "\r":
        return " "
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
