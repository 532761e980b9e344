"""
Files in a prompt: each becomes a content block, as the agent's `promptCapabilities` allow (C-54; ACP v1 "content").

    text            `resource` with the text if the agent takes embedded context, else `resource_link`
    image, audio    base64 if the agent takes them; else refused, or a link if it was only mentioned
    anything else   `resource_link`: the agent opens what it can by itself
    directory       `resource_link`

The user chose the file, so it is sent unchanged: a secret in it is not redacted. A link is followed, unless it leads
out of a project. Nothing here waits: a FIFO, a socket and a device are refused.

`sniff` tells the kind of a file, `mentions` finds `@path` in a prompt, `attach` and `blocks` make the content.
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
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from msgspec import Struct

from acp_launch.errors import UsageError
from acp_launch.protocol.acp import Capabilities
from acp_launch.regex import regex
from acp_launch.session.safepath import Denied, open_named, pin_named

# The kind of a file's content, from its first bytes and never from its name (a `.png` may be anything).


Kind = Literal["text", "image", "audio", "other"]

HEAD = 512  # bytes that are enough to decide


class FileContent(Struct, frozen=True):
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

_MEDIA: dict[str, Callable[[bytes], bool]] = {
    "image/png": lambda head: head.startswith(b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": lambda head: head.startswith(b"\xff\xd8\xff"),
    "image/gif": lambda head: head.startswith((b"GIF87a", b"GIF89a")),
    "image/webp": lambda head: head.startswith(b"RIFF") and head[8:12] == b"WEBP",
    "audio/wav": lambda head: head.startswith(b"RIFF") and head[8:12] == b"WAVE",
    "audio/mpeg": lambda head: head.startswith((b"ID3", b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2")),
    "audio/ogg": lambda head: head.startswith(b"OggS"),
    "audio/flac": lambda head: head.startswith(b"fLaC"),
    "audio/mp4": lambda head: head[4:8] == b"ftyp" and head[8:12] in {b"M4A ", b"M4B "},
}


def sniff(head: bytes, name: str) -> FileContent:
    """Return the kind of a file that begins with `head`. Its name only tells the kind of text or of another file."""
    if is_text(head):
        return FileContent("text", _text_type(name))
    for mime, begins in _MEDIA.items():
        if begins(head):
            return FileContent("image" if mime.startswith("image") else "audio", mime)
    return FileContent("other", _by_name().guess_type(name)[0] or "application/octet-stream")


def is_text(head: bytes) -> bool:
    """Whether it is UTF-8 (the last character may be cut) without control characters that text does not have."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not _CONTROLS.intersection(head)


@functools.cache
def _by_name() -> MimeTypes:
    """Return Python's own table without the machine's, so that a file has the same type everywhere."""
    table = MimeTypes(filenames=())
    for ending, mime in _NEWER.items():
        table.add_type(mime, ending)
    return table


def _text_type(name: str) -> str:
    """Return the media type of a text file. `.ts` is TypeScript here, unlike in the table."""
    guessed = _by_name().guess_type(name)[0] or ""
    return guessed if guessed.startswith(_TEXTUAL) else "text/plain"


# `@path` in a prompt names a file.
#
# `@src/app.py` runs to the next white space, without the punctuation after it; `@"my file.txt"` takes everything up to
# the closing quote. An `@` inside a word, as in an e-mail address, names nothing.


_MENTION = regex(r'(?<![\w.+\-/@%:])@(?:"([^"\n]+)"|([^\s"@]+))')
_AFTER = ".,;:!?'`>*_"  # what a sentence, or Markdown, puts after a path
_PAIRS = {")": "(", "]": "[", "}": "{"}


class Mention(NamedTuple):
    """A mention of a file. `text[start:end]` is the mention with its `@` and quotes; `path` as it was written."""

    start: int
    end: int
    path: str


def mentions(text: str) -> list[Mention]:
    """Return every mention, in order, whether or not the file exists."""
    return [each for match in _MENTION.finditer(text) if (each := _mention(match)) is not None]


def _mention(match: "re.Match[str]") -> Mention | None:
    if match[1] is not None:
        return Mention(match.start(), match.end(), match[1])
    path = _trim(match[2])
    return Mention(match.start(), match.start() + 1 + len(path), path) if path else None


