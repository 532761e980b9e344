"""Tool calls on a terminal, with the commands they run and the files they change."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.style import Style
from rich.text import Text

from acp_launch.console.draw.difflines import Changes, Line, changes, number_lines
from acp_launch.console.draw.sanitize import content_text, cut, diff_texts, inline, one_line, prose
from acp_launch.console.draw.theme import (
    CANCELLED,
    DONE,
    FAILED,
    RUNNING,
    UNLINKED,
    Deed,
    Marked,
    ProjectFiles,
    below,
    indent,
    middle,
)
from acp_launch.console.stream.text import describe_unasked, is_grave
from acp_launch.problem import count
from acp_launch.protocol import acp
from acp_launch.regex import regex
from acp_launch.session.events import FileEvent, TerminalEvent
from acp_launch.session.state import OVER, ToolCalls, call_id, deed, title
from acp_launch.waits import seconds

# A command of the agent: its last lines while it runs, numbered when it has ended.


STILL, ENDED = 8, 4  # lines drawn
KEPT_LINES = 8
FINE = "exit status 0"
LONG_OUTPUT = 2_000  # characters of one line, the last ones
# Escapes that a command writes for a terminal are normal, so they are removed instead of shown: colours, cursor
# movements, titles, hyperlinks. The rest is made harmless.
ESCAPES = regex(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78])")


class TerminalView:
    """The output of a command."""

    def __init__(self, command: str = "") -> None:
        self.command = command
        self.exit: str | None = None  # its exit in words, once it has ended
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._count = 0
        self._line = ""  # the unfinished line

    def add(self, output: str) -> None:
        """Add output in chunks of any length, in bounded memory: a progress bar may write one line forever."""
        *whole, last = output.split("\n")
        for line in whole:
            self._lines.append(as_seen((self._line + line)[-LONG_OUTPUT:]))
            self._count += 1
            self._line = ""
        self._line = (self._line + last)[-LONG_OUTPUT:]

    def output(self) -> Iterator[Text]:
        """Yield its last lines, fewer once it has ended well."""
        last = as_seen(self._line)
        lines = [*self._lines, *([last] if last else [])][-(ENDED if self.exit == FINE else STILL) :]
        if hidden := self._count + bool(last) - len(lines):
            yield Text(f"… {count(hidden, 'line')} above", "dim")
        for line in lines:
            yield Text(line, "dim", no_wrap=True, overflow="ellipsis")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw a command that belongs to no call."""
        command = one_line(cut(self.command, LONG_OUTPUT))
        mark, colour = {None: (RUNNING, "cyan"), FINE: (DONE, "green")}.get(self.exit, (FAILED, "red"))
        after = [] if self.exit is None or mark == DONE else [_after(self.exit)]
        yield Deed(mark, "run", command, after, mark_style=colour, name_style="bold")
        for line in self.output():
            yield below(line)


def as_seen(line: str) -> str:
    """Return the line as a terminal would show it: text before a carriage return is overwritten."""
    bare = ESCAPES.sub("", line).rstrip("\r")
    return prose(bare.rsplit("\r", 1)[-1])


def _after(text: str) -> Text:
    return Text(f" · {one_line(cut(text, TITLE))}", "dim")


# A change of a file: its path, the number of lines, and the changed lines.


SHOWN = 40  # lines of one change
LONG_CHANGE = 1_000  # characters of one line; a minified file has millions
TAB = 4
SIGNS = {"+": "green", "-": "red", " ": "dim", "…": "dim"}


