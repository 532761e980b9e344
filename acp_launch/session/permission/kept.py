"""
Answers that are to hold for more than this once: for how long, which tool calls one holds for, and how one is made of
a call. Pure.
"""

import re
from typing import Any, Literal

from msgspec import Struct

from acp_launch.session.permission.likeness import likeness
from acp_launch.session.permission.spelling import Links
from acp_launch.session.permission.subject import UNKNOWN, Subject, subject
from acp_launch.session.person import Holds

READS = frozenset({"read", "search"})  # not fetch, think or switch_mode: adapters hide real decisions behind those
VAGUE = frozenset({"edit", "delete", "move", "fetch", "execute"})  # a tool's name alone does not say what it would do
_FUTURE = re.compile(r"\b(?:all|any|every|the)?\s*future(?:\s+sessions?)?\b|\b(?:all|any|every)\s+sessions?\b")
_ALWAYS = re.compile(r"\b(?:always|never|forever|permanently|for good)\b")
_ENDS = re.compile(
    r"session|conversation|restart|reload|today|tonight|temporar"
    r"|\b(?:until|till|for now|hours?|minutes?|days?|weeks?)\b"
    r"|\b(?:this|the|current|per)\s+(?:chat|thread|task|turn|prompt|run|request|time)\b"
)


def holds(kind: str, name: str) -> Holds:
    """
    For how long an answer lives, by the kind of its option and by what the agent calls it. Agents call "always" what
    they forget when they end, so it is for good only where the name says so, and names no end.
    """
    if not kind.endswith("_always"):
        return "once"
    said = _FUTURE.sub(" always ", name.casefold())
    return "always" if _ALWAYS.search(said) and not _ENDS.search(said) else "session"


class Remembered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    An answer that was given to be kept, and the call it was given to: it holds for calls that are the same in kind,
    tool, command, place, address and what else of the input counts (`likeness`), and name no other file. The title
    counts where the tool has no name, or where nothing else says what would be done. `input` is None for an answer that
    is no answer any more, unless it was a no: from before inputs counted, or before anybody was told that it is kept.
    `session` is the one it holds in, by our name; None for good.
    """

    answer: Literal["allow", "deny"]
    kind: str
    tool: str
    title: str
    paths: tuple[str, ...]
    commands: tuple[str, ...]
    directories: tuple[str, ...]
    addresses: tuple[str, ...]
    since: float  # Unix seconds
    input: str | None = None
    session: str | None = None

    def __str__(self) -> str:
        return f"always {self.answer}" if self.session is None else f"{self.answer} in this session"

    @property
    def is_outdated(self) -> bool:
        return self.input is None and self.answer == "allow"


def covers(kept: Remembered, about: Subject, input: str) -> bool:
    """Whether an answer holds for this call; `input` is its `likeness`."""
    is_no = kept.answer == "deny"  # given before we knew where an agent names its tools, it holds for any
    return (
        kept.kind == about.kind
        and (kept.tool == about.tool or (is_no and not kept.tool))
        and kept.commands == _commands(about)
        and kept.directories == about.directories
        and kept.addresses == about.addresses
        and bool(kept.paths) == bool(about.paths)
        and set(about.paths) <= set(kept.paths)
        and (not kept.title or kept.title == about.title)
        and (kept.input == input or (kept.input is None and not kept.is_outdated))
    )


def serves(kept: Remembered, about: Subject, *, cwd: str) -> bool:
    """Whether an answer to a call of the agent's also holds for the file or command that we serve to carry it out.

    That comes without the agent's title and tool: its kind, its file or its command in the same place have to do.
    """
    if kept.answer != "allow" or kept.is_outdated or kept.kind != about.kind or about.addresses:
        return False
    if kept.kind == "edit":
        return bool(about.paths) and set(about.paths) <= set(kept.paths) and not about.commands
    places = {cwd, *kept.directories}
    is_known = all(any(reading in kept.commands for reading in readings) for readings in about.commands)
    return kept.kind == "execute" and bool(about.commands) and is_known and set(about.directories) <= places


def remember(
    call: dict[str, Any], allowed: bool, *, cwd: str, home: str, since: float, links: Links = ()
) -> Remembered | None:
    """
    The answer as it may be kept; None for a call that does not say enough to be known again.

    Allowing a change of mode is never kept: every plan is another, and they all look alike. The name of a tool alone
    says nothing: without an input, or a title of a call whose kind is said, there is nothing to know it by.
    """
    about = subject(call, cwd=cwd, home=home, links=links)
    is_clear = UNKNOWN not in (*about.paths, *about.directories) and all(about.commands)
    if not is_clear or (allowed and about.kind in ("switch_mode", "think")):
        return None
    is_specific = bool(about.paths or about.commands or about.addresses)
    input = likeness(call, about)
    is_titled = about.kind in VAGUE | READS and about.title not in ("", about.tool)
    if not (is_specific or input or is_titled):
        return None
    is_named = bool(about.tool) and (is_specific or (bool(input) and about.kind not in VAGUE))
    return Remembered(
        answer="allow" if allowed else "deny",
        kind=about.kind,
        tool=about.tool,
        title="" if is_named else about.title,
        paths=about.paths,
        commands=_commands(about),
        directories=about.directories,
        addresses=about.addresses,
        since=since,
        input=input,
    )


def _commands(about: Subject) -> tuple[str, ...]:
    return tuple(readings[0] if readings else "" for readings in about.commands)