def _trim(path: str) -> str:
    while path and (path[-1] in _AFTER or _closes_nothing(path)):
        path = path[:-1]
    return path


def _closes_nothing(path: str) -> bool:
    """Whether the last bracket belongs to the sentence: `(see @notes.md)`, unlike `@page(1)`."""
    last = path[-1]
    return last in _PAIRS and path.count(last) > path.count(_PAIRS[last])


Block = dict[str, Any]
_WORDS = {"resource": "text", "resource_link": "link"}

MEBIBYTE = 1 << 20
TEXT_LIMIT = MEBIBYTE  # bytes; about 250,000 tokens, more than most models accept
MEDIA_LIMIT = 20 * MEBIBYTE  # bytes before base64; what the large model providers accept in one request


class AttachError(UsageError):
    """Raised when a file cannot be attached. `message` begins with its path."""


class _Found(Struct, frozen=True):
    """A file that was read. `data` is complete, or its first bytes if it is longer than may be sent."""

    path: Path
    name: str
    content: FileContent
    data: bytes
    size: int
    is_whole: bool

    def link(self, description: str = "") -> Block:
        return _link(self.path, self.name, self.content.mime, size=self.size, description=description)


def examine(path: Path, roots: Sequence[Path] = ()) -> None:
    """Raise AttachError for a file that can never be attached. Call this before starting an agent; `roots` as in
    `attach`."""
    if not _is_directory(path, roots):
        os.close(_open(path, roots))


def attach(
    path: Path,
    able: Capabilities,
    *,
    roots: Sequence[Path] = (),
    limit: int = TEXT_LIMIT,
    mention: bool = False,
    machine: str = "",
) -> Block:
    """Return the content block of one file.

    `roots` are the session's directories: the block is named by its path below one of them, else by its file name. No
    link leads out of them, or of another project.
    `limit` is the longest text to embed, in bytes; longer text becomes a link whose `description` says why. A `mention`
    becomes a link if an attachment would be refused, unless it is neither a file nor a directory. `machine` is that of
    an agent on another one, "on build1", where a link would lead to another file, or to none.

    Raises:
        AttachError: missing, unreadable, neither file nor directory, too large, or not accepted by the agent.
    """
    block = _block(path, able, roots, limit, mention=mention)
    if machine and block["type"] == "resource_link":
        why = f"the agent is {machine}, and of this file here it can take only a link"
        raise AttachError(f"{path}: {why}", fix="copy it there, and name it in the prompt by its path there, without @")
    return block


def _block(path: Path, able: Capabilities, roots: Sequence[Path], limit: int, *, mention: bool) -> Block:
    name = _name(path, roots)
    if _is_directory(path, roots):
        return _link(path, name, "inode/directory")
    found = _read(path, name, limit, roots)
    if found.content.kind == "text":
        if not able.embedded_context:
            return found.link()
        if not found.is_whole:
            return found.link(f"{_human(found.size)}: too long to embed")
        if not _is_whole_text(found.data):
            return _link(found.path, found.name, "application/octet-stream", size=found.size)
        resource = {"uri": _uri(found.path), "text": found.data.decode(), "mimeType": found.content.mime}
        return {"type": "resource", "resource": resource}
    if found.content.kind == "other":
        return found.link()
    refusal = _refusal(found, able)
    if refusal is None:
        block = {
            "type": found.content.kind,
            "data": base64.b64encode(found.data).decode("ascii"),
            "mimeType": found.content.mime,
        }
        return {**block, "uri": _uri(found.path)} if found.content.kind == "image" else block
    if mention:
        return found.link()
    raise refusal


def blocks(
    text: str, cwd: Path, roots: Sequence[Path], able: Capabilities, *, limit: int = TEXT_LIMIT, machine: str = ""
) -> list[Block]:
    """Return a prompt: its text unchanged, then one block for each existing file or directory it mentions.

    A relative path is looked for in `cwd` and then in each of `roots`; `~` is the home directory. `machine` as in
    `attach`.

    Raises:
        AttachError: a mentioned file cannot be read.
    """
    found = [_find(each.path, [cwd, *roots]) for each in mentions(text)]
    paths = dict.fromkeys(path for path in found if path is not None)
    how: Any = {"roots": [cwd, *roots], "limit": limit, "mention": True, "machine": machine}
    attached = [attach(path, able, **how) for path in paths]
    return [{"type": "text", "text": text}, *attached]


