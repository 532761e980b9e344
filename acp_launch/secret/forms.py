"""
Every form in which a value may appear: unchanged, or as programs write it into URLs, headers, JSON, shells, tracebacks.

Not searched for: a form within a form beyond this list (base64 of base64, JSON within JSON within JSON), base64 wrapped
into lines, other alphabets (hex, gzip), and anything under `MIN_FORM_CHARS`, which cannot be told from ordinary
text. At the end of a value in base64, up to four bits of its last character may stay visible.

A value of more than `LARGE` characters is searched for by pieces: every `PIECE_CHARS` as they are and inside JSON,
its lines, and every `PIECE_CHARS` of its base64 (the standard alphabet, on its own). So a whole copy in these
forms is hidden whole, and a partial copy shows less than one piece at either end. Its other forms are not searched for.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from acp_launch.regex import regex

MIN_FORM_CHARS = 6
SHORTEST_LINE = 8  # characters; a line of a longer value is assumed to be secret by itself
LARGE = 4096  # characters; twenty forms of each such value would be slow to make and to search for
PIECE_CHARS = 1024  # the most that is held back of a stream
COMPONENT = "!'()*-._~"  # what JavaScript's encodeURIComponent leaves unescaped
_PLAIN = regex("[A-Za-z0-9 _.,:;=@!?#$%*()|~^{}\\[\\]-]*")  # the same in every JSON
_ARMOUR = regex("-----(BEGIN|END) [A-Z0-9 ]+-----")  # names the kind of a key, is not the key
_HTML = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&"})  # Go
_CAUTIOUS = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&+'`"} | {'"': "\\u0022"})  # .NET
_HEX_IN_JSON = regex(r"\\u[0-9a-f]{4}")
_HEX_IN_URL = regex("%[0-9A-F]{2}")
_SPECIAL = regex(r"([^A-Za-z0-9_@%+=:,./-])")  # what bash's `printf %q` puts a backslash before
_IN_DOUBLE_QUOTES = regex(r'([\\"$`])')


def is_maskable(text: str) -> bool:
    """Whether the value has a form that can be hidden."""
    return len(text.strip()) >= MIN_FORM_CHARS


def forms(text: str) -> frozenset[str]:
    """Return all forms, each at least `MIN_FORM_CHARS` long; none for a shorter text.

    A value of several lines appears whole, with either kind of line end, and line by line.
    """
    if not is_maskable(text):
        return frozenset()
    stripped = (line for line in map(str.strip, text.splitlines()) if len(line) >= SHORTEST_LINE)
    lines = {line for line in stripped if not _ARMOUR.fullmatch(line)}
    if len(text) > LARGE:
        return frozenset(_of_large(text, lines))
    wholes = {text, text.strip(), text.replace("\n", "\r\n"), text.replace("\r\n", "\n")}
    found = {form for whole in wholes for form in (*_written(whole), *_base64(whole))}
    found |= {form for line in lines for form in _in_json(line)}
    return frozenset(form for form in found if len(form) >= MIN_FORM_CHARS)


def _of_large(text: str, lines: Iterable[str]) -> Iterator[str]:
    for whole in (text.strip(), *lines):
        for piece in _pieces(whole):
            yield from (piece,) if _PLAIN.fullmatch(piece) else _in_json(piece)
    yield from _pieces(_encoded(_bytes(text)).rstrip("="))


def _pieces(text: str) -> Iterator[str]:
    """Cut text into adjacent pieces; the last one overlaps the one before it."""
    for at in range(0, len(text) - PIECE_CHARS, PIECE_CHARS):
        yield text[at : at + PIECE_CHARS]
    yield text[-PIECE_CHARS:]


def in_json(text: str) -> str:
    """Return `text` as inside JSON that escapes no more than it must."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _written(text: str) -> Iterator[str]:
    yield from _in_json(text)
    yield from _in_url(text)
    yield from _in_shell(text)
    yield from _in_python(text)


def _in_json(text: str) -> Iterator[str]:
    yield text
    for escaped in (in_json(text), json.dumps(text)[1:-1]):
        for form in (escaped, escaped.replace("/", "\\/"), escaped.translate(_HTML)):
            yield form
            yield _HEX_IN_JSON.sub(lambda found: "\\u" + found[0][2:].upper(), form)
    cautious = json.dumps(text.replace('"', "\0"))[1:-1].replace("\\u0000", '"').translate(_CAUTIOUS)
    yield _HEX_IN_JSON.sub(lambda found: "\\u" + found[0][2:].upper(), cautious)


def _in_url(text: str) -> Iterator[str]:
    data = _bytes(text)
    for form in (quote(data, safe=""), quote(data, safe="/"), quote_plus(data), quote(data, safe=COMPONENT)):
        yield form
        yield _HEX_IN_URL.sub(lambda found: found[0].lower(), form)


def _in_shell(text: str) -> Iterator[str]:
    yield text.replace("'", "'\"'\"'")
    yield text.replace("'", r"'\''")
    yield _IN_DOUBLE_QUOTES.sub(r"\\\1", text)
    yield _SPECIAL.sub(r"\\\1", text)


def _in_python(text: str) -> Iterator[str]:
    for shown in (repr(text)[1:-1], ascii(text)[1:-1], repr(_bytes(text))[2:-1]):
        yield shown
        yield re.sub(r"(?<!\\)((?:\\\\)*)'", r"\1\\'", shown)  # as quoted in a text with both kinds of quotes


def _base64(text: str) -> Iterator[str]:
    """Yield the base64 of the whole, and the part that is the same within
    other data, at each of the three alignments."""
    data = _bytes(text)
    for form in (_encoded(data).rstrip("="), *(_core(data, before) for before in range(3))):
        yield form
        yield form.replace("+", "-").replace("/", "_")


def _core(data: bytes, before: int) -> str:
    """Return the characters that hold no bit of a neighbour, with `before` bytes before `data`."""
    bits = 8 * before
    return _encoded(b"\0" * before + data)[-(-bits // 6) : (bits + 8 * len(data)) // 6]


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    """Encode as in the environment, where text need not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")
