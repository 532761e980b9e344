"""
The answer. Whatever others have a part in (an agent, a server, a file, a path) passes by here on its way to stdout.

On a terminal nothing of it drives that, and nothing passes for a line of ours; where our own lines go to the same file
or pipe it cannot hold our mark; anywhere else it is what it is. JSON is the same wherever it goes: what cannot be
printed is an escape in it.
"""

import sys

from acp_launch.console.stderr import harmless, is_marking
from acp_launch.mark import unmarked
from acp_launch.protocol.written import visible


def put(text: str) -> None:
    """Write to stdout, in UTF-8 whatever the locale: what it is about speaks all languages."""
    sys.stdout.flush()
    sys.stdout.buffer.write(shown(text).encode(errors="replace"))


def line(text: str) -> None:
    put(f"{text}\n")


def put_json(text: str) -> None:
    """One JSON text; it says the same wherever it goes."""
    line(visible(text))


def shown(text: str) -> str:
    """As it is written to this stdout."""
    if sys.stdout.isatty():
        return harmless(text)
    return unmarked(text) if is_marking() else text
