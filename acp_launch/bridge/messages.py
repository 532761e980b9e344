"""
The messages that the bridge makes or changes: errors in place of a lost server, batches, ids, and roots.

The error codes are in the range that JSON-RPC leaves to implementations and MCP 2026-07-28 leaves free (-32000 to
-32019). Pure.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from acp_launch.process.lifecycle import Change
from acp_launch.protocol import jsonrpc

TIMED_OUT = -32011
AGAIN, NOT_STARTED = "it is being started again", "could not be started"
BROKEN = "this message was not passed on, by a bug in acp-launch"
WORDS = 5  # stderr lines in a message, because most agents show only the message


class Lost(Struct, frozen=True, kw_only=True):
    """The reason why a server cannot answer now; `comes_back` says what happens next, empty if nothing does."""

    server: str
    why: str
    comes_back: str = ""
    stderr: Sequence[str] = ()

    def line(self, id: Raw, method: str, *, was_sent: bool) -> bytes:
        """Build the answer to request `id`; `was_sent` tells whether the server may have begun with it."""
        during = f" during {method}, whose outcome is unknown" if was_sent else ""
        message = f'MCP server "{self.server}" {self.why}{during}'
        if self.comes_back:
            message += f"; {self.comes_back}"
        elif self.stderr:
            message += "; its last stderr lines: " + " / ".join(self.stderr[-WORDS:])
        return jsonrpc.error(id, jsonrpc.SERVER_LOST, message, {"server": self.server, "stderr": list(self.stderr)})


def lost(change: Change, name: str) -> Lost:
    """Describe a lost server to the agent, without the path of a program that could not be started."""
    if change.state == "resting":
        return Lost(server=name, why=change.exit or NOT_STARTED, comes_back=AGAIN, stderr=change.detail)
    if change.state == "asleep":
        return Lost(server=name, why="was not running", comes_back="it is being started")
    why = "; ".join(filter(None, (change.exit, change.reason))) if change.exit else NOT_STARTED
    return Lost(server=name, why=f"failed: {why}", stderr=change.detail)


# Changes to passing messages: batches, ids, roots.

One = Callable[[bytes], bytes | None]  # takes a message, and returns the bytes to pass on
Broke = Callable[[bytes, Exception], None]
ROOTS = b'{"listChanged":true}'


def each(line: bytes, one: One, broke: Broke) -> bytes | None:
    """Pass every message of a line through `one`; a batch stays unchanged if all of it passes.

    If `one` raises, `broke` gets the error, and the message does not pass.
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
    """Declare `roots` in an `initialize`; return it unchanged if it has no readable capabilities."""
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
    end = able.end - 1  # the closing bracket
    return line[:end] + (b"," if declared else b"") + b'"roots":' + ROOTS + line[end:]


# A server of both eras of MCP chooses by its first request ("stdio, choosing the era"). If that was our ping, it
# refuses the requests of an agent that does no handshake.

WRONGED = "took our ping for the protocol of its client, which is a newer one"  # completes "the server …"


# What a server offers: its answer to the handshake, or since 2026-07-28 to `server/discover`.

PRESENTING = frozenset({"initialize", "server/discover"})


class _Offer(Struct):
    tools: Raw | UnsetType = UNSET


class _Presentation(Struct):
    capabilities: _Offer


_presentation = msgspec.json.Decoder(_Presentation)


def offers_tools(result: Raw) -> bool:
    """Tell whether a server has tools, by its answer to one of `PRESENTING`; an unreadable answer counts as yes."""
    found = jsonrpc.read(_presentation, result)
    return found is None or found.capabilities.tools is not UNSET


# Roots: a server gets the agent's roots if the agent declares them, else the session's (M-47).


class _Capabilities(Struct):
    roots: Raw | UnsetType = UNSET


class _Initialize(Struct):
    capabilities: _Capabilities


_initialize = msgspec.json.Decoder(_Initialize)


def are_declared(params: Raw) -> bool:
    """Tell whether an agent's `initialize` declares that it answers `roots/list` itself."""
    found = jsonrpc.read(_initialize, params)
    return found is not None and found.capabilities.roots is not UNSET
