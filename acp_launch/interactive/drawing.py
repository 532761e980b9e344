"""
One frame: take the application off the screen if something goes above it, print that, draw the application again.

All of it is one write (`tty`). prompt_toolkit draws only what has changed since the last frame, except after a print,
after the screen got another size and when the application became lower: rows below it would stay.
"""

import os
from math import ceil
from typing import Any

from prompt_toolkit import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.utils import get_cwidth

from acp_launch.interactive.canvas import Board
from acp_launch.interactive.tty import Tty

FALLBACK = Size(rows=24, columns=80)  # of a terminal that does not know


def terminal_size(descriptor: int) -> Size:
    try:
        columns, rows = os.get_terminal_size(descriptor)
    except OSError:  # it is gone
        return FALLBACK
    return Size(rows=rows or FALLBACK.rows, columns=columns or FALLBACK.columns)


class Drawing:
    def __init__(self, app: "Application[None]", tty: Tty, board: Board, drawn: Any) -> None:
        """`drawn` is called after each frame."""
        self._app = app
        self._tty = tty
        self._board = board
        self._drawn = drawn
        self._size = app.output.get_size()  # of the last frame
        app.before_render += self._before
        app.after_render += self._after

    def finish(self) -> None:
        """Write what is still to be printed; the application is not on the screen."""
        self._app.output.write_raw(self._board.take())
        self._app.output.flush()
        self._tty.end()

    def clear(self) -> None:
        """Begin at the top of the screen. What stands there scrolls away, where it can be scrolled back to."""
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
        self._app.output.cursor_up(self._wrapped())
        self._app.renderer.erase()

    def _wrapped(self) -> int:
        """How many rows more than we drew there are above the cursor: a terminal that became narrower has wrapped
        those that are too long for it, as nearly all do. One that cuts them loses as many rows of what was above."""
        screen, columns = self._app.renderer.last_rendered_screen, self._app.output.get_size().columns
        if screen is None or columns >= self._size.columns:
            return 0
        cursor = screen.get_cursor_position(self._app.layout.current_window)
        above = sum(max(1, ceil(_used(screen.data_buffer[row]) / columns)) - 1 for row in range(cursor.y))
        return above + cursor.x // columns


def _used(row: Any) -> int:
    """The columns of a row up to its last mark."""
    return max((column + max(1, get_cwidth(cell.char)) for column, cell in row.items() if cell.char != " "), default=0)
