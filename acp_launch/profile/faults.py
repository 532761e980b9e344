"""
What is wrong at one path of a profile, before anybody knows the line. Pure.

The sentences every format shares are in `document.faults`. The tables below are the only place that knows which keys
DESIGN §4 promises for later, and which belong to the user and to no project: they get a sentence of their own
instead of a misleading "did you mean".
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from acp_launch.document.faults import REQUIRED, UNKNOWN_KEY, Fault, choose, described, misplaced, unknown_key
from acp_launch.document.keypath import KeyPath
from acp_launch.profile.model import (
    Agent,
    HttpServer,
    Permissions,
    Profile,
    Session,
    SseServer,
    StdioServer,
    Timeouts,
    Workspace,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

NO_VERSION = "the profile does not say which version of the format it is"
_MOVE = "config.yaml in your configuration directory"
_USERS: Mapping[str, str] = {
    **dict.fromkeys(("secrets", "max_line"), f"move it to {_MOVE}"),
    **dict.fromkeys(("secret", "store", "stores"), f'move it to "secrets" in {_MOVE}'),
    "trust": "remove it",
}
_SERVER_LATER = frozenset({"cwd", "required", "restart", "timeouts", "tools", "bridge", "env"})  # env: of http and sse
LATER: Mapping[type, frozenset[str]] = {
    Profile: frozenset({"extends", "client"}),
    Agent: frozenset({"mcp"}),
    Session: frozenset({"mode", "config"}),
    Permissions: frozenset({"rules"}),
    StdioServer: _SERVER_LATER,
    HttpServer: _SERVER_LATER,
    SseServer: _SERVER_LATER,
}
_PROGRAM = {"command": "command", "args": "command"}
_ADDRESS = {"url": "url", "headers": "url"}
_OTHER_KIND: Mapping[type, Mapping[str, str]] = {StdioServer: _ADDRESS, HttpServer: _PROGRAM, SseServer: _PROGRAM}
_SHAPES: Mapping[tuple[str, ...], type] = {
    ("agent",): Agent,
    ("agent", "timeouts"): Timeouts,
    ("workspace",): Workspace,
    ("session",): Session,
    ("permissions",): Permissions,
}


def describe(error: "ErrorDetails", shape: type, path: KeyPath) -> Fault:
    """`shape` is what was validated, at `path`."""
    inner = error["loc"]
    if inner[:2] == ("agent", "inherit_env"):
        return _inherit_env(error)
    if error["type"] in UNKNOWN_KEY:
        return _unknown_key((*path, *inner), _SHAPES.get(tuple(map(str, inner[:-1])), shape))
    return described(error, path)


def is_other_half(error: "ErrorDetails") -> bool:
    """Whether this is the half of a union that was not meant: a list is no bad `all` or `minimal`."""
    united = error["loc"][:2] == ("agent", "inherit_env")
    return united and error["type"] == "literal_error" and isinstance(error["input"], list)


def is_misspelt(fault: Fault, others: Iterable[Fault]) -> bool:
    """Whether a required key is missing only because it is there under a wrong name, which is reported."""
    missing = fault.message in (REQUIRED, NO_VERSION)
    return missing and any(
        other.path[:-1] == fault.path[:-1] and other.fix == f"write {fault.path[-1]}" for other in others
    )


def _inherit_env(error: "ErrorDetails") -> Fault:
    path: KeyPath = ("agent", "inherit_env")
    if error["loc"][-1:] and isinstance(index := error["loc"][-1], int):
        return misplaced((*path, index), "text", error["input"])
    fault = choose(path, error["input"], ("all", "minimal", "a list of names"))
    return Fault(path, fault.message, "write one of them: all" if "a list" in fault.fix else fault.fix)


def _unknown_key(path: KeyPath, shape: type) -> Fault:
    key = str(path[-1])
    if key in LATER.get(shape, ()):
        return Fault(path, f'"{key}" is not supported by this version yet', "remove it", at_key=True)
    if shape is Profile and key in _USERS:
        return Fault(path, f'"{key}" belongs to your own settings; a profile cannot set it', _USERS[key], at_key=True)
    if (other := _OTHER_KIND.get(shape)) and key in other:
        fix = "remove it, or the type if the server is such a one"
        return Fault(path, f'"{key}" belongs to a server with a {other[key]}', fix, at_key=True)
    return unknown_key(path, [field.name for field in fields(shape)])
