"""
What was allowed in this turn, and whether a file or a command we are asked to serve is that very thing. Pure.

A permission is for a kind of act: who allowed to read a file has not allowed to write it. A command is the same when it
is run in the same directory; a change is the same when it is the one that was shown, where one was.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from acp_launch.protocol import acp
from acp_launch.session.permission.spelling import Links, real
from acp_launch.session.permission.subject import Subject

Change = tuple[str, str]  # the text that goes, the text that comes
KINDS = frozenset({"edit", "execute"})


class Grant(Struct, frozen=True):
    """`changes` are those that were shown, by path; `cwd` is where its command was to run, if it said so."""

    kind: str
    about: Subject
    changes: Mapping[str, tuple[Change, ...]]
    cwd: str

    def covers(self, call: Mapping[str, Any], about: Subject, *, cwd: str, links: Links = ()) -> bool:
        """Whether `call` is what was allowed; `cwd` is the session's directory, `links` as in the policy."""
        if self.kind not in KINDS or call.get("kind") != self.kind:
            return False
        if self.kind == "execute":
            return self._covers_command(about) and _directory(call, links) in (real(cwd, links), self.cwd)
        return self._covers_edit(about, _changes(call, links))

    def _covers_command(self, about: Subject) -> bool:
        allowed = {reading for readings in self.about.commands for reading in readings}
        is_same = all(any(reading in allowed for reading in readings) for readings in about.commands)
        return bool(about.commands) and is_same

    def _covers_edit(self, about: Subject, changed: Mapping[str, tuple[Change, ...]]) -> bool:
        if not about.paths or not all(path and path in self.about.paths for path in about.paths):
            return False
        return all(self._is_shown(path, change) for path, changes in changed.items() for change in changes)

    def _is_shown(self, path: str, change: Change) -> bool:
        """Agents show a whole file, or only the places that change, one after the other."""
        shown = self.changes.get(path)
        if shown is None:
            return True  # the file is what was allowed
        before, after = change
        if any(new == after for _, new in shown):
            return True
        for old, new in shown:
            if not old or old not in before:
                return False
            before = before.replace(old, new, 1)
        return before == after


def grant(call: Mapping[str, Any], about: Subject, links: Links = ()) -> Grant:
    """What allowing `call` allows."""
    return Grant(acp.text(call.get("kind")), about, _changes(call, links), _directory(call, links))


def _changes(call: Mapping[str, Any], links: Links) -> dict[str, tuple[Change, ...]]:
    """By real path."""
    found: dict[str, tuple[Change, ...]] = {}
    for content in map(acp.mapping, acp.sequence(call.get("content"))):
        if content.get("type") == "diff":
            change = (acp.text(content.get("oldText")), acp.text(content.get("newText")))
            path = real(acp.text(content.get("path")), links)
            found[path] = (*found.get(path, ()), change)
    return found


def _directory(call: Mapping[str, Any], links: Links) -> str:
    return real(acp.text(acp.mapping(call.get("rawInput")).get("cwd")), links)
