"""
What a front that comes late is shown of a session: every event in order, less what later ones replace. Pure.

Usage, plan, mode, options, commands and title count as they are last. The updates of a tool call are one, at the place
of the first, with the members of all: as an agent shows it that replays a history.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

LAST = frozenset(
    {
        "usage_update",
        "plan",
        "current_mode_update",
        "config_option_update",
        "available_commands_update",
        "session_info_update",
    }
)
CALLS = frozenset({"tool_call", "tool_call_update"})


class _Params(Struct):
    update: Raw


class _Line(Struct):
    params: _Params


class _Update(Struct):
    sessionUpdate: str  # noqa: N815 - as on the wire
    toolCallId: str = ""  # noqa: N815


_line, _update = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_Update)
_members = msgspec.json.Decoder(dict[str, Raw])


def coalesced(lines: Sequence[bytes]) -> list[bytes]:
    """Return what is left of these lines, each a `session/update`; one that cannot be read stays as it is."""
    left: list[bytes | None] = []
    last: dict[str, int] = {}  # the place of the latest, by kind
    calls: dict[str, int] = {}  # the place of the first, by call
    for line in lines:
        try:
            update = _update.decode(_line.decode(line).params.update)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            left.append(line)
            continue
        if update.sessionUpdate in CALLS and update.toolCallId in calls:
            place = calls[update.toolCallId]
            left[place] = _merged(left[place] or b"", line)
            continue
        if update.sessionUpdate in CALLS:
            calls[update.toolCallId] = len(left)
        elif update.sessionUpdate in LAST:
            if update.sessionUpdate in last:
                left[last[update.sessionUpdate]] = None
            last[update.sessionUpdate] = len(left)
        left.append(line)
    return [line for line in left if line is not None]


def _merged(first: bytes, second: bytes) -> bytes:
    """Return the first line with the members that the update of the second replaces (ACP v1 "tool calls")."""
    said = _members.decode(_line.decode(first).params.update)
    more = _members.decode(_line.decode(second).params.update)
    del more["sessionUpdate"]
    head, _, _ = first.partition(b'"update":')
    return head + b'"update":' + msgspec.json.encode(said | more) + b"}}\n"
