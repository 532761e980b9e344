"""
What we answer in a server's place: JSON-RPC errors that say which server, what happened to it, and what comes next.

The code is one of the range JSON-RPC leaves to implementations and MCP 2026-07-28 leaves free (-32000 to -32019).
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.process.lifecycle import Change
from acp_launch.protocol import jsonrpc

SERVER_LOST = -32010
TIMED_OUT = -32011
AGAIN, NOT_STARTED = "it is being started again", "could not be started"
BROKEN = "this message was not passed on, by a bug in acp-launch"
WORDS = 5  # stderr lines repeated in a message: agents mostly show nothing but the message


class Lost(Struct, frozen=True, kw_only=True):
    """Why a server cannot answer now; `comes_back` is what happens next, empty when nothing does."""

    server: str
    why: str
    comes_back: str = ""
    stderr: Sequence[str] = ()

    def line(self, id: Raw, method: str, *, was_sent: bool) -> bytes:
        """The answer to request `id`; `was_sent` tells whether the server may have begun with it."""
        during = f" during {method}, whose outcome is unknown" if was_sent else ""
        message = f'MCP server "{self.server}" {self.why}{during}'
        if self.comes_back:
            message += f"; {self.comes_back}"
        elif self.stderr:
            message += "; its last words: " + " / ".join(self.stderr[-WORDS:])
        return jsonrpc.error(id, SERVER_LOST, message, {"server": self.server, "stderr": list(self.stderr)})


def lost(change: Change, name: str) -> Lost:
    """For the agent's ears: what could not be started is not for them, its path included."""
    if change.state == "resting":
        return Lost(server=name, why=change.exit or NOT_STARTED, comes_back=AGAIN, stderr=change.detail)
    why = "; ".join(filter(None, (change.exit, change.reason))) if change.exit else NOT_STARTED
    return Lost(server=name, why=f"failed: {why}", stderr=change.detail)


# The ways in which a message may leave in other bytes than it came in: a batch that loses some, another id, roots.


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


# Which era of MCP an agent speaks. Pure.
#
# Since 2026-07-28 there is no handshake and no ping: every request carries its version in `_meta`. A server of both
# eras goes by the first request it gets ("stdio, choosing the era"); was that our ping, it refuses what a newer agent
# asks.


WRONG_ERA = -32600  # what such a server says then
WRONGED = "took our ping for the protocol of its client, which is a newer one"  # completes "the server …"


class _Meta(Struct):
    version: Raw | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")


class _Params(Struct):
    meta: _Meta = field(default_factory=_Meta, name="_meta")


_params = msgspec.json.Decoder(_Params)


def is_modern(params: Raw) -> bool:
    """Whether a request with these parameters is of the era without a handshake."""
    found = jsonrpc.read(_params, params)
    return found is not None and found.meta.version is not UNSET


# Whose roots a server is told: the agent's when it declares them, else the session's (M-47). Pure.


METHOD = "roots/list"
CHANGED = "notifications/roots/list_changed"


class _Capabilities(Struct):
    roots: Raw | UnsetType = UNSET


class _Initialize(Struct):
    capabilities: _Capabilities


_initialize = msgspec.json.Decoder(_Initialize)


def are_declared(params: Raw) -> bool:
    """Whether an agent's `initialize` says that it answers `roots/list` itself."""
    found = jsonrpc.read(_initialize, params)
    return found is not None and found.capabilities.roots is not UNSET
