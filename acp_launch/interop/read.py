"""
The entries of other tools' files, read by the keys in the tools' documentation (November 2026).

`entries` yields a `ToolEntry` for each server and agent. One function reads each key; `_KEYS` is the table of each
tool. A key that is not in the table, or has a value of the wrong type, is left out with a note, never guessed.
`translated` turns a tool's references into ours. `survey` lists the files of all tools on this machine.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from acp_launch.document.nodes import number_text
from acp_launch.document.scalars import Duration
from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.interop.editors import served
from acp_launch.interop.tools import TOOLS, Dialect, Host, Source, Tool, places, read
from acp_launch.profile.values import header_name_fault
from acp_launch.regex import regex
from acp_launch.secret.reference import NAME
from acp_launch.secret.value import is_private

Kind = Literal["server", "agent"]
Transport = Literal["", "stdio", "http", "sse"]
MOST = 10_000  # texts of one entry
_TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "https": "http",
    "remote": "http",
    "streamable": "http",
    "streamablehttp": "http",
    "sse": "sse",
}


@dataclass
class ToolEntry:
    """An entry with our names for its keys, and the tool's own references in its texts.

    `left` are keys that are left out, and why. `unfit` says why the entry cannot be imported at all.
    """

    name: str
    kind: Kind = "server"
    command: str = ""
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    transport: Transport = ""
    headers: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)  # `timeouts`, `tools` and `required` as a profile has them
    passed: list[str] = field(default_factory=list)  # variables of the tool's own environment
    from_env: dict[str, tuple[str, str]] = field(default_factory=dict)  # header → text before it, variable
    kept: list[str] = field(default_factory=list)  # variables whose values are in the tool's own store
    left: list[tuple[str, str]] = field(default_factory=list)
    disabled: bool = False
    unfit: str = ""

    def leave(self, key: str, why: str = "has no counterpart in a profile") -> None:
        self.left.append((key, why))


Reader = Callable[[ToolEntry, str, Any], None]  # the entry, the key as it is written, its value


def text(value: Any) -> str | None:
    """Convert a value to the text that a program gets; None for a list or a mapping."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number_text(value)
    return value if isinstance(value, str) else None


def command(entry: ToolEntry, key: str, value: Any) -> None:
    if isinstance(value, Mapping):  # Zed's older form: a command with its own arguments
        command(entry, f"{key}.path", value.get("path"))
        args(entry, f"{key}.args", value.get("args", []))
        env(entry, f"{key}.env", value.get("env") or {})
        return
    if isinstance(value, list):
        args(entry, key, value)
        entry.command, entry.args = (entry.args[0], entry.args[1:]) if entry.args else ("", [])
        return
    found = text(value)
    if found is None:
        entry.unfit = f"its {key} must be a string"
    entry.command = found or ""


def args(entry: ToolEntry, key: str, value: Any) -> None:
    found = [text(item) for item in value] if isinstance(value, list) and len(value) <= MOST else [None]
    if None in found:  # without one of its arguments it would be another command
        entry.unfit = f"its {key} must be a list of strings"
        return
    entry.args = [item for item in found if item is not None]


def env(entry: ToolEntry, key: str, value: Any) -> None:
    entry.env |= _map(entry, key, value)


def headers(entry: ToolEntry, key: str, value: Any) -> None:
    for name, written in _map(entry, key, value).items():
        if header_name_fault(name):
            entry.leave(f"{key}.{name}", "is set by the connection itself")
        else:
            entry.headers[name] = written


def oauth(entry: ToolEntry, key: str, value: Any) -> None:
    """Leave a login to the user: a client is registered for one tool."""
    entry.leave(key, "is a login of that tool; write oauth: true for your own")


def headers_command(entry: ToolEntry, key: str, value: Any) -> None:
    """Leave a command that prints headers to the user: no profile may name one."""
    entry.leave(key, "belongs in your settings, as headers_command: acp-launch help login")


def _map(entry: ToolEntry, key: str, value: Any) -> dict[str, str]:
    """Read a mapping of texts; acpx writes it as a list of names and values."""
    if isinstance(value, list) and len(value) <= MOST:
        value = _pairs(entry, key, value)
    if not isinstance(value, Mapping) or len(value) > MOST:
        entry.leave(key, "is not a mapping of strings")
        return {}
    found = {}
    for name, written in value.items():
        if (one := text(written)) is None:
            entry.leave(f"{key}.{name}", "is not a string")
        else:
            found[str(name)] = one
    return found


