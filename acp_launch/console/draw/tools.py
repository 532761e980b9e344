"""Tool calls on a terminal, with the commands they run and the files they change."""

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from acp_launch.console.draw.contents import said
from acp_launch.console.draw.difflines import Changes, Line, changes
from acp_launch.console.draw.outside import cut, inline, one_line, prose
from acp_launch.console.stream.text import unasked
from acp_launch.mark import marked
from acp_launch.protocol import acp
from acp_launch.session.service import FileServed, TerminalServed
from acp_launch.session.state import OVER, ToolCalls, call_id, title
from acp_launch.waits import seconds

# A command of the agent: its last lines while it runs, folded when it has ended.


STILL, ENDED = 8, 8  # lines drawn
KEPT = 8
LONG_OUTPUT = 2_000  # characters of one line, the last ones
# Escapes that a command writes for a terminal are normal, so they are removed instead of shown: colours, cursor
# movements, titles, hyperlinks. The rest is made harmless.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78])")


class TerminalView:
    """The output of a command."""

    def __init__(self, command: str = "") -> None:
        self.command = command
        self.exit: str | None = None  # its exit in words, once it has ended
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._count = 0
        self._line: list[str] = []
        self._length = 0  # of the unfinished line

    def add(self, output: str) -> None:
        """Add output in chunks of any length."""
        *whole, last = output.split("\n")
        for line in whole:
            self._more(line)
            self._lines.append(_seen("".join(self._line)))
            self._count += 1
            self._line, self._length = [], 0
        self._more(last)

    def _more(self, piece: str) -> None:
        """Extend the unfinished line, in bounded memory: a progress bar may write one line forever."""
        self._line.append(piece[-LONG_OUTPUT:])
        self._length += len(self._line[-1])
        if self._length > 2 * LONG_OUTPUT:
            self._line = ["".join(self._line)[-LONG_OUTPUT:]]
            self._length = LONG_OUTPUT

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.command:
            yield Text(f"$ {one_line(cut(self.command, LONG_OUTPUT))}", "bold", no_wrap=True, overflow="ellipsis")
        last = _seen("".join(self._line))
        lines = [*self._lines, *([last] if last else [])][-(STILL if self.exit is None else ENDED) :]
        if hidden := self._count + bool(last) - len(lines):
            yield Text(f"… {hidden:,} lines above", "dim")
        for line in lines:
            yield Text(line, "dim", no_wrap=True, overflow="ellipsis")
        if self.exit is not None:
            yield Text(one_line(cut(self.exit, LONG_OUTPUT)), "dim" if self.exit == "exit status 0" else "red")


def _seen(line: str) -> str:
    """Return the line as a terminal would show it: text before a carriage return is overwritten."""
    bare = ESCAPES.sub("", line).rstrip("\r")
    return prose(bare.rsplit("\r", 1)[-1])


# A change of a file: its path, the number of lines, and the changed lines.


SHOWN = 40  # lines of one change
LONG_CHANGE = 1_000  # characters of one line; a minified file has millions
TAB = 4
SIGNS = {"+": "green", "-": "red", " ": "dim", "…": "dim"}


class Diff:
    """A change of a file."""

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
        """Return the same change with fewer lines, without comparing again."""
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
            yield Text("only the line end at the end of the file", "dim")
        gutter = len(str(max((line.number for line in lines), default=0)))
        for line in lines[: self._shown]:
            yield from _rows(line, gutter, console, options.max_width)
        if len(lines) > self._shown:
            yield Text(f"… {len(lines) - self._shown:,} more lines", "dim")


def _rows(line: Line, gutter: int, console: Console, width: int) -> Iterator[Text]:
    """Yield a line of the file in rows beside the gutter."""
    number = str(line.number) if line.number else ""
    margin = f"{number:>{gutter}} {line.sign} "
    if width - len(margin) < 8:  # too narrow for a gutter
        margin = f"{line.sign} "
    style = SIGNS[line.sign]
    for row in Text(_cut(line.text), style).wrap(console, max(1, width - len(margin)), overflow="fold") or [Text()]:
        row.rstrip()
        yield Text.assemble(
            (margin if margin.strip() else " " * len(margin), style if line.sign in "+-" else "dim"), row
        )
        margin = " " * len(margin)