class Diff:
    """A change of a file."""

    def __init__(self, path: str, old: str | None, new: str, *, shown: int = SHOWN, is_headed: bool = True) -> None:
        """`old` is None for a new file; at most `shown` lines are drawn, below the path if it `is_headed`."""
        self._path, self._old, self._new, self._shown = path, old, new, shown
        self._is_headed = is_headed

    @property
    def size(self) -> Text:
        """Return how many lines were added and removed."""
        made = self._changes
        new = "new file, " if self._old is None else ""
        return Text.assemble((f"  {new}", "dim"), (f"+{made.added}", "green"), (f" -{made.removed}", "red"))

    def shortened(self, shown: int, *, is_headed: bool) -> "Diff":
        """Return the same change with fewer lines, without comparing again."""
        other = Diff(self._path, self._old, self._new, shown=shown, is_headed=is_headed)
        other._changes = self._changes
        return other

    def is_same(self, old: str | None, new: str) -> bool:
        """Return whether a change has the same result from the same beginning."""
        return (self._old or "", self._new) == (old or "", new)

    @cached_property
    def _changes(self) -> Changes:
        return changes(self._old, self._new)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._is_headed:
            size = self.size
            room = max(TAB, options.max_width - size.cell_len)
            yield Text.assemble((middle(inline(self._path), room, options), "bold"), size)
        if not self._changes.lines and self._old is not None and self._old != self._new:
            yield Text("only the line end at the end of the file", "dim")
        drawn, left = number_lines(self._changes, self._shown)
        for line, margin in drawn:
            yield from _rows(line, margin, console, options.max_width)
        if left:
            yield Text(f"… {count(left, 'more line')}", "dim")


def _rows(line: Line, margin: str, console: Console, width: int) -> Iterator[Text]:
    """Yield a line of the file in rows after the margin."""
    if width - len(margin) < 8:  # too narrow for a gutter
        margin = f"{line.sign} "
    style = SIGNS[line.sign]
    for row in Text(_cut(line.text), style).wrap(console, max(1, width - len(margin))) or [Text()]:
        row.rstrip()
        yield Text.assemble(
            (margin if margin.strip() else " " * len(margin), style if line.sign in "+-" else "dim"), row
        )
        margin = " " * len(margin)


def _cut(text: str) -> str:
    shown = prose(text[:LONG_CHANGE]).expandtabs(TAB)
    return f"{shown} … {len(text) - LONG_CHANGE:,} more characters" if len(text) > LONG_CHANGE else shown


# A tool call: one line, and below it what it changed or what its command printed.


MARKS = {"completed": DONE, "failed": FAILED, "cancelled": CANCELLED, "in_progress": RUNNING, "pending": RUNNING}
STYLES = {"completed": "green", "failed": "red", "cancelled": "yellow"}
ROUTINE = {"read", "search", "fetch", "think"}  # they change nothing: one dim line, whatever comes of them
PLACES = 3  # locations that are shown
TITLE = 300  # characters
FOLDED = 4  # lines of a result
MAX_RESULT_LINE_CHARS = 2_000
RUNNING_CHANGE = 12  # lines of a change in a running call

Terminals = Callable[[str], TerminalView | None]


