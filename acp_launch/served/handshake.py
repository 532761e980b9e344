"""
The edits of `initialize`: methods that the profile keeps from the agent, and additions to the agent's answer; and of
`session/list` for an agent on another machine. Pure.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from acp_launch import __version__
from acp_launch.plan.model import LaunchPlan
from acp_launch.protocol import acp, splice
from acp_launch.protocol.splice import written

META = "acp-launch"  # our member of `_meta`
CAPABILITIES = ("params", "clientCapabilities")
VERSION = ("params", "protocolVersion")
FILES = {"fs/read_text_file", "fs/write_text_file"}
LOGIN = (sys.executable, "-P", "-m", "acp_launch", "login")  # -P: nothing in the editor's directory replaces a module
TERMINALS = frozenset(f"terminal/{verb}" for verb in ("create", "output", "release", "wait_for_exit", "kill"))


def withheld(plan: LaunchPlan) -> frozenset[str]:
    """Return the methods of the editor that the profile keeps from the agent; what it does not mention passes.

    A confined agent gets none: the editor would read files, and run commands, outside of the agent's place.
    """
    if plan.place is not None:
        return TERMINALS | FILES
    found: set[str] = set()
    if ("client", "fs") in plan.origins:
        found |= {
            method for method in FILES if plan.client.fs is False or (plan.client.fs == "read" and "write" in method)
        }
    if ("client", "terminal") in plan.origins and not plan.client.terminal:
        found |= TERMINALS
    return frozenset(found)


def edit_request(line: bytes, kept: frozenset[str]) -> bytes:
    """Edit the editor's request: without the capabilities whose methods are `kept` from the agent, and with the latest
    version that we know in place of a later one: an agent would else answer in words that we do not know."""
    version = splice.at(line, VERSION)
    asked = acp.decoded(line[slice(*version)]) if version else None
    if isinstance(asked, int) and asked > acp.PROTOCOL_VERSION:
        line = splice.replaced(line, VERSION, b"%d" % acp.PROTOCOL_VERSION)
    places = {
        "fs/read_text_file": (*CAPABILITIES, "fs", "readTextFile"),
        "fs/write_text_file": (*CAPABILITIES, "fs", "writeTextFile"),
        "terminal/create": (*CAPABILITIES, "terminal"),
    }
    for method, path in places.items():
        if method in kept:
            line = splice.replaced(line, path, b"false")
    return line


def edit_answer(line: bytes, profile: str) -> bytes:
    """Edit the agent's answer: servers of any kind are taken, and logins on a terminal run through us, if they can.

    An editor appends the `args` of such a login to the arguments it starts us with (C-26). In place of a command line
    of the agent's choice, which would run outside of its profile and its place, it gets ours, which asks first.
    """
    result = splice.at(line, ("result",))
    if result is None or not isinstance(said := acp.decoded(line[result[0] : result[1]]), dict):
        return line
    line = _with_methods(line, acp.sequence(said.get("authMethods")), profile)
    for kind in ("http", "sse"):
        line = _with(line, ("result", "agentCapabilities", "mcpCapabilities"), kind, True)
    return _with(line, ("result", "_meta"), META, {"name": META, "version": __version__, "profile": profile})


def edit_list(line: bytes, there: str, here: str) -> bytes:
    """Edit the agent's list of sessions: those of its directory `there` are, for the editor, in its own."""
    place = splice.at(line, ("result", "sessions"))
    listed = acp.sequence(acp.decoded(line[slice(*place)])) if place else ()
    spans = splice.elements(line, place[0]) if place and listed else ()
    for (start, end), each in reversed(list(zip(spans, listed, strict=True))):
        if acp.mapping(each).get("cwd") == there:
            line = line[:start] + splice.replaced(line[start:end], ("cwd",), written(here)) + line[end:]
    return line


def _with_methods(line: bytes, methods: Sequence[object], profile: str) -> bytes:
    """Rewrite the logins on a terminal; the others stay, byte for byte."""
    place = splice.at(line, ("result", "authMethods"))
    if place is None or not methods:
        return line
    rest = line[place[0] :]
    for (start, end), method in reversed(list(zip(splice.elements(rest), methods, strict=True))):
        rest = rest[:start] + _edit_method(rest[start:end], acp.mapping(method), profile) + rest[end:]
    return line[: place[0]] + rest


def _edit_method(text: bytes, said: Mapping[str, Any], profile: str) -> bytes:
    id, meta = said.get("id"), acp.mapping(said.get("_meta"))
    if said.get("type") == "terminal" and isinstance(id, str):
        text = splice.without(text, (), ("args", "env"))
        text = splice.with_members(text, (), b'"args":' + written(["--login", id]))
    if acp.LEGACY in meta:
        text = splice.without(text, ("_meta",), (acp.LEGACY,))
        if isinstance(id, str):
            label = {key: value for key, value in acp.mapping(meta[acp.LEGACY]).items() if key == "label"}
            own = {**label, "command": LOGIN[0], "args": [*LOGIN[1:], "--", profile, id], "env": {}}
            text = splice.with_members(text, ("_meta",), written({acp.LEGACY: own})[1:-1])
    return text


def _with(line: bytes, path: tuple[str, ...], key: str, value: object) -> bytes:
    """Set a member of the object at `path`, which is made if it is missing."""
    if splice.at(line, (*path, key)) is not None:
        return splice.replaced(line, (*path, key), written(value))
    return splice.with_members(line, path, written({key: value})[1:-1])
