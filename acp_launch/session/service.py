"""The interface of the services for the agent: one function for each method, and the errors that refuse a request."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from acp_launch.protocol import jsonrpc

# Takes the params of a request, which are known to be an object, and returns the result.
Serve = Callable[[dict[str, Any]], Awaitable[object]]
Services = Mapping[str, Serve]  # by method

Outcome = Literal["done", "refused", "failed"]


class Refusal(Exception):  # noqa: N818 - the name states the fault
    """Raised by a service to answer the request with this JSON-RPC error. `message` is one short sentence."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def invalid(message: str) -> Refusal:
    """Return the refusal for wrong params."""
    return Refusal(jsonrpc.INVALID_PARAMS, message)


def missing(what: str, data: object = None) -> Refusal:
    """Return the refusal for a file, directory or terminal that does not exist."""
    return Refusal(jsonrpc.NOT_FOUND, what, data)


class FileServed(Struct, frozen=True, kw_only=True):
    """A file that we read or wrote for the agent. `old` is None for a new file, or one that was only read."""

    path: str
    how: Literal["read", "write"]
    outcome: Outcome
    reason: str = ""  # why not
    old: str | None = None
    new: str | None = None


class TerminalServed(Struct, frozen=True, kw_only=True):
    """A step of a command that we run for the agent: it began (`output` empty), printed more, or ended."""

    terminal_id: str
    command: str  # the whole command line, as shown to the user
    cwd: str
    output: str = ""  # new since the last step
    exit: str | None = None  # "exit status 1", "signal SIGKILL", or "it was refused: …"; None while it runs
