"""A tool call on a terminal: what it is, and of what it does as much as a person wants to see at once."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from acp_launch.console.draw.contents import said
from acp_launch.console.draw.diffview import Diff
from acp_launch.console.draw.outside import cut, inline, prose
from acp_launch.console.draw.terminalview import TerminalView
from acp_launch.console.stream.text import unasked
from acp_launch.mark import marked
from acp_launch.protocol import acp
from acp_launch.session.toolcall import OVER, title
from acp_launch.waits import seconds

MARKS = {"completed": "✓", "failed": "✗", "cancelled": "–", "in_progress": "…", "pending": "…"}
STYLES = {"completed": "green", "failed": "red", "cancelled": "yellow"}
PLACES = 3  # locations shown
TITLE = 300  # characters
FOLDED = 4  # lines of a result
LONG = 2_000  # characters of a line of a result
RUNNING = 12  # lines of a change that is not done yet

Terminals = Callable[[str], TerminalView | None]


class ToolView:
    def __init__(self, terminals: Terminals) -> None:
        """`terminals` finds the terminal of an id."""
        self._terminals = terminals
        self._call: dict[str, Any] = {}
        self._contents: object = None
        self._diffs: dict[int, Diff] = {}  # by their place in the contents; compared once, drawn many times
        self.took: float | None = None  # seconds, once it is over
        self.unasked = ""  # by which rule it should have been asked about
        self.shows_more: tuple[str, ...] = ()  # terminals that it has without naming them in its contents

    def update(self, call: dict[str, Any]) -> None:
        """The call, merged, as it is now."""
        self._call = call
        if call.get("content") is not self._contents:
            self._contents = call.get("content")
            self._diffs = dict(_diffs(self._parts()))

    @property
    def status(self) -> str:
        return acp.text(self._call.get("status")) or "pending"

    @property
    def paths(self) -> set[str]:
        """Of the files whose change it shows."""
        return {acp.text(part.get("path")) for part in self._parts() if part.get("type") == "diff"}

    @property
    def terminals(self) -> tuple[str, ...]:
        """The ids of those it shows."""
        named = (acp.text(part.get("terminalId")) for part in self._parts() if part.get("type") == "terminal")
        return tuple(dict.fromkeys((*named, *self.shows_more)))

    def keep(self) -> None:
        """Hold on to its terminals: it is drawn when nobody else knows them any more."""
        self._terminals = {id: self._terminals(id) for id in self.terminals}.get

    def _parts(self) -> Sequence[dict[str, Any]]:
        return [acp.mapping(part) for part in acp.sequence(self._contents)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._header()
        for part in self._body():
            yield Padding(part, (0, 0, 0, 2), expand=False)

    def _header(self) -> Text:
        status = self.status
        line = Text(f"{MARKS.get(status, '?')} {inline(cut(title(self._call), TITLE))}", STYLES.get(status, "cyan"))
        for more in (acp.text(self._call.get("kind")), *self._places(), *self._ending()):
            if more:
                line.append(f"  {inline(cut(more, TITLE))}", "dim")
        if self.unasked:
            line.append(f"  {marked(inline(unasked(self.unasked, self.status)))}", "dim")
        return line

    def _places(self) -> Iterator[str]:
        """Those that the title does not tell."""
        places = [_place(acp.mapping(location)) for location in acp.sequence(self._call.get("locations"))]
        told = title(self._call)
        places = [place for place in dict.fromkeys(places) if place and place not in told]
        yield from places[:PLACES]
        if len(places) > PLACES:
            yield f"and {len(places) - PLACES} more"

    def _ending(self) -> Iterator[str]:
        if self.status in ("failed", "cancelled"):
            yield self.status
        if self.took is not None and self.took > 1:
            yield seconds(round(self.took))

    def _body(self) -> Iterator[RenderableType]:
        is_over = self.status in OVER
        for place, part in enumerate(self._parts()):
            if place in self._diffs:
                yield self._diffs[place] if is_over else self._diffs[place].shortened(RUNNING)
            elif part.get("type") == "content":
                yield from _folded(said(acp.mapping(part.get("content"))), last=self._call.get("kind") == "execute")
        for id in self.terminals:
            if (terminal := self._terminals(id)) is not None:
                yield terminal


def _diffs(parts: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Diff]]:
    for place, part in enumerate(parts):
        if part.get("type") == "diff":
            old = part.get("oldText")
            path, new = acp.text(part.get("path")), acp.text(part.get("newText"))
            yield place, Diff(path, old if isinstance(old, str) else None, new)


def _place(location: dict[str, Any]) -> str:
    path, line = acp.text(location.get("path")), location.get("line")
    return f"{path}:{line}" if path and isinstance(line, int) and not isinstance(line, bool) else path


def _folded(text: str, *, last: bool) -> Iterator[Text]:
    """A few lines of a result: the first, or of a command's the last. Claude wraps results in code fences."""
    lines = text.strip("\n").split("\n")
    if len(lines) > 1 and lines[0].startswith("```") and lines[-1] == "```":
        lines = lines[1:-1]
    shown, hidden = lines[-FOLDED:] if last else lines[:FOLDED], len(lines) - FOLDED
    if not any(map(str.strip, lines)):
        return
    if last and hidden > 0:
        yield Text(f"… {hidden:,} lines above", "dim")
    for line in shown:
        yield Text(prose(line[:LONG]), "dim", no_wrap=True, overflow="ellipsis")
    if not last and hidden > 0:
        yield Text(f"… {hidden:,} more lines", "dim")
