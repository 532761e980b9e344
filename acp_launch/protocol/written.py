"""
JSON of any text that a program or a file name may contain: half a surrogate pair stays an escape, and invisible
characters become escapes where a user may read the text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from acp_launch.regex import regex

PIECE_BYTES = 1 << 20
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


def _visible(data: bytes | memoryview) -> bytes | memoryview:
    copied = data.tobytes() if isinstance(data, memoryview) else data
    if copied.isascii() and _DELETE not in copied and _RETURN not in copied:
        return data
    text = copied.decode(errors="replace")
    return data if text.isprintable() and "\ufffd" not in text else visible(text).encode()


def _escape(found: re.Match[str]) -> str:
    """Escape a character. A carriage return can only stand between two members, so it becomes a space."""
    if found[0] == "\r":
        return " "
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
