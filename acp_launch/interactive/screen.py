"""
The terminal of an interactive session, as prompt_toolkit writes and reads it: canvas, frames, redirected output, keys.

The canvas: prints go into the scrollback above the application, redrawn rows are part of it.

Nothing is written directly. Both are collected for the next frame, at most twelve a second and fewer when frames take
long, so that keys never wait for prints. During a question (`hold`) prints wait, so that the text above it does not
scroll away while the user reads it.
"""

import asyncio
import fcntl
import io
import os
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import lru_cache
from math import ceil, inf
from time import monotonic
from typing import Any, TextIO, cast

from prompt_toolkit import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import FilterOrBool
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input, cooked_mode, raw_mode
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth
from rich.color import Color, ColorType
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style

from acp_launch.console.ask.viewport import terminal_size

# rich segments as prompt_toolkit fragments.


ANSI = (
    *("ansiblack", "ansired", "ansigreen", "ansiyellow", "ansiblue", "ansimagenta", "ansicyan", "ansigray"),
    *("ansibrightblack", "ansibrightred", "ansibrightgreen", "ansibrightyellow"),
    *("ansibrightblue", "ansibrightmagenta", "ansibrightcyan", "ansiwhite"),
)
ATTRIBUTES = ("bold", "dim", "italic", "underline", "blink", "reverse", "strike")


def fragments(segments: Iterable[Segment]) -> StyleAndTextTuples:
    """Convert one row. Control codes are dropped, because they would move the cursor that prompt_toolkit tracks."""
    return [(_style(segment.style), segment.text) for segment in segments if not segment.control]


@lru_cache(maxsize=1024)
def _style(style: Style | None) -> str:
    if style is None:
        return ""
    words = [name for name in ATTRIBUTES if getattr(style, name)]
    words += [f"fg:{_color(style.color)}"] if style.color else []
    words += [f"bg:{_color(style.bgcolor)}"] if style.bgcolor else []
    return " ".join(words)


def _color(color: Color) -> str:
    if color.type is ColorType.DEFAULT:
        return "default"
    if color.number is not None and color.number < len(ANSI):
        return ANSI[color.number]
    return color.get_truecolor().hex


DEPTHS = {
    None: ColorDepth.DEPTH_1_BIT,
    "standard": ColorDepth.DEPTH_4_BIT,
    "256": ColorDepth.DEPTH_8_BIT,
    "truecolor": ColorDepth.DEPTH_24_BIT,
}


FRAMES = 12  # a second
DRAWING_SHARE = 0.2  # of our time, at most
MAX_FRAME_SECONDS = 1.0  # between two frames, and for one: until the terminal has taken it no key is read
SLOW_FRAME_SECONDS = MAX_FRAME_SECONDS / 4  # after which a frame tells how much the terminal takes
MIN_TIMED_CHARS = 4096  # a frame of less tells little


class Unwritten(io.StringIO):
    """Stands for a terminal to a console that renders and never writes.

    rich writes and flushes its file even if it has captured everything, which fails once the terminal is gone.
    """

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._terminal = terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._terminal.encoding

    def isatty(self) -> bool:
        return self._terminal.isatty()

    def write(self, text: str, /) -> int:
        return len(text)


