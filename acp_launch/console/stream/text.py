"""
`--output text` into a pipe, and `--output quiet`: the agent's text on stdout, everything else on stderr.

A pipe gets the agent's text as it is (without our mark, where our own lines go there too), a terminal without what
would drive it. A message ends where the agent does something else (a tool call, a thought, a plan) or its `messageId`
changes. What the agent says while no turn runs is no part of an answer, and goes to stderr as such.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from acp_launch.console.draw.halves import Halves
from acp_launch.console.draw.outside import one_line, prose
from acp_launch.console.stderr import DIM, QUOTED, RED, YELLOW, harmless, is_marking, say
from acp_launch.console.stream.outlet import JOINED, Outlet
from acp_launch.errors import LaunchError
from acp_launch.mark import unmarked
from acp_launch.process.lifecycle import Change, Standing, State
from acp_launch.protocol import acp
from acp_launch.protocol.acp import VALUES, Negotiated
from acp_launch.protocol.conversation import Updated
from acp_launch.session.client import DENIED
from acp_launch.session.observer import Permission, SessionReady, TurnEnd, When
from acp_launch.session.service import FileServed, TerminalServed
from acp_launch.session.state import KINDS, OVER, ToolCalls, title
from acp_launch.waits import seconds

# What there is to say about MCP servers, in words: pure functions from their changes and standings to lines.


Line = tuple[str, str]  # what to say, and in which style

LAST_WORDS = 5  # stderr lines of a server that failed; of one that comes back its last one is enough
LIVING = ("starting", "ready")
STATES: dict[State, str] = {
    "declared": "not started",
    "resting": "waiting to be started again",
    "stopping": "stopping",
    "stopped": "ended",
}


def changed(change: Change, before: State | None, known: tuple[str, ...] = ()) -> Iterator[Line]:
    """Lines for one step of a server that was `before` when it was last heard of; most steps need none.

    `known` are its last words of that time: a server that dies of the same thing again need not repeat them.
    """
    if known and change.detail == known:
        change = replace(change, detail=())
    match change.state:
        case "resting" if change.by_hand:
            yield _line(change, "was restarted by you; starting again", DIM)
        case "ready" if change.by_hand:
            yield _line(change, f"is back{_after(change.after)}", DIM)
        case "resting":
            yield _line(change, _back_soon(change), YELLOW)
            yield from _last_words(change, 1)
        case "ready" if change.restarts:
            yield _line(change, f"is back{_after(change.after)}", YELLOW)
        case "failed":
            remark = "" if change.required else " (not required)"
            yield _line(change, f"failed: {_why(change)}{remark}", RED if change.required else YELLOW)
            yield from _last_words(change, LAST_WORDS)
        case "stopped" if before in LIVING:  # after "stopping" it was us
            yield _line(change, f"ended by itself: {_why(change)}", YELLOW)
            yield from _last_words(change, 1)


def opened(servers: Sequence[Standing]) -> Iterator[Line]:
    """The summary, once a session is open; nothing while all there is to say is that the agent has opened none yet."""
    if not all(map(_is_untouched, servers)):
        yield f"acp-launch: mcp servers: {harmless('; '.join(map(_standing, servers)), keep='')}", DIM


def unopened(servers: Sequence[Standing]) -> Iterator[Line]:
    """After the first turn: some agents drop servers without a word."""
    if names := ", ".join(server.server for server in servers if not server.opened):
        yield f"acp-launch: mcp servers given to the agent but never opened by it: {harmless(names, keep='')}", YELLOW


def _line(change: Change, text: str, style: str) -> Line:
    return f"acp-launch: mcp server {harmless(f'{change.server} {text}', keep='')}", style


def _last_words(change: Change, count: int) -> Iterator[Line]:
    for line in change.detail[-count:]:
        yield f"    {harmless(line, keep='')}", QUOTED


def _back_soon(change: Change) -> str:
    how = change.exit if change.exit and not change.reason else f"is down: {_why(change)}"
    retry = "" if change.retry is None else f" in {_brief(change.retry)}"
    of = "" if change.budget is None else f" of {change.budget}"
    return f"{how}; starting again{retry} (restart {change.restarts}{of})"


def _why(change: Change) -> str:
    """How it ended and why, each only once."""
    said = [change.reason] if change.exit in change.reason else [change.exit, change.reason]
    return "; ".join(filter(None, said)) or "no reason is known"


def _is_untouched(server: Standing) -> bool:
    return not server.opened and server.state in ("declared", "starting")


def _standing(server: Standing) -> str:
    if server.state == "ready":
        return f"{server.server} ready{_took(server.after)}{_tools(server.tools)}{_restarts(server.restarts)}"
    if _is_untouched(server):
        return f"{server.server} not opened yet{_restarts(server.restarts)}"
    if server.state == "starting":
        return f"{server.server} starting{_restarts(server.restarts)}"
    required = "" if server.required else ", not required"
    reason = f": {server.reason}" if server.reason else ""
    return f"{server.server} {STATES.get(server.state, server.state)}{required}{reason}"


def _took(after: float | None) -> str:
    return "" if after is None else f" in {_brief(after)}"


def _after(after: float | None) -> str:
    return "" if after is None else f" after {_brief(after)}"


def _tools(count: int | None) -> str:
    return "" if count is None else f", {_counted(count, 'tool')}"


def _restarts(count: int) -> str:
    return f", {_counted(count, 'restart')}" if count else ""


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _brief(amount: float) -> str:
    """Two figures are as much as anybody reads: `0.81 s`."""
    return seconds(float(f"{amount:.2g}"))


# What we did for the agent, as lines on stderr.


def unasked(by: str, status: object) -> str:
    """What to say of a tool call that ran, and should not have; `by` as the observer is told it. One that failed may
    have ended before it did anything."""
    ran = "was tried" if status == "failed" else "ran"
    return f"{ran} although it was denied" if by == DENIED else f"{ran} without asking (policy: {by})"


def line(step: FileServed | TerminalServed) -> str:
    """One line about a step, empty for those that are no news: a file that was read, a command that says something."""
    if isinstance(step, FileServed):
        return _file(step)
    if step.exit is not None:
        return harmless(f"{step.command}: {step.exit}", keep="")
    return "" if step.output else harmless(f"the agent runs: {step.command}", keep="")


def _file(step: FileServed) -> str:
    what = f"{step.how} {step.path}"
    if step.how == "read" and step.outcome == "failed":
        return ""  # agents look whether a file is there before they write it
    if step.outcome != "done":
        return harmless(f"{step.outcome}: {what}: {step.reason}", keep="")
    if step.how == "read":
        return ""
    return harmless(f"the agent {'created' if step.old is None else 'changed'} {step.path}", keep="")


# What every kind of output says on stderr: waits, notes, permissions, how the turn ended.


ENDINGS = {
    "max_tokens": "the agent stopped: its token limit is reached",
    "max_turn_requests": "the agent stopped: its limit of model requests in one turn is reached",
    "refusal": "the agent refused to go on; the prompt and what came after it will not be part of the next one",
    "cancelled": "the turn was cancelled",
}


class Notices:
    """An observer that shows no answer; the kinds of output build on it."""

    _cancelled = False
    _states: Mapping[str, State] = {}  # of each server, as it was last told
    _last_words: Mapping[str, tuple[str, ...]] = {}

    def negotiated(self, negotiated: Negotiated) -> None:
        """Nothing to say to a person."""

    def ready(self, session: SessionReady) -> None:
        """Only a continued session is worth a word."""
        if session.how != "new":
            history = f" ({session.replayed} updates of its history)" if session.how == "load" else ""
            self._line(f"acp-launch: continuing session {session.name}{history}", DIM)

    def update(self, update: Updated) -> None:
        """Shown by the kinds of output."""

    def permission(self, permission: Permission) -> None:
        answer = "allowed" if permission.allowed else "denied" if permission.option_id else "cancelled"
        self._line(f"acp-launch: {answer}: {permission.title} ({permission.by})", DIM)

    def unasked(self, call: dict[str, Any], by: str) -> None:
        """Agents do much that they ask nobody about, so a word is due only where a rule was passed over."""
        if not by.startswith("permissions.default"):
            self._line(f"acp-launch: {title(call)} {unasked(by, call.get('status'))}", YELLOW)

    def served(self, step: FileServed | TerminalServed) -> None:
        """One line for what changed something, or was refused; what a command says is the agent's to tell."""
        if text := line(step):
            self._line(f"acp-launch: {text}", DIM)

    def cancelled(self, calls: Sequence[dict[str, Any]], grace: float) -> None:
        self._cancelled = True
        self._line(f"acp-launch: cancelling the turn; giving up in {seconds(grace)}, Ctrl-C stops at once", DIM)
        for call in calls:
            self._line(f"acp-launch: cancelled: {title(call)}", DIM)

    def waiting(self, what: str, waited: float, limit: float) -> None:
        self._line(f"acp-launch: no {what} for {seconds(waited)}; giving up at {seconds(limit)}", DIM)

    def note(self, text: str) -> None:
        self._line(f"acp-launch: {text}", YELLOW)

    def server(self, change: Change) -> None:
        lines = changed(change, self._states.get(change.server), self._last_words.get(change.server, ()))
        for text, style in lines:
            self._line(text, style)
        self._last_words = {**self._last_words, change.server: change.detail}
        self._states = {**self._states, change.server: change.state}

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        for text, style in opened(servers) if when == "opened" else unopened(servers):
            self._line(text, style)

    def ended(self, turn: TurnEnd) -> None:
        if self._cancelled and turn.stop_reason == "cancelled":
            return  # by us, which is said as the reason why the run ends
        if turn.stop_reason != "end_turn":
            unknown = f"the agent ended the turn for a reason of its own: {turn.stop_reason}"
            self._line(f"acp-launch: {ENDINGS.get(turn.stop_reason, unknown)}", YELLOW)

    def _line(self, text: str, style: str) -> None:
        """Of whatever is in `text`, nothing drives the terminal or begins a line that looks like one of ours."""
        self.tell(harmless(text, keep=""), style)

    def tell(self, text: str, style: str) -> None:
        """A line on stderr, as it is: whoever calls has made it harmless."""
        say(text, style=style)

    def failed(self, error: LaunchError) -> None:
        """The run is over without an end of its turn: what was shown is left whole; `error` is shown by others."""

    def pause(self) -> None:
        """Leave the terminal to a question."""

    async def drain(self) -> None:
        """Nothing is held back."""


