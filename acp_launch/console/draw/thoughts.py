"""Thoughts of the agent: the last lines while it thinks, then one line; or shown whole."""

import time
from collections import deque
from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from acp_launch.console.draw.look import THOUGHT, Deed, indented
from acp_launch.console.draw.markdown import MessageView
from acp_launch.console.draw.outside import one_line, prose
from acp_launch.waits import seconds

THINKING = "dim italic"
SHOWN = 3  # lines of a thought
FIRST_WORDS = 200  # characters of a thought
LAST_WORDS = 2_000  # characters that three lines of a wide terminal may hold


class Folded:
    """A thought that is folded into one line when it ends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._forget()

    def _forget(self) -> None:
        self._began: float | None = None
        self._first = ""
        self._last: deque[str] = deque()
        self._length = 0  # of the last chunks

    def add(self, text: str) -> None:
        if self._began is None:
            self._began = self._clock()
        if len(self._first) < FIRST_WORDS:
            self._first = (self._first + text[: 4 * FIRST_WORDS]).lstrip()
        self._last.append(text[-LAST_WORDS:])
        self._length += len(self._last[-1])
        while self._length - len(self._last[0]) >= LAST_WORDS:
            self._length -= len(self._last.popleft())

    def take(self) -> list[RenderableType]:
        return []

    def rest(self) -> list[RenderableType]:
        """Return one line for the whole thought; the next text begins a new one."""
        took = self._clock() - self._began if self._began is not None else 0
        words = one_line(self._first)
        self._forget()
        if not words:
            return []
        verb = f"thought for {seconds(round(took))}" if took >= 1 else "thought"
        return [Deed(THOUGHT, verb, after=[Text(f" · {words}", THINKING)], style=THINKING, is_one_row=True)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        last = prose("".join(self._last)).strip()
        if last:
            rows = Text(last, THINKING).wrap(console, max(1, options.max_width - 2))[-SHOWN:]
            yield from map(indented, rows)


def whole() -> MessageView:
    """Return a message that shows thoughts whole, without Markdown."""
    return MessageView(lambda text, coloured: indented(Text(prose(text).strip("\n"), THINKING)))
