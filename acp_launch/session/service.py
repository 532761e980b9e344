"""What the agent may ask of us besides permission: one function a method, and how a request is refused."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from acp_launch.protocol import jsonrpc

# Takes the params of a request, already known to be an object; gives the result.
Serve = Callable[[dict[str, Any]], Awaitable[object]]
Services = Mapping[str, Serve]  # by method

Outcome = Literal["done", "refused", "failed"]


class Refusal(Exception):  # noqa: N818 - it reads as what happened
    """Raised by a service: the request is answered with this JSON-RPC error. `message` is one short sentence."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def invalid(message: str) -> Refusal:
    """The params are wrong."""
    return Refusal(jsonrpc.INVALID_PARAMS, message)


def missing(what: str, data: object = None) -> Refusal:
    """There is no such file, directory or terminal."""
    return Refusal(jsonrpc.NOT_FOUND, what, data)


class FileServed(Struct, frozen=True, kw_only=True):
    """A file the agent had read or written by us. `old` is None for a new file, or one that was only read."""

    path: str
    how: Literal["read", "write"]
    outcome: Outcome
    reason: str = ""  # why not
    old: str | None = None
    new: str | None = None


class TerminalServed(Struct, frozen=True, kw_only=True):
    """A step in the life of a command the agent had us run: it began (`output` empty), said more, or ended."""

    terminal_id: str
    command: str  # the whole command line, for people
    cwd: str
    output: str = ""  # what came since the last step
    exit: str | None = None  # "exit status 1", "signal SIGKILL", or "it was refused: …"; None while it runs
