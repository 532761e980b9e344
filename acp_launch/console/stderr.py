"""
Everything that is not the answer: one line a thing, on stderr, coloured only for a terminal (NO_COLOR).

Where an agent or a server may write to the same place, our lines begin with our mark (`acp_launch.mark`).
"""

import os
import re
import sys

from acp_launch.mark import MARK, marked, unmarked

DIM, RED, YELLOW = "2", "31", "33"
QUOTE, QUOTED = "00", "02"  # plain and dim as well, for what others have said: it gets no mark
TYPED = "01"  # bold, for what was typed here: nor does that

_is_marking = False


def share(*, at_once: bool = False) -> None:
    """From here on others write, too: our lines are marked where both may end up on one screen or in one file.

    `at_once` is for what writes others' words to stderr itself.
    """
    global _is_marking
    _is_marking = _is_marking or at_once or sys.stderr.isatty() or sys.stdout.isatty() or _is_one_file()


def is_marking() -> bool:
    """Whether what others say must not hold our mark, wherever it is written."""
    return _is_marking


def say(text: str, *, style: str = "") -> None:
    """Write a line to stderr."""
    painted = paint(text, style)
    put(f"{headed(painted, style) if _is_marking else painted}\n")


def headed(text: str, style: str) -> str:
    """As it stands where others write: marked, or as far to the right as what is."""
    if style == TYPED:
        return text
    return "  " + text.replace("\n", "\n  ") if style in (QUOTE, QUOTED) else marked(text)


def put(text: str) -> None:
    """Write to stderr. Where that cannot be written (its terminal has gone, its disk is full, its reader has ended)
    nobody is told any more: the answer on stdout and the exit code are what they would have been."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _stderr_is_gone()


def ask(text: str) -> None:
    """Write a question to a person at the terminal, whose answer follows on the same line. It is always marked."""
    put(marked(text))


def paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and coloured() else text


def coloured() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _is_one_file() -> bool:
    """Whether stdout and stderr go to the same place, as with `2>&1`."""
    try:
        out, err = os.fstat(1), os.fstat(2)
    except OSError:
        return False
    return (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)


def _stderr_is_gone() -> None:
    """Keep the interpreter from flushing to it at exit, which would be another exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stderr.fileno())
    os.close(null)


def is_harmless(text: str, *, keep: str = "") -> bool:
    """Whether nothing in `text` drives a terminal, hides in it, or passes for a line of ours."""
    return MARK not in text and _without(keep, text).isprintable()


def harmless(text: str, *, keep: str = "\n\t") -> str:
    """`text` with control characters and our mark made visible, so that an agent cannot drive the terminal with it."""
    if is_harmless(text, keep=keep):  # much the quickest way to see that nothing is to do
        return text
    seen = "".join(mark if mark in keep or mark.isprintable() else _visible(mark) for mark in text)
    return unmarked(seen)


def uncoloured(text: str) -> str:
    """`text` without colours, which `harmless` would make visible: programs write them to their stderr."""
    return text if "\x1b" not in text else re.sub(r"\x1b\[[0-9;:]*m", "", text)


def _without(marks: str, text: str) -> str:
    for mark in marks:
        text = text.replace(mark, "")
    return text


def _visible(mark: str) -> str:
    return "" if mark == "\r" else mark.encode("unicode_escape").decode()
