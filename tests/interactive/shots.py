"""
Pictures of the interactive session, from real runs: `python -m tests.interactive.shots DIR`.

The real program with the demo agent on a real pty, in a home and a project of its own; what the terminal shows is
written as SVG. Two runs give the same files: what changes with the clock and with the machine is left out of a scene,
and durations are shown as one.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyte
from pyte.screens import Char
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from acp_launch.interactive.screen import END
from tests.interactive.screen import Terminal, on_screen

COLUMNS, ROWS = 90, 24
ENTER, CTRL_C, CTRL_D, CTRL_L = "\r", "\x03", "\x04", "\x0c"
ATTEMPTS = 5  # at an answer in the midst of a sentence, in one session: more would be seen in its status line
SESSIONS = 4
DURATION = re.compile(r"\d+(?:\.\d+)? s\b")
FONTS = re.compile(r"\s*@font-face \{\{.*?\}\}", re.DOTALL)  # they would be loaded from elsewhere
SESSION = "fix-42"
READY = "fix-42 · Ask · Script S"  # a part of the status line when everything is known
MARK, RULE = "\u276f", "─"  # of the line to type on
ENDED = re.compile(r"(?m)^  [\d,]+ of [\d,]+ tokens")  # the last line of a turn
SPINNER = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")
# As terminals show the sixteen colours, on dark and on light.
DARK = TerminalTheme(
    (18, 18, 18),
    (208, 208, 208),
    [
        (0, 0, 0),
        (205, 60, 60),
        (80, 180, 80),
        (200, 170, 60),
        (80, 130, 220),
        (180, 100, 200),
        (70, 180, 190),
        (190, 190, 190),
    ],
    [
        (120, 120, 120),
        (240, 90, 90),
        (110, 220, 110),
        (240, 210, 90),
        (120, 170, 255),
        (220, 140, 240),
        (110, 220, 230),
        (255, 255, 255),
    ],
)
LIGHT = TerminalTheme(
    (255, 255, 255),
    (40, 40, 40),
    [(0, 0, 0), (170, 0, 0), (0, 110, 0), (140, 100, 0), (0, 60, 180), (130, 0, 130), (0, 110, 120), (170, 170, 170)],
    [
        (120, 120, 120),
        (200, 30, 30),
        (0, 140, 0),
        (170, 130, 0),
        (30, 90, 220),
        (160, 30, 160),
        (0, 140, 150),
        (220, 220, 220),
    ],
)
THEMES = {"": DARK, "-light": LIGHT}  # by the end of a file's name
ANSWER = (
    "The test fails because `parse` reads the number of a port as text: **8080** is never smaller than **443** then."
    " The fix is one `int()` in `settings.py`, and a test for ports of four digits, which there was none of."
)
CUT = "and a test for"  # where the picture is taken, in the midst of ANSWER
CHECK = '#!/bin/sh\nfor part in style types tests/unit; do echo "$part: passed"; done\ncat .hold\n'


class Scene(NamedTuple):
    """`play` leaves on the screen what is to be seen; or gives it, if it was seen before the last."""

    says: tuple[str, ...]  # on the picture
    play: Callable[[Terminal], bytes | None]
    options: tuple[str, ...] = ()


class Missed(Exception):  # noqa: N818 - it reads as what happened
    """Raised when no frame came at the moment that was to be seen."""


class Colours(pyte.Screen):
    """pyte knows no faint letters; here they are grey."""

    def select_graphic_rendition(self, *attrs: int) -> None:
        if 2 in attrs and not {38, 48} & set(attrs):
            attrs = (*(each for each in attrs if each != 2), 90)
        super().select_graphic_rendition(*attrs)


def streaming(terminal: Terminal) -> bytes:
    """Frames come when they come: the answer is asked for until one shows just this much of it."""
    for _ in range(ATTEMPTS):
        begun = len(terminal.raw)
        ended = len(ENDED.findall("\n".join(terminal.all)))
        terminal.types(f"slowly {ANSWER}{ENTER}")
        terminal.until_it(lambda: len(ENDED.findall("\n".join(terminal.all))) > ended, "its end")  # noqa: B023
        terminal.until("ready ·")
        for frame in re.finditer(re.escape(END.encode()), terminal.raw[begun:]):
            seen = terminal.raw[: begun + frame.end()]
            if any(row.endswith(CUT) and below.startswith(RULE) for row, below in pairwise(rows(seen))):
                return seen
        clear(terminal)
    raise Missed(f"no frame of {ATTEMPTS} answers ended with {CUT!r}")


def question(terminal: Terminal) -> None:
    terminal.types(f"edit notes.txt buy eggs{ENTER}", until="[y] Allow once")


def command(terminal: Terminal) -> None:
    terminal.types(f"shell ./check.sh{ENTER}", until="tests/unit: passed")


def form(terminal: Terminal) -> None:
    terminal.types(f"form{ENTER}")
    for label, answer in (('▐ "Name"', "Aurora"), ('▐ "Ticket" [DEMO-1]', "REL-7")):
        terminal.until_it(lambda label=label: line(terminal) == label, label)  # type: ignore[misc]
        terminal.types(answer + ENTER)
    terminal.until_it(lambda: line(terminal) == '▐ "Notify"', "the next field")
    terminal.types("ada@example.com", until="ada@example.com")


SCENES = {
    "streaming": Scene(("The test fails because", "esc interrupts", SESSION), streaming),
    "question": Scene(
        ("asks for permission: Edit notes.txt", "3 + buy eggs", "Allow once", "waiting for you"), question
    ),
    "command": Scene(("run ./check.sh", "types: passed", "esc interrupts"), command, ("--approve", "all")),
    "form": Scene(("asks you to fill in a form", '"Name" Aurora', "Notify", "ada@example.com"), form),
}


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, scene in SCENES.items():
        for end, drawn in picture(name, scene).items():
            (directory / f"{name}{end}.svg").write_text(drawn, encoding="utf-8")


def picture(name: str, scene: Scene) -> dict[str, str]:
    """The same screen in each theme."""
    for _ in range(SESSIONS - 1):
        with suppress(Missed):
            return taken(name, scene)
    return taken(name, scene)


def taken(name: str, scene: Scene) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="acp-") as scratch:
        home = Path(scratch).resolve()
        project = home / "project"
        furnish(project)
        with session(home, *scene.options) as terminal:
            turn(terminal, "add 20 22")
            clear(terminal)
            return svg(scene.play(terminal) or terminal.raw, home, name)


def furnish(project: Path) -> None:
    project.mkdir()
    (project / "notes.txt").write_text("buy milk\nbuy bread\n")
    (project / "check.sh").write_text(CHECK)
    (project / "check.sh").chmod(0o700)
    os.mkfifo(project / ".hold")


@contextmanager
def session(home: Path, *options: str) -> Iterator[Terminal]:
    """The session, once nothing more comes by itself."""
    env = {f"ACP_LAUNCH_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}
    env |= {"HOME": str(home), "ACP_DEMO_HOME": str(home / "demo"), "COLORTERM": "", "BROWSER": ""}
    argv = [sys.executable, "-m", "acp_launch", "run", "demo", "--session", SESSION, *options]
    with on_screen(
        "env", "-u", "NO_COLOR", *argv, columns=COLUMNS, rows=ROWS, cwd=home / "project", env=env
    ) as terminal:
        terminal.until("notes: ready in")
        terminal.until_it(lambda: READY in terminal.shown and "ready ·" in terminal.shown, "a whole status line")
        yield terminal


def turn(terminal: Terminal, prompt: str) -> None:
    terminal.types(prompt + ENTER)
    terminal.until_it(
        lambda: f"{MARK} {prompt}" in terminal.all and bool(ENDED.search(_below(terminal, prompt))), "its end"
    )
    terminal.until("ready ·")


def _below(terminal: Terminal, prompt: str) -> str:
    shown = terminal.all
    return "\n".join(shown[shown.index(f"{MARK} {prompt}") :])


def clear(terminal: Terminal) -> None:
    terminal.types(CTRL_L)
    terminal.until_it(lambda: terminal.rows[1] == MARK, "an empty screen")


def line(terminal: Terminal) -> str:
    """Where the cursor is."""
    return terminal.rows[terminal.cursor[1]]


def rows(raw: bytes) -> list[str]:
    return [row.rstrip() for row in drawn(raw).display]


def drawn(raw: bytes) -> Colours:
    screen = Colours(COLUMNS, ROWS)
    pyte.ByteStream(screen).feed(raw)
    return screen


def svg(raw: bytes, home: Path, name: str) -> dict[str, str]:
    screen = drawn(raw)
    last = max((number for number, row in enumerate(screen.display) if row.strip()), default=0)
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, legacy_windows=False)
    for number in range(last + 1):
        console.print(row_of(screen, number, home), no_wrap=True, crop=True)
    title, form = "acp-launch run demo", FONTS.sub("", CONSOLE_SVG_FORMAT)
    return {
        end: console.export_svg(title=title, theme=theme, code_format=form, unique_id=name, clear=False)
        for end, theme in THEMES.items()
    }


def row_of(screen: Colours, number: int, home: Path) -> Text:
    """One row with its colours, and what is another each time as one."""
    cells = [screen.buffer[number][column] for column in range(COLUMNS)]
    at = screen.cursor.x if number == screen.cursor.y and not screen.cursor.hidden else -1
    row = Text(end="")
    for style, run in groupby(enumerate(cells), lambda cell: (cell[0] == at, style_of(cell[1]))):
        text = "".join(cell.data for _, cell in run)
        text = SPINNER.sub("⠹", text)
        text = DURATION.sub("0.1 s", text.replace(str(home), "~").replace(sys.executable, "/usr/bin/python3"))
        row.append(text, style[1] + Style(reverse=True) if style[0] else style[1])
    return aligned(row) if cells[-1].data.strip() else row


def aligned(row: Text) -> Text:
    """A row that ends on the right, as wide as before a duration in it was replaced."""
    widest = max(re.findall(" {2,}", row.plain.rstrip()), key=len, default="")
    if not widest:
        return row
    at, more = row.plain.index(widest), row.cell_len - COLUMNS
    middle = Text(" " * max(1, len(widest) - more), end="")
    return Text.assemble(row[:at], middle, row[at + len(widest) :], end="")


def style_of(cell: Char) -> Style:
    return Style(
        color=colour(cell.fg), bgcolor=colour(cell.bg), bold=cell.bold, italic=cell.italics,
        underline=cell.underscore, strike=cell.strikethrough, reverse=cell.reverse,
    )  # fmt: skip


def colour(name: Any) -> str | None:
    """pyte names the sixteen as terminals do, and writes the others as six digits."""
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    plain = name.removeprefix("bright").replace("brown", "yellow")
    return f"bright_{plain}" if name.startswith("bright") else plain


if __name__ == "__main__":
    main(Path(sys.argv[1]))
