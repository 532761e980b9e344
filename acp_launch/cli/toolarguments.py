"""The arguments of `mcp call`, read from the words, a file or stdin."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from acp_launch.errors import UsageError

if TYPE_CHECKING:
    from acp_launch.mcp.arguments import Given

STDIN = Path("-")
MOST = 64 * 1024 * 1024  # bytes; servers do not take longer lines either


def read(words: Sequence[str], file: Path | None) -> "Given":
    """Read the arguments.

    Raises:
        UsageError: they cannot be read, or are given twice.
    """
    from acp_launch.mcp.arguments import read_object, read_words

    if tuple(words) == ("-",) and file is None:
        file = STDIN
    elif words and file is not None:
        raise UsageError("the arguments are given twice", fix="give them as words, or with --file")
    if file is None:
        return read_words(words)
    source = "stdin" if file == STDIN else str(file)
    return read_object(_text(file, source), f"the arguments in {source}")


def _text(file: Path, source: str) -> str:
    try:
        raw = _read(file)
    except OSError as error:
        raise UsageError(
            f"cannot read the arguments from {file}: {error.strerror}", fix="name a file of JSON"
        ) from None
    if len(raw) > MOST:
        raise UsageError(f"the arguments in {source} are more than 64 MiB", fix="name a file of JSON")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the arguments in {source} are not UTF-8 (byte {error.start})", fix="convert them: iconv -t UTF-8"
        ) from None


def _read(file: Path) -> bytes:
    """Read at most one byte more than allowed, because a device may have no end."""
    if file == STDIN:
        return sys.stdin.buffer.read(MOST + 1)
    with file.open("rb") as opened:
        return opened.read(MOST + 1)
