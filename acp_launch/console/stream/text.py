"""
The streamed text (`--output text` into a pipe, and `--output quiet`): messages on stdout, everything else on stderr.

A pipe gets the agent's text unchanged (without our mark, if our own lines go there too); on a terminal it is made
safe. A message ends when the agent does something else (a tool call, a thought, a plan) or when its `messageId`
changes. Text that the agent sends outside a turn is not part of an answer, and goes to stderr.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from acp_launch.console.draw.sanitize import one_line, prose
from acp_launch.console.sessions import display_name
from acp_launch.console.stderr import DIM, QUOTED, RED, YELLOW, harmless, harmless_line, is_marking, is_one_file, say
from acp_launch.console.stdout import plain
from acp_launch.console.stream.outlet import Halves, JoinedText, Outlet
from acp_launch.problem import count, unmarked
from acp_launch.process.lifecycle import DOWNLOADING, FETCHING, Change, Standing, State
from acp_launch.protocol import acp
from acp_launch.protocol.acp import VALUES
from acp_launch.protocol.conversation import WORDS, Updated
from acp_launch.session.events import (
    DENIED,
    USER,
    AnyEvent,
    CancelledEvent,
    ErrorEvent,
    FileEvent,
    NoteEvent,
    PermissionEvent,
    ResultEvent,
    ServersEvent,
    SessionEvent,
    TerminalEvent,
    UnaskedEvent,
    WaitingEvent,
)
from acp_launch.session.permission.policy import READS, chosen_name
from acp_launch.session.permission.subject import subject
from acp_launch.session.state import KINDS, OVER, ToolCalls, title
from acp_launch.waits import seconds

# Notices about MCP servers: pure functions from their changes and states to lines.


Line = tuple[str, str]  # its text and its style

STDERR_LINES = 5  # of a failed server; one is enough if it restarts
LIVING = ("starting", "ready")
STATES: dict[State, str] = {
    "declared": "not started",
    "resting": "restarting soon",
    "stopping": "stopping",
    "stopped": "ended",
}


def change_lines(change: Change, before: Change | None) -> Iterator[Line]:
    """Yield the lines for one change of a server, whose last one was `before`; most changes need none.

    Its last stderr lines are not repeated if the server ends again with the same ones.
    """
    if before is not None and change.detail == before.detail:
        change = replace(change, detail=())
    match change.state:
        case "starting" if change.reason == FETCHING:
            yield _line(change, f"is {DOWNLOADING}", DIM)
        case "resting" if change.by_hand:
            yield _line(change, "was restarted", DIM)
        case "resting":
            yield from _connection_lines(change) if change.is_remote else [_line(change, _back_soon(change), YELLOW)]
            yield from _last_words(change, 1)
        case "ready" if change.by_hand or change.restarts:
            after = "" if change.after is None else f" after {_brief(change.after)}"
            yield _line(change, f"is ready again{after}", DIM if change.by_hand else YELLOW)
        case "failed":
            remark = "" if change.required else " (not required)"
            yield _line(change, f"failed: {_why(change)}{remark}", RED if change.required else YELLOW)
            yield from _last_words(change, STDERR_LINES)
        case "stopped" if before is not None and before.state in LIVING:  # after "stopping", we ended it
            yield _line(change, f"exited: {_why(change)}", YELLOW)
            yield from _last_words(change, 1)


OPENED = "acp-launch: mcp servers: "
SOON_SECONDS = 10.0


def opened_lines(servers: Sequence[Standing], *, between: str = "; ", colon: str = "") -> Iterator[Line]:
    """Yield the summary once a session is open; nothing if the agent has not opened any server yet.

    A server that the agent has closed is left out, unless it has failed: agents close theirs when they need no more.
    """
    servers = [server for server in servers if not server.closed or server.state == "failed"]
    if not all(map(_is_untouched, servers)):
        yield f"{OPENED}{between.join(stands(each, colon) for each in servers)}", DIM


def stands(server: Standing, colon: str = "") -> str:
    """Describe the state of a server: `docs ready in 0.8 s, 12 tools`."""
    old_code = ", old code" if server.old_code else ""
    return harmless_line(f"{server.server}{colon} {_plain_state(server)}{old_code}")


def unopened_lines(servers: Sequence[Standing]) -> Iterator[Line]:
    """Yield lines after the first turn: some agents drop servers, or their tools, without a message."""
    dropped = [server.server for server in servers if not server.opened]
    unread = [server.server for server in servers if server.unread]
    for names, what in ((dropped, "that the agent has not opened"), (unread, "whose tools the agent has not read")):
        if names:
            yield f"acp-launch: mcp servers {what}: {harmless_line(', '.join(names))}", YELLOW


def _line(change: Change, text: str, style: str) -> Line:
    return f"acp-launch: mcp server {harmless_line(f'{change.server} {text}')}", style


def _last_words(change: Change, most: int) -> Iterator[Line]:
    for line in change.detail[-most:]:
        yield f"    {harmless_line(line)}", QUOTED


def _connection_lines(change: Change) -> Iterator[Line]:
    """Yield the line about a connection that has ended. Of several attempts the first is told: they may go on for
    hours."""
    if not change.restarts:
        yield _line(change, f"{change.exit}; connecting again", DIM)
    elif change.restarts == 1:
        until = "until it answers" if change.budget is None else f"at most {count(change.budget, 'time')}"
        yield _line(change, f"{_how(change)}; trying again {until}", YELLOW)


def _how(change: Change) -> str:
    return change.exit if change.exit and not change.reason else f"is down: {_why(change)}"


def _back_soon(change: Change) -> str:
    how = _how(change)
    retry = "" if change.retry is None else f" in {_brief(change.retry)}"
    of = "" if change.budget is None else f" of {change.budget}"
    return f"{how}; restarting{retry} (restart {change.restarts}{of})"


def _why(change: Change) -> str:
    """Say how it ended and why, each only once."""
    exit, reason = change.exit or "", change.reason or ""
    said = [reason] if exit in reason else [exit, reason]
    return "; ".join(filter(None, said)) or "the reason is not known"


def _is_untouched(server: Standing) -> bool:
    return not server.opened and server.state in ("declared", "starting") and not server.reason


def _plain_state(server: Standing) -> str:
    tools = "" if server.tools is None else f", {count(server.tools, 'tool')}"
    restarts = f", {count(server.restarts, 'restart')}" if server.restarts else ""
    if server.state == "ready":
        took = "" if server.after is None else f" in {_brief(server.after)}"
        return f"ready{took}{tools}{restarts}"
    if server.state == "asleep":
        return f"asleep until it is used{tools}{restarts}"
    if _is_untouched(server):
        return f"not opened yet{restarts}"
    if server.state == "starting":
        return f"{server.reason or 'starting'}{restarts}"
    required = "" if server.required else ", not required"
    reason = f": {server.reason}" if server.reason else ""
    state = STATES.get(server.state, server.state)
    if server.state == "resting" and server.retry is not None and server.retry >= SOON_SECONDS:
        state = f"restarting in {_brief(server.retry)}"
    return f"{state}{required}{reason}"


def _brief(amount: float) -> str:
    """Round to two figures: `0.81 s`."""
    return seconds(float(f"{amount:.2g}"))


# Services for the agent, as lines on stderr.


def describe_unasked(by: str, status: object) -> str:
    """Describe a tool call that ran and should not have; `by` is the event's. A failed one may have done nothing."""
    ran = "was tried" if status == "failed" else "ran"
    return f"{ran} although it was denied" if by == DENIED else f"{ran} without asking (policy: {by})"