class SessionCanvas:
    """The `Canvas` of an interactive session."""

    def __init__(self, console: Console, size: Callable[[], Size], frame: Callable[[], None]) -> None:
        """`console` renders and never writes; `frame` requests a frame soon."""
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
        self._length_pending = self._length_drawn = 0
        self._most = inf  # characters for one frame, so that a slow terminal takes it in `MAX_FRAME_SECONDS`

    @property
    def width(self) -> int:
        return self._size().columns

    def print(self, what: RenderableType) -> None:
        self.write(self._ansi(what))

    def write(self, text: str) -> None:
        """Print whole lines that are already rendered for a terminal."""
        if self._held is not None:
            self._held.append(text)
        else:
            self._add(text)

    def say(self, what: RenderableType) -> None:
        """Print at once, even while prints are held back."""
        self._add(self._ansi(what))

    def show(self, what: RenderableType) -> None:
        self._content = what
        self.touch()

    def erase(self) -> bool:
        """Do nothing: prints go above the rows by themselves."""
        return self._content is not None

    def close(self) -> None:
        self._content = None
        self.touch()

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        self._add("".join(held))

    def take(self) -> str:
        """Take the text to print with this frame. The rows are rendered again, because it may replace them."""
        text, self._pending = "".join(self._pending), []
        self._length_pending, self._length_drawn = 0, len(text)
        if text:
            self._rendered = (None, 0)
        return text.replace("\n", "\r\n")

    def rows(self, width: int) -> list[StyleAndTextTuples]:
        """Return the rows below the prints; none while prints are held back. Rendered at most once per frame."""
        if self._held is not None or self._content is None:
            return []
        if self._rendered[1] != width or (self._rendered[0] is not self._content and monotonic() >= self._next):
            self._rendered = (self._content, width)
            options = self._resize_console().options.update(width=width)
            self._rows = [fragments(row) for row in self._console.render_lines(self._content, options, pad=False)]
        elif self._rendered[0] is not self._content:
            self.touch()
        return self._rows

    def begin(self) -> None:
        self._begun = monotonic()

    def end(self) -> None:
        """Note that a frame is drawn, and set the earliest time of the next one."""
        now = monotonic()
        took = now - self._begun
        if took > SLOW_FRAME_SECONDS:
            self._most = max(self._length_drawn, MIN_TIMED_CHARS) * MAX_FRAME_SECONDS / took
        elif self._length_drawn > self._most / 2:
            self._most *= 2
        if now >= self._next:  # else it was drawn for a key, which never waits
            self._next = now + min(MAX_FRAME_SECONDS, max(1 / FRAMES, took / DRAWING_SHARE) - took)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _add(self, text: str) -> None:
        self._pending.append(text)
        self._length_pending += len(text)
        if self._next and self._length_pending > self._most:
            self._next = 0.0
            self.stop()
        self.touch()

    def _ansi(self, what: RenderableType) -> str:
        console = self._resize_console()
        with console.capture() as captured:
            console.print(what, crop=False)  # all lines fit; cropping takes a third of the time
        return captured.get()

    def _resize_console(self) -> Console:
        """Return the console with the current size; rich would use COLUMNS and LINES."""
        size = self._size()
        self._console.size = (size.columns, size.rows)
        return self._console

    def touch(self) -> None:
        """Request a frame. Before the session starts nothing is drawn; its first frame does."""
        if self._timer is None:
            with suppress(RuntimeError):
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(max(0.0, self._next - monotonic()), self._due)

    def _due(self) -> None:
        self._timer = None
        self._frame()


# The terminal as prompt_toolkit writes to it: one write per frame.
#
# prompt_toolkit flushes several times while it erases, prints and draws. Between `begin` and `end` the text is
# collected and then written as one synchronized frame (DEC private mode 2026), so that no half frame is visible.
# Terminals without that mode ignore it.


BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"


class Tty:
    """The part of a text stream that `Vt100_Output` uses.

    Python's own streams write failed output again at the interpreter's exit.
    """

    def __init__(self, descriptor: int, encoding: str, lost: Callable[[], None]) -> None:
        """`lost` is called when the terminal is gone."""
        self.encoding = encoding
        self._descriptor = descriptor
        self._lost = lost
        self._pieces: list[str] = []
        self._is_framing = False

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        self._pieces.append(text)
        return len(text)

    def flush(self) -> None:
        if not self._is_framing:
            self._send()

    def begin(self) -> None:
        self._is_framing = True

    def end(self) -> None:
        self._is_framing = False
        text = "".join(self._pieces)
        self._pieces = [BEGIN, text, END] if text else []
        self._send()

    def _send(self) -> None:
        data = memoryview("".join(self._pieces).encode(self.encoding, "replace"))
        self._pieces = []
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:  # EIO: the terminal program has ended
            self._lost()


# A frame: remove the application from the screen if there are prints, print them, draw the application again.
#
# All of it is one write (`Tty`). prompt_toolkit draws only changes since the last frame, except after prints, after a
# change of size, and when the application became lower, because rows below it would stay.


def vt100_output(tty: Tty, console: Console) -> Vt100_Output:
    """Return the output to a terminal, in the colours of `console`."""
    return Vt100_Output(
        cast(TextIO, tty),
        lambda: Size(*reversed(terminal_size(tty.fileno))),
        term=os.environ.get("TERM"),
        default_color_depth=DEPTHS[None if console.no_color else console.color_system],
        enable_bell=False,
        enable_cpr=False,
    )


