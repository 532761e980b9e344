"""
Policy for a server's tools: the tools that the agent may see and call (`tools.allow`, `tools.deny`). Pure: lines in,
lines out.

A message of the agent is refused if two programs could read it differently. Some servers (in Go) ignore the case of
keys, and JSON does not define which of two equal keys counts.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate

from acp_launch.profile.model import Tools
from acp_launch.protocol.splice import Malformed, Member, elements, is_text, members, text, without_spans

CALL = "tools/call"
MAX_NAME_CHARS = 60  # of a tool, in a message
_Globs = tuple[tuple[str, re.Pattern[str]], ...]


class _Unclear(Exception):  # noqa: N818
    """Raised when a message has several readings, or none; the text says why."""


class ToolPolicy:
    """`allow` and `deny` of one server, as globs that match like `fnmatchcase`; `deny` wins."""

    def __init__(self, server: str, tools: Tools) -> None:
        self.is_open = "*" in tools.allow and not tools.deny
        self._server = server
        self._allow, self._deny = _globs(tools.allow), _globs(tools.deny)

    def allows(self, name: str) -> bool:
        return not self._why(name)

    def refusal(self, line: bytes) -> str:
        """
        Say why this message of the agent is refused; empty if it may pass.

        `line` is one message, not a batch. Unambiguous messages other than calls of tools always pass.
        """
        if self.is_open:
            return ""
        try:
            name = _called(line)
        except _Unclear as unclear:
            return f'"{self._server}" restricts its tools, and this message cannot be checked: {unclear}'
        if name is None or not (why := self._why(name)):
            return ""
        return f'the tool "{_shown(name)}" of "{self._server}" is not allowed by the profile ({why})'

    def filtered(self, line: bytes) -> tuple[bytes, int]:
        """
        Remove the tools that are not allowed from an answer to `tools/list`; return it with the number of tools left.

        All other bytes stay the same. An answer without a readable list of tools stays as it is and counts 0, because
        calls are checked anyway.
        """
        try:
            tools = list(_listed(line))
        except Malformed:
            return line, 0
        denied = [span for span, names in tools if not all(map(self.allows, names))]
        return without_spans(line, denied) if denied else line, len(tools) - len(denied)

    def _why(self, name: str) -> str:
        """Name the part of the profile that forbids the tool; empty if it is allowed."""
        for glob, pattern in self._deny:
            if pattern.match(name):
                return f"tools.deny: {glob}"
        return "" if any(pattern.match(name) for _, pattern in self._allow) else "not in tools.allow"


def _globs(globs: Sequence[str]) -> _Globs:
    return tuple((glob, re.compile(translate(glob))) for glob in globs)


def _called(line: bytes) -> str | None:
    """Return the tool that a message calls; None if it is not a call."""
    try:
        message = members(line)
        method = _only(line, message, "method")
        if method is None or method != CALL:
            return None
        params = _member(message, "params")
        named = members(line, params.start) if params and line.startswith(b"{", params.start) else []
        tool = _only(line, named, "name")
    except Malformed as malformed:
        raise _Unclear(f"it is not a JSON-RPC message ({malformed})") from None
    if tool is None:
        raise _Unclear("it names no tool")
    return tool


def _only(line: bytes, message: Sequence[Member], key: str) -> str | None:
    member = _member(message, key)
    if member is None:
        return None
    if not is_text(line, member.start):
        raise _Unclear(f'its "{key}" is not a string')
    return text(line, member.start)


def _member(message: Sequence[Member], key: str) -> Member | None:
    """Return the member `key`; refuse a message with other members that a server could take for it."""
    alike = [member for member in message if member.key.casefold() == key]
    if len(alike) > 1:
        raise _Unclear(f'it holds "{key}" {len(alike)} times')
    if alike and alike[0].key != key:
        raise _Unclear(f'it writes "{key}" as "{alike[0].key}"')
    return alike[0] if alike else None


def _listed(line: bytes) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Yield the span of each tool in `result.tools`, and its name, or names if the key is repeated."""
    for result in _named(members(line), "result"):
        for tools in _named(members(line, result.start), "tools"):
            for start, end in elements(line, tools.start):
                tool = members(line, start) if line.startswith(b"{", start) else []
                names = [text(line, name.start) for name in _named(tool, "name") if is_text(line, name.start)]
                yield (start, end), names


def _named(found: Sequence[Member], key: str) -> Iterator[Member]:
    return (member for member in found if member.key == key)


def _shown(name: str) -> str:
    """Shorten a name and replace unprintable characters."""
    printable = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return printable if len(printable) <= MAX_NAME_CHARS else printable[: MAX_NAME_CHARS - 3] + "..."
