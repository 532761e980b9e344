"""
The last rows of a bare terminal, redrawn below the printed lines.

Each frame is one write, so nothing flickers: it removes the old rows, prints the finished lines, and draws the new
rows. Rows do not wrap while they are drawn, so each takes one line of the screen even if the terminal finds a character
wider than we do. While the region is open the terminal does not echo keys, because an echoed key would move the cursor
that we count from. A terminal that became narrower has wrapped our rows, so they are counted again; after a stop and
`fg` the rows are left as they are, and the next frame begins below them.
"""

import asyncio
import signal
from collections.abc import Callable
from contextlib import ExitStack
from math import ceil
from types import FrameType
from typing import Protocol

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

from acp_launch.console.ask.terminal import restore_at_exit, without_modes

# The frame rate: the first frame is drawn at once, the next when it is due.


FRAMES = 12  # a second


class Pace:
    """Draws frames when they are due. Without an event loop every frame is drawn at once."""

    def __init__(self, draw: Callable[[], None]) -> None:
        self._draw = draw
        self._due: asyncio.TimerHandle | None = None
        self._next = 0.0  # in loop time

    def wake(self) -> None:
        """Draw a frame when it is due."""
        if self._due is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._draw()
            return
        self._due = loop.call_at(max(self._next, loop.time()), self._frame, loop)

    def rest(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _frame(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = None
        self._draw()
        self._next = loop.time() + 1 / FRAMES  # counted from the end of the drawing: a slow terminal gets fewer frames


HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor
CUT, WRAP = "\x1b[?7l", "\x1b[?7h"  # cut or wrap rows that are too long
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # a synchronized frame; other terminals ignore it


class Region:
    """The canvas of a one-shot run (`Canvas`)."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._able = self._console.is_terminal and not self._console.is_dumb_terminal
        self._above = ""  # printed, to be written with the next rows
        self._drawn: list[int] = []  # the width of each row on the screen
        self._is_open = False
        self._terminal = ExitStack()  # gives it back

    @property
    def width(self) -> int:
        return self._console.width

    def show(self, what: RenderableType) -> None:
        """Draw the content of the region, below what was printed since the last time."""
        if not self._able:
            return
        if not self._is_open:
            self._is_open = True
            self._terminal.callback(restore_at_exit())
            self._terminal.enter_context(without_modes("ECHO"))
            self._write(HIDE)
            # A signal handler of the event loop would run after the frame that was due while we were stopped.
            signal.signal(signal.SIGCONT, self._resume)
        self._draw(what)

    def print(self, what: RenderableType) -> None:
        with self._console.capture() as printed:
            self._console.print(what, crop=False)  # all lines fit; cropping takes a third of the time
        self._above += printed.get()
        if not self._is_open:
            self._take_back()

    def erase(self) -> bool:
        """Remove the region from the screen until the next frame; printed lines stay. Return whether it was drawn."""
        was_drawn = bool(self._drawn)
        self._take_back()
        return was_drawn

    def close(self) -> None:
        self.erase()
        if self._is_open:
            self._is_open = False
            self._write(SHOW)
            self._terminal.close()

    def _resume(self, number: int, frame: FrameType | None) -> None:
        self._drawn = []

    def _draw(self, what: RenderableType) -> None:
        options = self._console.options
        # Never taller than the screen, because rows that scrolled away cannot be removed.
        rows = self._console.render_lines(what, options, pad=False)[-max(1, options.size.height - 1) :]
        with self._console.capture() as frame:
            self._console.print(Segments(segment for row in rows for segment in (*row, Segment.line())), end="")
        drawn = f"{CUT}{frame.get()}{WRAP}" if rows else ""
        if update := f"{self._undo()}{self._above}{drawn}":
            self._write(f"{BEGIN}{update}{END}")
        self._above, self._drawn = "", [sum(segment.cell_length for segment in row) for row in rows]

    def _take_back(self) -> None:
        if update := self._undo() + self._above:
            self._write(update)
        self._above, self._drawn = "", []

    def _undo(self) -> str:
        width = max(1, self._console.width)
        rows = sum(max(1, ceil(cells / width)) for cells in self._drawn)
        return f"\r\x1b[{rows}A\x1b[J" if rows else ""

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


# The place where a session is drawn: finished lines scroll away, the rest is redrawn below them.


class Canvas(Protocol):
    """`Region` on a bare terminal; the screen of an interactive session."""

    @property
    def width(self) -> int:
        """Return the current width in columns."""

    def print(self, what: RenderableType) -> None:
        """Print for good, above the drawn rows."""

    def show(self, what: RenderableType) -> None:
        """Set the rows below the printed lines; they are drawn with the next frame, at most twelve a second."""

    def erase(self) -> bool:
        """Remove the rows from the screen until the next frame. Return whether they were drawn."""

    def close(self) -> None:
        """Restore the terminal; `show` takes it again."""