def _pairs(entry: ToolEntry, key: str, items: Sequence[Any]) -> dict[str, Any]:
    found = {}
    for index, item in enumerate(items):
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or "value" not in item:
            entry.leave(f"{key}[{index}]", "is not a name with a value")
        elif name in found:
            entry.leave(f"{key}[{index}]", f"names {name} again")
        else:
            found[name] = item["value"]
    return found


def cwd(entry: ToolEntry, key: str, value: Any) -> None:
    entry.cwd = _single(entry, key, value)


def url(entry: ToolEntry, key: str, value: Any) -> None:
    entry.url = _single(entry, key, value)


def url_of(transport: Transport) -> Reader:
    """Make a reader for a url whose key implies the transport."""

    def read(entry: ToolEntry, key: str, value: Any) -> None:
        url(entry, key, value)
        entry.transport = entry.transport or transport

    return read


def transport(entry: ToolEntry, key: str, value: Any) -> None:
    word = re.sub("[^a-z]", "", value.lower()) if isinstance(value, str) else ""
    if word in _TRANSPORTS:
        entry.transport = _TRANSPORTS[word]
    else:
        entry.unfit = f"its {key} is not one that acp-launch knows"


def disabled(entry: ToolEntry, key: str, value: Any) -> None:
    entry.disabled = entry.disabled or value is True


def enabled(entry: ToolEntry, key: str, value: Any) -> None:
    entry.disabled = entry.disabled or value is False


def required(entry: ToolEntry, key: str, value: Any) -> None:
    if isinstance(value, bool):
        entry.more["required"] = value
    else:
        entry.leave(key, "is neither true nor false")


def silent(entry: ToolEntry, key: str, value: Any) -> None:
    """Skip a key without effect for acp-launch, such as a description or an icon."""


def timeout(what: Literal["start", "call"], unit: float) -> Reader:
    """Make a reader for a timeout; `unit` is the tool's unit in seconds."""

    def read(entry: ToolEntry, key: str, value: Any) -> None:
        seconds = value * unit if isinstance(value, int | float) and not isinstance(value, bool) else 0
        if not 0.001 <= seconds <= 24 * 3600:
            entry.leave(key, "is not a length of time")
            return
        entry.more.setdefault("timeouts", {})[what] = str(Duration(round(seconds, 3)))

    return read


def tools(what: Literal["allow", "deny"]) -> Reader:
    def read(entry: ToolEntry, key: str, value: Any) -> None:
        names = value if isinstance(value, list) else []
        if value is None or (names == [] and isinstance(value, list)):
            return  # no restriction
        if not names or len(names) > MOST or not all(isinstance(name, str) and name.strip() for name in names):
            # The whole entry is refused: without its restriction the server would offer more tools than the user wants.
            entry.unfit = f"its {key} must be a list of names"
            return
        entry.more.setdefault("tools", {})[what] = [re.sub(r"([*?\[])", r"[\1]", name) for name in names]

    return read


def _single(entry: ToolEntry, key: str, value: Any) -> str:
    found = text(value)
    if found is None:
        entry.unfit = f"its {key} must be a string"
    return found or ""


MOST_ENTRIES = 1000
_COMMON: Mapping[str, Reader] = {
    "command": command,
    "args": args,
    "env": env,
    "cwd": cwd,
    "url": url,
    "headers": headers,
    "oauth": oauth,
    "type": transport,
    "transport": transport,
    "disabled": disabled,
    "enabled": enabled,
    "name": silent,
    "description": silent,
}


def _codex_variables(entry: ToolEntry, key: str, value: Any) -> None:
    """Read the names of variables that are passed on from Codex's own environment."""
    for item in value if isinstance(value, list) else []:
        name = item.get("name") if isinstance(item, Mapping) else item
        if isinstance(name, str):
            entry.passed.append(name)


def _codex_bearer(entry: ToolEntry, key: str, value: Any) -> None:
    if isinstance(value, str):
        entry.from_env["Authorization"] = ("Bearer ", value)


def _codex_headers(entry: ToolEntry, key: str, value: Any) -> None:
    for header, name in value.items() if isinstance(value, Mapping) else ():
        if isinstance(name, str):
            entry.from_env[str(header)] = ("", name)


