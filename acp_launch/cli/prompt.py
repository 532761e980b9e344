"""Where the prompt comes from: the words, then a file; or stdin when there is neither."""

import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from acp_launch.console.stderr import DIM, say
from acp_launch.errors import UsageError

WAYS = "give it after the profile, with --file FILE, or on stdin"


def read(words: Sequence[str], file: Path | None) -> str:
    """The prompt's text; a file comes after the words.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    parts = [_decoded(os.fsencode(" ".join(words)), "the command line")] if words else []
    if file:
        parts.append(_from_file(file))
    text = "\n\n".join(parts) if parts else _from_stdin()
    if not text.strip():
        raise UsageError("the prompt is empty", fix=WAYS)
    if words and not file and _waits_on_stdin():
        say("acp-launch: what is on stdin is not read, the prompt is given; --file - adds it", style=DIM)
    return text


def is_left_open(words: Sequence[str], file: Path | None) -> bool:
    """Whether nothing was given, and there is a terminal to type at: a session to sit in front of."""
    return not words and not file and _is_terminal() and sys.stdin is not None


def require(words: Sequence[str], file: Path | None) -> None:
    """Refuse early, before anybody is asked for a passphrase, when there will be no prompt.

    Raises:
        UsageError: nothing was given, and stdin is a terminal.
    """
    if not words and not file and _is_terminal():
        raise _none()


def _is_terminal() -> bool:
    return sys.stdin is None or sys.stdin.isatty()


def _none() -> UsageError:
    return UsageError("there is no prompt", fix=WAYS)


def _waits_on_stdin() -> bool:
    """Whether somebody pipes something into us: known without reading, which might never end."""
    try:
        mode = os.fstat(0).st_mode
        if stat.S_ISREG(mode):
            return os.fstat(0).st_size > 0
        return stat.S_ISFIFO(mode) and bool(select.select([0], [], [], 0)[0]) and _holds_bytes()
    except OSError:
        return False


def _holds_bytes() -> bool:
    """A pipe is ready to be read at its end, too."""
    import array
    import fcntl
    import termios

    waiting = array.array("i", [0])
    fcntl.ioctl(0, termios.FIONREAD, waiting)
    return waiting[0] > 0


def _from_file(file: Path) -> str:
    if str(file) == "-":
        return _decoded(sys.stdin.buffer.read(), "stdin")
    try:
        return _decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"cannot read the prompt from {file}: {error.strerror}", fix="name a file of text") from None


def _from_stdin() -> str:
    if _is_terminal():
        raise _none()
    return _decoded(sys.stdin.buffer.read(), "stdin")


def _decoded(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the prompt from {source} is not UTF-8 (byte {error.start})", fix="convert it: iconv -t UTF-8"
        ) from None