SAME_MESSAGE = frozenset({"usage_update", "available_commands_update", "session_info_update", "config_option_update"})

TAB = "\t"
OUTSIDE = "outside a turn:"


class Messages(Notices):
    """Finds the messages in a stream of updates; a history that is replayed is not shown."""

    def __init__(self, outlet: Outlet, *, is_watched: bool = False) -> None:
        """`is_watched`: somebody sits there, whatever stdout is."""
        self._outlet = outlet
        self._is_watched = is_watched or outlet.is_terminal
        self._halves = Halves()
        self._message_id = ""
        self._over = True  # the next chunk begins a new message
        self._outside = ""  # what was said while no turn ran, and is not told yet

    def update(self, update: Updated) -> None:
        if update.replay:
            return
        if update.kind == "agent_message_chunk":
            self._said_outside(update) if update.outside else self._chunk(update)
        elif update.kind not in SAME_MESSAGE:
            self._over = True
            self.beside(update)

    def _said_outside(self, update: Updated) -> None:
        """Told with the next `drain`: pieces that come together are one line."""
        self._over = True
        self._outside += self._halves.whole(acp.read_chunk(update.update)[0])

    def _tell_outside(self) -> None:
        text, self._outside = self._outside, ""
        for line in filter(str.strip, text.split("\n")):
            self.tell(f"{OUTSIDE} {harmless(line, keep=TAB)}", DIM)

    def _chunk(self, update: Updated) -> None:
        if self._outside:
            self._tell_outside()
        text, message_id = acp.read_chunk(update.update)
        if self._over or (message_id and message_id != self._message_id):
            self.begin()
        self._over, self._message_id = False, message_id or self._message_id
        text = self._halves.whole(text)
        self.say(self._shown(text))

    def _shown(self, text: str) -> str:
        if self._is_watched:
            return prose(text)
        return unmarked(text) if is_marking() else text

    def begin(self) -> None:
        """A new message begins."""

    def say(self, text: str) -> None:
        """A piece of the agent's message."""

    def beside(self, update: Updated) -> None:
        """Something that is not the agent's message."""

    async def drain(self) -> None:
        self._tell_outside()
        await self._outlet.drain()


