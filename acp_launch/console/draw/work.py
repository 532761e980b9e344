"""What the agent does besides talking: its tool calls, and the commands and files it had us serve."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from acp_launch.console.draw.diffview import Diff
from acp_launch.console.draw.outside import inline
from acp_launch.console.draw.terminalview import TerminalView
from acp_launch.console.draw.toolview import ToolView
from acp_launch.console.stream.text import unasked
from acp_launch.mark import marked
from acp_launch.protocol import acp
from acp_launch.session.service import FileServed, TerminalServed
from acp_launch.session.toolcall import OVER, ToolCalls, call_id, title

DRAWN = 6  # running calls
WEIGHTY = ("content", "rawInput", "rawOutput", "_meta")  # of no use once a call is over and shown
OUTPUT = ("terminal_output", "terminal_output_delta")  # facts: de-facto members of `_meta`

Printed = list[RenderableType]


class Work:
    """Each method gives what is to be printed for good now; what still runs is drawn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._calls = ToolCalls()
        self._running: dict[str, ToolView] = {}
        self._began: dict[str, float] = {}
        self._over: set[str] = set()
        self._ours: dict[str, TerminalView] = {}  # terminals we serve
        self._theirs: dict[str, TerminalView] = {}  # those the agent only tells of
        self._shown: set[str] = set()  # of ours, with a call that was cancelled

    def call(self, body: dict[str, Any], *, replay: bool = False) -> Printed:
        """An update of a tool call."""
        id = call_id(body)
        is_late = id in self._over and body.get("sessionUpdate") != "tool_call"
        if is_late and (acp.text(body.get("status")) or "completed") in OVER:
            return []  # it was shown for good
        self._over.discard(id)
        view = self._view(id)
        view.update(self._calls.merge(body))
        self._listen(view, acp.mapping(body.get("_meta")))
        return self._finish(id, replay=replay) if view.status in OVER else []

    def asked(self, call: dict[str, Any]) -> None:
        """What a permission question says of a call; gemini tells a call's title nowhere else."""
        merged = self._calls.merge(call)
        if view := self._running.get(call_id(call)):
            view.update(merged)

    def cancel(self, calls: Sequence[dict[str, Any]]) -> Printed:
        """The turn is being cancelled, with these calls unfinished (C-63)."""
        printed: Printed = []
        for call in calls:
            id = call_id(call)
            view = self._view(id)
            view.update(self._calls.merge({**call, "status": "cancelled"}))
            printed += self._finish(id)
            self._shown |= set(view.terminals) & set(self._ours)
        return printed

    def unasked(self, call: dict[str, Any], by: str) -> Printed:
        """The call ran although the policy would have asked or denied."""
        if view := self._running.get(call_id(call)):
            view.unasked = by
            return []
        said = f"acp-launch: {inline(title(call))}: {inline(unasked(by, call.get('status')))}"
        return [Text(marked(said), "dim")]

    def served(self, step: FileServed | TerminalServed) -> Printed:
        return self._file(step) if isinstance(step, FileServed) else self._terminal(step)

    def left(self) -> Printed:
        """The turn is over: calls that are not are shown as they stand."""
        return [view for id in list(self._running) for view in self._finish(id)]

    def rest(self) -> Printed:
        """Commands that are over and belong to no call; asked for when a call can hardly claim them any more."""
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
        """A command that still runs is drawn on its own from now on."""
        self._theirs.pop(id, None)
        if id in self._ours and self._ours[id].exit is not None:
            del self._ours[id]

    def _listen(self, view: ToolView, meta: dict[str, Any]) -> None:
        """Output of a command that the agent runs itself and tells of in `_meta`."""
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
            return [Text(marked(f"wrote {inline(step.path)}"), "dim")]  # a call shows how it changed
        return [Text(marked(f"wrote {inline(step.path)}"), "green"), Padding(_diff(step), (0, 0, 0, 2), expand=False)]

    def _terminal(self, step: TerminalServed) -> Printed:
        terminal = self._ours.setdefault(step.terminal_id, TerminalView(step.command))
        terminal.add(step.output)
        terminal.exit = step.exit
        if step.exit is not None and step.terminal_id in self._shown:  # it was shown for good, and ended as expected
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
