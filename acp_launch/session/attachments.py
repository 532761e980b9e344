"""
A file becomes a content block of a prompt, as the agent's `promptCapabilities` allow (C-54; ACP v1 "content").

    text            `resource` with the text where the agent takes embedded context, else `resource_link`
    image, audio    base64 where the agent takes them; else refused, or a link when it was only mentioned
    anything else   `resource_link`: the agent opens what it can by itself
    directory       `resource_link`

The user chose the file, so it goes as it is: a secret in it is not redacted, and a symlink is followed.
Nothing here waits: a FIFO, a socket and a device are refused without being opened for long.
"""

import base64
import codecs
import functools
import os
import re
import stat
from collections.abc import Callable, Sequence
from mimetypes import MimeTypes
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import unquote

from msgspec import Struct

from acp_launch.errors import UsageError

# What kind of content a file holds: told from its first bytes, never from its name (a `.png` may be anything).


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


# `@path` in a prompt: where a person names a file, and how a path is written so that it is read back as one.
#
# `@src/app.py` runs to the next white space, without the punctuation a sentence puts after it; `@"my file.txt"` takes
# everything up to the closing quote. An `@` inside a word, as in an e-mail address, names nothing.


_MENTION = re.compile(r'(?<![\w.+\-/@%:])@(?:"([^"\n]+)"|([^\s"@]+))')
_PLAIN = re.compile(r'[^\s"@]+')
_AFTER = ".,;:!?'`>*_"  # what a sentence, or Markdown around it, puts after a path
_PAIRS = {")": "(", "]": "[", "}": "{"}


class Mention(NamedTuple):
    """`text[start:end]` is the mention, its `@` and quotes included; `path` as it was written."""

    start: int
    end: int
    path: str


def mentions(text: str) -> list[Mention]:
    """Every mention, in order; whether there is such a file is another question."""
    return [each for match in _MENTION.finditer(text) if (each := _mention(match)) is not None]


def spelled(path: str) -> str:
    """The mention of this path: quoted where it has to be. A path with a quote or a line break has none: empty."""
    if not path or '"' in path or "\n" in path:
        return ""
    is_plain = _PLAIN.fullmatch(path) and _trimmed(path) == path and not _is_left_open(path)
    return f"@{path}" if is_plain else f'@"{path}"'


def _mention(match: "re.Match[str]") -> Mention | None:
    if match[1] is not None:
        return Mention(match.start(), match.end(), match[1])
    path = _trimmed(match[2])
    return Mention(match.start(), match.start() + 1 + len(path), path) if path else None


def _trimmed(path: str) -> str:
    while path and (path[-1] in _AFTER or _closes_nothing(path)):
        path = path[:-1]
    return path


def _is_left_open(path: str) -> bool:
    """`@a(` before a closing bracket of the sentence would take it in."""
    return any(path.count(opening) > path.count(closing) for closing, opening in _PAIRS.items())


def _closes_nothing(path: str) -> bool:
    """`(see @notes.md)` closes a bracket that was opened before the mention; `@page(1)` its own."""
    last = path[-1]
    return last in _PAIRS and path.count(last) > path.count(_PAIRS[last])


Block = dict[str, Any]
_WORDS = {"resource": "text", "resource_link": "link"}

MEBIBYTE = 1 << 20
TEXT_LIMIT = MEBIBYTE  # bytes; about 250,000 tokens, more than most models hold
MEDIA_LIMIT = 20 * MEBIBYTE  # bytes before base64; what the large model providers take in one request


class AttachError(UsageError):
    """Raised when a file cannot be attached. `message` begins with its path."""


class Takes(Protocol):
    """What the agent takes in a prompt besides text and links: `protocol.acp.Capabilities`."""

    @property
    def image(self) -> bool: ...
    @property
    def audio(self) -> bool: ...
    @property
    def embedded_context(self) -> bool: ...


class _Found(Struct, frozen=True):
    """A file as it was looked at: `data` whole, or its first bytes when it is longer than may be sent."""

    path: Path
    name: str
    content: Content
    data: bytes
    size: int
    is_whole: bool


def examine(path: Path) -> None:
    """Raises AttachError for what can never be attached: to be asked before an agent is started."""
    if not _is_directory(path):
        os.close(_open(path))


def attach(
    path: Path, able: Takes, *, roots: Sequence[Path] = (), limit: int = TEXT_LIMIT, mention: bool = False
) -> Block:
    """The content block of one file.

    `roots` are the session's directories: the block is named by its path below one of them, else by its file name.
    `limit` is the longest text to embed, in bytes; longer text becomes a link whose `description` says why.
    A `mention` becomes a link wherever an attachment would be refused, unless it is no file or directory at all.

    Raises:
        AttachError: missing, unreadable, neither file nor directory, too large, or not taken by the agent.
    """
    name = _name(path, roots)
    if _is_directory(path):
        return _link(path, name, "inode/directory")
    found = _read(path, name, limit)
    if found.content.kind == "text":
        return _text(found, able)
    if found.content.kind == "other":
        return _link(path, name, found.content.mime, size=found.size)
    refusal = _refusal(found, able)
    if refusal is None:
        return _media(found)
    if mention:
        return _link(path, name, found.content.mime, size=found.size)
    raise refusal