def _cut(text: str) -> str:
    shown = prose(text[:LONG_CHANGE]).expandtabs(TAB)
    return f"{shown} … {len(text) - LONG_CHANGE:,} more characters" if len(text) > LONG_CHANGE else shown


MARKS = {"completed": "✓", "failed": "✗", "cancelled": "–", "in_progress": "…", "pending": "…"}
STYLES = {"completed": "green", "failed": "red", "cancelled": "yellow"}
PLACES = 3  # locations that are shown
TITLE = 300  # characters
FOLDED = 4  # lines of a result
LONG = 2_000  # characters of a line of a result
RUNNING = 12  # lines of a change in a running call

Terminals = Callable[[str], TerminalView | None]


class ToolView:
    """A tool call, with its contents and terminals."""

    def __init__(self, terminals: Terminals) -> None:
        """`terminals` finds the terminal with an id."""
        self._terminals = terminals
        self._call: dict[str, Any] = {}
        self._contents: object = None
        self._diffs: dict[int, Diff] = {}  # by their index in the contents; compared once, drawn many times
        self.took: float | None = None  # seconds, once it has ended
        self.unasked = ""  # the rule by which the user should have been asked
        self.shows_more: tuple[str, ...] = ()  # terminals that its contents do not name

    def update(self, call: dict[str, Any]) -> None:
        """Set the current, merged state of the call."""
        self._call = call
        if call.get("content") is not self._contents:
            self._contents = call.get("content")
            self._diffs = dict(_diffs(self._parts()))

    @property
    def status(self) -> str:
        return acp.text(self._call.get("status")) or "pending"

    @property
    def paths(self) -> set[str]:
        """Return the files whose changes it shows."""
        return {acp.text(part.get("path")) for part in self._parts() if part.get("type") == "diff"}

    @property
    def terminals(self) -> tuple[str, ...]:
        """Return the ids of the terminals it shows."""
        named = (acp.text(part.get("terminalId")) for part in self._parts() if part.get("type") == "terminal")
        return tuple(dict.fromkeys((*named, *self.shows_more)))

    def keep(self) -> None:
        """Hold its terminals: it may be drawn after they are forgotten elsewhere."""
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
        """Yield the places that the title does not name."""
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
    """Yield a few lines of a result: the first, or the last of a command. Claude wraps results in code fences."""
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


# The agent's activity besides talking: tool calls, and commands and files that we serve.


DRAWN = 6  # running calls
WEIGHTY = ("content", "rawInput", "rawOutput", "_meta")  # not needed after a call has ended and is shown
OUTPUT = ("terminal_output", "terminal_output_delta")  # members of `_meta` that agents use by convention

Printed = list[RenderableType]


