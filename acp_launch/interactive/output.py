"""The output of an interactive session: it also records the transcript, the folded pieces and the activity."""

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from acp_launch.console.draw.live import Live
from acp_launch.console.draw.live_region import Canvas
from acp_launch.console.draw.sanitize import content_text, diff_texts, one_line
from acp_launch.console.draw.theme import UNFOLDED, below, indent, symbol
from acp_launch.console.draw.tools import ENDED, FOLDED, OUTPUT, ROUTINE, Diff, as_seen
from acp_launch.console.stderr import DIM, YELLOW
from acp_launch.console.stream.outlet import Outlet
from acp_launch.console.stream.text import NO_CHUNK, OPENED, Notices, Plain, describe_unasked, is_grave, opened_lines
from acp_launch.interactive.terminal import Activity, Phase, elapsed
from acp_launch.process.lifecycle import Change
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import WORDS, Updated
from acp_launch.session.events import (
    AnyEvent,
    FileEvent,
    NoteEvent,
    ServersEvent,
    TerminalEvent,
    UnaskedEvent,
    WaitingEvent,
)
from acp_launch.session.state import KINDS, OVER, ToolCalls, call_id, deed, server, title, tool
from acp_launch.waits import next_notice, seconds

# The transcript for `:export`, as Markdown: prompts, messages of the agent, tool calls.


MAX_CHARS = 32 * 1024 * 1024  # older text is dropped, and the transcript says so


def _besides(update: Updated) -> str:
    content = acp.mapping(acp.mapping(acp.decoded(update.update)).get("content"))
    about = acp.mapping(content.get("resource")) or content
    return f"\n\n*({acp.text(content.get('type'))}: {acp.text(about.get('uri'))})*\n\n"


class Transcript:
    """Records what was shown, which is redacted already."""

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self._size = 0
        self._is_cut = False
        self._speaker = ""

    def prompt(self, text: str) -> None:
        self._add("you", text)

    def update(self, update: Updated, text: str, call: dict[str, Any]) -> None:
        """Add an update, live or replayed; `text` is a chunk's, `call` the tool call that it changes."""
        if update.kind == "agent_message_chunk":
            self._add("agent, outside a turn" if update.outside else "agent", text)
        elif update.kind == "user_message_chunk" and update.replay:
            self._add("you", text or _besides(update))
        elif call.get("status") in OVER:
            self._add("", f"- {title(call)}: {call['status']}")

    def markdown(self, heading: str) -> str:
        cut = "*The beginning is missing, because the session was too long.*\n\n" if self._is_cut else ""
        return f"# {heading}\n\n{cut}{''.join(self._parts).strip()}\n"

    def _add(self, speaker: str, text: str) -> None:
        if speaker != self._speaker:
            self._speaker = speaker
            text = (f"\n\n## {speaker.capitalize()}\n\n" if speaker else "\n\n") + text
        elif not speaker:
            text = "\n" + text
        self._parts.append(text)
        self._size += len(text)
        while self._size > MAX_CHARS:
            self._size -= len(self._parts.popleft())
            self._is_cut = True


# What the drawing folds, whole: thoughts, results and output of tools, changes of files. For Ctrl-O.


FOLDABLE = 1024 * 1024  # characters of a turn; beyond that the oldest go
LONG_LINE_CHARS = 60  # may not fit into the width


