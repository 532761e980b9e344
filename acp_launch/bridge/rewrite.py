"""The ways in which a message may leave in other bytes than it came in: a batch that loses some, another id, roots."""

from collections.abc import Callable

from msgspec import Raw

from acp_launch.protocol import jsonrpc

One = Callable[[bytes], bytes | None]  # takes a message, and gives what of it passes
Broke = Callable[[bytes, Exception], None]
ROOTS = b'{"listChanged":true}'


def each(line: bytes, one: One, broke: Broke) -> bytes | None:
    """Let `one` see every message of a line; a batch stays the line it was if all of it passes.

    Should `one` raise, `broke` is told, and that message does not pass.
    """

    parts = jsonrpc.batch(line)
    if not parts:
        return _contained(line, one, broke)
    passed = [rest for part in parts if (rest := _contained(part, one, broke)) is not None]
    if passed == parts:
        return line
    return b"[" + b",".join(passed) + b"]" if passed else None


def _contained(part: bytes, one: One, broke: Broke) -> bytes | None:
    try:
        return one(part)
    except Exception as error:
        broke(part, error)
        return None


def with_roots(line: bytes) -> bytes:
    """An `initialize` that declares `roots`, whatever it declared before; unchanged when there is no place for it."""
    from acp_launch.protocol.splice import Malformed, members

    try:
        (params,) = (member for member in members(line) if member.key == "params")
        (able,) = (member for member in members(line, params.start) if member.key == "capabilities")
        declared = members(line, able.start)
    except (Malformed, ValueError):
        return line
    for member in declared:
        if member.key == "roots":
            return line[: member.start] + ROOTS + line[member.end :]
    end = able.end - 1  # where the bracket is
    return line[:end] + (b"," if declared else b"") + b'"roots":' + ROOTS + line[end:]


def with_id(line: bytes, id: Raw) -> bytes:
    """The same message under another id."""
    from acp_launch.protocol.splice import members

    for member in reversed(members(line)):
        if member.key == "id":
            return line[: member.start] + bytes(id) + line[member.end :]
    return line
