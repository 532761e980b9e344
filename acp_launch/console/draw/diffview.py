"""A change of a file: its path, how much, and the changed lines with their numbers."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from acp_launch.console.draw.difflines import Changes, Line, changes
from acp_launch.console.draw.outside import inline, prose

SHOWN = 40  # lines of one change
LONG = 1_000  # characters of one line; a minified file has millions
TAB = 4
STYLES = {"+": "green", "-": "red", " ": "dim", "…": "dim"}


class Diff:
    def __init__(self, path: str, old: str | None, new: str, *, shown: int = SHOWN) -> None:
        """`old` is None for a new file; at most `shown` lines are drawn."""
        self._path, self._old, self._new, self._shown = path, old, new, shown
        self._changes: Changes | None = None

    @property
    def header(self) -> Text:
        made = self._made()
        new = "new file, " if self._old is None else ""
        return Text.assemble(
            (inline(self._path), "bold"), (f"  {new}", "dim"), (f"+{made.added}", "green"), (f" -{made.removed}", "red")
        )

    def shortened(self, shown: int) -> "Diff":
        """The same with fewer lines; compared once."""
        other = Diff(self._path, self._old, self._new, shown=shown)
        other._changes = self._made()
        return other

    def _made(self) -> Changes:
        if self._changes is None:
            self._changes = changes(self._old, self._new)
        return self._changes

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.header
        lines = self._made().lines
        if not lines and self._old is not None and self._old != self._new:
            yield Text("only the line end at its end", "dim")
        gutter = len(str(max((line.number for line in lines), default=0)))
        for line in lines[: self._shown]:
            yield from _rows(line, gutter, console, options.max_width)
        if len(lines) > self._shown:
            yield Text(f"… {len(lines) - self._shown:,} more lines", "dim")


def _rows(line: Line, gutter: int, console: Console, width: int) -> Iterator[Text]:
    """A line of the file, in as many rows as it needs beside the gutter."""
    number = str(line.number) if line.number else ""
    margin = f"{number:>{gutter}} {line.sign} "
    if width - len(margin) < 8:  # too narrow for a gutter
        margin = f"{line.sign} "
    style = STYLES[line.sign]
    for row in Text(_cut(line.text), style).wrap(console, max(1, width - len(margin)), overflow="fold") or [Text()]:
        row.rstrip()
        yield Text.assemble(
            (margin if margin.strip() else " " * len(margin), style if line.sign in "+-" else "dim"), row
        )
        margin = " " * len(margin)


def _cut(text: str) -> str:
    shown = prose(text[:LONG]).expandtabs(TAB)
    return f"{shown} … {len(text) - LONG:,} more characters" if len(text) > LONG else shown