class ToolView:
    """A tool call, with its contents and terminals."""

    def __init__(self, terminals: Terminals, files: ProjectFiles, began: float) -> None:
        """`terminals` finds the terminal with an id."""
        self._terminals, self._files, self.began = terminals, files, began
        self._call: dict[str, Any] = {}
        self._contents: object = None
        self._diffs: dict[int, Diff] = {}  # by their index in the contents; compared once, drawn many times
        self.took: float | None = None  # seconds, once it has ended
        self.is_left = False  # without an end at the end of the turn
        self.unasked = ""  # the rule by which the user should have been asked
        self.shows_more: tuple[str, ...] = ()  # terminals that its contents do not name

    def update(self, call: dict[str, Any]) -> None:
        """Set the current, merged state of the call."""
        self._call = call
        if call.get("content") is not self._contents:
            self._contents = call.get("content")
            parts = enumerate(self._parts())
            self._diffs = {place: Diff(*diff_texts(part)) for place, part in parts if part.get("type") == "diff"}

    @property
    def status(self) -> str:
        return acp.text(self._call.get("status")) or "pending"

    @property
    def terminals(self) -> tuple[str, ...]:
        """Return the ids of the terminals it shows."""
        named = (acp.text(part.get("terminalId")) for part in self._parts() if part.get("type") == "terminal")
        return tuple(dict.fromkeys((*named, *self.shows_more)))

    def names(self, path: str) -> bool:
        """Return whether it says that it is about a file."""
        return path in title(self._call) or path in dict(self._locations())

    def changes(self, path: str) -> list[Diff]:
        """Return the changes of a file that it shows."""
        parts = self._parts()
        return [diff for place, diff in self._diffs.items() if parts[place].get("path") == path]

    def keep(self) -> None:
        """Hold its terminals: it may be drawn after they are forgotten elsewhere."""
        self._terminals = {id: self._terminals(id) for id in self.terminals}.get

    def _parts(self) -> Sequence[dict[str, Any]]:
        return [acp.mapping(part) for part in acp.sequence(self._contents)]

    def _locations(self) -> list[tuple[str, str]]:
        """Return the path of each location, and its line as `:12`."""
        places = map(acp.mapping, acp.sequence(self._call.get("locations")))
        return [(path, _line(place)) for place in places if (path := acp.text(place.get("path")))]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._header()
        if self.unasked:
            yield Marked(inline(describe_unasked(self.unasked, self.status)), "yellow")
        if self.status not in OVER or not self._is_routine:
            for part in self._body():
                yield below(part)

    @property
    def _is_routine(self) -> bool:
        return acp.text(self._call.get("kind")) in ROUTINE

    def _header(self) -> Deed:
        verb, name, path = self._name_parts()
        status, is_quiet = self.status, self._is_routine and self.status in OVER
        bold = Style() if self._is_routine else Style(bold=True)
        return Deed(
            MARKS.get(status, "?"),
            verb,
            name,
            self._after(name),
            mark_style="" if is_quiet else STYLES.get(status, "cyan"),
            style="dim" if is_quiet else "",
            name_style=bold + (self._files.style(path) if path else UNLINKED),
        )

    def _name_parts(self) -> tuple[str, str, str]:
        """Return its verb, its name without that verb, and the path if the name is one."""
        told = one_line(cut(title(self._call), MAX_RESULT_LINE_CHARS))
        if told.count("`") == 2 and told[0] == told[-1] == "`":  # as claude writes a command
            told = told[1:-1]
        verb, told = deed(self._call, told)
        for path, line in self._locations():
            if told in (path, path.rpartition("/")[2], f"{path}{line}", self._files.short(path)):
                return verb, f"{self._files.short(path)}{line}", path
        return verb, self._files.short(told), told

    def _after(self, name: str) -> Iterator[Text]:
        if (only := self._only_diff()) is not None:
            yield only.size
        for place in self._places(name):
            yield Text(f"  {place}", "dim")
        if self.status == "failed":
            yield _after(self._reason())
        elif self.status == "cancelled" or self.is_left:
            yield _after("cancelled" if self.status == "cancelled" else "unfinished")
        if self.took is not None and self.took >= 1:
            yield _after(seconds(round(self.took)))

    def _places(self, name: str) -> Iterator[str]:
        told, changed = title(self._call), [part.get("path") for part in self._parts() if part.get("type") == "diff"]
        new = [place for place in self._locations() if place[0] not in changed and place[0] not in told]
        shown = dict.fromkeys(f"{self._files.short(path)}{line}" for path, line in new)
        places = [text for text in shown if text not in (told, name)]
        yield from (cut(place, TITLE) for place in places[:PLACES])
        if len(places) > PLACES:
            yield f"and {len(places) - PLACES} more"

    def _reason(self) -> str:
        """Return why it failed: the exit of its command, or the first line that the agent says."""
        exits = (terminal.exit for terminal in map(self._terminals, self.terminals) if terminal)
        texts = (_bare(content_text(acp.mapping(part.get("content")))) for part in self._parts())
        lines = (line.strip() for text in texts for line in text)
        return next(filter(None, (*exits, *lines)), "failed")

    def _only_diff(self) -> Diff | None:
        """Return its change if that can stand below the header without a line of its own."""
        if len(self._diffs) != 1:
            return None
        ((place, diff),) = self._diffs.items()
        path = acp.text(self._parts()[place].get("path"))
        name = path.rpartition("/")[2]
        return diff if name and name in title(self._call) else None

    def _body(self) -> Iterator[RenderableType]:
        is_over, is_headed = self.status in OVER, self._only_diff() is None
        for place, part in enumerate(self._parts()):
            if place in self._diffs:
                yield self._diffs[place].shortened(SHOWN if is_over else RUNNING_CHANGE, is_headed=is_headed)
            elif part.get("type") == "content" and not (is_over and self._diffs):
                yield from self._result(content_text(acp.mapping(part.get("content"))))
        for id in self.terminals:
            if (terminal := self._terminals(id)) is not None:
                command = one_line(terminal.command)
                if command and command not in one_line(title(self._call)):
                    yield Text(f"$ {cut(command, LONG_OUTPUT)}", "dim", no_wrap=True, overflow="ellipsis")
                yield from terminal.output()
                if terminal.exit not in (None, FINE) and self.status != "failed":
                    yield Text(one_line(cut(terminal.exit or "", LONG_OUTPUT)), "red")

    def _result(self, text: str) -> Iterator[Text]:
        lines = _bare(text)
        is_told = self.status == "failed" and len(lines) == 1 and lines[0].strip() == self._reason()
        if not is_told:
            last = self._call.get("kind") == "execute"
            shown, hidden = lines[-FOLDED:] if last else lines[:FOLDED], len(lines) - FOLDED
            if not any(map(str.strip, lines)):
                return
            if last and hidden > 0:
                yield Text(f"… {count(hidden, 'line')} above", "dim")
            for line in shown:
                yield Text(prose(line[:MAX_RESULT_LINE_CHARS]), "dim", no_wrap=True, overflow="ellipsis")
            if not last and hidden > 0:
                yield Text(f"… {count(hidden, 'more line')}", "dim")


