"""What an agent tells about its session besides the answer, as lines: what changed, and what a person should know."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from acp_launch.console.draw.outside import one_line, prose
from acp_launch.console.draw.planview import Checklist
from acp_launch.session.options.option import Options
from acp_launch.session.options.state import KINDS, SessionState
from acp_launch.session.options.told import Compaction, Step

__all__ = ["KINDS", "News"]
SEVERITIES = {"info": "dim", "warning": "yellow", "error": "red"}
DESCRIBED = 5  # lines of a notice's description
PRINTED = 50  # steps of a plan
COMPACTED = {"completed": ("✓ conversation compacted", "dim"), "cancelled": ("– compaction cancelled", "yellow")}


class News:
    def __init__(self, *, titles: bool = False) -> None:
        """With `titles` a new title of the session is worth a line: where somebody stays in it."""
        self._titles = titles
        self._state = SessionState()
        self._plan: tuple[Step, ...] = ()  # as it was printed last

    def opened(self, result: object) -> None:
        """The answer that opened the session: what is told there is no change, and a plan of before is done with."""
        self._state.plan, self._plan = (), ()
        self._state.opened(result)

    def apply(self, kind: str, body: dict[str, Any]) -> list[Text]:
        """The lines that an update of `KINDS` is worth."""
        state = self._state
        options, title, compactions = state.options, state.title, dict(state.compactions)
        state.apply(kind, body)
        lines = [*_set(options, state.options), *_compacted(compactions, state.compactions)]
        if self._titles and state.title and state.title != title:
            lines.append(Text(f"session title: {one_line(state.title)}", "dim"))
        if kind == "notice":
            lines += _notice(state)
        return lines

    def plan(self) -> list[Checklist]:
        """The plan, if it is another one than was printed last."""
        if self._state.plan == self._plan:
            return []
        self._plan = self._state.plan
        return [Checklist(self._plan, drawn=PRINTED)] if self._plan else []

    def usage(self, result: dict[str, Any] | None) -> str:
        """One line about tokens and cost, as far as the agent tells; `result` is the usage of the turn."""
        usage = self._state.usage
        parts = []
        if usage.used is not None and usage.size is not None:
            parts.append(f"context {usage.used:,} of {usage.size:,} tokens")
        if usage.cost is not None:
            parts.append(f"cost {one_line(str(usage.cost))}")
        for key, value in (result or {}).items():
            if key.endswith("Tokens") and isinstance(value, int):
                parts.append(f"{one_line(key[:-6])} {value:,}")
        return " · ".join(parts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What is under way: a compaction, the plan as far as it is not printed."""
        if any(compaction.status == "in_progress" for compaction in self._state.compactions.values()):
            yield Text("… compacting the conversation", "cyan")
        if self._state.plan != self._plan:
            yield Checklist(self._state.plan)


def _set(before: Options, after: Options) -> Iterator[Text]:
    """Options that have another value than they had; one that is new has not changed."""
    known = {option.id: option.current for option in before}
    for option in after:
        if known.get(option.id, option.current) != option.current:
            yield Text(f"{one_line(option.name)}: {one_line(option.shown)}", "dim")


def _compacted(before: dict[str, Compaction], after: dict[str, Compaction]) -> Iterator[Text]:
    for id, compaction in after.items():
        was = before[id].status if id in before else "in_progress"
        if compaction.status == was:
            continue
        if compaction.status == "failed":
            yield Text(f"✗ compaction failed: {one_line(compaction.error) or 'the agent gives no reason'}", "red")
        elif compaction.status in COMPACTED:
            text, style = COMPACTED[compaction.status]
            summary = one_line(compaction.summary)
            yield Text(f"{text} · {summary}" if summary else text, style, no_wrap=True, overflow="ellipsis")


def _notice(state: SessionState) -> Iterator[Text]:
    """The last one; kept only if it says something."""
    if not state.notices:
        return
    notice = state.notices[-1]
    style = SEVERITIES.get(notice.severity, "yellow")
    yield Text(f"{one_line(notice.severity)}: {one_line(notice.title)}", style)
    for line in prose(notice.description).splitlines()[:DESCRIBED]:
        yield Text(f"  {line}", "dim")