class FoldedPiece:
    """A thought, the text of a tool or the output of a command; or the change of a file, instead of its `parts`."""

    def __init__(self, heading: str, parts: Sequence[str] = (), *, shown: int, change: Diff | None = None) -> None:
        """`shown` is how many lines of it the drawing shows."""
        self.heading, self.parts, self.change = heading, deque(parts), change
        self.size = len(heading) + sum(map(len, parts))
        self._shown = shown
        self._is_cut = False

    def add(self, part: str) -> None:
        self.parts.append(part)
        self.size += len(part)

    def cut(self) -> int:
        """Drop the oldest part; return how many characters that were."""
        self._is_cut = True
        gone = len(self.parts.popleft())
        self.size -= gone
        return gone

    @property
    def is_folded(self) -> bool:
        """Return whether the drawing may have left something out."""
        lines = "".join(self.parts).strip("\n").split("\n")
        return not self._shown or len(lines) > self._shown or any(len(line) > LONG_LINE_CHARS for line in lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.heading:
            yield indent(Text(f"{symbol(UNFOLDED, options)} {one_line(self.heading)}", "bold"))
        if self._is_cut:
            yield below(Text("… the beginning is not kept", "dim"))
        lines = "".join(self.parts).strip("\n").split("\n")
        yield below(self.change or Text("\n".join(map(as_seen, lines)), "dim"))


class Unfoldable:
    """Keeps the folded pieces of the current turn, or of the last one, in bounded memory."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin a turn: the pieces of the one before are forgotten."""
        self._pieces: dict[str, FoldedPiece] = {}  # the oldest first
        self._thoughts = 0  # the number of the current one
        self._size = 0

    def update(self, update: Updated, text: str, call: dict[str, Any]) -> None:
        """Keep the folded part of an update; `text` is a chunk's, `call` the tool call that it changes."""
        if update.kind == "agent_message_chunk":
            self._thoughts += 1
        elif update.kind == "agent_thought_chunk":
            self._extend(f"thought {self._thoughts}", "thought", text, shown=0)
        elif update.kind in KINDS:
            self._thoughts += 1
            self._call(acp.mapping(acp.decoded(update.update)), call)
        elif update.kind == "user_message_chunk" and update.replay:
            self.begin()

    def served(self, step: FileEvent | TerminalEvent) -> None:
        if isinstance(step, TerminalEvent):
            self._extend(f"terminal {step.terminal_id}", f"$ {step.command}", step.output, shown=ENDED)
        elif step.how == "write" and step.outcome == "done":
            self._keep(f"file {step.path}", _change("", step.path, step.old, step.new or ""))

    def take(self) -> list[FoldedPiece]:
        """Return the folded pieces. They are forgotten, because they are on the screen now."""
        pieces = [piece for piece in self._pieces.values() if piece.is_folded]
        self._pieces, self._size = {}, 0
        return pieces

    def _call(self, body: dict[str, Any], call: dict[str, Any]) -> None:
        heading, shown = title(call), 0 if call.get("kind") in ROUTINE else FOLDED
        for number, part in enumerate(map(acp.mapping, acp.sequence(body.get("content")))):
            key = f"call {call_id(body)} {number}"
            if part.get("type") == "diff":
                self._keep(key, _change(heading, *diff_texts(part)))
            elif text := content_text(acp.mapping(part.get("content"))):
                self._keep(key, FoldedPiece(heading, [text], shown=shown))
        meta = acp.mapping(body.get("_meta"))
        for output in (acp.mapping(meta.get(member)) for member in OUTPUT):
            key = f"terminal {acp.text(output.get('terminal_id'))}"
            self._extend(key, heading, acp.text(output.get("data")), shown=ENDED)

    def _extend(self, key: str, heading: str, text: str, *, shown: int) -> None:
        if not text:
            return
        if key not in self._pieces:
            self._keep(key, FoldedPiece(heading, shown=shown))
        self._pieces[key].add(text)
        self._size += len(text)
        self._drop_oldest()

    def _keep(self, key: str, piece: FoldedPiece) -> None:
        if before := self._pieces.pop(key, None):
            self._size -= before.size
        self._pieces[key] = piece
        self._size += piece.size
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while self._size > FOLDABLE:
            key, oldest = next(iter(self._pieces.items()))
            if len(self._pieces) > 1:
                self._size -= self._pieces.pop(key).size
            elif len(oldest.parts) > 1:
                self._size -= oldest.cut()
            else:
                return


def _change(heading: str, path: str, old: str | None, new: str) -> FoldedPiece:
    piece = FoldedPiece(heading, shown=0, change=Diff(path, old, new, shown=sys.maxsize))
    piece.size += len(old or "") + len(new)
    return piece


# What the agent does at the moment, in a few words, and for how long: the left of the status line.
#
# Running tool calls come from the drawing (`console.draw.tools`), and are named by their kind and their title. The
# rest follows from the last update. An update of the same kind as the last one costs nothing.


Running = Sequence[tuple[dict[str, Any], float]]  # unfinished calls, and when each began

DOING: Mapping[str, str] = {
    "read": "reading",
    "edit": "editing",
    "write": "writing",
    "create": "creating",
    "add": "adding",
    "delete": "deleting",
    "move": "moving",
    "rename": "renaming",
    "search": "searching",
    "run": "running",
    "think": "thinking:",
    "fetch": "fetching",
    "switch mode": "switching the mode:",
    "use": "using",
}
TITLE = 200  # characters of a title that are looked at


def describe_call(call: Mapping[str, Any]) -> str:
    """Describe a running call: `running npm test`, `waiting for github.search`."""
    call = dict(call)
    name = one_line(title(call)[:TITLE]).strip("` ")
    if host := server(call):
        short = tool(call).removeprefix(f"mcp__{host}__")
        return f"waiting for {one_line(f'{host}.{short or name}')}"
    verb, name = deed(call, name)
    return f"{DOING[verb]} {name.lstrip(' :`')}"


# The state between tool calls, by the kind of the last update; other kinds change nothing.
STATES = {
    "agent_message_chunk": "answering",
    "agent_thought_chunk": "thinking",
    "tool_call": "thinking",
    "tool_call_update": "thinking",
    "plan": "thinking",
}
PHASES: Mapping[Phase, str] = {"starting": "starting the agent", "working": "thinking", "cancelling": "cancelling"}
SILENCE_SECONDS = 30.0  # that are mentioned
NOTICE_SLACK_SECONDS = 2.0  # that the next word of a wait may be late
ACTIVITY_WAIT = "activity"  # of an agent in a turn, as it is named (`waits`)


class _Wait(Struct, frozen=True):
    what: str
    limit: float
    began: float
    until: float  # when it is over if nothing more is heard of it


class ActivityTracker:
    """Follows what the agent does."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` measures the seconds that are shown; it stands still while the user is asked."""
        self._clock = clock
        self._state = ""
        self._since = self._heard = clock()
        self._is_fresh = False  # something was heard since the clock was read
        self._kind = ""  # of the last update
        self.is_asked_elsewhere = False  # another terminal of the session is asked
        self._patience: float | None = None  # how long the agent may be silent
        self._wait: _Wait | None = None

    def begin(self, phase: Phase, *, is_open: bool = False) -> None:
        """Begin something else; `is_open` tells whether there is a session already."""
        self._state = "opening the session" if phase == "starting" and is_open else PHASES.get(phase, "")
        self._since = self._heard = self._clock()
        self._wait, self._is_fresh, self._kind = None, False, ""
        self.is_asked_elsewhere = self.is_asked_elsewhere and phase in PHASES

    def hear(self, kind: str) -> None:
        """Note an update of the agent. Called 100,000 times in a long turn, so the clock is read later, by `now`."""
        self._is_fresh = True
        if kind == self._kind:
            return
        self._kind = kind
        state = STATES.get(kind, self._state)
        if state != self._state and self._state in STATES.values():
            self._state, self._since = state, self._clock()

    def waits(self, what: str, waited: float, limit: float) -> None:
        """Note a word of a wait (`waits`)."""
        now = self._read()
        if what.startswith(ACTIVITY_WAIT):
            self._patience = limit
        else:
            self._wait = _Wait(
                one_line(what), limit, now - waited, now + next_notice(waited) - waited + NOTICE_SLACK_SECONDS
            )

    def _read(self) -> float:
        """Read the clock. Updates since the last time are taken for new ones."""
        now = self._clock()
        if self._is_fresh:
            self._is_fresh, self._heard, self._wait = False, now, None
        return now

    def now(self, running: Running) -> Activity | None:
        """Return the activity, None without one."""
        now = self._read()
        if self.is_asked_elsewhere:
            return Activity("asked on another terminal")
        if self._wait is not None and now < self._wait.until:
            limit = f"timeout {seconds(self._wait.limit)}"
            return Activity(f"still waiting for the {self._wait.what}", now - self._wait.began, limit)
        if not self._state:
            return None
        if running and self._state in STATES.values():
            call, began = running[-1]
            others = f" and {len(running) - 1} more" if running[1:] else ""
            return Activity(describe_call(call) + others, now - began)
        return Activity(self._state, now - self._since, self._silence(now))

    def _silence(self, now: float) -> str:
        """Tell how long the agent has been silent in a turn, once that is long."""
        if now - self._heard < SILENCE_SECONDS or self._state not in STATES.values():
            return ""
        limit = f", timeout {seconds(self._patience)}" if self._patience else ""
        return f"silent for {elapsed(now - self._heard)}{limit}"


THINKS = 20.0  # seconds; the words of a wait come after 3, 9, 27 s (`waits`)
SETTINGS = frozenset({"config_option_update", "current_mode_update"})


class SessionOutput(Notices):
    """Records a session in front of an output; its updates are redacted already."""

    calls: ToolCalls
    transcript: Transcript
    folded: Unfoldable
    tracker: ActivityTracker
    is_drawn = True  # False if written line by line below the prompt
    settings_told = 0  # how often the agent reported a change of its mode or options
    is_history_hidden = False  # a history that is on the screen already is not shown again
    changed: Callable[[], None] = staticmethod(lambda: None)  # called if the status line may have changed

    def update(self, update: Updated) -> None:
        if update.replay and self.is_history_hidden:
            return
        kind, chunk, call = update.kind, NO_CHUNK, dict[str, Any]()
        if kind in WORDS:
            chunk = acp.read_chunk(update.update)
        elif kind in KINDS:
            call = self.calls.merge(acp.mapping(acp.decoded(update.update)))
        elif kind in SETTINGS:
            self.settings_told += 1
        self.transcript.update(update, chunk[0], call)
        self.folded.update(update, chunk[0], call)
        self.tracker.hear(kind)
        self.on_update(update, chunk)

    def show(self, event: AnyEvent) -> None:
        match event:
            case NoteEvent():  # the text may begin with the name that the agent gives itself
                event = replace(event, text=f"note: {event.text}")
            case FileEvent() | TerminalEvent():
                self.folded.served(event)
            case ServersEvent(when="opened"):
                for text, style in opened_lines(event.servers, between=" · ", colon=":"):
                    self.tell(text.removeprefix(OPENED), style)
                return
        super().show(event)
        if isinstance(event, Change):
            self.changed()

    def activity(self) -> Activity | None:
        return self.tracker.now(())

    def unfold(self) -> bool:
        """Print what was folded in the current turn, or in the last one, in full. Return whether there was anything."""
        return False

    def tell(self, text: str, style: str) -> None:
        """Print a line. In a session our mark is enough to say that it is ours."""
        super().tell(text.removeprefix("acp-launch: "), style)


class DrawnSessionOutput(SessionOutput, Live):
    """Draws on a terminal."""

    def unfold(self) -> bool:
        pieces = self.folded.take()
        self._settle()
        for piece in pieces:
            self._canvas.print(piece)
        return bool(pieces)

    def activity(self) -> Activity | None:
        return self.tracker.now(self._work.running)

    def show(self, event: AnyEvent) -> None:
        """Show a wait in the status line; it need not stay on the screen."""
        if isinstance(event, WaitingEvent):
            self.tracker.waits(event.what, event.seconds, event.limit)
            self.changed()
        else:
            super().show(event)


class PlainSessionOutput(SessionOutput, Plain):
    """Writes lines, for a dumb terminal or a pipe."""

    is_drawn = False

    def show(self, event: AnyEvent) -> None:
        match event:
            case TerminalEvent(exit=str()):  # our word comes first: without a prefix the command would stand there
                self._line(f"the command ended: {event.command}: {event.exit}", DIM)
            case WaitingEvent() if event.what.startswith(ACTIVITY_WAIT) and event.seconds < THINKS:
                return  # it thinks
            case UnaskedEvent():
                if is_grave(event.tool_call, event.by):
                    said = describe_unasked(event.by, event.tool_call.get("status"))
                    self._line(f"{said}: {title(event.tool_call)}", YELLOW)
            case _:
                super().show(event)


def session_output(
    canvas: Canvas | None, clock: Callable[[], float], roots: Sequence[Path] = (), *, has_links: bool = True
) -> "DrawnSessionOutput | PlainSessionOutput":
    """Return the output for a canvas, or for lines if it is None.

    `clock` measures the durations shown; `roots` are the directories of the session, whose files may be links.
    """
    output = (
        PlainSessionOutput(Outlet(), is_watched=True)
        if canvas is None
        else DrawnSessionOutput(canvas, history=True, clock=clock, roots=roots, has_links=has_links)
    )
    output.calls, output.transcript, output.folded = ToolCalls(), Transcript(), Unfoldable()
    output.tracker = ActivityTracker(clock)
    return output
