"""
The state of a session as the agent has described it: commands, options, plan, usage, title, compactions, notices,
calls.

`SessionState.opened` takes the answer that opened the session, `apply` every update of `KINDS` in wire order, live or
replayed; `ToolCalls` merges tool calls. No message of an agent makes them raise or grow without limit. Texts are the
agent's own, cut; the code that shows them escapes them. Pure.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.protocol import acp
from acp_launch.regex import regex
from acp_launch.session.options import (
    DESCRIPTION,
    Option,
    Options,
    Value,
    as_set,
    config_options,
    identity,
    in_mode,
    match,
    one_line,
    read_options,
)

# The parts of the state, each read leniently: None if it cannot be read.


TEXT = 2_000  # characters of a step, a description, an error
SUMMARY = 64 * 1024  # characters
TOKENS = 2**64  # the schema's uint64
MONEY = 1e15
T = TypeVar("T")


class SlashCommand(Struct, frozen=True):
    """A command `/name`; `hint` says what may follow it."""

    name: str
    description: str = ""
    hint: str = ""


class PlanStep(Struct, frozen=True):
    """An entry of the plan. Priority and status are the agent's words, also unknown ones."""

    content: str
    priority: str = "medium"
    status: str = "pending"


class Cost(Struct, frozen=True):
    """The cost since the session began; `currency` is an ISO 4217 code or a word like `credits`."""

    amount: float
    currency: str

    def __str__(self) -> str:
        small = 0 < abs(self.amount) < 0.01
        is_money = len(self.currency) == 3 and self.currency.isupper() and not small
        amount = f"{self.amount:.2f}" if is_money else f"{self.amount:.6g}"
        return f"{amount} {self.currency}".strip()


class Usage(Struct, frozen=True):
    """Tokens in the context and its size, None while the agent has not said."""

    used: int | None = None
    size: int | None = None
    cost: Cost | None = None


class Compaction(Struct, frozen=True):
    """The agent shortens its context: `in_progress`, `completed`, `failed`, `cancelled` or another word."""

    id: str
    status: str = "in_progress"
    summary: str = ""
    error: str = ""


class Notice(Struct, frozen=True):
    """A notice. `severity` is `info`, `warning`, `error` or another word; even an error fails nothing."""

    severity: str
    title: str
    description: str = ""


def command(item: dict[str, Any]) -> SlashCommand | None:
    """Read a command; None if its name cannot be typed. Spaces are allowed, claude's `name (MCP)` has one."""
    name = identity(item.get("name"))
    if not name or not name.isprintable():
        return None
    hint = acp.mapping(item.get("input")).get("hint")
    return SlashCommand(name, one_line(item.get("description"), DESCRIPTION), one_line(hint))


def step(item: dict[str, Any]) -> PlanStep | None:
    content = one_line(item.get("content"), TEXT)
    if not content:
        return None
    return PlanStep(content, one_line(item.get("priority")) or "medium", one_line(item.get("status")) or "pending")


def tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < TOKENS else None


def cost(value: object) -> Cost | None:
    said = acp.mapping(value)
    amount = said.get("amount")
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not -MONEY < amount < MONEY:
        return None
    return Cost(float(amount), one_line(said.get("currency")))


def patch_member(body: dict[str, Any], key: str, known: str, kind: type[T], read: Callable[[T], str]) -> str:
    """Apply a member of a patch: left out, or not of `kind`, is unchanged; null clears; anything else replaces."""
    value = body.get(key, known)
    if value is None:
        return ""
    return read(value) if key in body and isinstance(value, kind) else known


def texts(blocks: Sequence[object]) -> str:
    """Return the text of content blocks, in order: a streamed summary comes in pieces of a word."""
    return "".join(acp.text(acp.mapping(block).get("text")) for block in blocks)[:SUMMARY]


COMMANDS = 2_000  # qwen lists some hundred, with descriptions of 569 kB in all (docs/agents.md)
STEPS = 1_000


