"""
The last rows of the terminal, drawn again and again below what was printed for good.

One write a frame, at most twelve frames a second, so nothing flickers. While it stands the terminal does not echo
keys: an echoed key would move the cursor we count from. A terminal that became narrower has wrapped our rows, so
they are counted anew; after a stop and `fg` the rows belong to the past, and the next frame begins below.
"""

import asyncio
import signal
from math import ceil
from types import FrameType

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

from acp_launch.console.echo import Echo

FRAMES = 12  # a second


class Region:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._able = console.is_terminal and not console.is_dumb_terminal
        self._content: RenderableType | None = None
        self._drawn: list[int] = []  # the width of each row on the screen
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = False
        self._echo = Echo()

    def show(self, content: RenderableType) -> None:
        """What the region holds from now on; drawn with the next frame."""
        self._content = content
        if not self._able:
            return
        if not self._is_open:
            self._open()
        if self._timer is None:
            self._schedule()

    def print(self, what: RenderableType) -> None:
        """Print above the region, for good."""
        self.erase()
        self._console.print(what)

    def erase(self) -> bool:
        """Take the region off the screen until the next frame; what is printed now stays. Whether it was there."""
        if not self._drawn:
            return False
        self._write(self._undo())
        self._drawn = []
        return True

    def close(self) -> None:
        """Give the terminal back as it was; `show` opens the region again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.erase()
        if self._is_open:
            self._is_open = False
            self._write("\x1b[?25h")
            self._echo.on()

    def _open(self) -> None:
        self._is_open = True
        self._echo.off()
        self._write("\x1b[?25l")
        # Not through the event loop: the frame that was due while we were stopped must not come first.
        signal.signal(signal.SIGCONT, self._continued)

    def _continued(self, number: int, frame: FrameType | None) -> None:
        self._drawn = []
        if self._is_open:
            self._echo.off()

    def _schedule(self) -> None:
        loop = self._loop()
        if loop is None:
            self._draw()
        else:
            self._timer = loop.call_later(1 / FRAMES, self._draw)

    def _loop(self) -> asyncio.AbstractEventLoop | None:
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            return None

    def _draw(self) -> None:
        self._timer = None
        if self._content is None:
            return
        options = self._console.options
        # Never taller than the screen: what has scrolled away cannot be taken back.
        rows = self._console.render_lines(self._content, options, pad=False)[-max(1, options.size.height - 1) :]
        with self._console.capture() as frame:
            self._console.print(Segments(segment for row in rows for segment in (*row, Segment.line())), end="")
        self._write(self._undo() + frame.get())
        self._drawn = [sum(segment.cell_length for segment in row) for row in rows]

    def _undo(self) -> str:
        width = max(1, self._console.width)
        rows = sum(max(1, ceil(cells / width)) for cells in self._drawn)
        return f"\r\x1b[{rows}A\x1b[J" if rows else ""

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()
