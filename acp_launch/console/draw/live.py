"""
`--output text` on a terminal, and an interactive session: Markdown as it grows, thoughts, tool calls, plans, usage.

What is finished is printed once and scrolls away; what is not is drawn again below it. An update only adds to what
is known; all drawing is done when a frame is due, at most twelve times a second, and a frame costs no more than a
screen. So a long answer costs what it adds, however many updates it comes in.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from acp_launch.console.draw import thoughts
from acp_launch.console.draw.contents import said
from acp_launch.console.draw.halves import Halves
from acp_launch.console.draw.markdown import Block, Talk
from acp_launch.console.draw.news import KINDS as TOLD
from acp_launch.console.draw.news import News
from acp_launch.console.draw.outside import prose
from acp_launch.console.draw.region import Canvas, Pace, Region
from acp_launch.console.draw.work import Work
from acp_launch.console.stderr import DIM, QUOTED, RED, YELLOW, headed, say
from acp_launch.console.stream.text import OUTSIDE, SAME_MESSAGE, Notices
from acp_launch.errors import LaunchError
from acp_launch.mark import marked
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Updated
from acp_launch.session.observer import Permission, SessionReady, TurnEnd
from acp_launch.session.service import FileServed, TerminalServed
from acp_launch.session.toolcall import KINDS as CALLS

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
        elif kind in TOLD:
            self._told(kind, self._news.apply(kind, _body(update)))
        self._pace.wake()

    def _learn(self, update: Updated) -> None:
        """From a history that is not shown: what holds now."""
        if update.kind in TOLD:
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
