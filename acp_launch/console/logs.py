"""
The lines of logs, the way docker compose shows them: `github | …` where there is more than one.

Into a pipe or a file a line goes as the bytes it is. On a terminal it cannot drive that: colours are left out, the
rest of what a terminal would obey is made visible, and of a progress bar its last state remains.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterable
from zlib import crc32

from acp_launch.console.sessions import ago, cells
from acp_launch.console.stderr import DIM, harmless, say
from acp_launch.process.logs import LogName, began

AGENT = "agent"
COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
_STYLING = re.compile(r"\x1b\[[0-9;:]*m")


def label(name: LogName) -> str:
    """What a log is called here. A server may be called agent; no server has a colon in its name."""
    return f"mcp:{AGENT}" if name.server == AGENT else name.server or AGENT


class Shown:
    """Prints to stdout, notes to stderr in their place between the lines."""

    def __init__(self, *, as_json: bool) -> None:
        self._written = self._json if as_json else self._line
        self._is_terminal = sys.stdout.isatty()
        self._is_coloured = self._is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._width = 0

    def prefix(self, labels: Iterable[str]) -> None:
        """From now on each line begins with the name of its log; these are some of the names."""
        self._width = max([self._width, *map(cells, labels)])

    def line(self, name: LogName, line: bytes) -> None:
        rest = memoryview(self._written(name, line) + b"\n")
        while rest:  # PYTHONUNBUFFERED makes of stdout what takes a part when a signal arrives
            rest = rest[sys.stdout.buffer.write(rest) :]

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def launch(self, name: LogName) -> None:
        """Which launch it is whose lines follow."""
        self.note(f"{name.profile}, started {ago(began(name.launch), now=time.time())}")

    def note(self, text: str) -> None:
        self.flush()
        say(f"acp-launch: {harmless(text, keep='')}", style=DIM)

    def _json(self, name: LogName, line: bytes) -> bytes:
        members = {"launch": name.launch, "profile": name.profile, "name": label(name)}
        return json.dumps({**members, "line": line.decode(errors="replace")}).encode()

    def _line(self, name: LogName, line: bytes) -> bytes:
        return self._prefix(label(name)) + (on_terminal(line) if self._is_terminal else line)

    def _prefix(self, of: str) -> bytes:
        if not self._width:
            return b""
        text = f"{of}{' ' * (self._width - cells(of))} |"
        if self._is_coloured:
            text = f"\x1b[{COLOURS[crc32(of.encode()) % len(COLOURS)]}m{text}\x1b[0m"
        return f"{text} ".encode(errors="replace")


def on_terminal(line: bytes) -> bytes:
    """What a terminal would be left with after this line, and nothing that it obeys."""
    text = _STYLING.sub("", line.decode(errors="replace")).rstrip("\r").rpartition("\r")[2]
    return harmless(text, keep="\t").encode(errors="replace")
