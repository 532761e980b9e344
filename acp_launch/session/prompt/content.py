"""What kind of content a file holds: told from its first bytes, never from its name (a `.png` may be anything)."""

import codecs
import functools
from collections.abc import Callable
from mimetypes import MimeTypes
from typing import Literal

from msgspec import Struct

Kind = Literal["text", "image", "audio", "other"]

HEAD = 512  # bytes that are enough to tell


class Content(Struct, frozen=True):
    kind: Kind
    mime: str


_NEWER = {".md": "text/markdown", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml"}
_TEXTUAL = (
    "text/",
    "application/json",
    "application/javascript",
    "application/xml",
    "application/x-sh",
    "application/yaml",
    "application/toml",
)
_CONTROLS = {code for code in range(32) if chr(code) not in "\t\n\r\f\b\x1b"}

_IMAGES: dict[str, Callable[[bytes], bool]] = {
    "image/png": lambda head: head.startswith(b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": lambda head: head.startswith(b"\xff\xd8\xff"),
    "image/gif": lambda head: head.startswith((b"GIF87a", b"GIF89a")),
    "image/webp": lambda head: head.startswith(b"RIFF") and head[8:12] == b"WEBP",
}
_SOUNDS: dict[str, Callable[[bytes], bool]] = {
    "audio/wav": lambda head: head.startswith(b"RIFF") and head[8:12] == b"WAVE",
    "audio/mpeg": lambda head: head.startswith(b"ID3") or _is_mpeg_frame(head),
    "audio/ogg": lambda head: head.startswith(b"OggS"),
    "audio/flac": lambda head: head.startswith(b"fLaC"),
    "audio/mp4": lambda head: head[4:8] == b"ftyp" and head[8:12] in {b"M4A ", b"M4B "},
}


def sniff(head: bytes, name: str) -> Content:
    """What a file that begins with `head` holds; the name only says which kind of text or of other file it is."""
    if is_text(head):
        return Content("text", _text_type(name))
    for kind, table in (("image", _IMAGES), ("audio", _SOUNDS)):
        for mime, begins in table.items():
            if begins(head):
                return Content("image" if kind == "image" else "audio", mime)
    return Content("other", _by_name().guess_type(name)[0] or "application/octet-stream")


def is_text(head: bytes) -> bool:
    """UTF-8 (the last character may be cut) without control characters that no text has."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not _CONTROLS.intersection(head)


@functools.cache
def _by_name() -> MimeTypes:
    """Python's own table, and none of the machine's: the same file has the same type everywhere."""
    table = MimeTypes(filenames=())
    for ending, mime in _NEWER.items():
        table.add_type(mime, ending)
    return table


def _text_type(name: str) -> str:
    """`.ts` is TypeScript here, whatever the table of media types says."""
    guessed = _by_name().guess_type(name)[0] or ""
    return guessed if guessed.startswith(_TEXTUAL) else "text/plain"


def _is_mpeg_frame(head: bytes) -> bool:
    """MPEG audio, layer III: eleven bits of sync, and no field with a value that is reserved."""
    if len(head) < 3 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return False
    return head[1] & 0x18 != 0x08 and head[2] & 0xF0 != 0xF0 and head[2] & 0x0C != 0x0C