class Quiet(Messages):
    """Only the final message, when the turn is over."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__(outlet)
        # Not a list of all pieces: 100,000 of them weigh more than what they say. A long one stays as it came.
        self._texts: list[bytearray | str] = []
        self._last = "\n"

    def begin(self) -> None:
        self._texts, self._last = [], "\n"

    def say(self, text: str) -> None:
        if not text:
            return
        self._last = text[-1]
        if len(text) > JOINED and text.isascii():  # any other takes up to four bytes a character
            self._texts.append(text)
            return
        latest = self._texts[-1] if self._texts else ""
        if isinstance(latest, str):
            self._texts.append(latest := bytearray())
        latest += text.encode()

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        """Only what is wrong and was not said when it happened."""
        if when == "opened":
            said = {server for server, state in self._states.items() if state == "failed"}
            servers = [each for each in servers if each.state == "failed" and each.server not in said]
        super().standing(servers, when)

    def ended(self, turn: TurnEnd) -> None:
        if self._last != "\n":
            self.say("\n")
        for text in self._texts:
            if isinstance(text, str):
                self._outlet.write_text(text)
            else:
                self._outlet.write(memoryview(text))
        self.begin()  # the outlet has it until it is written
        super().ended(turn)


class Plain(Messages):
    """The agent's text as it comes."""

    def __init__(self, outlet: Outlet, *, is_watched: bool = False) -> None:
        super().__init__(outlet, is_watched=is_watched)
        self._last = "\n"
        self._calls = ToolCalls()
        self._thought = ""

    def begin(self) -> None:
        self._think("\n")
        if self._last != "\n":
            self.say("\n")

    def say(self, text: str) -> None:
        if text:
            self._outlet.write_text(text)
            self._last = text[-1]

    def beside(self, update: Updated) -> None:
        if update.kind == "agent_thought_chunk":
            self._think(self._halves.whole(acp.read_chunk(update.update)[0]))
            return
        self._think("\n")
        body = acp.mapping(acp.decoded(update.update))
        if update.kind in KINDS:
            self._tool(self._calls.merge(body))
        elif update.kind == "plan":
            for entry in map(acp.mapping, acp.sequence(body.get("entries"))):
                _say(f"plan: {acp.text(entry.get('status'))}: {one_line(acp.text(entry.get('content')))}")
        elif update.kind == "notice":
            _say(f"agent: {one_line(acp.text(body.get('title')))}")

    def _think(self, piece: str) -> None:
        """Thoughts go to stderr line by line."""
        *lines, self._thought = (self._thought + piece).split("\n")
        for line in filter(str.strip, lines):
            say(f"thought: {harmless(line, keep=TAB)}", style=DIM)

    def permission(self, permission: Permission) -> None:
        self._calls.merge(permission.tool_call)  # gemini tells a call's title nowhere else
        super().permission(permission)

    def _tool(self, call: dict[str, object]) -> None:
        if call.get("status") in OVER or "shown" not in call:
            kind = acp.text(call.get("kind"))
            kind = kind if kind in VALUES["kind"] else "tool"  # a line of ours begins with no word of an agent's
            status = acp.text(call.get("status")) or "pending"
            _say(f"{kind}: {title(call)}: {status}")
        call["shown"] = True

    def ended(self, turn: TurnEnd) -> None:
        self.begin()
        super().ended(turn)

    def failed(self, error: LaunchError) -> None:
        self.begin()


def _say(text: str) -> None:
    """One line, whatever an agent has put into it."""
    say(harmless(text, keep=""), style=DIM)
