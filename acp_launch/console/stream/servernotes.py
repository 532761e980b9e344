"""What there is to say about MCP servers, in words: pure functions from their changes and standings to lines."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from acp_launch.console.stderr import DIM, QUOTED, RED, YELLOW, harmless
from acp_launch.process.lifecycle import Change, Standing, State
from acp_launch.session.connection import seconds

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