DEFAULT = "permissions.default"  # begins what decided, if no rule did
GRAVE = frozenset({"execute", "edit", "delete", "move"})  # kinds of calls


def is_grave(call: dict[str, Any], by: str) -> bool:
    """Tell whether to warn a user at a terminal of a call that ran without asking.

    Agents read and search all the time, so where only the default would have asked, a call has to do more.
    """
    about = subject(call)
    kinds = {about.kind, *(about.acts if about.kind in READS else ())}
    return not by.startswith(DEFAULT) or not GRAVE.isdisjoint(kinds)


def line(step: FileEvent | TerminalEvent) -> str:
    """Return one line about a step; empty for steps without news, such as a file that was read, or output."""
    if isinstance(step, FileEvent):
        return _file(step)
    if step.exit is not None:
        return harmless_line(f"{step.command}: {step.exit}")
    return "" if step.output else harmless_line(f"the agent runs: {step.command}")


def _file(step: FileEvent) -> str:
    what = f"{step.how} {step.path}"
    if step.how == "read" and step.outcome == "failed":
        return ""  # agents check whether a file exists before they write it
    if step.outcome != "done":
        return harmless_line(f"{step.outcome}: {what}: {step.reason}")
    if step.how == "read":
        return ""
    return harmless_line(f"the agent {'created' if step.created else 'changed'} {step.path}")


# Notices of every kind of output: waits, notes, permissions, and how the turn ended.


Chunk = tuple[str, str]  # its text and its message id (`acp.read_chunk`)
NO_CHUNK = ("", "")  # of another update

ENDINGS = {
    "max_tokens": "the agent stopped: its token limit is reached",
    "max_turn_requests": "the agent stopped: its limit of model requests in one turn is reached",
    "refusal": "the agent refused to continue; it drops this prompt and its answer from the session",
    "cancelled": "the turn was cancelled",
}