class Drawing:
    """Draws the frames of an application."""

    def __init__(
        self, app: "Application[None]", tty: Tty, board: SessionCanvas, drawn: Any, beside: Callable[[], str]
    ) -> None:
        """`drawn` is called after each frame; `beside` returns what to tell the terminal with a frame."""
        self._app = app
        self._beside = beside
        self._tty = tty
        self._board = board
        self._drawn = drawn
        self._size = app.output.get_size()  # of the last frame
        app.before_render += self._before
        app.after_render += self._after

    def finish(self) -> None:
        """Write the remaining prints, after the application has left the screen."""
        self._app.output.write_raw(self._board.take())
        self._app.output.flush()
        self._tty.end()

    def clear(self) -> None:
        """Begin at the top of the screen. Its content scrolls away into the scrollback."""
        self._erase()
        self._app.output.write_raw("\r\n" * self._app.output.get_size().rows)
        self._app.output.cursor_goto(0, 0)
        self._app.invalidate()

    def _before(self, sender: object) -> None:
        self._tty.begin()
        self._board.begin()
        size = self._app.output.get_size()
        text = self._board.take()
        if text or size != self._size or self._is_lower(size):
            self._erase()
            self._app.output.write_raw(text)
        self._app.output.write_raw(self._beside())
        self._size = size

    def _after(self, sender: object) -> None:
        self._tty.end()
        self._board.end()
        self._drawn()

    def _is_lower(self, size: Size) -> bool:
        screen = self._app.renderer.last_rendered_screen
        wanted = self._app.layout.container.preferred_height(size.columns, size.rows).preferred
        return screen is not None and min(wanted, size.rows) < screen.height

    def _erase(self) -> None:
        self._app.output.cursor_up(self._count_wrapped())
        self._app.renderer.erase()

    def _count_wrapped(self) -> int:
        """Return how many more rows than we drew are above the cursor.

        A terminal that became narrower wraps rows that are too long, as nearly all terminals do. One that cuts them
        loses as many rows of the text above.
        """
        screen, columns = self._app.renderer.last_rendered_screen, self._app.output.get_size().columns
        if screen is None or columns >= self._size.columns:
            return 0
        cursor = screen.get_cursor_position(self._app.layout.current_window)
        rows = (screen.data_buffer[row].items() for row in range(cursor.y))
        used = (
            max((at + max(1, get_cwidth(cell.char)) for at, cell in row if cell.char != " "), default=0) for row in rows
        )
        return sum(max(1, ceil(width / columns)) - 1 for width in used) + cursor.x // columns


# Output to stdout or stderr while the application is on the screen: it goes above it, line by line.


class RedirectedStream(io.TextIOBase):
    """Replaces a stream that is a terminal; `isatty` is therefore true."""

    def __init__(self, write: Callable[[str], None], encoding: str) -> None:
        self._write = write
        self._begun = ""
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        lines, end, rest = (self._begun + text).rpartition("\n")
        self._begun = rest
        if end:
            self._write(lines + end)
        return len(text)

    def finish(self) -> None:
        """Write a last line that has no end."""
        if self._begun:
            self.write("\n")


@contextmanager
def redirect_streams(write: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, pass output for `sys.stdout` and `sys.stderr` to `write` as whole lines.

    A stream that is not a terminal stays unchanged, since it may be a log.
    """
    with ExitStack() as redirected:
        for stream, redirect in ((sys.stderr, redirect_stderr), (sys.stdout, redirect_stdout)):
            if stream is not None and stream.isatty():
                put = RedirectedStream(write, stream.encoding)
                redirected.callback(put.finish)
                redirected.enter_context(redirect(put))
        yield


# The keys as prompt_toolkit reads them, and text typed before it does.
#
# Until we take the terminal it is in its usual mode, in which Enter is a line feed, like Ctrl-J in ours. Text typed
# before that (while the session starts, or while another program has the terminal) becomes one prompt per line.


ESCAPE = 0.1  # seconds for the rest of an escape sequence, also over a slow connection
SEQUENCE = 0.3  # seconds in which Escape and another key count as Alt
TYPED = str.maketrans({"\n": "\r", "\0": ""})  # the usual mode turns Ctrl-D into a NUL


class Keys(KeyBindings):
    """Keys that call something, which does not need to know the key."""

    def bind(
        self, key: str, action: Callable[[], object], when: FilterOrBool = True, *, eager: FilterOrBool = False
    ) -> None:
        """Let a key, or several one after the other, call `action`."""
        self.add(*key.split(), filter=when, eager=eager)(lambda event: action())


class Keyboard(Vt100Input):
    """Notices that the terminal is gone; prompt_toolkit would continue to read it."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.stdin_reader: _Reader = _Reader(self.fileno(), encoding=stdin.encoding)

    def read_keys(self) -> list[Any]:
        keys = super().read_keys()
        if not keys and not os.isatty(self.fileno()):
            self.stdin_reader.closed = True
        return keys

    def raw_mode(self) -> raw_mode:
        return _Raw(self.stdin_reader)

    @contextmanager
    def cooked_mode(self) -> Iterator[None]:
        with cooked_mode(self.fileno()):
            yield
        self.stdin_reader.count_unread()


class _Reader(PosixStdinReader):
    ahead = 0  # unread bytes that were typed in the terminal's usual mode

    def read(self, count: int = 1024) -> str:
        if not self.ahead:
            return super().read(count)
        ahead, self.ahead = self.ahead, 0
        return super().read(ahead).translate(TYPED)

    def count_unread(self) -> None:
        """Remember what was typed until now: the terminal has just become ours."""
        with suppress(OSError):  # the terminal is gone
            self.ahead = int.from_bytes(fcntl.ioctl(self.stdin_fd, termios.FIONREAD, bytes(4)), sys.byteorder)


class _Raw(raw_mode):
    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader.stdin_fd)
        self._reader = reader

    def __enter__(self) -> None:
        super().__enter__()
        self._reader.count_unread()
