"""
What is wrong at one path of a profile, before anybody knows the line. Pure.

`describe` turns one pydantic error into a sentence of ours. The tables below are the only place that knows which
keys DESIGN §4 promises for later: they get a sentence of their own instead of a misleading "did you mean".
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from acp_launch.document.keypath import KeyPath
from acp_launch.document.nodes import Plain, found
from acp_launch.problem import Severity
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
_EXPECTED = {
    "string_type": "text",
    "dataclass_type": "a mapping",
    "dataclass_exact_type": "a mapping",
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "bad_duration": "a duration",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """`offset` counts characters into the text at `path`; `at_key` points at the key, not at its value."""

    path: KeyPath
    message: str
    fix: str = ""
    offset: int = 0
    at_key: bool = False
    severity: Severity = "error"


def misplaced(path: KeyPath, expected: str, value: Plain) -> Fault:
    """A value of the wrong type: what was expected, what was found, and the edit that is most likely meant."""
    return Fault(path, f"expected {expected}, found {found(value)}", _repair(expected, value))


def _repair(expected: str, value: Plain) -> str:
    if value is None:
        return "write a value, or remove the key"
    if expected == "text" and isinstance(value, bool | int | float):
        return f'quote it: "{str(value).lower() if isinstance(value, bool) else value}"'
    if expected == "a list" and isinstance(value, str):
        return "write it as a list: [" + ", ".join(value.split()[:4]) + "]" if len(value) < 60 else "write it as a list"
    return next((fix for what, fix in _SHAPED.items() if expected.startswith(what)), "write it as that")


_REQUIRED = "this key is required"
NO_VERSION = "the profile does not say which version of the format it is"
_SHAPED = {
    "a mapping": "write it on lines of its own as KEY: VALUE",
    "a list": "write each item on a line of its own after a dash: - ITEM",
    "text": "write one text, in quotes if need be",
}


def choose(path: KeyPath, value: Plain, choices: Sequence[str], meant: str | None = None) -> Fault:
    """A value outside a fixed list."""
    listed = ", ".join(choices[:-1]) + f" or {choices[-1]}"
    nearest = meant or next(iter(get_close_matches(value, choices, 1) if isinstance(value, str) else []), "")
    fix = f"write {nearest}" if nearest else f"write one of them: {choices[0]}"
    return Fault(path, f"expected {listed}, found {found(value)}", fix)


def describe(error: "ErrorDetails", shape: type, path: KeyPath) -> Fault:
    """`shape` is what was validated, at `path`."""
    inner, kind, value = error["loc"], error["type"], error["input"]
    where = (*path, *inner)
    if inner[:2] == ("agent", "inherit_env"):
        return _inherit_env(error)
    if kind == "missing":
        return Fault(where, _REQUIRED, f"add: {inner[-1]}: ...")
    if kind == "unexpected_keyword_argument":
        return _unknown_key(where, _SHAPES.get(tuple(map(str, inner[:-1])), shape))
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind == "bad_reference":
        return Fault(where, context["message"], context["fix"], offset=context["offset"])
    if kind == "bad_duration":
        return Fault(where, f"expected a duration, found {found(value)}", context["fix"])
    if kind == "literal_error":
        return choose(where, value, re.findall(r"'([^']*)'", context["expected"]))
    return misplaced(where, _EXPECTED.get(kind, error["msg"]), value)


def is_other_half(error: "ErrorDetails") -> bool:
    """Whether this is the half of a union that was not meant: a list is no bad `all` or `minimal`."""
    united = error["loc"][:2] == ("agent", "inherit_env")
    return united and error["type"] == "literal_error" and isinstance(error["input"], list)


def is_misspelt(fault: Fault, others: Iterable[Fault]) -> bool:
    """Whether a required key is missing only because it is there under a wrong name, which is reported."""
    missing = fault.message in (_REQUIRED, NO_VERSION)
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
    if (other := _OTHER_KIND.get(shape)) and key in other:
        fix = "remove it, or the type if the server is such a one"
        return Fault(path, f'"{key}" belongs to a server with a {other[key]}', fix, at_key=True)
    known = [field.name for field in fields(shape)]
    nearest = next(iter(get_close_matches(key.lower().replace("-", "_"), known, 1)), "")
    if nearest:
        return Fault(path, f'unknown key "{key}"; did you mean "{nearest}"?', f"write {nearest}", at_key=True)
    return Fault(path, f'unknown key "{key}"', f"use one of {', '.join(known)}", at_key=True)
