"""A Live on a terminal that is emulated: what a person sees, scrolled away or not."""

import io
from collections.abc import Iterator, Mapping
from typing import Any

import pyte
from pyte.screens import Char
from rich.console import Console
from wcwidth import wcwidth

from acp_launch.console.draw.live import Live
from acp_launch.console.draw.live_region import Region
from acp_launch.protocol.conversation import Updated
from tests.console.updates import end


class Emulated(io.StringIO):
    """A file that is a terminal: keeps what was written, and what it made of the screen."""

    encoding = "utf-8"

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__()
        self.screen = pyte.HistoryScreen(columns, lines, history=100_000, ratio=0.5)
        self.screen.set_mode(pyte.modes.LNM)  # a pty makes \r\n of \n
        self._stream = pyte.Stream(self.screen)

    def write(self, text: str) -> int:
        self._stream.feed(text)
        return super().write(text)

    @property
    def rows(self) -> list[str]:
        """What is on the screen, from the top."""
        return [self._row(self.screen.buffer[number]) for number in range(self.screen.lines)]

    @property
    def text(self) -> str:
        """All that was ever printed and still stands, what has scrolled away included."""
        rows = [*map(self._row, self.screen.history.top), *self.rows]
        return "\n".join(rows).strip("\n")

    def styled(self, word: str) -> Char:
        """The first character of `word` on the screen."""
        number, row = next((number, row) for number, row in enumerate(self.rows) if word in row)
        return self.screen.buffer[number][row.index(word)]

    def _row(self, line: Mapping[int, Char]) -> str:
        return "".join(self._cells(line)).rstrip()

    def _cells(self, line: Mapping[int, Char]) -> Iterator[str]:
        skip = False
        for column in range(self.screen.columns):
            if not skip:
                yield line[column].data
            skip = not skip and wcwidth(line[column].data[:1] or " ") == 2


def terminal(columns: int, lines: int, colours: Any = None) -> tuple[Emulated, Console]:
    """The emulated terminal, and what draws on it."""
    file = Emulated(columns, lines)
    more: dict[str, Any] = {"width": columns, "height": lines, "color_system": colours}
    return file, Console(file=file, force_terminal=True, no_color=False, highlight=False, **more)


class Screen:
    def __init__(self, columns: int = 60, lines: int = 20, *, colours: Any = None, **options: Any) -> None:
        self.file, self.console = terminal(columns, lines, colours)
        self.told: list[str] = []  # the notices, which go to stderr
        self.seconds = 0.0
        options.setdefault("say", lambda text, style: self.told.append(text))
        self.live = Live(Region(self.console), clock=lambda: self.seconds, **options)

    @property
    def text(self) -> str:
        return self.file.text

    def hears(self, *updates: Updated) -> None:
        for update in updates:
            self.live.update(update)

    def turn(self, *updates: Updated) -> None:
        """Hear these last updates of a turn, and its end."""
        self.hears(*updates)
        self.live.show(end())

    def resize(self, columns: int, lines: int) -> None:
        self.console.width, self.console.height = columns, lines
        self.file.screen.resize(lines, columns)
