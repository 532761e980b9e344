"""
Edits of JSON-RPC messages in place: the id, members of `params`, `_meta` and `result`. All other bytes stay. Pure.

`written` are members of an object as JSON, without the brackets around them: `"key":value,…`.
"""

from collections.abc import Collection

from msgspec import Raw

from acp_launch.protocol import splice


def with_id(line: bytes, id: Raw) -> bytes:
    """Replace the id of a message."""
    member = splice.find(line, 0, "id")
    return line if member is None else line[: member.start] + bytes(id) + line[member.end :]


def with_params(line: bytes, written: bytes) -> bytes:
    """Add members to the `params` of a message, which are made if they are missing."""
    return _within(line, 0, ("params",), written)


def with_meta(line: bytes, written: bytes) -> bytes:
    """Add members to the `_meta` of the `params` of a message."""
    return _within(line, 0, ("params", "_meta"), written)


def with_members(line: bytes, path: tuple[str, ...], written: bytes) -> bytes:
    """Add members to the object at `path` of a message, which is made if it is missing."""
    return _within(line, 0, path, written)


def with_result(line: bytes, written: bytes) -> bytes:
    """Add members to the result of an answer; return it unchanged if it is not an object."""
    result = splice.find(line, 0, "result")
    return (
        line if result is None or not splice.is_object(line, result.start) else splice.put(line, result.start, written)
    )


def without(line: bytes, path: Collection[str], keys: Collection[str]) -> bytes:
    """Remove members of the object at `path` (`("params", "_meta")`), if there is one."""
    start = 0
    for key in path:
        member = splice.find(line, start, key)
        if member is None or not splice.is_object(line, member.start):
            return line
        start = member.start
    found = splice.members(line, start)
    return splice.without(line, [(each.key_start, each.end) for each in found if each.key in keys])


def replaced(line: bytes, path: Collection[str], written: bytes) -> bytes:
    """Replace the value at `path`, if there is one."""
    found = at(line, path)
    return line if found is None else line[: found[0]] + written + line[found[1] :]


def at(line: bytes, path: Collection[str]) -> splice.Span | None:
    """Return start and end of the value at `path`; None if there is none."""
    start, end = 0, len(line)
    try:
        for key in path:
            member = splice.find(line, start, key)
            if member is None:
                return None
            start, end = member.start, member.end
    except splice.Malformed:  # a value on the way is not an object
        return None
    return start, end


def _within(line: bytes, start: int, path: tuple[str, ...], written: bytes) -> bytes:
    if not path:
        return splice.put(line, start, written)
    member = splice.find(line, start, path[0])
    if member is not None and splice.is_object(line, member.start):
        return _within(line, member.start, path[1:], written)
    for key in reversed(path):
        written = b'"' + key.encode() + b'":{' + written + b"}"
    if member is not None:  # null, or no object at all
        line = splice.without(line, [(member.key_start, member.end)])
    return splice.put(line, start, written)