class Notices:
    """An observer that prints notices on stderr and no answer; the base of every output."""

    _cancelled = False
    _is_watched = False  # whether a user reads it on the terminal that questions stand on
    _changes: Mapping[str, Change] = {}  # the last of each server

    def update(self, update: Updated) -> None:
        """Decode a chunk, once for all that look at it."""
        self.on_update(update, acp.read_chunk(update.update) if update.kind in WORDS else NO_CHUNK)

    def on_update(self, update: Updated, chunk: Chunk) -> None:
        """Do nothing; subclasses show updates."""

    def show(self, event: AnyEvent) -> None:
        """Print a line about most events. The output of a command is the agent's to show."""
        match event:
            case SessionEvent():
                if event.how != "new":
                    history = f" ({count(event.turns, 'turn')})" if event.how == "load" else ""
                    self._line(f"acp-launch: resumed {plain(display_name(event.name, event.title))}{history}", DIM)
            case PermissionEvent():
                self._tell_answer(event)
            case UnaskedEvent() if not event.by.startswith(DEFAULT):  # agents run many calls without asking
                status = event.tool_call.get("status")
                self._line(f"acp-launch: {title(event.tool_call)} {describe_unasked(event.by, status)}", YELLOW)
            case FileEvent() | TerminalEvent() if text := line(event):
                self._line(f"acp-launch: {text}", DIM)
            case CancelledEvent():
                self._cancelled = True
                self._line(
                    f"acp-launch: cancelling the turn (timeout {seconds(event.limit)}); Ctrl-C stops at once", DIM
                )
                for call in event.tool_calls:
                    self._line(f"acp-launch: cancelled: {title(call)}", DIM)
            case ResultEvent():
                self._tell_end(event)
            case _:
                self._show_beside(event)

    def _show_beside(self, event: AnyEvent) -> None:
        """Print an event that is not about the agent's work."""
        match event:
            case WaitingEvent(what=what):
                what = "agent" if what.startswith("activity") else what  # it is worded for "no … within 3 s"
                spans = f"{seconds(event.seconds)}; timeout {seconds(event.limit)}"
                self._line(f"acp-launch: still waiting for the {what} ({spans})", DIM)
            case NoteEvent():
                self._line(f"acp-launch: {event.text}", YELLOW)
            case Change():
                for text, style in () if event.ends_run else change_lines(event, self._changes.get(event.server)):
                    self._line(text, style)
                self._changes = {**self._changes, event.server: event}
            case ServersEvent(servers=servers):
                for text, style in opened_lines(servers) if event.when == "opened" else unopened_lines(servers):
                    self._line(text, style)

    def _tell_answer(self, permission: PermissionEvent) -> None:
        """Print an answer, unless its question stands right above with it."""
        if self._is_watched and permission.by.partition(",")[0] == USER:
            return

        answer = "allowed" if permission.allowed else "denied" if permission.option_id else "cancelled"
        chosen = chosen_name(permission.option_id, permission.options)
        what = f"{permission.title}: {chosen}" if chosen else permission.title
        self._line(f"acp-launch: {answer}: {what} ({permission.by})", DIM)

    def _tell_end(self, turn: ResultEvent) -> None:
        was_cancelled, self._cancelled = self._cancelled, False
        if was_cancelled and turn.stop_reason == "cancelled":
            return  # we cancelled it, and the reason is printed when the run ends
        if turn.stop_reason != "end_turn":
            unknown = f"the agent ended the turn for an unknown reason: {turn.stop_reason}"
            self._line(f"acp-launch: {ENDINGS.get(turn.stop_reason, unknown)}", YELLOW)

    def _line(self, text: str, style: str) -> None:
        """Print a line in which foreign text is harmless."""
        self.tell(harmless_line(text), style)

    def tell(self, text: str, style: str) -> None:
        """Print a line on stderr unchanged: the caller has made it harmless."""
        say(text, style=style)

    def pause(self) -> None:
        """Leave the terminal to a question."""

    async def drain(self) -> None:
        """Do nothing: no output is pending."""


SAME_MESSAGE = frozenset({"usage_update", "available_commands_update", "session_info_update", "config_option_update"})

TAB = "\t"
OUTSIDE = "outside a turn:"