class ToolActivity:
    """All tool calls and commands. Each method returns the parts to print for good; the running ones are drawn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._calls = ToolCalls()
        self._running: dict[str, ToolView] = {}
        self._began: dict[str, float] = {}
        self._over: set[str] = set()
        self._ours: dict[str, TerminalView] = {}  # terminals we serve
        self._theirs: dict[str, TerminalView] = {}  # terminals that the agent runs and reports
        self._shown: set[str] = set()  # ours that were shown with a cancelled call

    def call(self, body: dict[str, Any], *, replay: bool = False) -> Printed:
        """Apply an update of a tool call."""
        id = call_id(body)
        is_late = id in self._over and body.get("sessionUpdate") != "tool_call"
        if is_late and (acp.text(body.get("status")) or "completed") in OVER:
            return []  # it is printed already
        self._over.discard(id)
        view = self._view(id)
        view.update(self._calls.merge(body))
        self._listen(view, acp.mapping(body.get("_meta")))
        return self._finish(id, replay=replay) if view.status in OVER else []

    def asked(self, call: dict[str, Any]) -> None:
        """Merge the call of a permission question; gemini sends the title of a call only there."""
        merged = self._calls.merge(call)
        if view := self._running.get(call_id(call)):
            view.update(merged)

    def cancel(self, calls: Sequence[dict[str, Any]]) -> Printed:
        """Mark these unfinished calls as cancelled: the turn is being cancelled (C-63)."""
        printed: Printed = []
        for call in calls:
            id = call_id(call)
            view = self._view(id)
            view.update(self._calls.merge({**call, "status": "cancelled"}))
            printed += self._finish(id)
            self._shown |= set(view.terminals) & set(self._ours)
        return printed

    def unasked(self, call: dict[str, Any], by: str) -> Printed:
        """Note that the call ran although the policy would have asked or denied."""
        if view := self._running.get(call_id(call)):
            view.unasked = by
            return []
        said = f"acp-launch: {inline(title(call))}: {inline(unasked(by, call.get('status')))}"
        return [Text(marked(said), "dim")]

    def served(self, step: FileServed | TerminalServed) -> Printed:
        return self._file(step) if isinstance(step, FileServed) else self._terminal(step)

    def left(self) -> Printed:
        """Return the unfinished calls at the end of a turn, in their current state."""
        return [view for id in list(self._running) for view in self._finish(id)]

    def rest(self) -> Printed:
        """Return ended commands that belong to no call; called when a call can hardly claim them any more."""
        claimed = self._claimed()
        over = [id for id, terminal in self._ours.items() if terminal.exit is not None and id not in claimed]
        return [self._ours.pop(id) for id in over]

    def _view(self, id: str) -> ToolView:
        if id not in self._running:
            self._running[id] = ToolView(self._find)
            self._began[id] = self._clock()
        return self._running[id]

    def _finish(self, id: str, *, replay: bool = False) -> Printed:
        view, began = self._running.pop(id), self._began.pop(id)
        if view.status in OVER:
            view.took = None if replay else self._clock() - began
            self._over.add(id)
        call = self._calls.merge({"toolCallId": id})
        view.update(dict(call))
        for member in WEIGHTY:
            call.pop(member, None)
        view.keep()
        for terminal in view.terminals:
            self._forget(terminal)
        return [view]

    def _find(self, id: str) -> TerminalView | None:
        return self._ours.get(id) or self._theirs.get(id)

    def _forget(self, id: str) -> None:
        """Forget a terminal. A command that still runs is drawn on its own from now on."""
        self._theirs.pop(id, None)
        if id in self._ours and self._ours[id].exit is not None:
            del self._ours[id]

    def _listen(self, view: ToolView, meta: dict[str, Any]) -> None:
        """Take the output of a command that the agent runs itself and reports in `_meta`."""
        for member in OUTPUT:
            said = acp.mapping(meta.get(member))
            if id := acp.text(said.get("terminal_id")):
                self._theirs.setdefault(id, TerminalView()).add(acp.text(said.get("data")))
                view.shows_more = tuple(dict.fromkeys((*view.shows_more, id)))
        ended = acp.mapping(meta.get("terminal_exit"))
        if terminal := self._theirs.get(acp.text(ended.get("terminal_id"))):
            signal = acp.text(ended.get("signal"))
            terminal.exit = f"signal {signal}" if signal else f"exit status {ended.get('exit_code')}"

    def _file(self, step: FileServed) -> Printed:
        if step.outcome != "done":
            said = f"{step.outcome}: {step.how} {inline(step.path)}: {inline(step.reason)}"
            return [Text(marked(said), "yellow")]
        if step.how == "read":
            return [Text(marked(f"read {inline(step.path)}"), "dim")]
        if any(step.path in view.paths for view in self._running.values()):
            return [Text(marked(f"wrote {inline(step.path)}"), "dim")]  # a call shows the change
        return [Text(marked(f"wrote {inline(step.path)}"), "green"), Padding(_diff(step), (0, 0, 0, 2), expand=False)]

    def _terminal(self, step: TerminalServed) -> Printed:
        terminal = self._ours.setdefault(step.terminal_id, TerminalView(step.command))
        terminal.add(step.output)
        terminal.exit = step.exit
        if step.exit is not None and step.terminal_id in self._shown:  # it is printed already
            self._shown.discard(step.terminal_id)
            del self._ours[step.terminal_id]
        return []

    def _claimed(self) -> set[str]:
        return {id for view in self._running.values() for id in view.terminals}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        running = list(self._running.values())
        if len(running) > DRAWN:
            yield Text(f"… {len(running) - DRAWN} more tool calls", "dim")
        yield from running[-DRAWN:]
        yield from self._alone()

    def _alone(self) -> Iterator[RenderableType]:
        claimed = self._claimed()
        yield from [terminal for id, terminal in self._ours.items() if id not in claimed][-DRAWN:]


def _diff(step: FileServed) -> Diff:
    return Diff(step.path, step.old, step.new or "")
