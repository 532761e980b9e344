"""
The canvas of an interactive session: prints go into the scrollback above the application, what is drawn again and
again is one of its rows.

Nothing is written here. Both are kept for the next frame, at most twelve a second and fewer when frames are dear, so
that however much is printed no key waits for it. While somebody is asked (`hold`) prints wait: what stands above a
question does not scroll away while it is read.
"""

import asyncio
from collections.abc import Callable
from time import monotonic

from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.console import Console, RenderableType

from acp_launch.interactive.fragments import fragments

FRAMES = 12  # a second
SHARE = 0.2  # of our time, at most, that frames may take


class Board:
    """A `Canvas`."""

    def __init__(self, console: Console, size: Callable[[], Size], frame: Callable[[], None]) -> None:
        """`console` renders and never writes; `frame` asks for a frame soon."""
        self._console = console
        self._size = size
        self._frame = frame
        self._pending: list[str] = []
        self._held: list[str] | None = None
        self._content: RenderableType | None = None
        self._rows: list[StyleAndTextTuples] = []
        self._rendered: tuple[RenderableType | None, int] = (None, 0)
        self._timer: asyncio.TimerHandle | None = None
        self._begun = self._next = 0.0

    @property
    def width(self) -> int:
        return self._size().columns

    def print(self, what: RenderableType) -> None:
        self.write(self._ansi(what))

    def write(self, text: str) -> None:
        """Print whole lines that are made for a terminal already."""
        (self._pending if self._held is None else self._held).append(text)
        self._schedule()

    def say(self, what: RenderableType) -> None:
        """Print at once, also while prints are held back."""
        self._pending.append(self._ansi(what))
        self._schedule()

    def show(self, what: RenderableType) -> None:
        self._content = what
        self._schedule()

    def erase(self) -> bool:
        """Nothing to do: whatever is written now is put above by itself."""
        return self._content is not None

    def close(self) -> None:
        self._content = None
        self._schedule()

    def touch(self) -> None:
        """Something else than the canvas has changed: it is drawn with the next frame."""
        self._schedule()

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        self._pending += self._held or []
        self._held = None
        self._schedule()

    def take(self) -> str:
        """What is to be written above, for the frame that is drawn now. The rows are rendered anew with it: what was
        printed may have stood there."""
        text, self._pending = "".join(self._pending), []
        if text:
            self._rendered = (None, 0)
        return text.replace("\n", "\r\n")

    def rows(self, width: int) -> list[StyleAndTextTuples]:
        """What stands below it, row by row; nothing while prints are held back. Rendered anew once a frame, however
        often it changes."""
        if self._held is not None or self._content is None:
            return []
        if self._rendered[1] != width or (self._rendered[0] is not self._content and monotonic() >= self._next):
            self._rendered = (self._content, width)
            options = self._sized().options.update(width=width)
            self._rows = [fragments(row) for row in self._console.render_lines(self._content, options, pad=False)]
        elif self._rendered[0] is not self._content:
            self._schedule()
        return self._rows

    def begin(self) -> None:
        """A frame is about to be drawn."""
        self._begun = monotonic()

    def end(self) -> None:
        """It has been drawn."""
        now = monotonic()
        if now >= self._next:  # else it was drawn for a key, which waits for nobody
            self._next = self._begun + max(1 / FRAMES, (now - self._begun) / SHARE)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ansi(self, what: RenderableType) -> str:
        console = self._sized()
        with console.capture() as captured:
            console.print(what)
        return captured.get()

    def _sized(self) -> Console:
        """For the size of now; rich would believe COLUMNS and LINES."""
        size = self._size()
        self._console.size = (size.columns, size.rows)
        return self._console

    def _schedule(self) -> None:
        if self._timer is None and (loop := _running()) is not None:
            self._timer = loop.call_later(max(0.0, self._next - monotonic()), self._due)

    def _due(self) -> None:
        self._timer = None
        self._frame()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # before the session; the first frame will have it
        return None
