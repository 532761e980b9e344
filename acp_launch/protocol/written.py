"""
JSON of whatever a program, or a file's name, may hold: half a surrogate pair goes as the escape it came as, and what
cannot be seen is an escape where a person may look at it.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw

PIECE = 1 << 20  # bytes
# Control and formatting characters, separators of lines and paragraphs, halves of surrogate pairs (Unicode 15).
_HIDDEN = re.compile(
    "[\r\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_encode = msgspec.json.Encoder().encode


def written(value: object) -> bytes:
    """`value` as JSON. A `Raw` in it stays the bytes it is; in text that no UTF-8 can hold it is written anew."""
    try:
        return bytes(_encode(value))
    except UnicodeEncodeError:
        return _escaped(value)


def _escaped(value: object) -> bytes:
    import json

    if isinstance(value, dict):  # whose members, of a message, may be Raw
        members = (json.dumps(key).encode() + b":" + written(member) for key, member in value.items())
        return b"{" + b",".join(members) + b"}"
    return json.dumps(value, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> object:
    import json

    return json.loads(bytes(value)) if isinstance(value, Raw) else msgspec.to_builtins(value)


def visible(text: str) -> str:
    """A JSON text that says the same, and in which nothing is hidden, reorders what is read or drives a terminal."""
    return _HIDDEN.sub(_escape, text)


def visible_long(quoted: str) -> str:
    """A quoted text of YAML or TOML, written like JSON, in which whatever cannot be printed is an escape of theirs."""
    return "".join(mark if mark.isprintable() else _long_escape(ord(mark)) for mark in quoted)


def visible_bytes(data: bytes | memoryview) -> Sequence[bytes | memoryview]:
    """The same of a JSON text of any length, in pieces; one in which all can be seen is what it was."""
    if len(data) <= PIECE:
        return (_visible(data),)
    return [_visible(piece) for piece in _pieces(memoryview(data))]


def _pieces(view: memoryview) -> Iterator[memoryview]:
    while len(view) > PIECE:
        end = PIECE
        while end > PIECE - 4 and view[end] & 0xC0 == 0x80:  # not within a character
            end -= 1
        yield view[:end]
        view = view[end:]
    yield view


def _visible(data: bytes | memoryview) -> bytes | memoryview:
    copied = bytes(data)
    if copied.isascii() and b"\x7f" not in copied and b"\r" not in copied:
        return data
    text = copied.decode(errors="replace")
    return data if text.isprintable() and "\ufffd" not in text else visible(text).encode()


def _long_escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape(found: re.Match[str]) -> str:
    """A carriage return can only stand between two members."""
    if found[0] == "\r":
        return " "
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