def _line(location: dict[str, Any]) -> str:
    line = location.get("line")
    return f":{line}" if isinstance(line, int) and not isinstance(line, bool) else ""


def _bare(text: str) -> list[str]:
    """Return the lines of a result without the code fence in which claude wraps it."""
    lines = text.strip("\n").split("\n")
    return lines[1:-1] if len(lines) > 1 and lines[0].startswith("```") and lines[-1] == "```" else lines


# The agent's activity besides talking: tool calls, and commands and files that we serve.


DRAWN = 6  # running calls
WEIGHTY = ("content", "rawInput", "rawOutput", "_meta")  # not needed after a call has ended and is shown
OUTPUT = ("terminal_output", "terminal_output_delta")  # members of `_meta` that agents use by convention

Printed = list[RenderableType]


class ToolActivity:
    """All tool calls and commands. Each method returns the parts to print for good; the running ones are drawn."""

    def __init__(self, clock: Callable[[], float], files: ProjectFiles) -> None:
        self._clock, self._files = clock, files
        self._calls = ToolCalls()
        self._running: dict[str, ToolView] = {}
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

    @property
    def running(self) -> list[tuple[dict[str, Any], float]]:
        """Return the unfinished calls, each with the time at which it began."""
        return [(self._calls.merge({"toolCallId": id}), view.began) for id, view in self._running.items()]

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

    def note_unasked(self, call: dict[str, Any], by: str) -> Printed:
        """Note that the call ran although the policy would have asked or denied."""
        if not is_grave(call, by):
            return []
        if view := self._running.get(call_id(call)):
            view.unasked = by
            return []
        return [Marked(f"{inline(describe_unasked(by, call.get('status')))}: {inline(title(call))}", "yellow")]

    def served(self, step: FileEvent | TerminalEvent) -> Printed:
        return self._file(step) if isinstance(step, FileEvent) else self._terminal(step)

    def left(self) -> Printed:
        """Return the unfinished calls at the end of a turn, in their current state."""
        return [view for id in list(self._running) for view in self._finish(id)]

    def rest(self) -> Printed:
        """Return ended commands that belong to no call; called when a call can hardly claim them any more."""
        claimed = self._claimed_ids()
        over = [id for id, terminal in self._ours.items() if terminal.exit is not None and id not in claimed]
        return [self._ours.pop(id) for id in over]

    def _view(self, id: str) -> ToolView:
        if id not in self._running:
            terminals: Terminals = lambda id: self._ours.get(id) or self._theirs.get(id)  # noqa: E731
            self._running[id] = ToolView(terminals, self._files, self._clock())
        return self._running[id]

    def _finish(self, id: str, *, replay: bool = False) -> Printed:
        view = self._running.pop(id)
        if view.status in OVER:
            view.took = None if replay else self._clock() - view.began
            self._over.add(id)
        else:
            view.is_left = True
        call = self._calls.merge({"toolCallId": id})
        view.update(dict(call))
        for member in WEIGHTY:
            call.pop(member, None)
        view.keep()
        for terminal in view.terminals:
            self._theirs.pop(terminal, None)
            if terminal in self._ours and self._ours[terminal].exit is not None:  # else it is drawn on its own now
                del self._ours[terminal]
        return [view]

    def _listen(self, view: ToolView, meta: dict[str, Any]) -> None:
        """Take the output of a command that the agent runs itself and reports in `_meta`."""
        for member in OUTPUT:
            content_text = acp.mapping(meta.get(member))
            if id := acp.text(content_text.get("terminal_id")):
                self._theirs.setdefault(id, TerminalView()).add(acp.text(content_text.get("data")))
                view.shows_more = tuple(dict.fromkeys((*view.shows_more, id)))
        ended = acp.mapping(meta.get("terminal_exit"))
        if terminal := self._theirs.get(acp.text(ended.get("terminal_id"))):
            signal = acp.text(ended.get("signal"))
            terminal.exit = f"signal {signal}" if signal else f"exit status {ended.get('exit_code')}"

    def _file(self, step: FileEvent) -> Printed:
        if step.outcome == "refused":
            return [Marked(f"refused: {step.how} {inline(step.path)}: {inline(step.reason or '')}", "yellow")]
        if step.how == "read":
            is_told = any(view.names(step.path) for view in self._running.values())
            return [] if is_told else [self._file_line(step, "read")]
        return [self._file_line(step, "edit")] if step.outcome == "failed" else self._show_change(step)

    def _show_change(self, step: FileEvent) -> Printed:
        claimed = [diff for view in self._running.values() for diff in view.changes(step.path)]
        if any(diff.is_same(step.old, step.new or "") for diff in claimed):
            return []  # the call shows the very change
        if claimed:
            return [Marked(f"wrote {inline(step.path)}", "dim")]
        diff = Diff(step.path, step.old, step.new or "", is_headed=False)
        return [self._file_line(step, "edit", diff.size), below(diff)]

    def _file_line(self, step: FileEvent, verb: str, *after: Text) -> Deed:
        is_done, is_read = step.outcome == "done", verb == "read"
        return Deed(
            DONE if is_done else FAILED,
            verb,
            self._files.short(step.path),
            after if is_done else [_after(step.reason or "")],
            mark_style="" if is_read else "green" if is_done else "red",
            style="dim" if is_read else "",
            name_style=Style(bold=None if is_read else True) + self._files.style(step.path),
        )

    def _terminal(self, step: TerminalEvent) -> Printed:
        terminal = self._ours.setdefault(step.terminal_id, TerminalView(step.command))
        terminal.add(step.output)
        terminal.exit = step.exit
        if step.exit is not None and step.terminal_id in self._shown:  # it is printed already
            self._shown.discard(step.terminal_id)
            del self._ours[step.terminal_id]
        return []

    def _claimed_ids(self) -> set[str]:
        return {id for view in self._running.values() for id in view.terminals}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        running = list(self._running.values())
        if len(running) > DRAWN:
            yield indent(Text(f"… {len(running) - DRAWN} more tool calls", "dim"))
        yield from running[-DRAWN:]
        claimed = self._claimed_ids()
        yield from [terminal for id, terminal in self._ours.items() if id not in claimed][-DRAWN:]
