"""
The stderr of acp-launch: everything but the answer, one line per message, coloured only on a terminal (NO_COLOR).

Where an agent or a server may write to the same place, our lines begin with our mark (`acp_launch.problem`).
"""

import codecs
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from acp_launch.problem import MARK, marked, unmarked

DIM, RED, GREEN, YELLOW = "2", "31", "32", "33"
QUOTE, QUOTED = "00", "02"  # plain and dim, for text of agents and servers: it gets no mark
TYPED = "01"  # bold, for what the user typed: it gets no mark either

_is_marking = False


def share(*, at_once: bool = False) -> None:
    """Mark our lines from now on if the output of other programs may end up on the same screen or in the same file.

    `at_once` is for a caller that writes the output of other programs to stderr itself.
    """
    global _is_marking
    _is_marking = _is_marking or at_once or sys.stderr.isatty() or sys.stdout.isatty() or is_one_file()


def is_marking() -> bool:
    """Return whether foreign text must not contain our mark, wherever it is written."""
    return _is_marking


def say(text: str, *, style: str = "") -> None:
    """Write a line to stderr."""
    painted = paint(text, style)
    put(f"{add_mark(painted, style) if _is_marking else painted}\n")


def tell(text: str, *, style: str = "") -> None:
    """Write a line of acp-launch's own that may quote others, which cannot control the terminal by it."""
    say(harmless_line(f"acp-launch: {text}"), style=style)


def add_mark(text: str, style: str) -> str:
    """Mark a line, or indent foreign text to the same column."""
    if style == TYPED:
        return text
    return "  " + text.replace("\n", "\n  ") if style in (QUOTE, QUOTED) else marked(text)


def put(text: str) -> None:
    """Write to stderr. If that fails (its terminal is gone, its disk is full, its reader has ended), later lines are
    dropped; the answer on stdout and the exit code stay the same.

    Where both go to one place, as with `2>&1`, what was written to stdout before stands before it.
    """
    if is_one_file():
        with suppress(OSError):  # what could not be written stays buffered: the next write to stdout tells
            sys.stdout.flush()
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _stderr_is_gone()


def ask(text: str) -> None:
    """Write a question to the user at the terminal. The answer follows on the same line. It is always marked."""
    put(marked(text).replace(MARK, paint(MARK, YELLOW), 1))


def paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and has_colours() else text


def has_colours() -> bool:
    return sys.stderr.isatty() and wants_colours()


def wants_colours() -> bool:
    """Return whether the user wants colours where they are possible."""
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def is_one_file() -> bool:
    """Return whether stdout and stderr go to the same place, as with `2>&1`."""
    try:
        out, err = os.fstat(1), os.fstat(2)
    except OSError:
        return False
    return (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)


def _stderr_is_gone() -> None:
    """Redirect stderr to the null device: a failed flush at exit would change the exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stderr.fileno())
    os.close(null)


def is_harmless(text: str, *, keep: str = "") -> bool:
    """Return whether `text` has no character that drives a terminal or is invisible, and not our mark."""
    return MARK not in text and _without(keep, text).isprintable()


def harmless(text: str, *, keep: str = "\n\t") -> str:
    """Return `text` with control characters and our mark made visible, so that it cannot control the terminal."""
    if is_harmless(text, keep=keep):  # most texts are, and this check is fast
        return text
    seen = "".join(mark if mark in keep or mark.isprintable() else _visible(mark) for mark in text)
    return unmarked(seen)


def harmless_line(text: str) -> str:
    """Return `text` safe on one line: its line ends and tabs are made visible too."""
    return harmless(text, keep="")


def strip_colours(text: str) -> str:
    """Remove colours, which programs write to their stderr, and which `harmless` would make visible."""
    return text if "\x1b" not in text else re.sub(r"\x1b\[[0-9;:]*m", "", text)


def _without(marks: str, text: str) -> str:
    for mark in marks:
        text = text.replace(mark, "")
    return text


def _visible(mark: str) -> str:
    return "" if mark == "\r" else mark.encode("unicode_escape").decode()


def can_ask_user() -> bool:
    """Return whether a user can be asked: stdin and stderr are both terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class AgentStderr:
    """Shows the agent's stderr during a login, and passes every chunk to the log unchanged."""

    def __init__(self, log: Callable[[bytes], None], stream: TextIO) -> None:
        self._log = log
        self._stream = stream
        self._is_on = False
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # a chunk may end within a character

    @contextmanager
    def on(self) -> Iterator[None]:
        """Show it while the block runs."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    def __call__(self, chunk: bytes) -> None:
        text = self._decoder.decode(chunk)
        if self._is_on and text:
            share(at_once=True)
            self._stream.write(harmless(text))
            self._stream.flush()
        self._log(chunk)
