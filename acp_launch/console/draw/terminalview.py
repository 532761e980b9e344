"""A command that runs for the agent: its last lines while it runs, folded when it is over."""

import re
from collections import deque

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from acp_launch.console.draw.outside import cut, one_line, prose

RUNNING, OVER = 8, 8  # lines drawn
KEPT = 8
LONG = 2_000  # characters of one line, the last ones
# What a command writes for a terminal is its own affair, not an attack, so it is left out rather than shown:
# colours, cursor movements, titles, hyperlinks. What remains is made harmless.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78])")


class TerminalView:
    def __init__(self, command: str = "") -> None:
        self.command = command
        self.exit: str | None = None  # how it ended, in words
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._count = 0
        self._line: list[str] = []
        self._length = 0  # of that line

    def add(self, output: str) -> None:
        """What the command wrote, in pieces of any cut."""
        *whole, last = output.split("\n")
        for line in whole:
            self._more(line)
            self._lines.append(_seen("".join(self._line)))
            self._count += 1
            self._line, self._length = [], 0
        self._more(last)

    def _more(self, piece: str) -> None:
        """A progress bar may write one line for ever."""
        self._line.append(piece[-LONG:])
        self._length += len(self._line[-1])
        if self._length > 2 * LONG:
            self._line = ["".join(self._line)[-LONG:]]
            self._length = LONG

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.command:
            yield Text(f"$ {one_line(cut(self.command, LONG))}", "bold", no_wrap=True, overflow="ellipsis")
        last = _seen("".join(self._line))
        lines = [*self._lines, *([last] if last else [])][-(RUNNING if self.exit is None else OVER) :]
        if hidden := self._count + bool(last) - len(lines):
            yield Text(f"… {hidden:,} lines above", "dim")
        for line in lines:
            yield Text(line, "dim", no_wrap=True, overflow="ellipsis")
        if self.exit is not None:
            yield Text(one_line(cut(self.exit, LONG)), "dim" if self.exit == "exit status 0" else "red")


def _seen(line: str) -> str:
    """As a terminal would show it: what a carriage return goes back over is written over."""
    bare = ESCAPES.sub("", line).rstrip("\r")
    return prose(bare.rsplit("\r", 1)[-1])
