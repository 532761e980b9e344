"""
Each tool's entries, by the keys its documentation names (November 2026). Pure.

What a key means is one function of `declared`; a key that is in no table is left out, and that is said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acp_launch.interop import declared
from acp_launch.interop.declared import Declared, Reader, silent
from acp_launch.interop.places import Tool

MOST_ENTRIES = 1000
_COMMON: Mapping[str, Reader] = {
    "command": declared.command,
    "args": declared.args,
    "env": declared.env,
    "cwd": declared.cwd,
    "url": declared.url,
    "headers": declared.headers,
    "type": declared.transport,
    "transport": declared.transport,
    "disabled": declared.disabled,
    "enabled": declared.enabled,
    "name": silent,
    "description": silent,
}


def _codex_variables(entry: Declared, key: str, value: Any) -> None:
    """Names that are passed on from Codex's own environment."""
    for item in value if isinstance(value, list) else []:
        name = item.get("name") if isinstance(item, Mapping) else item
        if isinstance(name, str):
            entry.passed.append(name)


def _codex_bearer(entry: Declared, key: str, value: Any) -> None:
    if isinstance(value, str):
        entry.from_env["Authorization"] = ("Bearer ", value)


def _codex_headers(entry: Declared, key: str, value: Any) -> None:
    for header, name in value.items() if isinstance(value, Mapping) else ():
        if isinstance(name, str):
            entry.from_env[str(header)] = ("", name)


def _goose_keys(entry: Declared, key: str, value: Any) -> None:
    entry.kept += [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _argv(entry: Declared, key: str, value: Any) -> None:
    declared.command(entry, key, value if isinstance(value, list) else None)


_KEYS: Mapping[str, Mapping[str, Reader]] = {
    "claude-desktop": _COMMON,
    "claude": {**_COMMON, "timeout": declared.timeout("call", 0.001)},
    "vscode": {**_COMMON, "gallery": silent, "version": silent},
    "cursor": _COMMON,
    "codex": {
        **_COMMON,
        "env_vars": _codex_variables,
        "bearer_token_env_var": _codex_bearer,
        "http_headers": declared.headers,
        "env_http_headers": _codex_headers,
        "startup_timeout_sec": declared.timeout("start", 1),
        "startup_timeout_ms": declared.timeout("start", 0.001),
        "tool_timeout_sec": declared.timeout("call", 1),
        "enabled_tools": declared.tools("allow"),
        "disabled_tools": declared.tools("deny"),
        "required": declared.required,
    },
    "gemini": {
        **_COMMON,
        "httpUrl": declared.url_of("http"),
        "url": declared.url_of("sse"),
        "timeout": declared.timeout("call", 0.001),
        "includeTools": declared.tools("allow"),
        "excludeTools": declared.tools("deny"),
    },
    "zed": {**_COMMON, "source": silent, "timeout": declared.timeout("call", 1)},
    "jetbrains": _COMMON,
    "opencode": {
        **_COMMON,
        "environment": declared.env,
        "timeout": declared.timeout("start", 0.001),
    },
    "goose": {
        **_COMMON,
        "cmd": declared.command,
        "envs": declared.env,
        "uri": declared.url,
        "env_keys": _goose_keys,
        "timeout": declared.timeout("call", 1),
        "available_tools": declared.tools("allow"),
        "bundled": silent,
        "display_name": silent,
    },
    "acpx": {**_COMMON, "argv": _argv},
}
_NO_PROGRAM = {"builtin", "platform", "frontend", "inline_python"}  # goose's own, without a server behind them


def entries(tool: Tool, root: Any, project: str) -> Iterator[Declared]:
    """Every server and agent a file of this tool declares, as they come; of one that two scopes declare, the nearer."""
    nearer: set[tuple[declared.Kind, str]] = set()
    for kind, holder in _holders(tool, root, project):
        found = [(name, value) for name, value in _named(holder) if (kind, name) not in nearer]
        nearer |= {(kind, name) for name, _ in found}
        for name, value in found:
            entry = Declared(name, kind)
            _read(tool, entry, value)
            yield entry


def inputs(tool: Tool, root: Any) -> frozenset[str]:
    """The ids of what VS Code asks a person to type."""
    listed = root.get("inputs") if tool.name == "vscode" and isinstance(root, Mapping) else None
    asked = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    ids = (one.get("id") for one in asked if one.get("type") == "promptString")
    return frozenset(id for id in ids if isinstance(id, str) and re.fullmatch(r"[\w. -]{1,80}", id, re.ASCII))


def _holders(tool: Tool, root: Any, project: str) -> Iterator[tuple[declared.Kind, Any]]:
    if not isinstance(root, Mapping):
        return
    if tool.name == "claude" and isinstance(projects := root.get("projects"), Mapping):
        of_here = projects.get(project)
        yield "server", of_here.get("mcpServers") if isinstance(of_here, Mapping) else None
    if tool.servers:
        yield "server", root.get(tool.servers)
    if tool.agents:
        yield "agent", root.get(tool.agents)


def _named(holder: Any) -> Sequence[tuple[str, Any]]:
    if isinstance(holder, Mapping):
        return [(str(name), value) for name, value in holder.items()][:MOST_ENTRIES]
    if not isinstance(holder, list):
        return []
    names = ((one.get("name") if isinstance(one, Mapping) else None, one) for one in holder[:MOST_ENTRIES])
    return [(name if isinstance(name, str) else "", one) for name, one in names]


def _read(tool: Tool, entry: Declared, value: Any) -> None:
    if not isinstance(value, Mapping):
        entry.unfit = "it is no mapping"
        return
    if tool.name == "goose" and isinstance(value.get("config"), Mapping):
        value = {**value["config"], **{key: inner for key, inner in value.items() if key != "config"}}
    if isinstance(value.get("type"), str) and value["type"] in _NO_PROGRAM:
        entry.unfit = f"it is part of {tool.title} itself"
        return
    keys = _keys(tool, entry, value)
    for key, inner in value.items():
        if str(key) not in keys:
            entry.leave(str(key))
        elif inner is not None:
            keys[str(key)](entry, str(key), inner)
    _complete(tool, entry)


def _keys(tool: Tool, entry: Declared, value: Mapping[str, Any]) -> Mapping[str, Reader]:
    keys = _KEYS[tool.name]
    if entry.kind == "agent":
        return {**keys, "type": _agent_type}
    if tool.name == "gemini" and "type" in value:
        return {**keys, "url": declared.url}  # its type says what the address is
    return keys


def _agent_type(entry: Declared, key: str, value: Any) -> None:
    if value != "custom":
        entry.unfit = "its command is not in the file: the editor installs it"


def _complete(tool: Tool, entry: Declared) -> None:
    if entry.unfit:
        return
    if not entry.command.strip() and not entry.url:
        entry.unfit = "its command is not in the file" if tool.name == "zed" else "it has neither a command nor a url"
    elif entry.command and entry.url:
        entry.unfit = "it has both a command and a url"
    elif entry.url and entry.kind == "agent":
        entry.unfit = "it is no program to start"
    elif entry.url and entry.transport not in ("http", "sse"):
        entry.transport = "sse" if entry.url.rstrip("/").endswith("/sse") and not entry.transport else "http"