class Messages(Notices):
    """Finds the messages in a stream of updates; a replayed history is not shown."""

    def __init__(self, outlet: Outlet, *, is_watched: bool = False) -> None:
        """`is_watched` says that a user reads stdout, even if it is not a terminal."""
        self._outlet = outlet
        self._is_watched = is_watched or outlet.is_terminal
        self._halves = Halves()
        self._message_id = ""
        self._over = True  # the next chunk begins a new message
        self._outside = ""  # text sent outside a turn that is not printed yet

    def on_update(self, update: Updated, chunk: Chunk) -> None:
        if update.replay:
            return
        if update.kind == "agent_message_chunk":
            if update.outside:  # collected for the next `drain`, so that chunks that come together are one line
                self._over, self._outside = True, self._outside + self._halves.whole(chunk[0])
            else:
                self._chunk(chunk)
        elif update.kind not in SAME_MESSAGE:
            self._over = True
            self.other_update(update, chunk)

    def _tell_outside(self) -> None:
        text, self._outside = self._outside, ""
        for line in filter(str.strip, text.split("\n")):
            self.tell(f"{OUTSIDE} {harmless(line, keep=TAB)}", DIM)

    def _chunk(self, chunk: Chunk) -> None:
        if self._outside:
            self._tell_outside()
        text, message_id = chunk
        if self._over or (message_id and message_id != self._message_id):
            self.begin()
        self._over, self._message_id = False, message_id or self._message_id
        text = self._halves.whole(text)
        self.say(prose(text) if self._is_watched else unmarked(text) if is_marking() else text)

    def tell(self, text: str, style: str) -> None:
        """Print a line on stderr; where both go to one place, below the answer so far, and never in its last line."""
        if is_one_file():
            self.end_line()
            self._outlet.flush()
        super().tell(text, style)

    def end_line(self) -> None:
        """End the line of the answer that is printed, if it has no end."""

    def begin(self) -> None:
        """Begin a new message."""

    def say(self, text: str) -> None:
        """Take a chunk of the agent's message."""

    def other_update(self, update: Updated, chunk: Chunk) -> None:
        """Take an update that is not part of the agent's message."""

    async def drain(self) -> None:
        self._tell_outside()
        await self._outlet.drain()


class Quiet(Messages):
    """Prints only the final message, when the turn ends."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__(outlet)
        self.begin()

    def begin(self) -> None:
        self._text, self._last = JoinedText(), "\n"

    def say(self, text: str) -> None:
        if text:
            self._last = text[-1]
            self._text.add(text)

    def show(self, event: AnyEvent) -> None:
        """Report only failed servers that were not reported when they failed."""
        match event:
            case ServersEvent(when="opened"):
                said = {server for server, change in self._changes.items() if change.state == "failed"}
                servers = [each for each in event.servers if each.state == "failed" and each.server not in said]
                event = replace(event, servers=servers)
            case ResultEvent():
                if self._last != "\n":
                    self.say("\n")
                self._outlet.write_later(text.encode() for text in self._text.taken())
                self.begin()  # from here on the outlet holds the text
        super().show(event)


class Plain(Messages):
    """Prints the agent's text as it comes."""

    def __init__(self, outlet: Outlet, *, is_watched: bool = False) -> None:
        super().__init__(outlet, is_watched=is_watched)
        self._last = "\n"
        self._calls = ToolCalls()
        self._thought = ""

    def end_line(self) -> None:
        if self._last != "\n":
            self.say("\n")

    def begin(self) -> None:
        self._think("\n")
        self.end_line()

    def say(self, text: str) -> None:
        if text:
            self._outlet.write_text(text)
            self._last = text[-1]

    def other_update(self, update: Updated, chunk: Chunk) -> None:
        if update.kind == "agent_thought_chunk":
            self._think(self._halves.whole(chunk[0]))
            return
        self._think("\n")
        body = acp.mapping(acp.decoded(update.update))
        if update.kind in KINDS:
            self._tool(self._calls.merge(body))
        elif update.kind == "plan":
            for entry in map(acp.mapping, acp.sequence(body.get("entries"))):
                self._line(f"plan: {acp.text(entry.get('status'))}: {one_line(acp.text(entry.get('content')))}", DIM)
        elif update.kind == "notice":
            self._line(f"agent: {one_line(acp.text(body.get('title')))}", DIM)

    def _think(self, piece: str) -> None:
        """Print thoughts on stderr, line by line."""
        *lines, self._thought = (self._thought + piece).split("\n")
        for line in filter(str.strip, lines):
            self.tell(f"thought: {harmless(line, keep=TAB)}", DIM)

    def show(self, event: AnyEvent) -> None:
        match event:
            case PermissionEvent():
                self._calls.merge(event.tool_call)  # gemini sends the title of a call only here
            case ResultEvent() | ErrorEvent():
                self.begin()
        super().show(event)

    def _tool(self, call: dict[str, object]) -> None:
        if call.get("status") in OVER or "shown" not in call:
            kind = acp.text(call.get("kind"))
            kind = kind if kind in VALUES["kind"] else "tool"  # our line must not begin with a word of the agent
            status = acp.text(call.get("status")) or "pending"
            self._line(f"{kind}: {title(call)}: {status}", DIM)
        call["shown"] = True
