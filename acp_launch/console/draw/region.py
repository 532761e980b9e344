"""
The last rows of a bare terminal, drawn again and again below what was printed for good.

One write a frame, so nothing flickers: it takes the old rows away, prints what is above, and draws the new ones. The
rows do not wrap while they are drawn, so each takes one line of the screen even where the terminal finds a character
wider than we do. While the region stands the terminal does not echo keys: an echoed key would move the cursor we
count from. A terminal that became narrower has wrapped our rows, so they are counted anew; after a stop and `fg`
they belong to the past, and the next frame begins below.
"""

import asyncio
import signal
from collections.abc import Callable
from math import ceil
from types import FrameType
from typing import Protocol

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

from acp_launch.console.ask.terminal import Echo, given_back

# No more than so many frames a second: the first at once, the next when it is due.


FRAMES = 12  # a second


class Pace:
    """Without an event loop there is nothing to wait with: every frame is drawn when it is asked for."""

    def __init__(self, draw: Callable[[], None]) -> None:
        self._draw = draw
        self._due: asyncio.TimerHandle | None = None
        self._next = 0.0  # on the loop's clock

    def wake(self) -> None:
        """There is something new to draw."""
        if self._due is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._draw()
            return
        self._due = loop.call_at(max(self._next, loop.time()), self._frame, loop)

    def rest(self) -> None:
        """Forget the frame that is due."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _frame(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = None
        self._draw()
        self._next = loop.time() + 1 / FRAMES  # after the drawing: a slow terminal gets fewer


HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor
CUT, WRAP = "\x1b[?7l", "\x1b[?7h"  # what is too long for a line
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # a frame, for terminals that can show one at once; ignored by others


class Region:
    """The canvas of a one-shot run (`console.draw.canvas`)."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._able = self._console.is_terminal and not self._console.is_dumb_terminal
        self._content: RenderableType | None = None
        self._above = ""  # printed, to be written with the next frame
        self._drawn: list[int] = []  # the width of each row on the screen
        self._is_open = False
        self._pace = Pace(self._draw)
        self._echo = Echo()
        self._keep: Callable[[], None] = lambda: None

    @property
    def width(self) -> int:
        return self._console.width

    def show(self, what: RenderableType) -> None:
        """What the region holds from now on; drawn with the next frame."""
        if not self._able:
            return
        self._content = what
        if not self._is_open:
            self._open()
        self._pace.wake()

    def print(self, what: RenderableType) -> None:
        """Print above the region, for good."""
        with self._console.capture() as printed:
            self._console.print(what, crop=False)  # all that is drawn fits; looking again takes a third of the time
        self._above += printed.get()
        if self._is_open:
            self._pace.wake()
        else:
            self._take_back()

    def erase(self) -> bool:
        """Take the region off the screen until the next frame; what is printed now stays. Whether it was there."""
        was_drawn = bool(self._drawn)
        self._pace.rest()
        self._take_back()
        return was_drawn

    def close(self) -> None:
        """Give the terminal back as it was; `show` opens the region again."""
        self.erase()
        self._content = None
        if self._is_open:
            self._is_open = False
            self._write(SHOW)
            self._echo.on()
            self._keep()

    def _open(self) -> None:
        self._is_open = True
        self._keep = given_back()
        self._echo.off()
        self._write(HIDE)
        # Not through the event loop: the frame that was due while we were stopped must not come first.
        signal.signal(signal.SIGCONT, self._continued)

    def _continued(self, number: int, frame: FrameType | None) -> None:
        self._drawn = []
        if self._is_open:
            self._echo.off()

    def _draw(self) -> None:
        if self._content is None:
            self._take_back()
            return
        options = self._console.options
        # Never taller than the screen: what has scrolled away cannot be taken back.
        rows = self._console.render_lines(self._content, options, pad=False)[-max(1, options.size.height - 1) :]
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


# Where a session is drawn: what is finished scrolls away, what is not is drawn again below it.


class Canvas(Protocol):
    """`console.draw.region` on a bare terminal; the screen of an interactive session."""

    @property
    def width(self) -> int:
        """Columns, now."""

    def print(self, what: RenderableType) -> None:
        """For good, above what is drawn."""

    def show(self, what: RenderableType) -> None:
        """What stands below it from now on; drawn with the next frame, at most twelve a second."""

    def erase(self) -> bool:
        """Take it off the screen until the next frame. Whether it was there."""

    def close(self) -> None:
        """Give the terminal back; `show` takes it again."""