class SessionState:
    def __init__(self) -> None:
        self.commands: tuple[SlashCommand, ...] = ()
        self.options: Options = ()
        self.plan: tuple[PlanStep, ...] = ()
        self.usage = Usage()
        self.title = ""  # empty if the agent gives none, or withdrew it
        self.compaction: Compaction | None = None  # the last one
        self.notice: Notice | None = None  # the last one; None if it had no text
        self.failure: dict[str, Any] | None = None  # how the agent says that the turn fails, though it ends it well
        self.lists = 0  # how many lists of options the agent sent unasked
        self._mode = ""  # of an agent without an option for it

    @property
    def mode(self) -> str:
        """Return the mode for a status line; empty if the agent has none."""
        option = match(self.options, "mode")
        return option.shown if option else one_line(self._mode)

    @property
    def model(self) -> str:
        option = match(self.options, "model")
        return option.shown if option else ""

    def opened(self, result: object) -> None:
        """Take the answer to session/new, load or resume. What it leaves out stays as earlier updates set it."""
        found = read_options(result)
        told = any(option.source == "option" for option in self.options)
        if found and not (told and found[0].source != "option"):
            self.options = found

    def apply(self, kind: str, body: object) -> None:
        """Take the decoded body of an update; kinds other than `KINDS` change nothing."""
        take = _TAKES.get(kind)
        if take is not None:
            take(self, acp.mapping(body))

    def answered(self, option: Option, value: Value, result: object, *, lists: int) -> None:
        """Take the answer to setting `option` to `value`; `lists` is the count of lists at the time of the request.

        The answer's list replaces ours (C-52), unless the agent sent another that has the value already: that
        one may be newer.
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
        """Replace the whole list (C-52)."""
        listed = body.get("configOptions")
        if isinstance(listed, list):
            self.options = config_options(listed)
            self.lists += 1

    def _take_mode(self, body: dict[str, Any]) -> None:
        """Set the mode. The schema says `currentModeId`, the example in the documentation `modeId` (C-53)."""
        mode = identity(body.get("currentModeId")) or identity(body.get("modeId"))
        if mode:
            self._mode = mode
            self.options = in_mode(self.options, mode)

    def _take_plan(self, body: dict[str, Any]) -> None:
        """Replace the whole plan (C-55)."""
        listed = body.get("entries")
        if isinstance(listed, list):
            self.plan = tuple(filter(None, (step(acp.mapping(item)) for item in listed[:STEPS])))

    def _take_usage(self, body: dict[str, Any]) -> None:
        """Update the usage. An absent member is unchanged: a cost counts for the whole session."""
        used, size, spent = tokens(body.get("used")), tokens(body.get("size")), cost(body.get("cost"))
        self.usage = Usage(
            self.usage.used if used is None else used,
            self.usage.size if size is None else size,
            spent or self.usage.cost,
        )

    def _take_info(self, body: dict[str, Any]) -> None:
        """Update the title: left out is unchanged, null clears (C-57). codex tells here that its turn fails."""
        self.title = patch_member(body, "title", self.title, str, one_line)
        status = acp.mapping(acp.mapping(body.get("_meta")).get("codex")).get("threadStatus")
        if isinstance(status, dict):
            self.failure = {"codex": {"threadStatus": status}} if status.get("type") == "systemError" else None

    def _take_notice(self, body: dict[str, Any]) -> None:
        title, description = one_line(body.get("title")), acp.text(body.get("description"))[:TEXT]
        severity = one_line(body.get("severity")) or "info"
        self.notice = Notice(severity, title, description) if title or description else None

    def _take_compaction(self, body: dict[str, Any]) -> None:
        known = self._compaction(body)
        self.compaction = replace(
            known,
            status=one_line(body.get("status")) or known.status,
            summary=patch_member(body, "summary", known.summary, list, texts),
            error=patch_member(body, "error", known.error, str, lambda error: error[:TEXT]),
        )

    def _take_summary(self, body: dict[str, Any]) -> None:
        known = self._compaction(body)
        self.compaction = replace(known, summary=(known.summary + texts([body.get("content")]))[:SUMMARY])

    def _compaction(self, body: dict[str, Any]) -> Compaction:
        """Return the compaction that an update is about; an unknown one has just begun."""
        id, known = identity(body.get("compactionId")) or "", self.compaction
        return known if known is not None and known.id == id else Compaction(id)


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
OPTION_KINDS = frozenset(_TAKES)  # other kinds need not be decoded


# The tool calls of a session, merged as ACP v1 "tool calls" says (C-56), and their names.


KINDS = frozenset({"tool_call", "tool_call_update"})  # of an update
TEXTS = frozenset({"status", "title", "name", "kind"})
OVER = frozenset({"completed", "failed", "cancelled"})
_MCP = regex(r"mcp__(.+?)__.+", re.DOTALL)  # as claude, qwen and others name the tools of a server


class ToolCalls:
    """Each call by its id: a `tool_call` creates or overwrites, a `tool_call_update` changes it.

    Omitted and null members are unchanged, `content` and `locations` are replaced whole, an unknown id creates a call.
    What `_meta` held is kept as well: a question of qwen's names the tool, and no longer its server. `cancelled` is our
    own status: v1 has none on the wire (C-63).
    """

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, Any]] = {}

    def merge(self, update: dict[str, Any]) -> dict[str, Any]:
        """Merge the body of an update, or the `toolCall` of a permission question. Returns the merged call."""
        id = call_id(update)
        fresh = {key: value for key, value in update.items() if _counts(key, value)}
        if update.get("sessionUpdate") == "tool_call":
            self._calls[id] = fresh
            return fresh
        call = self._calls.setdefault(id, {})
        if isinstance(before := call.get("_meta"), dict) and isinstance(now := fresh.get("_meta"), dict):
            fresh["_meta"] = before | now
        call.update(fresh)
        return call

    def announced(self, update: dict[str, Any]) -> str:
        """Return the title that a call had before this update; empty if the update does not change it."""
        before, now = acp.text(self._calls.get(call_id(update), {}).get("title")), acp.text(update.get("title"))
        return before if now and now != before else ""

    def cancel(self) -> list[dict[str, Any]]:
        """Mark unfinished calls as cancelled, at once (C-63). Returns them."""
        unfinished = [call for call in self._calls.values() if call.get("status") not in OVER]
        for call in unfinished:
            call["status"] = "cancelled"
        return unfinished


def _counts(key: str, value: object) -> bool:
    """Whether a member counts. A malformed optional member counts as omitted (C-22)."""
    return value is not None and key != "sessionUpdate" and (key not in TEXTS or isinstance(value, str))


def call_id(call: dict[str, Any]) -> str:
    """Return the id of a call; empty if the agent gives none."""
    return acp.text(call.get("toolCallId"))


def title(call: dict[str, Any]) -> str:
    """Return the name of a call: its title, else its tool or kind. gemini and claude omit the title in updates."""
    return acp.text(call.get("title")) or tool(call) or acp.text(call.get("kind")) or "a tool call"


def tool(call: dict[str, Any]) -> str:
    """Return the name of its tool, if known: qwen, and claude before it used `name`, send it in `_meta`."""
    meta = acp.mapping(call.get("_meta"))
    claude = acp.mapping(meta.get("claudeCode"))
    return acp.text(call.get("name")) or acp.text(meta.get("toolName")) or acp.text(claude.get("toolName"))


def server(call: dict[str, Any]) -> str:
    """Return the MCP server of its tool, if the agent says so."""
    meta = acp.mapping(call.get("_meta"))
    claude = acp.mapping(acp.mapping(meta.get("claudeCode")).get("mcpServer"))
    named = _MCP.fullmatch(tool(call))
    return acp.text(meta.get("serverId")) or acp.text(claude.get("name")) or (named[1] if named else "")


# The verb of each kind, and first words of a title that say what it says, or more.
_OWN_WORDS = {
    "read": {"read": "read reading"},
    "edit": {
        "edit": "edit editing update updating modify modifying",
        "write": "write writing",
        "create": "create creating",
        "add": "add adding",
    },
    "delete": {"delete": "delete deleting remove removing"},
    "move": {"move": "move moving", "rename": "rename renaming"},
    "search": {"search": "search searching"},
    "execute": {"run": "run running execute executing"},
    "think": {"think": "think thinking"},
    "fetch": {"fetch": "fetch fetching"},
    "switch_mode": {"switch mode": "switch_mode"},
    "other": {"use": "use using other"},
}
VERBS = {kind: next(iter(verbs)) for kind, verbs in _OWN_WORDS.items()}
OWN = {
    kind: {word: verb for verb, words in verbs.items() for word in words.split()} for kind, verbs in _OWN_WORDS.items()
}


def deed(call: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Return our verb for a call of this name, and the name without its verb.

    A verb of the agent that says more, such as `create` for an edit, is ours too.
    """
    kind = acp.text(call.get("kind"))
    first, _, rest = name.partition(" ")
    own = OWN.get(kind, OWN["other"]).get(first.rstrip(":").casefold())
    return (own, rest.strip()) if own else (VERBS.get(kind, "use"), name)
