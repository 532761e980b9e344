"""
The look of a session: the parts of a turn with space between them, their lines, and the names of files.

The user's words are marked, the agent's words are plain, and what the agent does is one line each: a symbol, a verb, a
name. Symbols that a terminal without UTF-8 cannot show have a plain form. Colours are the sixteen of the terminal.
"""

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from acp_launch.console.draw.sanitize import inline, prose
from acp_launch.problem import COLUMNS, MARK

PLAIN = {"\u276f": ">", "●": "*", "✻": "*", "✓": "+", "✗": "x", "–": "-", "·": "-", "…": "...", "⊟": "-"}
NARROW = 40  # columns, below which nothing is cut and little is indented
MIN_CUT_COLUMNS = 12  # of a name that is cut
DONE, FAILED, CANCELLED, RUNNING, THOUGHT, PROMPT = "✓", "✗", "–", "●", "✻", "\u276f"
UNFOLDED = "⊟"

Kind = Literal["", "prompt", "work", "words", "aside", "end"]
Part = tuple[Kind, RenderableType]


def symbol(text: str, options: ConsoleOptions) -> str:
    """Return one of our symbols as this terminal can show it."""
    return PLAIN.get(text, text) if options.ascii_only else text


def is_apart(above: Kind, kind: Kind) -> bool:
    """Return whether an empty line is between a part and the one above it."""
    return above != "" and kind != "end" and (above != kind or kind == "prompt")


class Gap(Text):
    """An empty line between two pieces of one kind."""


class Parts:
    """Unfinished parts of a turn, with space between them."""

    def __init__(self, above: Kind, parts: Sequence[Part]) -> None:
        """`above` is the kind of the part that was printed last."""
        self._above, self._parts = above, parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        above = self._above
        for kind, part in self._parts:
            lines = console.render_lines(part, options, pad=False)
            if lines and is_apart(above, kind) and any(segment.text for segment in lines[0]):
                yield Segment.line()
            for line in lines:
                yield from line
                yield Segment.line()
            above = kind if lines else above


def indent(what: RenderableType) -> RenderableType:
    """Return a line about what the agent does."""
    return _Indented(what, 2, 0)


def below(what: RenderableType) -> RenderableType:
    """Return what belongs to the line above it."""
    return _Indented(what, 6, 2)


class _Indented:
    def __init__(self, what: RenderableType, columns: int, narrow: int) -> None:
        self._what, self._columns, self._narrow = what, columns, narrow

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self._narrow if options.max_width < NARROW else self._columns
        yield Padding(self._what, (0, 0, 0, columns), expand=False)


class Deed:
    """One line about what the agent does. A name that is too long is cut in the middle."""

    def __init__(
        self,
        mark: str,
        verb: str,
        name: str = "",
        after: Iterable[Text] = (),
        *,
        mark_style: str = "",
        style: str = "",
        name_style: str | Style = "",
        is_one_row: bool = False,
    ) -> None:
        """Keep it on one row, cut, also on a narrow screen if it `is_one_row`."""
        self._is_one_row = is_one_row
        self._mark, self._verb, self._name, self._after = mark, verb, name, list(after)
        self._mark_style, self._style, self._name_style = mark_style, style, name_style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        mark = symbol(self._mark, options)
        if options.max_width < NARROW:
            yield self._line(mark, self._name, self._after)
            return
        room = options.max_width - cell_len(f"  {mark} {self._verb} ")
        after = Text().join(self._after)
        name = middle(self._name, max(room - after.cell_len, min(room, max(MIN_CUT_COLUMNS, room // 2))), options)
        after.truncate(max(0, room - cell_len(name)), overflow="ellipsis")
        yield indent(self._line(mark, name, [after]))

    def _line(self, mark: str, name: str, after: Iterable[Text]) -> Text:
        line = Text(style=self._style, no_wrap=self._is_one_row, overflow="ellipsis" if self._is_one_row else None)
        line.append(mark, self._mark_style).append(f" {self._verb}")
        if name:
            line.append(" ").append(name, self._name_style)
        for each in after:
            line.append_text(each)
        return line


def middle(text: str, columns: int, options: ConsoleOptions) -> str:
    """Cut text in the middle: the beginning of a command and the end of a path say the most."""
    if cell_len(text) <= columns:
        return text
    gap = symbol("…", options)
    room = max(1, columns - len(gap))
    head = chop_cells(text, max(1, room - room // 2))[0]
    tail = chop_cells(text[::-1], room // 2)[0][::-1] if room > 1 else ""
    return f"{head}{gap}{tail}"


class Marked:
    """Our line: its first row begins with our mark; the others, which may hold foreign words, do not."""

    def __init__(self, text: str, style: str = "", *, is_ours: bool = True) -> None:
        """Text that is not ours has no mark, and is indented as far."""
        self._text, self._style, self._mark_style = text, style, style
        self._mark = MARK if is_ours else " "

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        mark = symbol(self._mark, options)
        for line in self._text.split("\n"):
            for row in Text(line, self._style).wrap(console, max(1, options.max_width - COLUMNS)) or [Text()]:
                yield Text.assemble((f"{mark} ", self._mark_style), row)
                mark = " "


class UserWords(Marked):
    """The words of the user."""

    def __init__(self, text: str) -> None:
        super().__init__(prose(text).strip("\n"), "bold")
        self._mark, self._mark_style = PROMPT, "bold cyan"


# The names of files: short, and with a link where the file is one of the project. No text of an agent is a link.


LINKLESS = ("dumb", "unknown", "linux", "cons25", "eterm", "vt", "screen")  # beginnings of TERM
UNLINKED = Style()


def can_link(env: Mapping[str, str]) -> bool:
    """Return whether the terminal is not known for lacking OSC 8."""
    is_without = env.get("TERM_PROGRAM") == "Apple_Terminal" or "INSIDE_EMACS" in env
    return not (env.get("TERM", "dumb").startswith(LINKLESS) or is_without)


class ProjectFiles:
    """The files below the directories of a session."""

    def __init__(self, roots: Sequence[Path], env: Mapping[str, str] = os.environ, *, has_links: bool = True) -> None:
        """`has_links` is whether names may be links. NO_COLOR does not forbid them: they have no colour."""
        self._roots, self._can_link = roots, has_links and can_link(env)
        self._real_roots = [root.resolve() for root in roots]

    def short(self, path: str) -> str:
        """Return a path for showing, from the directory of the session if it is below that."""
        for root in self._roots:
            if path.startswith(f"{root}/"):
                return inline(path[len(f"{root}/") :])
        return inline(path)

    def style(self, path: str) -> Style:
        """Return a link to an existing file of the project; a plain style for any other path."""
        if not (self._roots and self._can_link and path.isprintable() and path.startswith("/")):
            return UNLINKED
        try:
            real = Path(path).resolve(strict=True)
            is_file = real.is_file()
        except (OSError, ValueError):
            return UNLINKED
        if not (is_file and any(real.is_relative_to(root) for root in self._real_roots)):
            return UNLINKED
        return Style(link=f"file://{quote(socket.gethostname())}{quote(os.fsencode(real))}")
