"""
A list to choose from on a terminal: type to filter it, Enter takes the marked row.

`pick` draws the list below the cursor and removes it again. In a session it runs while the front is suspended. The list
is for a terminal that can be drawn on (`front.can_draw`); elsewhere the caller prints a table and the command to type.
"""

import asyncio
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from msgspec import Struct
from prompt_toolkit import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import OneStyleAndTextTuple, StyleAndTextTuples
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
from rich.console import Console

from acp_launch.console.ask.terminal import forget_typed, restore_at_exit
from acp_launch.console.stdout import columns, fit
from acp_launch.interactive.screen import ESCAPE, SEQUENCE, Keyboard, Keys, Tty, vt100_output

MAX_ROWS = 15  # visible at once
AROUND = 5  # rows of the terminal that are left: the heading, the filter, the keys, and the line above
KEYS = "↑↓ choose · Enter takes it · type to filter · Esc leaves"
MARK, NO_MARK = "▸ ", "  "


class PickList(Struct, frozen=True, kw_only=True):
    """Rows to choose from, under headings; the texts may come from agents and files.

    `ends` and `starts` are the columns that lose text on a narrow terminal, at the end or at the start.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    ends: Collection[int] = ()
    starts: Collection[int] = ()

    def lines(self, width: int) -> list[str]:
        """Return the headings and the rows in columns that line up."""
        return list(columns([self.headings, *self.rows], width=width, ends=self.ends, starts=self.starts))


async def pick(choices: PickList) -> int | None:
    """Let the user choose a row, and return its number; None if the user leaves without a choice."""
    picker = _Picker(choices)
    restore_terminal = restore_at_exit()
    forget_typed()  # keys typed before the list was shown choose nothing
    try:
        return await picker.app.run_async(handle_sigint=False, set_exception_handler=False)
    except EOFError:  # the terminal is gone
        return None
    finally:
        restore_terminal()


def match_rows(rows: Sequence[Sequence[str]], typed: str) -> list[int]:
    """Return the numbers of the rows that hold every word of the filter; first those in which all begin a word."""
    words = typed.casefold().split()
    texts = [f" {' '.join(row)}".casefold() for row in rows]
    numbers = [number for number, text in enumerate(texts) if all(word in text for word in words)]
    return sorted(numbers, key=lambda number: not all(f" {word}" in texts[number] for word in words))


class _Picker:
    def __init__(self, choices: PickList) -> None:
        self._choices = choices
        self._filter = Buffer(multiline=False, on_text_changed=lambda _: self._filter_rows())
        self._found = list(range(len(choices.rows)))
        self._at = self._top = 0
        output = vt100_output(Tty(1, sys.stdout.encoding or "utf-8", self._lose), Console(file=sys.stdout))
        self._size: Callable[[], Size] = output.get_size
        self.app: Application[int | None] = Application(
            self._layout(), key_bindings=self._keys(), input=Keyboard(sys.stdin), output=output, erase_when_done=True
        )
        self.app.ttimeoutlen, self.app.timeoutlen = ESCAPE, SEQUENCE

    def _layout(self) -> Layout:
        line = Window(BufferControl(self._filter), height=1)
        typing = VSplit([Window(FormattedTextControl([("bold", "> ")]), width=2, height=1), line])
        head = Window(FormattedTextControl(self._head), height=2)
        rows = Window(FormattedTextControl(lambda: [*self._draw_rows()]), dont_extend_height=True)
        keys = Window(FormattedTextControl(lambda: [("dim", fit(KEYS, self._width))]), height=1)
        return Layout(HSplit([head, rows, typing, keys]), focused_element=line)

    def _keys(self) -> Keys:
        keys = Keys()
        for names, step in ((("up", "c-p", "s-tab"), -1), (("down", "c-n", "tab"), 1)):
            for name in names:
                keys.bind(name, partial(self._move, step))
        keys.bind("pageup", lambda: self._move(-self._visible))
        keys.bind("pagedown", lambda: self._move(self._visible))
        keys.bind("enter", self._take)
        for name in ("escape", "c-c", "c-d"):
            keys.bind(name, lambda: self.app.exit(result=None))
        return keys

    @property
    def _width(self) -> int:
        return self._size().columns - 1  # a terminal may wrap after its last column

    @property
    def _visible(self) -> int:
        return max(1, min(MAX_ROWS, self._size().rows - AROUND, len(self._choices.rows)))

    def _head(self) -> StyleAndTextTuples:
        heading, *_ = self._choices.lines(self._width - len(MARK))
        return [("bold", fit(self._choices.title, self._width) + "\n"), ("dim", NO_MARK + fit(heading, self._width))]

    def _draw_rows(self) -> Iterator[OneStyleAndTextTuple]:
        _, *lines = self._choices.lines(self._width - len(MARK))
        self._top = max(min(self._top, self._at), self._at - self._visible + 1)
        found = self._found[self._top : self._top + self._visible]
        for place, number in enumerate(found, self._top):
            is_marked = place == self._at
            text = fit(lines[number], self._width - len(MARK))
            yield "bold" if is_marked else "", f"{MARK if is_marked else NO_MARK}{text}\n"
        if not found:
            yield "dim", f"{NO_MARK}nothing matches\n"
        hidden = len(self._found) - len(found)
        yield "dim", f"{NO_MARK}… {hidden} more" if hidden > 0 else ""

    def _filter_rows(self) -> None:
        self._found, self._at = match_rows(self._choices.rows, self._filter.text), 0

    def _move(self, step: int) -> None:
        self._at = max(0, min(self._at + step, len(self._found) - 1))

    def _take(self) -> None:
        if self._found:
            self.app.exit(result=self._found[self._at])

    def _lose(self) -> None:
        if self.app.is_running and not self.app.is_done:
            self.app.exit(result=None)


def pick_now(choices: PickList) -> int | None:
    """Do the same where no event loop runs."""
    return asyncio.run(pick(choices))
