"""
What an agent does at the moment, in a few words, and for how long: the left of the status line. Pure, given a clock.

Running tool calls come from what is drawn (`console.draw.tools`), and are named by their kind and their title. The rest
follows from the last update. An update of the same kind as the last one costs nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from acp_launch.console.draw.outside import one_line
from acp_launch.interactive.front import Activity, Mood
from acp_launch.session.state import deed, server, title, tool
from acp_launch.waits import next_word, seconds

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
REPEATED = {"run": "bash ", "search": "for ", "fetch": "web fetch "}  # after the verb, or instead of it
TITLE = 200  # characters of a title that are looked at


def doing(call: Mapping[str, Any]) -> str:
    """Describe a running call: `running npm test`, `waiting for github.search`."""
    call = dict(call)
    name = one_line(title(call)[:TITLE]).strip("` ")
    if host := server(call):
        return f"waiting for {one_line(f'{host}.{_short(tool(call), host) or name}')}"
    verb, name = deed(call, name)
    repeated = REPEATED.get(verb, "")
    if name[: len(repeated)].casefold() == repeated:
        name = name[len(repeated) :]
    return f"{DOING[verb]} {name.lstrip(' :`')}"


def _short(name: str, host: str) -> str:
    return name.removeprefix(f"mcp__{host}__")


# The state between tool calls, by the kind of the last update; other kinds change nothing.
STATES = {
    "agent_message_chunk": "answering",
    "agent_thought_chunk": "thinking",
    "tool_call": "thinking",
    "tool_call_update": "thinking",
    "plan": "thinking",
}
MOODS: Mapping[Mood, str] = {
    "starting": "starting the agent",
    "working": "thinking",
    "cancelling": "cancelling",
}
SILENT = 30.0  # seconds of silence that are mentioned
SLACK = 2.0  # seconds that the next word of a wait may be late
SILENCE = "sign of life"  # the wait for an agent in a turn, as it is named (`waits`)


class _Wait(Struct, frozen=True):
    what: str
    limit: float
    began: float
    until: float  # when it is over if nothing more is heard of it


class Pulse:
    """Follows what the agent does."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` measures the seconds that are shown; it stands still while the user is asked."""
        self._clock = clock
        self._state = ""
        self._since = self._heard = clock()
        self._is_fresh = False  # something was heard since the clock was read
        self._kind = ""  # of the last update
        self._patience: float | None = None  # how long the agent may be silent
        self._wait: _Wait | None = None

    def begin(self, mood: Mood, *, is_open: bool = False) -> None:
        """Begin something else; `is_open` tells whether there is a session already."""
        self._state = "opening the session" if mood == "starting" and is_open else MOODS.get(mood, "")
        self._since = self._heard = self._clock()
        self._wait, self._is_fresh, self._kind = None, False, ""

    def heard(self, kind: str) -> None:
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
        if what.startswith(SILENCE):
            self._patience = limit
        else:
            self._wait = _Wait(one_line(what), limit, now - waited, now + next_word(waited) - waited + SLACK)

    def _read(self) -> float:
        """Read the clock. Updates since the last time are taken for new ones."""
        now = self._clock()
        if self._is_fresh:
            self._is_fresh, self._heard, self._wait = False, now, None
        return now

    def now(self, running: Running) -> Activity | None:
        """Return what is being done; None if nothing is."""
        now = self._read()
        if self._wait is not None and now < self._wait.until:
            limit = f"timeout {seconds(self._wait.limit)}"
            return Activity(f"still waiting for the {self._wait.what}", now - self._wait.began, limit)
        if not self._state:
            return None
        if running and self._state in STATES.values():
            call, began = running[-1]
            others = f" and {len(running) - 1} more" if running[1:] else ""
            return Activity(doing(call) + others, now - began)
        return Activity(self._state, now - self._since, self._silence(now))

    def _silence(self, now: float) -> str:
        """Tell how long the agent has been silent in a turn, once that is long."""
        if now - self._heard < SILENT or self._state not in STATES.values():
            return ""
        limit = f", timeout {seconds(self._patience)}" if self._patience else ""
        return f"silent for {elapsed(now - self._heard)}{limit}"


def elapsed(time: float) -> str:
    """Format whole seconds: `12 s`, `2 min 5 s`, `1 h 2 min`."""
    minutes, rest = divmod(int(time), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
