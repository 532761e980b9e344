"""
The output of a session on a terminal (`--output text`, and interactive): messages, thoughts, tool calls, plans, usage.

Finished parts are printed once and scroll away; unfinished parts are redrawn below them. An update only adds to the
state. All drawing happens when a frame is due, at most twelve times a second, and a frame costs no more than a screen.
So the cost of a long answer depends on its length, not on the number of updates.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.styled import Styled
from rich.text import Text

from acp_launch.console import stderr
from acp_launch.console.draw.live_region import Canvas, Pace, Region
from acp_launch.console.draw.markdown import Block, MessageView
from acp_launch.console.draw.sanitize import content_text, cut, one_line, prose
from acp_launch.console.draw.theme import THOUGHT as THOUGHT_SIGN
from acp_launch.console.draw.theme import (
    Deed,
    Gap,
    Kind,
    Marked,
    Part,
    Parts,
    ProjectFiles,
    UserWords,
    indent,
    is_apart,
)
from acp_launch.console.draw.tools import ToolActivity
from acp_launch.console.stderr import DIM, QUOTE, QUOTED, RED, TYPED, YELLOW
from acp_launch.console.stream.outlet import Halves
from acp_launch.console.stream.text import OUTSIDE, SAME_MESSAGE, Chunk, Notices
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Updated
from acp_launch.session.events import (
    AnyEvent,
    CancelledEvent,
    ErrorEvent,
    FileEvent,
    PermissionEvent,
    ResultEvent,
    SessionEvent,
    TerminalEvent,
    UnaskedEvent,
)
from acp_launch.session.options import Options
from acp_launch.session.state import KINDS as CALLS
from acp_launch.session.state import OPTION_KINDS as KINDS
from acp_launch.session.state import Compaction, Cost, Notice, PlanStep, SessionState
from acp_launch.waits import seconds

# The agent's plan as a checklist that always shows the current step.


BOXES = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
STEP_STYLES = {"completed": "dim", "in_progress": "bold"}
DRAWN = 10  # entries
MAX_STEP_CHARS = 300


def checklist(steps: Sequence[PlanStep], *, drawn: int = DRAWN) -> RenderableType:
    """Return at most `drawn` steps: from the one before the current step on, but not so late that rows stay empty."""
    now = next((at for at, step in enumerate(steps) if step.status != "completed"), len(steps))
    first = max(0, min(now - 1, len(steps) - drawn))
    rows = [
        Text(
            f"{BOXES.get(step.status, '[?]')} {one_line(cut(step.content, MAX_STEP_CHARS))}",
            STEP_STYLES.get(step.status, ""),
        )
        for step in steps[first : first + drawn]
    ]
    above, left = (Text(f"… {number} more", "dim") for number in (first, len(steps) - first - drawn))
    return indent(Group(*([above] if first else []), *rows, *([left] if len(steps) > first + drawn else [])))


# Changes of the session besides the answer, as lines: options, title, compactions, notices, plan and usage.


SEVERITIES = {"info": "dim", "warning": "yellow", "error": "red"}
DESCRIBED = 5  # lines of a notice's description
PRINTED = 50  # steps of a plan
COMPACTED = {"completed": ("✓ conversation compacted", "dim"), "cancelled": ("– compaction cancelled", "yellow")}


class SessionNews:
    """The state of a session, and lines about its changes."""

    def __init__(self, *, titles: bool) -> None:
        """With `titles`, a new title of the session is reported: for interactive sessions."""
        self._titles = titles
        self._state = SessionState()
        self._plan: tuple[PlanStep, ...] = ()  # as printed last
        self.prompt = ""  # the last one

    def opened(self, result: object) -> None:
        """Take the answer that opened the session. Its values are not changes, and an earlier plan is dropped."""
        self._state.plan, self._plan = (), ()
        self._state.opened(result)

    def apply(self, kind: str, body: dict[str, Any]) -> list[RenderableType]:
        """Apply an update of `KINDS` and return the lines to print."""
        state = self._state
        options, title, compaction = state.options, state.title, state.compaction
        state.apply(kind, body)
        lines = [*_set(options, state.options), *_compaction_lines(compaction, state.compaction)]
        if self._titles and state.title and state.title != title and not self._is_asked(state.title):
            lines.append(Text(f"session title: {one_line(state.title)}", "dim"))
        if kind == "notice" and state.notice is not None:
            lines += _notice(state.notice)
        return [indent(line) for line in lines]

    def _is_asked(self, title: str) -> bool:
        """Return whether the title is the beginning of the prompt, as agents make it; that stands right above."""
        begun = " ".join(title.removesuffix("…").removesuffix("...").split())
        return " ".join(self.prompt[: 2 * len(title) + 80].split()).startswith(begun)

    def plan(self) -> list[RenderableType]:
        """Return the plan if it differs from the one printed last."""
        if self._state.plan == self._plan:
            return []
        self._plan = self._state.plan
        return [checklist(self._plan, drawn=PRINTED)] if self._plan else []

    def usage(self, result: Mapping[str, Any] | None, took: float) -> str:
        """Return one line about tokens, cost and time; `result` is the usage of the turn, which took so many seconds.

        An agent that does not report how full its context is may report the tokens of the turn.
        """
        usage = self._state.usage
        parts = []
        if usage.used is not None and usage.size is not None:
            parts.append(f"{usage.used:,} of {usage.size:,} tokens")
        else:
            parts += token_counts(result or {})
        if usage.cost is not None:
            parts.append(one_line(cost_text(usage.cost)))
        if took >= 1:
            parts.append(seconds(round(took)))
        return " · ".join(parts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw a running compaction, and the plan unless it is already printed."""
        if self._state.compaction is not None and self._state.compaction.status == "in_progress":
            yield indent(Text("… compacting the conversation", "cyan"))
        if self._state.plan != self._plan:
            yield checklist(self._state.plan)


