"""Everything that is not the answer: one line a thing, on stderr, coloured only for a terminal (NO_COLOR)."""

import os
import re
import sys

DIM, RED, YELLOW = "2", "31", "33"


def say(text: str, *, style: str = "") -> None:
    """Write a line to stderr."""
    put(f"{paint(text, style)}\n")


def put(text: str) -> None:
    """Write to stderr. Where that cannot be written (its terminal has gone, its disk is full, its reader has ended)
    nobody is told any more: the answer on stdout and the exit code are what they would have been."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _stderr_is_gone()


def paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and coloured() else text


def coloured() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _stderr_is_gone() -> None:
    """Keep the interpreter from flushing to it at exit, which would be another exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stderr.fileno())
    os.close(null)


def harmless(text: str, *, keep: str = "\n\t") -> str:
    """`text` with control characters made visible, so that an agent cannot drive the terminal with it."""
    if _without(keep, text).isprintable():  # much the quickest way to see that nothing is to do
        return text
    return "".join(mark if mark in keep or mark.isprintable() else _visible(mark) for mark in text)


def uncoloured(text: str) -> str:
    """`text` without colours, which `harmless` would make visible: programs write them to their stderr."""
    return text if "\x1b" not in text else re.sub(r"\x1b\[[0-9;:]*m", "", text)


def _without(marks: str, text: str) -> str:
    for mark in marks:
        text = text.replace(mark, "")
    return text


def _visible(mark: str) -> str:
    return "" if mark == "\r" else mark.encode("unicode_escape").decode()
