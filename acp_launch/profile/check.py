"""
A `Document` becomes a checked `Profile`, or every Problem at once. Pure.

`model` has the shapes, `rules` what shapes cannot say; here both speak with one voice, and with the place in the text.
pydantic is asked for words only, for what `build` declines. MCP servers are then validated one by one with the class
their `type` names: errors of a union of three would tell a person nothing.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.document.faults import Fault, choose, likeliest, misplaced, placed
from acp_launch.document.keypath import KeyPath
from acp_launch.document.nodes import Plain, found
from acp_launch.document.shape import Shape, build
from acp_launch.document.tree import Document
from acp_launch.problem import Problem, errors
from acp_launch.profile.faults import NO_VERSION, describe, is_misspelt, is_other_half
from acp_launch.profile.model import HttpServer, McpServer, Profile, SseServer, StdioServer
from acp_launch.profile.rules import broken

VERSION = 1
SERVERS: Mapping[str, type[McpServer]] = {"stdio": StdioServer, "http": HttpServer, "sse": SseServer}
_S = TypeVar("_S", bound=Shape)
_OTHER_NAMES = dict.fromkeys(("streamable-http", "streamable_http", "streamablehttp", "https", "remote"), "http")


class Checked(Struct, frozen=True):
    """`profile` is None when a problem is an error; warnings alone leave it usable."""

    profile: Profile | None
    problems: tuple[Problem, ...]


def check(document: Document) -> Checked:
    """Everything wrong with the document, in the order of its lines; of one made of layers, a layer's together."""
    root = document.root
    unsaid = () if "version" in root else (Fault(("version",), NO_VERSION, "add: version: 1"),)
    faults = [*unsaid, *version(root), *broken(root)]
    profile = _profile(root, faults)
    faults = [fault for fault in faults if not is_misspelt(fault, faults)]
    problems = sorted(_placed(document, faults), key=lambda problem: (problem.file, problem.line, problem.column))
    return Checked(None if errors(problems) else profile, tuple(problems))


def _profile(root: Mapping[str, Plain], faults: list[Fault]) -> Profile | None:
    """What is wrong with its shape is added to `faults`."""
    try:
        return build(Profile, root)
    except ValueError:
        profile = _validated(Profile, {**root, "version": VERSION, "mcp_servers": {}}, (), faults)
        servers = _servers(root.get("mcp_servers", {}), faults)
        return replace(profile, mcp_servers=servers) if profile else None


def _placed(document: Document, faults: list[Fault]) -> Iterable[Problem]:
    if not faults:
        return ()
    from acp_launch.profile.leaks import discreet  # a good profile needs none of it

    return placed(document, (discreet(fault, document.root) for fault in faults))


def version(root: Mapping[str, Plain]) -> Iterable[Fault]:
    """What is wrong with the version that is written, if one is."""
    if "version" in root and (root["version"] != VERSION or isinstance(root["version"], bool)):
        written = found(root["version"])
        yield Fault(("version",), f"expected version 1, the only one there is; found {written}", "write: version: 1")


def _validated(shape: type[_S], value: Plain, path: KeyPath, faults: list[Fault]) -> _S | None:
    try:
        return build(shape, value)
    except ValueError:
        from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(shape).validate_python(value)
    except ValidationError as invalid:
        reported = [error for error in invalid.errors(include_url=False) if not is_other_half(error)]
        found = (_as_written(describe(error, shape, path), value, path) for error in reported)
        faults += dict.fromkeys(found)  # a union reports things twice
        return None


def _as_written(fault: Fault, value: Plain, path: KeyPath) -> Fault:
    """What stands for a list of one has no items to point at."""
    for step in fault.path[len(path) : -1]:
        value = _member(value, step)
    return replace(fault, path=fault.path[:-1]) if isinstance(value, str) else fault


def _member(value: Plain, step: str | int) -> Plain:
    if isinstance(value, list):
        return value[step] if isinstance(step, int) and step < len(value) else None
    return value.get(step) if isinstance(value, dict) else None


def _servers(written: Plain, faults: list[Fault]) -> dict[str, McpServer]:
    if not isinstance(written, dict):
        faults.append(misplaced(("mcp_servers",), "a mapping of names to servers", written))
        return {}
    servers = {}
    for name, server in written.items():
        path = ("mcp_servers", name)
        kind = _kind(server, path, faults)
        if kind and (valid := _validated(SERVERS[kind], {**server, "type": kind}, path, faults)):
            servers[name] = valid
    return servers


def _kind(server: Plain, path: KeyPath, faults: list[Fault]) -> str | None:
    """Which class validates this server; None when nothing could be said about it."""
    if not isinstance(server, dict):
        faults.append(misplaced(path, "a mapping with a command or a url", server))
        return None
    if "command" in server and "url" in server:
        fix = "keep the command (a local program) or the url (a server on the network)"
        faults.append(Fault((*path, "url"), "a server has a command or a url, not both", fix, at_key=True))
        return None
    if "type" in server:
        return _named_kind(server["type"], path, faults)
    meant = {_meant(key) for key in server}  # what is misspelt is reported by whoever validates that kind
    if "command" in meant:
        return "stdio"
    if "url" in meant:
        faults.append(Fault((*path, "type"), "a server with a url needs a type", "add: type: http"))
        return "http"
    faults.append(Fault(path, "a server needs a command or a url", "add: command: ...", at_key=True))
    return None


def _meant(key: str) -> str:
    return likeliest(key.lower(), ("command", "url"))


def _named_kind(written: Plain, path: KeyPath, faults: list[Fault]) -> str | None:
    if isinstance(written, str) and written in SERVERS:
        return written
    meant = _OTHER_NAMES.get(written.lower()) if isinstance(written, str) else None
    faults.append(choose((*path, "type"), written, tuple(SERVERS), meant))
    return None
