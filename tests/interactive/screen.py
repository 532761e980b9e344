"""
A terminal of some size, as a person sees it: a pty that is a program's controlling terminal, drawn by pyte.

Whoever waits, waits for what the screen shows. What pyte lacks and most terminals do, this one does: it shows a frame
whole (DEC private mode 2026), and wraps the lines that are too long when it becomes narrower.
"""

import fcntl
import os
import select
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyte

from acp_launch.interactive.screen import BEGIN, END
from tests.cli.terminal import Process, begun
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
DRIVERS = Path(__file__).parent / "drivers"
OPENS, CLOSES = BEGIN.encode(), END.encode()
SCROLLBACK = 20_000  # lines
# What tells about the terminal that the tests run on, which is not this one.
OUTER = ("TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "STY")


READY, AGENT = "ready · ? shows the keys", "agent · fix-42"  # of the status line of drivers/story.py


def status(columns: int = 80, left: str = READY, right: str = AGENT) -> str:
    return f"{left}{right:>{columns - len(left)}}"


def framed(*typed: str, columns: int = 80, left: str = READY, right: str = AGENT) -> tuple[str, ...]:
    """Return the rows at the bottom with typed lines."""
    first, *others = typed or ("",)
    lines = (f"❯ {first}".rstrip(), *(f"  {line}" for line in others))
    return "─" * columns, *lines, "─" * columns, status(columns, left, right)


STATUS = status()


class Paper(pyte.HistoryScreen):
    """Keeps what scrolls away, and wraps."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__(columns, lines, history=SCROLLBACK)

    @property
    def rows(self) -> list[str]:
        return [row.rstrip() for row in self.display]

    @property
    def scrolled(self) -> list[str]:
        """What has scrolled away."""
        return [
            "".join(row[column].data for column in range(max(row, default=-1) + 1)).rstrip() for row in self.history.top
        ]

    def narrow(self, columns: int) -> None:
        """Wrap every row that is longer, as the terminal does before anybody can draw anew; the cursor goes along."""
        rows, height = self.rows, self.lines
        keep = max(len(rows) - 1 - next((n for n, row in enumerate(reversed(rows)) if row), 0), self.cursor.y)
        wrapped: list[str] = []
        cursor = (0, 0)
        for number, row in enumerate(rows[: keep + 1]):
            if number == self.cursor.y:
                cursor = (len(wrapped) + self.cursor.x // columns, self.cursor.x % columns)
            wrapped += [row[at : at + columns] for at in range(0, max(1, len(row)), columns)]
        self.resize(height, columns)
        lost = max(0, len(wrapped) - height)
        self.erase_in_display(2)
        for number, row in enumerate(wrapped[lost:]):
            self.cursor_position(number + 1, 1)
            self.draw(row)
        self.cursor_position(cursor[0] - lost + 1, cursor[1] + 1)


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, descriptor: int, process: Process, columns: int, rows: int) -> None:
        self._descriptor = descriptor
        self._paper = Paper(columns, rows)
        self._stream = pyte.ByteStream(self._paper)
        self.process = process
        self.raw = b""  # everything that was written
        self._undrawn = b""  # its end, which begins a frame

    @property
    def rows(self) -> list[str]:
        return self._paper.rows

    @property
    def shown(self) -> str:
        return "\n".join(self.rows).rstrip()

    @property
    def all(self) -> list[str]:
        """With what has scrolled away, without the empty rows below."""
        return [*self._paper.scrolled, *self.shown.splitlines()]

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row, from 0."""
        return self._paper.cursor.x, self._paper.cursor.y

    def until(self, expected: str) -> None:
        """Wait until the screen shows `expected`."""
        self.until_it(lambda: expected in self.shown, expected)

    def until_gone(self, unwanted: str) -> None:
        self.until_it(lambda: unwanted not in self.shown, f"no {unwanted}")

    def until_it(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for at most PATIENCE, in which the time is not counted that this terminal needs to draw a flood."""
        left = float(PATIENCE)
        while not is_so():
            began = time.monotonic()
            is_readable = select.select([self._descriptor], [], [], left)[0]
            left -= time.monotonic() - began
            assert is_readable and self._read(0), f"{what!r} was awaited; the screen shows\n{self.dump()}"

    def types(self, keys: str, *, until: str = "") -> None:
        """All of it, reading meanwhile: a pty takes a few kilobytes at once. Then wait as `until` does."""
        data = keys.encode()
        while data:
            readable, writable, _ = select.select([self._descriptor], [self._descriptor], [], PATIENCE)
            if readable:
                self._read(0)
            if writable:
                data = data[os.write(self._descriptor, data[:1024]) :]
        self.until(until)

    def pastes(self, text: str) -> None:
        self.types(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        if columns < self._paper.columns:
            self._paper.narrow(columns)
        self._paper.resize(rows, columns)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Nobody shows the terminal any more: the other side reads its end."""
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, self._descriptor)  # closed with the harness
        os.close(null)

    def is_cooked(self) -> bool:
        """Whether the terminal is in its usual mode: it echoes and edits lines."""
        flags = termios.tcgetattr(self._descriptor)[3]
        wanted = termios.ECHO | termios.ICANON | termios.ISIG
        return isinstance(flags, int) and flags & wanted == wanted

    def ends(self) -> int:
        """Read to the end; gives the exit code."""
        while self._read(PATIENCE):
            pass
        return self.process.wait(PATIENCE)

    def dump(self) -> str:
        edge = "+" + "-" * self._paper.columns + "+"
        return "\n".join([edge, *(f"|{row:<{self._paper.columns}}|" for row in self.rows), edge])

    def _read(self, patience: float) -> bool:
        if not select.select([self._descriptor], [], [], patience)[0]:
            return False
        try:
            chunk = os.read(self._descriptor, 65536)
        except OSError:  # EIO: nobody has the other side any more
            chunk = b""
        self.raw += chunk
        self._draw(chunk)
        return bool(chunk)

    def _draw(self, chunk: bytes) -> None:
        """Draw whole frames only, as terminals do that know them; at the end of input all that has come."""
        text = self._undrawn + chunk
        opened, closed = text.rfind(OPENS), text.rfind(CLOSES)
        halved = max(n for n in range(len(OPENS)) if text.endswith(OPENS[:n]))  # bytes that may open one
        whole = opened if opened > closed else len(text) - halved
        if not chunk:
            whole = len(text)
        self._stream.feed(text[:whole])
        self._undrawn = text[whole:]


@contextmanager
def on_screen(
    *argv: str, columns: int = 80, rows: int = 24, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run `argv` on a terminal; what still runs afterwards is killed."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", **(env or {})}
    if argv[0] != sys.executable:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))
    for name in {"COLUMNS", "LINES", *OUTER} - {*(env or {})}:
        environment.pop(name, None)
    with begun(argv, theirs, cwd=cwd, env=environment) as process:
        yield Terminal(ours, process, columns, rows)
    os.close(ours)


@contextmanager
def driver(
    name: str,
    *arguments: str,
    columns: int = 80,
    rows: int = 24,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """Run one of tests/interactive/drivers."""
    argv = [sys.executable, str(DRIVERS / f"{name}.py"), *arguments]
    with on_screen(*argv, columns=columns, rows=rows, cwd=cwd, env=env) as terminal:
        yield terminal