def _goose_keys(entry: ToolEntry, key: str, value: Any) -> None:
    entry.kept += [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _argv(entry: ToolEntry, key: str, value: Any) -> None:
    command(entry, key, value if isinstance(value, list) else None)


_KEYS: Mapping[str, Mapping[str, Reader]] = {
    "claude-desktop": _COMMON,
    "claude": {**_COMMON, "timeout": timeout("call", 0.001), "headersHelper": headers_command},
    "vscode": {**_COMMON, "gallery": silent, "version": silent},
    "cursor": _COMMON,
    "codex": {
        **_COMMON,
        "env_vars": _codex_variables,
        "bearer_token_env_var": _codex_bearer,
        "http_headers": headers,
        "env_http_headers": _codex_headers,
        "startup_timeout_sec": timeout("start", 1),
        "startup_timeout_ms": timeout("start", 0.001),
        "tool_timeout_sec": timeout("call", 1),
        "enabled_tools": tools("allow"),
        "disabled_tools": tools("deny"),
        "required": required,
    },
    "gemini": {
        **_COMMON,
        "httpUrl": url_of("http"),
        "url": url_of("sse"),
        "timeout": timeout("call", 0.001),
        "includeTools": tools("allow"),
        "excludeTools": tools("deny"),
    },
    "zed": {**_COMMON, "source": silent, "timeout": timeout("call", 1)},
    "jetbrains": _COMMON,
    "opencode": {
        **_COMMON,
        "environment": env,
        "timeout": timeout("start", 0.001),
    },
    "goose": {
        **_COMMON,
        "cmd": command,
        "envs": env,
        "uri": url,
        "env_keys": _goose_keys,
        "timeout": timeout("call", 1),
        "available_tools": tools("allow"),
        "bundled": silent,
        "display_name": silent,
    },
    "acpx": {**_COMMON, "argv": _argv},
}
_NO_PROGRAM = {"builtin", "platform", "frontend", "inline_python"}  # goose's own extensions, which are not servers


def entries(tool: Tool, root: Any, project: str) -> Iterator[ToolEntry]:
    """Yield every server and agent of a file in order; of two scopes with the same name, the nearer one."""
    nearer: set[tuple[Kind, str]] = set()
    for kind, holder in _holders(tool, root, project):
        found = [(name, value) for name, value in _named(holder) if (kind, name) not in nearer]
        nearer |= {(kind, name) for name, _ in found}
        for name, value in found:
            entry = ToolEntry(name, kind)
            _read(tool, entry, value)
            yield entry


def inputs(tool: Tool, root: Any) -> frozenset[str]:
    """Return the ids of the inputs that VS Code asks the user for."""
    listed = root.get("inputs") if tool.name == "vscode" and isinstance(root, Mapping) else None
    asked = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    ids = (one.get("id") for one in asked if one.get("type") == "promptString")
    return frozenset(id for id in ids if isinstance(id, str) and re.fullmatch(r"[\w. -]{1,80}", id, re.ASCII))


def _holders(tool: Tool, root: Any, project: str) -> Iterator[tuple[Kind, Any]]:
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


def _read(tool: Tool, entry: ToolEntry, value: Any) -> None:
    if not isinstance(value, Mapping):
        entry.unfit = "it must be a mapping"
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


def _keys(tool: Tool, entry: ToolEntry, value: Mapping[str, Any]) -> Mapping[str, Reader]:
    keys = _KEYS[tool.name]
    if entry.kind == "agent":
        return {**keys, "type": _agent_type}
    if tool.name == "gemini" and "type" in value:
        return {**keys, "url": url}  # the entry states its transport
    return keys


def _agent_type(entry: ToolEntry, key: str, value: Any) -> None:
    if value != "custom":
        entry.unfit = "its command is not in the file: the editor installs it"


def _complete(tool: Tool, entry: ToolEntry) -> None:
    if entry.unfit:
        return
    if not entry.command.strip() and not entry.url:
        entry.unfit = "its command is not in the file" if tool.name == "zed" else "it has neither a command nor a url"
    elif entry.command and entry.url:
        entry.unfit = "it has both a command and a url"
    elif entry.url and entry.kind == "agent":
        entry.unfit = "it is not a program to start"
    elif entry.kind == "agent" and (profile := served([entry.command, *entry.args])) is not None:
        entry.unfit = f"it is acp-launch itself, which runs the profile {profile}".rstrip()
    elif entry.url and entry.transport not in ("http", "sse"):
        entry.transport = "sse" if entry.url.rstrip("/").endswith("/sse") and not entry.transport else "http"


# References of the tools, by dialect. All other text is literal; a `${` in it is written `$${`.
#
#     shell    ${VAR} ${VAR:-default}                                 Claude Code
#     dollar   $VAR ${VAR} ${VAR:-default}                            Gemini CLI, and goose in headers
#     code     ${env:VAR} ${input:id} ${workspaceFolder} ${userHome}  VS Code, Cursor
#     braces   {env:VAR} {file:path}                                  opencode
#     none     everything is text                                     Claude Desktop, Codex, Zed, JetBrains, acpx, goose
_SHELL = r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}"
_PATTERNS: Mapping[Dialect, re.Pattern[str]] = {
    "none": regex(r"(?!)"),
    "shell": regex(_SHELL),
    "dollar": regex(_SHELL + r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"),
    "code": regex(r"\$\{(?P<inside>[^{}]*)\}"),
    "braces": regex(r"\{(?P<kind>env|file):(?P<what>[^{}]*)\}"),
}
_FOLDERS = {"workspaceFolder": "${project}", "workspaceRoot": "${project}", "userHome": "${home}"}
_MARKS = {"pathSeparator": "/", "/": "/"}


class Untranslatable(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for a reference without a counterpart; the message continues a sentence that begins with its place."""


def translated(text: str, dialect: Dialect, inputs: Container[str] = ()) -> str:
    """Translate a tool's references. `inputs` are the ids of its inputs; each becomes `${secret:ID}`.

    Raises:
        Untranslatable: part of it has no counterpart.
    """
    written, done = "", 0
    for found in _PATTERNS[dialect].finditer(text):
        written += _literal(text[done : found.start()])
        reference = _reference(found, inputs)
        if written.endswith("$") and reference.startswith("$"):
            raise Untranslatable('has a "$" right before a variable')
        written += reference
        done = found.end()
    return written + _literal(text[done:])


def _literal(text: str) -> str:
    return text.replace("${", "$${")


def _reference(found: re.Match[str], inputs: Container[str]) -> str:
    parts = found.groupdict()
    if parts.get("inside") is not None:
        return _of_editor(found["inside"], inputs)
    if parts.get("kind") == "file":
        raise Untranslatable("is read from a file")
    if parts.get("kind") == "env":
        return _variable(found["what"])
    return _variable(parts.get("name") or parts.get("bare") or "", parts.get("default") or "")


def _of_editor(inside: str, inputs: Container[str]) -> str:
    kind, separator, name = inside.partition(":")
    if separator and kind == "env":
        return _variable(name)
    if separator and kind == "input":
        if name in inputs:
            return f"${{secret:{name}}}"
        raise Untranslatable("asks for an input that the file does not describe")
    if separator and kind == "workspaceFolder":
        raise Untranslatable("names one of several workspace folders")
    if inside in _FOLDERS or inside in _MARKS:
        return _FOLDERS.get(inside) or _MARKS[inside]
    raise Untranslatable(f"uses a variable that only the editor knows ({kind if kind.isalnum() else 'unnamed'})")


def _variable(name: str, default: str = "") -> str:
    if not re.fullmatch(NAME, name):
        raise Untranslatable("names a variable with an invalid name")
    if is_private(name):
        raise Untranslatable("names a variable that is reserved for acp-launch")
    if "${" in default or "{" in default:
        raise Untranslatable("has a variable in the default of another")
    return f"${{env:{name}{default}}}"


class Finding(Struct, frozen=True):
    """A configuration file of a tool on this machine. `source` is None if it cannot be used; `fault` says why."""

    tool: Tool
    file: Path
    servers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    source: Source | None = None
    fault: str = ""


def survey(machine: Host, project: Path) -> Iterator[Finding]:
    """Find every file of every tool, the nearest first. A file that cannot be read has a `fault`; nothing is raised."""
    for tool in TOOLS.values():
        for file in places(tool, machine, project):
            if _is_there(file):
                yield _finding(tool, file, str(project))


def _finding(tool: Tool, file: Path, project: str) -> Finding:
    try:
        source = read(file, tool)
    except ProblemsError as error:
        return Finding(tool, file, fault=str(error.problems[0].message))
    except LaunchError as error:
        return Finding(tool, file, fault=error.message)
    found = [entry for entry in entries(tool, source.root, project) if not entry.unfit and not entry.disabled]
    names = {kind: tuple(entry.name for entry in found if entry.kind == kind) for kind in ("server", "agent")}
    return Finding(tool, file, names["server"], names["agent"], source)


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a directory we may not enter
        return False
