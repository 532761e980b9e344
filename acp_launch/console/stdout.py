"""
The stdout of acp-launch: the answer. Text from agents, servers, files and paths passes through here.

On a terminal, control characters are made visible and no text can look like a line of ours. Where our own lines go to
the same file or pipe, our mark is removed from the text. Anywhere else the text stays unchanged. JSON is the same
everywhere: unprintable characters in it are escapes.
"""

import sys

from acp_launch.console.stderr import harmless, is_marking
from acp_launch.mark import unmarked
from acp_launch.protocol.written import visible


def put(text: str) -> None:
    """Write to stdout, in UTF-8 whatever the locale is: agents and servers use all languages.

    A terminal shows it before a question or a line on stderr that follows.
    """
    sys.stdout.flush()
    sys.stdout.buffer.write(printable(text).encode(errors="replace"))
    if sys.stdout.isatty():
        sys.stdout.buffer.flush()


def line(text: str) -> None:
    put(f"{text}\n")


def put_json(text: str) -> None:
    """Write one JSON text, which is the same on a terminal and in a pipe."""
    line(visible(text))


def printable(text: str) -> str:
    """Return `text` as it is written to this stdout."""
    if sys.stdout.isatty():
        return harmless(text)
    return unmarked(text) if is_marking() else text
