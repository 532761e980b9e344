"""The two ways in which a message may leave in other bytes than it came in: a batch that loses some, another id."""

from collections.abc import Callable

from msgspec import Raw

from acp_launch.protocol import jsonrpc


def each(line: bytes, one: Callable[[bytes], bytes | None]) -> bytes | None:
    """Let `one` see every message of a line; a batch stays the line it was if all of it passes."""
    parts = jsonrpc.batch(line)
    if not parts:
        return one(line)
    passed = [rest for part in parts if (rest := one(part)) is not None]
    if passed == parts:
        return line
    return b"[" + b",".join(passed) + b"]" if passed else None


def with_id(line: bytes, id: Raw) -> bytes:
    """The same message under another id."""
    from acp_launch.protocol.splice import members

    for member in reversed(members(line)):
        if member.key == "id":
            return line[: member.start] + bytes(id) + line[member.end :]
    return line