def describe(attached: Sequence[Block]) -> str:
    """Describe the blocks for the user, each with its name and kind: `a.py (text), b.wav (link)`."""
    return ", ".join(f"{_name_of(block)} ({_WORDS.get(block['type'], block['type'])})" for block in attached)


def _name_of(block: Block) -> str:
    uri = block.get("uri") or block.get("resource", {}).get("uri", "")
    return block.get("name") or unquote(uri.rpartition("/")[2]) or "a file"


def _find(mentioned: str, directories: Sequence[Path]) -> Path | None:
    try:
        path = Path(mentioned).expanduser()
    except RuntimeError:  # `~name` of an unknown user
        return None
    candidates = (directory / path for directory in directories)
    return next((each for each in candidates if _is_there(each)), None)


def _is_there(path: Path) -> bool:
    try:
        return path.is_file() or path.is_dir()
    except (OSError, ValueError):  # too long for a path, or with a NUL in it
        return False


def _is_directory(path: Path, roots: Sequence[Path]) -> bool:
    """Whether it is a directory. Raises for anything but a directory and a regular file."""
    try:
        mode = path.stat().st_mode
        pin_named(path, roots)
    except Denied as denied:
        raise leads_out(path) from denied
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise _no_file(path)
    return stat.S_ISDIR(mode)


def leads_out(path: Path) -> AttachError:
    target = os.path.realpath(path)
    return AttachError(f"{path}: a link leads out of the project, to {target}", fix="name that file itself")


def _open(path: Path, roots: Sequence[Path]) -> int:
    """Open the file. O_NONBLOCK, because it may have become a FIFO since it was checked."""
    how = os.O_RDONLY | os.O_NONBLOCK
    try:
        return open_named(path, roots, how)
    except Denied as denied:
        raise leads_out(path) from denied
    except OSError as error:
        raise _unreadable(path, error) from error


def _read(path: Path, name: str, limit: int, roots: Sequence[Path]) -> _Found:
    with open(_open(path, roots), "rb") as file:
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


def _most(content: FileContent, limit: int) -> int:
    """Return how many bytes of it may be sent."""
    if content.kind == "other":
        return 0
    return limit if content.kind == "text" else MEDIA_LIMIT


def _is_whole_text(data: bytes) -> bool:
    """Whether all of it is text. Only its beginning was checked before, and the last character may be cut."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return is_text(data)


def _refusal(found: _Found, able: Capabilities) -> AttachError | None:
    kind = found.content.kind
    if not (able.image if kind == "image" else able.audio):
        takes = "images" if kind == "image" else "audio"
        return AttachError(
            f"{found.path}: the agent does not accept {takes} (promptCapabilities.{kind} is not advertised)",
            fix="remove it, and name the file in the prompt so that the agent can open it itself",
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
    """Return `file://` and the absolute path, percent-encoded.

    `..` is resolved, because readers of URIs just drop it.
    """
    absolute = path.absolute()
    return (absolute.resolve() if ".." in absolute.parts else absolute).as_uri()


def _name(path: Path, roots: Sequence[Path]) -> str:
    absolute = path.absolute()
    below = [str(absolute.relative_to(root)) for root in roots if absolute.is_relative_to(root)]
    name = next((each for each in below if each != "."), absolute.name or str(absolute))
    return os.fsencode(name).decode(errors="replace")  # a file name may be invalid Unicode, a prompt must be valid


def _human(size: int) -> str:
    return f"{size / MEBIBYTE:.1f} MiB"


def _no_file(path: Path) -> AttachError:
    return AttachError(f"{path}: neither a file nor a directory", fix="attach a file")


def _unreadable(path: Path, error: OSError | ValueError) -> AttachError:
    if isinstance(error, OSError):
        reason, fix = (error.strerror or str(error)).lower(), "check the path, its owner and its mode"
        return AttachError(f"{path}: {reason}", fix=fix)
    return AttachError(f"{path}: not a valid path: {error}", fix="check the path")


def read_inside(file: Path, roots: Sequence[Path]) -> bytes:
    """Read a file that was named.

    Raises:
        UsageError: a link on its way leads out of the roots.
        OSError: it cannot be read.
    """
    try:
        with os.fdopen(open_named(file, roots), "rb") as opened:
            return opened.read()
    except Denied:
        raise leads_out(file) from None
