"""
What the agent has told about a session, as it is now: its commands, options, plan, usage, title, compactions, notices.

`opened` takes the answer that opened the session, `apply` every update of `KINDS` in wire order, live or replayed.
Nothing an agent sends makes it raise, and nothing makes it grow without end. Texts are as the agent sent them, cut:
whoever shows them makes them harmless. Pure.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from acp_launch.protocol import acp
from acp_launch.session.options.option import (
    Option,
    Options,
    Value,
    as_set,
    config_options,
    identity,
    in_mode,
    match,
    offered,
    one_line,
)
from acp_launch.session.options.told import (
    SUMMARY,
    TEXT,
    Command,
    Compaction,
    Notice,
    Step,
    Usage,
    command,
    cost,
    patched,
    step,
    texts,
    tokens,
)

COMMANDS = 2_000  # qwen lists some hundred, with descriptions of 569 kB in all (facts/agents.md)
STEPS = 1_000
NOTICES = 50  # the last ones
COMPACTIONS = 100  # the last ones


class SessionState:
    def __init__(self) -> None:
        self.commands: tuple[Command, ...] = ()
        self.options: Options = ()
        self.plan: tuple[Step, ...] = ()
        self.usage = Usage()
        self.title = ""  # empty when the agent names none, or took it back
        self.updated_at = ""
        self.compactions: dict[str, Compaction] = {}  # oldest first
        self.notices: deque[Notice] = deque(maxlen=NOTICES)
        self.lists = 0  # how many lists of options the agent sent without being asked
        self._mode = ""  # of an agent that has no option for it

    @property
    def mode(self) -> str:
        """For a status line; empty when the agent knows none."""
        option = match(self.options, "mode")
        return option.shown if option else one_line(self._mode)

    @property
    def model(self) -> str:
        option = match(self.options, "model")
        return option.shown if option else ""

    def opened(self, result: object) -> None:
        """The answer to session/new, load or resume. What it leaves out stays as updates before it told."""
        found = offered(result)
        told = any(option.source == "option" for option in self.options)
        if found and not (told and found[0].source != "option"):
            self.options = found

    def apply(self, kind: str, body: object) -> None:
        """The decoded body of an update; other kinds than `KINDS` change nothing."""
        take = _TAKES.get(kind)
        if take is not None:
            take(self, acp.mapping(body))

    def answered(self, option: Option, value: Value, result: object, *, lists: int) -> None:
        """The agent has set `option` to `value` and answered so; `lists` is how many there were when it was asked.

        The answer's list replaces ours (C-52), unless the agent sent another meanwhile that has the value already:
        that one may be the newer.
        """
        listed = acp.mapping(result).get("configOptions")
        if option.source != "option" or not isinstance(listed, list):
            self.options = as_set(self.options, option.id, value)
        elif self.lists == lists or not self.holds(option.id, value):
            self.options = config_options(listed)

    def holds(self, id: str, value: Value) -> bool:
        return any(option.id == id and option.current == value for option in self.options)

    def _take_commands(self, body: dict[str, Any]) -> None:
        listed = body.get("availableCommands")
        if isinstance(listed, list):
            found = (command(acp.mapping(item)) for item in listed[:COMMANDS])
            self.commands = tuple(filter(None, found))

    def _take_options(self, body: dict[str, Any]) -> None:
        """The whole list is replaced (C-52)."""
        listed = body.get("configOptions")
        if isinstance(listed, list):
            self.options = config_options(listed)
            self.lists += 1

    def _take_mode(self, body: dict[str, Any]) -> None:
        """The schema says `currentModeId`, the example in the documentation `modeId` (C-53)."""
        mode = identity(body.get("currentModeId")) or identity(body.get("modeId"))
        if mode:
            self._mode = mode
            self.options = in_mode(self.options, mode)

    def _take_plan(self, body: dict[str, Any]) -> None:
        """The whole plan is replaced (C-55)."""
        listed = body.get("entries")
        if isinstance(listed, list):
            self.plan = tuple(filter(None, (step(acp.mapping(item)) for item in listed[:STEPS])))

    def _take_usage(self, body: dict[str, Any]) -> None:
        """What is left out is still what it was: a cost is that of the whole session."""
        used, size, spent = tokens(body.get("used")), tokens(body.get("size")), cost(body.get("cost"))
        self.usage = Usage(
            self.usage.used if used is None else used,
            self.usage.size if size is None else size,
            spent or self.usage.cost,
        )

    def _take_info(self, body: dict[str, Any]) -> None:
        """Left out is unchanged, null is cleared (C-57)."""
        self.title = patched(body, "title", self.title, str, one_line)
        self.updated_at = patched(body, "updatedAt", self.updated_at, str, one_line)

    def _take_notice(self, body: dict[str, Any]) -> None:
        title, description = one_line(body.get("title")), acp.text(body.get("description"))[:TEXT]
        if title or description:
            self.notices.append(Notice(one_line(body.get("severity")) or "info", title, description))

    def _take_compaction(self, body: dict[str, Any]) -> None:
        known = self._compaction(body)
        self._keep(
            replace(
                known,
                status=one_line(body.get("status")) or known.status,
                summary=patched(body, "summary", known.summary, list, texts),
                error=patched(body, "error", known.error, str, lambda error: error[:TEXT]),
            )
        )

    def _take_summary(self, body: dict[str, Any]) -> None:
        known = self._compaction(body)
        if len(known.summary) < SUMMARY:
            self._keep(replace(known, summary=(known.summary + texts([body.get("content")]))[:SUMMARY]))

    def _compaction(self, body: dict[str, Any]) -> Compaction:
        """The one it is about; one not seen before has just begun."""
        id = identity(body.get("compactionId")) or ""
        return self.compactions.get(id) or Compaction(id)

    def _keep(self, compaction: Compaction) -> None:
        if compaction.id:
            self.compactions[compaction.id] = compaction
        if len(self.compactions) > COMPACTIONS:
            del self.compactions[next(iter(self.compactions))]


_TAKES: dict[str, Callable[[SessionState, dict[str, Any]], None]] = {
    "available_commands_update": SessionState._take_commands,
    "config_option_update": SessionState._take_options,
    "current_mode_update": SessionState._take_mode,
    "plan": SessionState._take_plan,
    "usage_update": SessionState._take_usage,
    "session_info_update": SessionState._take_info,
    "notice": SessionState._take_notice,
    "compaction_update": SessionState._take_compaction,
    "compaction_summary_chunk": SessionState._take_summary,
}
KINDS = frozenset(_TAKES)  # no others need be decoded