def token_counts(usage: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tokens of a turn by kind, in words."""
    for key, value in usage.items():
        if key.endswith("Tokens") and isinstance(value, int):
            yield f"{one_line(key[:-6])} {value:,}"


def cost_text(cost: Cost) -> str:
    """Write a cost; dollars as people do."""
    text = str(cost)
    return f"${text.removesuffix(' USD')}" if cost.currency == "USD" and cost.amount >= 0 else text


def _set(before: Options, after: Options) -> Iterator[Text]:
    """Yield options whose value changed; a new option has not changed."""
    known = {option.id: option.current for option in before}
    for option in after:
        if known.get(option.id, option.current) != option.current:
            yield Text(f"{one_line(option.name)}: {one_line(option.shown)}", "dim")


def _compaction_lines(before: Compaction | None, after: Compaction | None) -> Iterator[Text]:
    was = before.status if before and after and before.id == after.id else "in_progress"
    if after is None or after.status == was:
        return
    if after.status == "failed":
        yield Text(f"✗ compaction failed: {one_line(after.error) or 'the agent gives no reason'}", "red")
    elif after.status in COMPACTED:
        text, style = COMPACTED[after.status]
        summary = one_line(after.summary)
        yield Text(f"{text} · {summary}" if summary else text, style, no_wrap=True, overflow="ellipsis")


def _notice(notice: Notice) -> Iterator[Text]:
    style = SEVERITIES.get(notice.severity, "yellow")
    yield Text(f"{one_line(notice.severity)}: {one_line(notice.title)}", style)
    for line in prose(notice.description).splitlines()[:DESCRIBED]:
        yield Text(f"  {line}", "dim")


STYLES = {DIM: "dim", QUOTED: "dim", RED: "red", YELLOW: "yellow"}
MESSAGE, THOUGHT, PROMPT = "agent_message_chunk", "agent_thought_chunk", "user_message_chunk"
ASIDE = "aside"  # a message outside a turn
PARTS: dict[str, Kind] = {MESSAGE: "words", THOUGHT: "work", PROMPT: "prompt", ASIDE: "aside"}
MAX_PROMPT_CHARS = 100_000  # of the history

Say = Callable[[str, str], None]


class Live(Notices):
    """The output of a session on a terminal."""

    _is_watched = True

    def __init__(
        self,
        canvas: Canvas | None = None,
        *,
        history: bool = False,
        say: Say | None = None,
        clock: Callable[[], float] = time.monotonic,
        roots: Sequence[Path] = (),
        has_links: bool = True,
    ) -> None:
        """Draw on `canvas`, by default the bare terminal on stdout, with notices on stderr.

        With `history` the updates of a replay are shown, dimmed. `say` takes each notice and its style instead of the
        canvas. `roots` are the directories of the session.
        """
        self._canvas = canvas or Region()
        self._say = say or (None if canvas else lambda text, style: stderr.say(text, style=style))
        self._history = history
        self._halves = Halves()
        self._voices: dict[str, MessageView | FoldedThought | PromptView] = {
            MESSAGE: MessageView(),
            THOUGHT: FoldedThought(clock),
            PROMPT: PromptView(),
            ASIDE: MessageView(lambda text, coloured: Styled(Block(text, coloured), "dim")),
        }
        self._speaking = ""  # the kind of the last message chunk
        self._message_id = ""
        self._clock = clock
        self._began = clock()  # the turn
        self._work = ToolActivity(clock, ProjectFiles(roots, has_links=has_links))
        self._news = SessionNews(titles=history)
        self._replaying = False
        self._above: Kind = ""  # what was printed last
        self._ready: list[Part] = []  # to be printed with the next frame
        self._aside: list[RenderableType] = []  # printed at the end of the message
        self._pace = Pace(self._frame)

    def show(self, event: AnyEvent) -> None:
        match event:
            case SessionEvent():
                self._begin(event)
            case PermissionEvent():
                self._work.asked(event.tool_call)
                super().show(event)
            case UnaskedEvent():
                self._tell(self._work.note_unasked(event.tool_call, event.by))
                self._pace.wake()
            case FileEvent() | TerminalEvent():
                self._tell(self._work.served(event))
                self._pace.wake()
            case CancelledEvent():
                super().show(replace(event, tool_calls=()))
                self._flush()
                self._print(self._work.cancel(event.tool_calls))
                self._pace.wake()
            case ResultEvent():
                self._end(event)
            case ErrorEvent():
                self._close()
            case _:
                super().show(event)

    def _begin(self, session: SessionEvent) -> None:
        self._flush()
        self._replaying = False
        self._news.opened(acp.decoded(session.result))
        super().show(session)
        self._began = self._clock()
        self._pace.wake()  # the drawn part of a history is printed now

    def _end(self, turn: ResultEvent) -> None:
        self._close()
        cut = "interrupted" if self._cancelled and self._history else ""
        super().show(turn)
        if line := " · ".join(filter(None, (cut, self._news.usage(turn.usage, self._clock() - self._began)))):
            self._print([indent(Text(line, "dim"))], "end")
            self._settle()

    def on_update(self, update: Updated, chunk: Chunk) -> None:
        kind = update.kind
        news = self._news.apply(kind, _body(update)) if kind in KINDS else []
        if update.replay and not self._history:
            return  # the state that it leaves matters, and is not shown
        if update.replay is not self._replaying:
            self._flush()
            self._replaying = update.replay
        if kind in self._voices:
            self._hear(update, chunk)
        elif kind in CALLS:
            self._flush_voices()
            self._print(self._work.call(_body(update), replay=update.replay))
        elif kind in SAME_MESSAGE and self._speaking:
            self._aside += news  # printed at the end of the message, so that no sentence is interrupted
        else:
            self._tell(news)
        self._pace.wake()

    def _hear(self, update: Updated, chunk: Chunk) -> None:
        if update.kind == PROMPT and not update.replay:
            return  # the user typed it here
        voice = ASIDE if update.outside and update.kind == MESSAGE else update.kind
        text, message_id = chunk
        if voice != self._speaking or (message_id and message_id != self._message_id):
            self._flush_voices()
            self._print(self._work.rest())
            if voice == ASIDE:
                self._print([Marked(OUTSIDE, "dim")], "aside")
        self._speaking, self._message_id = voice, message_id or self._message_id
        if text:
            text = self._halves.whole(text)
        elif (text := content_text(acp.mapping(_body(update).get("content")))) and update.kind == PROMPT:
            text = f"\n{text}"  # on its own line if other content of the prompt precedes it
        self._voices[voice].add(text)

    def _tell(self, lines: Sequence[RenderableType]) -> None:
        if lines:
            self._flush_voices()
            self._print(lines)

    def pause(self) -> None:
        """Leave the terminal to another user of it, such as a question; the next update takes it back."""
        self._settle()
        self._pace.rest()
        self._canvas.close()

    def tell(self, text: str, style: str) -> None:
        """Print apart from the answer: on stderr, which may be the same screen, or above the drawn rows."""
        if self._speaking == ASIDE:
            self._flush_voices()
        self._settle()
        if style == TYPED:
            self._began, self._news.prompt = self._clock(), text
        if self._say is None:
            self._print([_line(text, style)], "prompt" if style == TYPED else "work")
            self._settle()
            self._pace.wake()
            return
        was_drawn = self._canvas.erase()
        self._say(text, style)
        if was_drawn:  # the next update may come late, for instance in a long tool call
            self._canvas.show(self._picture())

    def _frame(self) -> None:
        self._settle()
        self._canvas.show(self._picture())

    def _picture(self) -> Parts:
        """Return all unfinished parts; a new object each time, since a canvas may skip an object it has drawn."""
        voices = [(PARTS[kind], voice) for kind, voice in self._voices.items()]
        return Parts(self._above, [*voices, ("work", self._work), ("work", self._news)])

    def _settle(self) -> None:
        for kind, voice in self._voices.items():
            self._print(voice.take(), PARTS[kind])
        if self._ready:
            self._canvas.print(Group(*self._space_out()))

    def _space_out(self) -> Iterator[RenderableType]:
        ready, self._ready = self._ready, []
        for kind, part in ready:
            is_gap = isinstance(part, Gap)
            if self._above == kind if is_gap else is_apart(self._above, kind):
                yield Text()
            if not is_gap:
                self._above = kind
                yield part

    def _flush_voices(self) -> None:
        """End the current message; further output comes below it."""
        if self._speaking:
            self._print(self._voices[self._speaking].rest(), PARTS[self._speaking])
        self._speaking = self._message_id = ""
        aside, self._aside = self._aside, []
        self._print(aside)

    def _flush(self) -> None:
        self._flush_voices()
        self._print(self._work.rest())

    def _print(self, parts: Iterable[RenderableType], kind: Kind = "work") -> None:
        self._ready += [
            (kind, Styled(part, "dim") if self._replaying and not isinstance(part, Gap) else part) for part in parts
        ]

    def _close(self) -> None:
        self._flush_voices()
        self._print(self._work.left())
        self._print(self._work.rest())
        self._print(self._news.plan())
        self.pause()


class PromptView:
    """A prompt of the history, which comes in chunks."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        self._text = cut(self._text + text, MAX_PROMPT_CHARS)

    def take(self) -> list[RenderableType]:
        return []

    def rest(self) -> list[RenderableType]:
        """Return the prompt; the next text begins another one."""
        text, self._text = self._text.strip(), ""
        return [UserWords(text)] if text else []

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if text := self._text.strip():
            yield UserWords(text)


def _line(text: str, style: str) -> RenderableType:
    if style == TYPED:
        return UserWords(text)
    return Marked(text, STYLES.get(style, ""), is_ours=style not in (QUOTE, QUOTED))


def _body(update: Updated) -> dict[str, Any]:
    return acp.mapping(acp.decoded(update.update))


# Thoughts of the agent: the last lines while it thinks, then one line.


THINKING = "dim italic"
SHOWN = 3  # lines of a thought
FIRST_THOUGHT_CHARS = 200
MAX_THOUGHT_CHARS = 2_000  # that three lines of a wide terminal may hold


class FoldedThought:
    """A thought that is folded into one line when it ends."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._forget()

    def _forget(self) -> None:
        self._began: float | None = None
        self._first = self._last = ""

    def add(self, text: str) -> None:
        if self._began is None:
            self._began = self._clock()
        if len(self._first) < FIRST_THOUGHT_CHARS:
            self._first = (self._first + text[: 4 * FIRST_THOUGHT_CHARS]).lstrip()
        self._last = (self._last + text)[-MAX_THOUGHT_CHARS:]

    def take(self) -> list[RenderableType]:
        return []

    def rest(self) -> list[RenderableType]:
        """Return one line for the whole thought; the next text begins a new one."""
        took = self._clock() - self._began if self._began is not None else 0
        words = one_line(self._first)
        self._forget()
        if not words:
            return []
        verb = f"thought for {seconds(round(took))}" if took >= 1 else "thought"
        return [Deed(THOUGHT_SIGN, verb, after=[Text(f" · {words}", THINKING)], style=THINKING, is_one_row=True)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if last := prose(self._last).strip():
            rows = Text(last, THINKING).wrap(console, max(1, options.max_width - 2))[-SHOWN:]
            yield from map(indent, rows)