def blocks(text: str, cwd: Path, roots: Sequence[Path], able: Takes, *, limit: int = TEXT_LIMIT) -> list[Block]:
    """A prompt: its text as it is, then one block for each file or directory it mentions that there is.

    A relative path is looked for in `cwd` and then in each of `roots`; `~` is the home directory.

    Raises:
        AttachError: a file that was mentioned cannot be read.
    """
    found = [_find(each.path, [cwd, *roots]) for each in mentions(text)]
    paths = dict.fromkeys(path for path in found if path is not None)
    attached = [attach(path, able, roots=[cwd, *roots], limit=limit, mention=True) for path in paths]
    return [{"type": "text", "text": text}, *attached]


def told(attached: Sequence[Block]) -> str:
    """What goes along with a prompt's text, each by its name and as what it goes: `a.py (text), b.wav (link)`."""
    return ", ".join(f"{_called(block)} ({_WORDS.get(block['type'], block['type'])})" for block in attached)


def _called(block: Block) -> str:
    uri = block.get("uri") or block.get("resource", {}).get("uri", "")
    return block.get("name") or unquote(uri.rpartition("/")[2]) or "a file"


def _find(mentioned: str, directories: Sequence[Path]) -> Path | None:
    try:
        path = Path(mentioned).expanduser()
    except RuntimeError:  # `~nobody`: there is no such user
        return None
    candidates = (directory / path for directory in directories)
    return next((each for each in candidates if _is_there(each)), None)


def _is_there(path: Path) -> bool:
    try:
        return path.is_file() or path.is_dir()
    except (OSError, ValueError):  # too long to be a path, or with a NUL in it
        return False


def _is_directory(path: Path) -> bool:
    """False for a regular file; anything else is refused."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise _no_file(path)
    return stat.S_ISDIR(mode)


def _open(path: Path) -> int:
    """A descriptor of the file. O_NONBLOCK: it may have become a FIFO since it was looked at."""
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise _unreadable(path, error) from error


def _read(path: Path, name: str, limit: int) -> _Found:
    with open(_open(path), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _no_file(path)
        try:
            head = file.read(HEAD)
            content = sniff(head, name)
            most = _most(content, limit)
            data = head + file.read(max(0, most + 1 - len(head)))
        except OSError as error:
            raise _unreadable(path, error) from error
    return _Found(path, name, content, data, max(status.st_size, len(data)), len(data) <= most)


def _most(content: Content, limit: int) -> int:
    """How many bytes of it may be sent."""
    if content.kind == "other":
        return 0
    return limit if content.kind == "text" else MEDIA_LIMIT


def _text(found: _Found, able: Takes) -> Block:
    if not able.embedded_context:
        return _link(found.path, found.name, found.content.mime, size=found.size)
    if not found.is_whole:
        why = f"{_human(found.size)}: too long to be embedded"
        return _link(found.path, found.name, found.content.mime, size=found.size, description=why)
    if not _is_whole_text(found.data):
        return _link(found.path, found.name, "application/octet-stream", size=found.size)
    resource = {"uri": _uri(found.path), "text": found.data.decode(), "mimeType": found.content.mime}
    return {"type": "resource", "resource": resource}


def _is_whole_text(data: bytes) -> bool:
    """Its beginning was text; the rest may not be, and the last character may be cut."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return is_text(data)


def _media(found: _Found) -> Block:
    block = {
        "type": found.content.kind,
        "data": base64.b64encode(found.data).decode("ascii"),
        "mimeType": found.content.mime,
    }
    return {**block, "uri": _uri(found.path)} if found.content.kind == "image" else block


def _refusal(found: _Found, able: Takes) -> AttachError | None:
    kind = found.content.kind
    if not (able.image if kind == "image" else able.audio):
        takes = "images" if kind == "image" else "audio"
        return AttachError(
            f"{found.path}: the agent takes no {takes} (promptCapabilities.{kind} is not advertised)",
            fix="leave it out, and name the file in the prompt so that the agent can open it by itself",
        )
    if not found.is_whole:
        return AttachError(
            f"{found.path}: {_human(found.size)} is too large for {'an image' if kind == 'image' else 'audio'}"
            f" in a prompt (at most {_human(MEDIA_LIMIT)})",
            fix="attach a smaller one",
        )
    return None


def _link(path: Path, name: str, mime: str, *, size: int | None = None, description: str = "") -> Block:
    block: Block = {"type": "resource_link", "uri": _uri(path), "name": name, "mimeType": mime}
    if size is not None:
        block["size"] = size
    if description:
        block["description"] = description
    return block


def _uri(path: Path) -> str:
    """`file://` and the absolute path, percent-encoded. A `..` is resolved: readers of URIs drop it without looking."""
    absolute = path.absolute()
    return (absolute.resolve() if ".." in absolute.parts else absolute).as_uri()


def _name(path: Path, roots: Sequence[Path]) -> str:
    absolute = path.absolute()
    below = [str(absolute.relative_to(root)) for root in roots if absolute.is_relative_to(root)]
    name = next((each for each in below if each != "."), absolute.name or str(absolute))
    return os.fsencode(name).decode(errors="replace")  # a file name may be no Unicode, a prompt has to be


def _human(size: int) -> str:
    return f"{size / MEBIBYTE:.1f} MiB"


def _no_file(path: Path) -> AttachError:
    return AttachError(f"{path}: neither a file nor a directory", fix="attach a file")


def _unreadable(path: Path, error: OSError | ValueError) -> AttachError:
    match error:
        case FileNotFoundError():
            return AttachError(f"{path}: no such file", fix="check the path; it is looked for where you are")
        case PermissionError():
            return AttachError(f"{path}: not readable for you", fix="check its owner and mode: ls -l")
        case OSError():
            return AttachError(f"{path}: cannot be read: {error.strerror or error}", fix="check the path")
    return AttachError(f"{path}: this is no path: {error}", fix="check the path")
