"""
What is wrong at one path of a profile, before anybody knows the line. Pure.

The sentences every format shares are in `document.faults`. The tables below are the only place that knows which keys
DESIGN §4 promises for later, and which belong to the user and to no project: they get a sentence of their own
instead of a misleading "did you mean". And what others call a key of ours is meant more surely than what looks alike.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.document.faults import REQUIRED, UNKNOWN_KEY, Fault, choose, described, misplaced, unknown_key
from acp_launch.document.keypath import KeyPath
from acp_launch.document.nodes import Plain, found
from acp_launch.document.shape import Shape
from acp_launch.profile.model import (
    Agent,
    Backoff,
    Client,
    HttpServer,
    Match,
    Permissions,
    Profile,
    Restart,
    Rule,
    ServerTimeouts,
    Session,
    SseServer,
    StdioServer,
    Timeouts,
    Tools,
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
_REMOTE_LATER = frozenset({"restart", "timeouts", "tools", "roots", "bridge", "env"})
LATER: Mapping[type, frozenset[str]] = {
    Agent: frozenset({"mcp"}),
    HttpServer: _REMOTE_LATER,
    SseServer: _REMOTE_LATER,
}
_PROGRAM = dict.fromkeys(("command", "args", "cwd", "inherit_env"), "command")
_ADDRESS = {"url": "url", "headers": "url"}
_OTHER_KIND: Mapping[type, Mapping[str, str]] = {StdioServer: _ADDRESS, HttpServer: _PROGRAM, SseServer: _PROGRAM}
_SHAPES: Mapping[type[Shape], Mapping[tuple[str, ...], type[Shape]]] = {
    Profile: {
        ("agent",): Agent,
        ("agent", "timeouts"): Timeouts,
        ("workspace",): Workspace,
        ("session",): Session,
        ("permissions",): Permissions,
        ("permissions", "rules", "*"): Rule,
        **{("permissions", "rules", "*", answer): Match for answer in ("allow", "deny", "ask")},
        ("client",): Client,
    },
    StdioServer: {
        ("restart",): Restart,
        ("restart", "backoff"): Backoff,
        ("timeouts",): ServerTimeouts,
        ("tools",): Tools,
    },
}
_OTHER_KEYS = {  # as other programs and formats call them
    **dict.fromkeys(("cmd", "executable", "program"), "command"),
    **dict.fromkeys(("arguments", "argv"), "args"),
    **dict.fromkeys(("environment", "envs", "env_vars", "environment_variables"), "env"),
    **dict.fromkeys(("directory", "workdir", "working_dir", "working_directory", "workingdirectory"), "cwd"),
    **dict.fromkeys(("mcpservers", "servers", "mcp"), "mcp_servers"),
    **dict.fromkeys(("uri", "endpoint", "serverurl", "server_url"), "url"),
    **dict.fromkeys(("approve", "accept", "permit"), "allow"),
    **dict.fromkeys(("reject", "refuse", "forbid", "block"), "deny"),
    **dict.fromkeys(("tool_name", "tools"), "tool"),
    **dict.fromkeys(("file", "files", "file_path"), "path"),
    **dict.fromkeys(("filesystem", "file_system"), "fs"),
    **dict.fromkeys(("inherit", "inherits", "parent", "parents", "include", "includes", "base"), "extends"),
}
_POLICIES = ("always", "on-failure", "never")
_OTHER_POLICIES = {  # as other supervisors call them
    **dict.fromkeys(("no", "off", "none", "false"), "never"),
    **dict.fromkeys(("yes", "on", "true", "unless-stopped"), "always"),
    **dict.fromkeys(("on_failure", "onfailure", "failure", "on-error", "exit_on_failure"), "on-failure"),
}


def describe(error: "ErrorDetails", shape: type[Shape], path: KeyPath) -> Fault:
    """`shape` is what was validated, at `path`."""
    inner = error["loc"]
    if united := _united(inner):
        return _inherit_env(error, (*path, *united))
    if error["type"] in UNKNOWN_KEY:
        return _unknown_key((*path, *inner), _shape(shape, inner[:-1]))
    if shape is StdioServer and inner in (("restart",), ("restart", "policy")):
        return _restart(error, (*path, *inner))
    if inner[:2] == ("session", "config") and error["type"] == "bad_scalar":
        return replace(described(error, path), fix=misplaced(path, "text", error["input"]).fix)
    if inner[:2] == ("permissions", "rules") and error["type"] == "tuple_type" and len(inner) > 3:
        return _globs((*path, *inner), error["input"])
    return described(error, path)


def _globs(path: KeyPath, value: Plain) -> Fault:
    return replace(misplaced(path, "text", value), message=f"expected a glob or a list of them, found {found(value)}")


def is_other_half(error: "ErrorDetails") -> bool:
    """Whether this is the half of a union that was not meant: a list is no bad `all` or `minimal`."""
    return bool(_united(error["loc"])) and error["type"] == "literal_error" and isinstance(error["input"], list)


def _shape(shape: type[Shape], inner: KeyPath) -> type[Shape]:
    return _SHAPES.get(shape, {}).get(tuple("*" if isinstance(step, int) else step for step in inner), shape)


def _united(inner: KeyPath) -> KeyPath:
    """The path of the `inherit_env` an error is about, of the agent or of a server; empty for any other."""
    return next((path for path in (("agent", "inherit_env"), ("inherit_env",)) if inner[: len(path)] == path), ())


def is_misspelt(fault: Fault, others: Iterable[Fault]) -> bool:
    """Whether a required key is missing only because it is there under a wrong name, which is reported."""
    missing = fault.message in (REQUIRED, NO_VERSION)
    return missing and any(
        other.path[:-1] == fault.path[:-1] and other.fix == f"write {fault.path[-1]}" for other in others
    )


def _restart(error: "ErrorDetails", path: KeyPath) -> Fault:
    """A bare policy is the likeliest mistake: `restart: always` is how others write it."""
    value = error["input"]
    word = str(value).lower() if isinstance(value, str | bool) else ""
    policy = word if word in _POLICIES else _OTHER_POLICIES.get(word)
    if path[-1] == "policy":
        return choose(path, value, _POLICIES, policy)
    fault = described({**error, "loc": ()}, path)
    return replace(fault, fix=f"write restart: {{policy: {policy}}}") if policy else fault


def _inherit_env(error: "ErrorDetails", path: KeyPath) -> Fault:
    if error["loc"][-1:] and isinstance(index := error["loc"][-1], int):
        return misplaced((*path, index), "text", error["input"])
    fault = choose(path, error["input"], ("all", "minimal", "a list of names"))
    return Fault(path, fault.message, "write one of them: all" if "a list" in fault.fix else fault.fix)


def _unknown_key(path: KeyPath, shape: type[Shape]) -> Fault:
    key = str(path[-1])
    if key in LATER.get(shape, ()):
        return Fault(path, f'"{key}" is not supported by this version yet', "remove it", at_key=True)
    if shape is Profile and key in _USERS:
        return Fault(path, f'"{key}" belongs to your own settings; a profile cannot set it', _USERS[key], at_key=True)
    if (other := _OTHER_KIND.get(shape)) and key in other:
        fix = "remove it, or the type if the server is such a one"
        return Fault(path, f'"{key}" belongs to a server with a {other[key]}', fix, at_key=True)
    return unknown_key(path, shape.__struct_fields__, _OTHER_KEYS)
