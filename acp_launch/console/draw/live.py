"""
`--output text` on a terminal, and an interactive session: Markdown as it grows, thoughts, tool calls, plans, usage.

What is finished is printed once and scrolls away; what is not is drawn again below it. An update only adds to what
is known; all drawing is done when a frame is due, at most twelve times a second, and a frame costs no more than a
screen. So a long answer costs what it adds, however many updates it comes in.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from acp_launch.console.draw import thoughts
from acp_launch.console.draw.contents import said
from acp_launch.console.draw.halves import Halves
from acp_launch.console.draw.markdown import Block, Talk
from acp_launch.console.draw.outside import cut, one_line, prose
from acp_launch.console.draw.region import Canvas, Pace, Region
from acp_launch.console.draw.tools import Work
from acp_launch.console.stderr import DIM, QUOTED, RED, YELLOW, headed, say
from acp_launch.console.stream.text import OUTSIDE, SAME_MESSAGE, Notices
from acp_launch.errors import LaunchError
from acp_launch.mark import marked
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Updated
from acp_launch.session.observer import Permission, SessionReady, TurnEnd
from acp_launch.session.options import Options
from acp_launch.session.service import FileServed, TerminalServed
from acp_launch.session.state import KINDS as CALLS
from acp_launch.session.state import OPTION_KINDS as KINDS
from acp_launch.session.state import Compaction, SessionState, Step

# The agent's plan as a checklist: where it stands is in sight, however long it is.


BOXES = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
STEP_STYLES = {"completed": "dim", "in_progress": "bold"}
DRAWN = 10  # entries
LONG = 300  # characters of one


class Checklist:
    def __init__(self, steps: Sequence[Step], *, drawn: int = DRAWN) -> None:
        self._steps, self._drawn = steps, drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = self._first()
        if first:
            yield Text(f"… {first} more", "dim")
        for step in self._steps[first : first + self._drawn]:
            yield Text(
                f"{BOXES.get(step.status, '[?]')} {one_line(cut(step.content, LONG))}", STEP_STYLES.get(step.status, "")
            )
        if left := max(0, len(self._steps) - first - self._drawn):
            yield Text(f"… {left} more", "dim")

    def _first(self) -> int:
        """The entry to begin with: the one before what is done now, no further than the end needs."""
        now = next((at for at, step in enumerate(self._steps) if step.status != "completed"), len(self._steps))
        return max(0, min(now - 1, len(self._steps) - self._drawn))


# What an agent tells about its session besides the answer, as lines: what changed, and what a person should know.


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


STYLES = {DIM: "dim", QUOTED: "dim", RED: "red", YELLOW: "yellow"}
MESSAGE, THOUGHT, PROMPT = "agent_message_chunk", "agent_thought_chunk", "user_message_chunk"
ASIDE = "aside"  # a message that no turn was running for

Say = Callable[[str, str], None]


class Live(Notices):
    def __init__(
        self,
        canvas: Canvas | None = None,
        *,
        history: bool = False,
        thoughts: bool = False,
        say: Say | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Draws on `canvas`, by default the bare terminal on stdout, beside which notices go to stderr.

        With `history` the updates of a replay are shown, dimmed; with `thoughts` those are shown whole. `say` takes
        each notice and its style instead of the canvas.
        """
        self._canvas = canvas or Region()
        self._say = say or (None if canvas else _on_stderr)
        self._history = history
        self._halves = Halves()
        self._voices = {
            MESSAGE: Talk(),
            THOUGHT: _thinking(thoughts, clock),
            PROMPT: Talk(_prompt),
            ASIDE: Talk(_aside),
        }
        self._speaking = ""  # whose words came last
        self._message_id = ""
        self._work = Work(clock)
        self._news = News(titles=history)
        self._replaying = False
        self._ready: list[RenderableType] = []  # to be printed with the next frame
        self._aside: list[RenderableType] = []  # with the end of the message
        self._pace = Pace(self._frame)

    def ready(self, session: SessionReady) -> None:
        self._flush()
        self._replaying = False
        self._news.opened(acp.decoded(session.result))
        super().ready(session)
        self._pace.wake()  # what was being drawn of a history has been printed

    def update(self, update: Updated) -> None:
        kind = update.kind
        if update.replay and not self._history:
            self._learn(update)
            return
        if update.replay is not self._replaying:
            self._flush()
            self._replaying = update.replay
        if kind in self._voices:
            self._hear(update)
        elif kind in CALLS:
            self._flush_voices()
            self._print(self._work.call(_body(update), replay=update.replay))
        elif kind in KINDS:
            self._told(kind, self._news.apply(kind, _body(update)))
        self._pace.wake()

    def _learn(self, update: Updated) -> None:
        """From a history that is not shown: what holds now."""
        if update.kind in KINDS:
            self._news.apply(update.kind, _body(update))

    def _hear(self, update: Updated) -> None:
        if update.kind == PROMPT and not update.replay:
            return  # it was typed here
        voice = ASIDE if update.outside and update.kind == MESSAGE else update.kind
        text, message_id = acp.read_chunk(update.update)
        if voice != self._speaking or (message_id and message_id != self._message_id):
            self._flush_voices()
            self._print(self._work.rest())
            if voice == ASIDE:
                self._print([Text(marked(OUTSIDE), "dim")])
        self._speaking, self._message_id = voice, message_id or self._message_id
        self._voices[voice].add(self._halves.whole(text) if text else _apart(said(_content(update)), update.kind))

    def _told(self, kind: str, lines: Sequence[RenderableType]) -> None:
        """What does not end a message waits for its end: nobody's sentence is broken for the name of a session."""
        if kind in SAME_MESSAGE and self._speaking:
            self._aside += lines
        else:
            self._tell(lines)

    def _tell(self, lines: Sequence[RenderableType]) -> None:
        if lines:
            self._flush_voices()
            self._print(lines)

    def permission(self, permission: Permission) -> None:
        self._work.asked(permission.tool_call)
        super().permission(permission)

    def unasked(self, call: dict[str, Any], by: str) -> None:
        self._tell(self._work.unasked(call, by))
        self._pace.wake()

    def served(self, step: FileServed | TerminalServed) -> None:
        self._tell(self._work.served(step))
        self._pace.wake()

    def cancelled(self, calls: Sequence[dict[str, Any]], grace: float) -> None:
        super().cancelled((), grace)
        self._flush()
        self._print(self._work.cancel(calls))
        self._pace.wake()

    def pause(self) -> None:
        """Give the terminal to somebody else, a question for instance; the next update takes it back."""
        self._settle()
        self._pace.rest()
        self._canvas.close()

    def ended(self, turn: TurnEnd) -> None:
        self._close()
        super().ended(turn)
        if line := self._news.usage(turn.usage):
            self._canvas.print(Text(line, "dim"))

    def failed(self, error: LaunchError) -> None:
        self._close()

    def tell(self, text: str, style: str) -> None:
        """Beside the answer: on stderr, which may be the same screen, or above what is drawn."""
        if self._speaking == ASIDE:
            self._flush_voices()
        self._settle()
        if self._say is None:
            self._canvas.print(Text(headed(text, style), STYLES.get(style, "")))
            self._pace.wake()
            return
        was_drawn = self._canvas.erase()
        self._say(text, style)
        if was_drawn:  # the next update may be far: a server dies in the middle of a long call
            self._canvas.show(self._picture())

    def _frame(self) -> None:
        self._settle()
        self._canvas.show(self._picture())

    def _picture(self) -> Group:
        """All that is not finished; another one each time, since a canvas need not draw the same one twice."""
        return Group(*self._voices.values(), self._work, self._news)

    def _settle(self) -> None:
        """Print what is finished."""
        for voice in self._voices.values():
            self._print(voice.take())
        if self._ready:
            ready, self._ready = self._ready, []
            self._canvas.print(Group(*ready))

    def _flush_voices(self) -> None:
        """Whoever spoke has done so; whatever comes now comes below."""
        if self._speaking:
            self._print(self._voices[self._speaking].rest())
        self._speaking = self._message_id = ""
        aside, self._aside = self._aside, []
        self._print(aside)

    def _flush(self) -> None:
        self._flush_voices()
        self._print(self._work.rest())

    def _print(self, lines: Iterable[RenderableType]) -> None:
        self._ready += map(Dimmed, lines) if self._replaying else lines

    def _close(self) -> None:
        """Print what was still being drawn, and give the terminal back."""
        self._flush_voices()
        self._print(self._work.left())
        self._print(self._work.rest())
        self._print(self._news.plan())
        self.pause()


class Dimmed:
    """Something that was before."""

    def __init__(self, what: RenderableType) -> None:
        self._what = what

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from Segment.apply_style(console.render(self._what, options), post_style=Style(dim=True))


def _aside(text: str, coloured: bool) -> "Dimmed":
    return Dimmed(Block(text, coloured=coloured))


def _apart(text: str, kind: str) -> str:
    """What is no text, in a line of its own where somebody's words stand before it."""
    return f"\n{text}" if kind == PROMPT and text else text


def _thinking(whole: bool, clock: Callable[[], float]) -> Talk | thoughts.Folded:
    return thoughts.whole() if whole else thoughts.Folded(clock)


def _prompt(text: str, coloured: bool) -> Text:
    return Text("\n".join(f"> {line}" for line in prose(text).strip().split("\n")))


def _on_stderr(text: str, style: str) -> None:
    say(text, style=style)


def _body(update: Updated) -> dict[str, Any]:
    return acp.mapping(acp.decoded(update.update))


def _content(update: Updated) -> dict[str, Any]:
    return acp.mapping(_body(update).get("content"))
