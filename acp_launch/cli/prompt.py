"""Where the prompt comes from: the words, a file, or stdin; exactly one of them."""

import sys
from collections.abc import Sequence
from pathlib import Path

from acp_launch.errors import UsageError

WAYS = "give it after the profile, with --file FILE, or on stdin"


def read(words: Sequence[str], file: Path | None) -> str:
    """The prompt's text.

    Raises:
        UsageError: there is none, or more than one, or it cannot be read.
    """
    if words and file:
        raise UsageError("the prompt is given twice: as words and with --file", fix="keep one of them")
    text = " ".join(words) if words else _from_file(file) if file else _from_stdin()
    if not text.strip():
        raise UsageError("the prompt is empty", fix=WAYS)
    return text


def _from_file(file: Path) -> str:
    if str(file) == "-":
        return _decoded(sys.stdin.buffer.read(), "stdin")
    try:
        return _decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"cannot read the prompt from {file}: {error.strerror}") from None


def _from_stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("there is no prompt", fix=f"{WAYS} (a session to sit in comes with a later version)")
    return _decoded(sys.stdin.buffer.read(), "stdin")


def _decoded(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the prompt from {source} is not UTF-8 (byte {error.start})") from None
