"""
`--output text` on a terminal: Markdown as it grows, thoughts dimmed, tool calls, plans, usage (rich).

What is finished is printed once and scrolls away; only the unfinished end of a message and the tool calls that run
are drawn again, at most twelve times a second, so nothing flickers and a long answer costs what it adds.
"""

from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

from acp_launch.console.halves import Halves
from acp_launch.console.markdown import finished
from acp_launch.console.notices import Notices
from acp_launch.console.region import Region
from acp_launch.console.stderr import harmless, say
from acp_launch.errors import LaunchError
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Updated
from acp_launch.session.observer import TurnEnd
from acp_launch.session.toolcall import KINDS, OVER, ToolCalls, title

MARKS = {"completed": "✓", "failed": "✗", "cancelled": "–", "in_progress": "…", "pending": "…"}
BOXES = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
STYLES = {"completed": "green", "failed": "red", "cancelled": "yellow"}


class Block:
    """Markdown without the blank line that rich puts before a list or a heading."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(Markdown(self._text), options, pad=False)
        while lines and not "".join(segment.text for segment in lines[0]).strip():
            lines.pop(0)
        for line in lines:
            yield from line
            yield Segment.line()


class Live(Notices):
    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._region = Region(self._console)
        self._halves = Halves()
        self._text = ""
        self._begun = False  # whether a part of this message was printed already
        self._thought = ""
        self._plan: list[Text] = []
        self._calls = ToolCalls()
        self._running: dict[str, dict[str, Any]] = {}
        self._usage: dict[str, Any] = {}

    def update(self, update: Updated) -> None:
        if update.replay:
            return
        if update.kind == "agent_message_chunk":
            self._say(self._halves.whole(acp.read_chunk(update.update)[0]))
        elif update.kind == "agent_thought_chunk":
            self._think(self._halves.whole(acp.read_chunk(update.update)[0]))
        else:
            self._act(update.kind, acp.mapping(acp.decoded(update.update)))
        self._redraw()

    def _act(self, kind: str, body: dict[str, Any]) -> None:
        """What the agent does besides talking."""
        if kind in KINDS:
            self._tool(acp.text(body.get("toolCallId")), self._calls.merge(body))
        elif kind == "plan":
            self._plan = [_entry(entry) for entry in map(acp.mapping, acp.sequence(body.get("entries")))]
        elif kind == "usage_update":
            self._usage = body
        elif kind == "notice":
            self._print(Text(f"{acp.text(body.get('severity'))}: {harmless(acp.text(body.get('title')))}", "yellow"))

    def cancelled(self, calls: Sequence[dict[str, Any]]) -> None:
        super().cancelled(())
        self._flush()
        for call in calls:
            self._running.pop(acp.text(call.get("toolCallId")), None)
            self._print(_line(call, "cancelled"))

    def pause(self) -> None:
        """Give the terminal to somebody else, a question for instance; the next update takes it back."""
        self._region.close()

    def ended(self, turn: TurnEnd) -> None:
        self._close()
        super().ended(turn)
        if line := _usage(self._usage, turn.usage):
            self._console.print(Text(line, "dim"))

    def failed(self, error: LaunchError) -> None:
        self._close()

    def _say(self, text: str) -> None:
        self._flush_thought()
        done, self._text = finished(self._text + harmless(text))
        if done:
            self._print_message(done)

    def _think(self, text: str) -> None:
        self._flush_text()
        self._thought += harmless(text)

    def _tool(self, id: str, call: dict[str, Any]) -> None:
        self._flush()
        status = acp.text(call.get("status")) or "pending"
        if status in OVER:
            self._running.pop(id, None)
            self._print(_line(call, status))
        else:
            self._running[id] = call

    def _flush(self) -> None:
        self._flush_thought()
        self._flush_text()

    def _flush_thought(self) -> None:
        if self._thought:
            self._print(Text(self._thought.strip(), "dim italic"))
            self._thought = ""

    def _flush_text(self) -> None:
        if self._text.strip():
            self._print_message(self._text)
        self._text, self._begun = "", False

    def _print_message(self, text: str) -> None:
        if self._begun:
            self._print(Text())
        self._print(Block(text))
        self._begun = True

    def _close(self) -> None:
        """Print what was still being drawn, and give the terminal back."""
        self._flush()
        for line in self._plan:
            self._print(line)
        self._region.close()

    def _print(self, what: Text | Block) -> None:
        self._region.print(what)

    def tell(self, text: str, style: str) -> None:
        """On stderr, which may be the same screen."""
        was_drawn = self._region.erase()
        say(text, style=style)
        if was_drawn:  # the next update may be far: a server dies in the middle of a long call
            self._redraw()

    def _redraw(self) -> None:
        calls = [_line(call, acp.text(call.get("status")) or "pending") for call in self._running.values()]
        thought = [Text(self._thought, "dim italic")] if self._thought else []
        tail = [Block(self._text)] if self._text else []
        self._region.show(Group(*thought, *tail, *calls, *self._plan))


def _line(call: dict[str, Any], status: str) -> Text:
    text = f"{MARKS.get(status, '?')} {harmless(title(call), keep='')}"
    return Text.assemble(
        (text, STYLES.get(status, "cyan")), (f"  {acp.text(call.get('kind'))}", "dim"), (f" {status}", "dim")
    )


def _entry(entry: dict[str, Any]) -> Text:
    status = acp.text(entry.get("status"))
    text = harmless(acp.text(entry.get("content")), keep="")
    return Text(f"{BOXES.get(status, '[?]')} {text}", "dim" if status == "completed" else "")


def _usage(update: dict[str, Any], result: dict[str, Any] | None) -> str:
    """One line about tokens and cost, as far as the agent tells."""
    parts = []
    if isinstance(update.get("used"), int) and isinstance(update.get("size"), int):
        parts.append(f"context {update['used']:,} of {update['size']:,} tokens")
    cost = acp.mapping(update.get("cost"))
    if isinstance(cost.get("amount"), int | float):
        parts.append(f"cost {cost['amount']:.4g} {harmless(acp.text(cost.get('currency')), keep='')}")
    for key, value in (result or {}).items():
        if key.endswith("Tokens") and isinstance(value, int):
            parts.append(f"{harmless(key[:-6], keep='')} {value:,}")
    return " · ".join(parts)
