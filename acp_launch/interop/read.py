"""
The entries of other tools' files, read by the keys in the tools' documentation (November 2026).

`entries` yields a `ToolEntry` for each server and agent. One function reads each key. A key that is not known, or has a
value of the wrong type, is left out with a note, never guessed. `translate` turns a tool's references into ours.
`survey` lists the files of all tools on this machine.
"""

import os
import re
import shlex
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Literal

from msgspec import Struct

from acp_launch.document.nodes import number_text
from acp_launch.document.scalars import Duration
from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.interop.tools import (
    TOOLS,
    Dialect,
    Host,
    Source,
    Tool,
    is_server,
    places,
    read,
    served_profile,
    settings_parts,
)
from acp_launch.profile.values import header_name_fault
from acp_launch.regex import regex
from acp_launch.secret.detect import issued
from acp_launch.secret.value import NAME, is_private

Kind = Literal["server", "agent"]
Transport = Literal["", "stdio", "http", "sse"]
_PATH = regex(r"[/~.\\]|[A-Za-z]:|[^\s\"']*[$%{]")  # may contain blanks, as may a variable
_UNPRINTABLE = regex("[\0\ud800-\udfff]")
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
    """An entry with our names for its keys, and our references in its texts.

    `stored` are names whose values are in the tool's own store; a text has them as `${secret:NAME}`. `left` are keys
    that are left out, and why. `unfit` says why the entry cannot be imported at all.
    """

    name: str
    kind: Kind
    tool: Tool
    stored: Collection[str]
    command: str = ""
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    transport: Transport = ""
    headers: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)  # `timeouts`, `tools` and `required` as a profile has them
    left: list[tuple[str, str]] = field(default_factory=list)
    disabled: bool = False
    unfit: str = ""
    filled_in: Collection[str] = ()  # variables in arguments that the program itself replaces

    def leave(self, key: str, why: str = "has no counterpart in a profile") -> None:
        self.left.append((key, why))

    def text(self, value: Any, key: str = "") -> str:
        """Convert a value to the text that a program gets; `key` as for `Tool.dialect_of`.

        Raises:
            Untranslatable: it is not a text, or has no counterpart.
        """
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return number_text(value)
        if not isinstance(value, str):
            raise Untranslatable("is not a string")
        if _UNPRINTABLE.search(value):
            raise Untranslatable("holds characters that no program can receive")
        return translate(value, self.tool.dialect_of(key), self.stored, self.filled_in if key == "args" else ())


Reader = Callable[[ToolEntry, str, Any], None]  # the entry, the key as it is written, its value


def _attribute(entry: ToolEntry, key: str, value: Any, *, name: str, transport: Transport = "") -> None:
    """Read `cwd` or `url`, whose key may imply the transport."""
    entry.transport = entry.transport or transport
    setattr(entry, name, entry.text(value))


def _command(entry: ToolEntry, key: str, value: Any) -> None:
    """Read a command: a list of words, or a text that may be a whole command line. Zed had all of an entry in it."""
    if isinstance(value, Mapping) and entry.tool.name == "zed":
        for part, reader in (("path", _command), ("args", _args), ("env", _env)):
            if value.get(part) is not None:
                reader(entry, f"{key}.{part}", value[part])
        return
    words = value if isinstance(value, list) else [value]
    if isinstance(value, str) and (entry.tool.name == "acpx" or not _PATH.match(value)):
        words = _split(value)
    entry.command, *first = [entry.text(word) for word in words] or [""]
    entry.args = [*first, *entry.args]


def _split(line: str) -> list[str]:
    """Cut a command line into words as a shell does.

    Raises:
        Untranslatable: a quote is not closed.
    """
    try:
        return shlex.split(line) if re.search(r"\S\s+\S", line) else [line]
    except ValueError:
        raise Untranslatable("has a quote that is not closed") from None


def _args(entry: ToolEntry, key: str, value: Any) -> None:
    """Read arguments; without one of them it would be another command."""
    if not isinstance(value, list):
        raise Untranslatable("is not a list of strings")
    entry.args += [entry.text(item, "args") for item in value]


def _env(entry: ToolEntry, key: str, value: Any) -> None:
    entry.env |= _map(entry, key, value, "env")


def _headers(entry: ToolEntry, key: str, value: Any) -> None:
    for name, written in _map(entry, key, value, "headers").items():
        if header_name_fault(name):
            entry.leave(f"{key}.{name}", "is set by the connection itself")
        else:
            entry.headers[name] = written


def _map(entry: ToolEntry, key: str, value: Any, what: str) -> dict[str, str]:
    """Read a mapping of texts; acpx writes it as a list of names and values."""
    if isinstance(value, list):
        value = _pairs(entry, key, value)
    if not isinstance(value, Mapping):
        entry.leave(key, "is not a mapping of strings")
        return {}
    found = {}
    for name, written in value.items():
        try:
            if issued(str(name)):  # a name cannot come from a secret
                raise Untranslatable("is a credential where a name belongs")
            found[str(name)] = entry.text(written, what)
        except Untranslatable as why:
            entry.leave(f"{key}.{name}", str(why))
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


def _transport(entry: ToolEntry, key: str, value: Any) -> None:
    word = re.sub("[^a-z]", "", value.lower()) if isinstance(value, str) else ""
    if entry.kind == "agent":
        if value != "custom":
            entry.unfit = "its command is not in the file: the editor installs it"
    elif value in _NO_PROGRAM:
        entry.unfit = f"it is part of {entry.tool.title} itself"
    elif word in _TRANSPORTS:
        entry.transport = _TRANSPORTS[word]
    else:
        raise Untranslatable("is not one that acp-launch knows")


def _switch(entry: ToolEntry, key: str, value: Any, *, off: bool) -> None:
    entry.disabled = entry.disabled or str(value).lower() == str(off).lower()


def _read_required(entry: ToolEntry, key: str, value: Any) -> None:
    if isinstance(value, bool):
        entry.more["required"] = value
    else:
        entry.leave(key, "is neither true nor false")


def _timeout(entry: ToolEntry, key: str, value: Any, *, what: str, unit: float = 0) -> None:
    """Read a limit. Some tools count in seconds, others in milliseconds, and entries are copied from tool to tool."""
    unit = unit or entry.tool.unit
    seconds = value * unit if isinstance(value, int | float) and not isinstance(value, bool) else 0
    is_ms = unit == 1 and seconds > 3600 and seconds % 1000 == 0
    if 1 <= seconds <= 24 * 3600 and not is_ms:
        entry.more.setdefault("timeouts", {})[what] = str(Duration(round(seconds, 3)))
    elif seconds <= 0:
        entry.leave(key, "is not a length of time")
    else:
        other, length = ("milliseconds", value / 1000) if is_ms else ("seconds", value)
        is_likely = is_ms or seconds < min(value, 1)
        meant = f"; if {other} were meant, write timeouts: {{{what}: {Duration(length)}}}" if is_likely else ""
        long = "is longer than a day" if seconds > 24 * 3600 else f"is {Duration(seconds)}, which no answer needs"
        entry.leave(key, (f"is {seconds * 1000:g} ms, which every answer would miss" if seconds < 1 else long) + meant)


def _tools(entry: ToolEntry, key: str, value: Any, *, what: str) -> None:
    if value in ([], ["*"] if what == "allow" else []):
        return  # no restriction
    listed = value if isinstance(value, list) else [None]
    names = [name for name in listed if isinstance(name, str) and name.strip()]
    if len(names) == len(listed):
        globs = [name if name == "*" else re.sub(r"([*?\[])", r"[\1]", name) for name in names]
        entry.more.setdefault("tools", {}).setdefault(what, []).extend(globs)
    else:  # the whole entry is refused: without its restriction the server would offer more tools than the user wants
        raise Untranslatable("must be a list of names")


def _tools_if_listed(entry: ToolEntry, key: str, value: Any) -> None:
    if isinstance(value, list):
        _tools(entry, key, value, what="allow")
    else:
        entry.leave(key)


def _names(value: Any) -> list[str]:
    """Read the names of variables; Codex writes some as mappings."""
    items = value if isinstance(value, list) else []
    names = [item.get("name") if isinstance(item, Mapping) else item for item in items]
    return [name for name in names if isinstance(name, str)]


def _read_passed(entry: ToolEntry, key: str, value: Any) -> None:
    """Read variables of the tool's own environment."""
    _variables(entry, key, {name: name for name in _names(value) if name not in entry.env}, entry.env)


def _bearer(entry: ToolEntry, key: str, value: Any) -> None:
    _variables(entry, key, {"Authorization": value}, entry.headers, "Bearer ")


def _header_variables(entry: ToolEntry, key: str, value: Any) -> None:
    _variables(entry, key, value if isinstance(value, Mapping) else {}, entry.headers)


def _variables(entry: ToolEntry, key: str, named: Mapping[str, Any], into: dict[str, str], before: str = "") -> None:
    for name, variable in named.items():
        try:
            into[str(name)] = before + _variable(str(variable))
        except Untranslatable as why:
            entry.leave(f"{key}.{name}", str(why))


def _skip(entry: ToolEntry, key: str, value: Any) -> None:
    """Skip a key without effect for acp-launch, such as a description or an icon."""


def _leave(entry: ToolEntry, key: str, value: Any, *, why: str) -> None:
    entry.leave(key, why)


def _approve(entry: ToolEntry, key: str, value: Any) -> None:
    if value:
        entry.leave(key, "allows tools in advance; here a rule of permissions does: acp-launch help permissions")


_USUAL: Mapping[str, Reader] = {
    "command": _command,
    "args": _args,
    "env": _env,
    "cwd": partial(_attribute, name="cwd"),
    "url": partial(_attribute, name="url"),
    "headers": _headers,
    # A client is registered for one tool.
    "oauth": partial(_leave, why="is a login of that tool; write oauth: true for your own"),
    # Names that only one tool has; entries are copied from tool to tool.
    "serverUrl": partial(_attribute, name="url"),
    "httpUrl": partial(_attribute, name="url", transport="http"),
    "tools": _tools_if_listed,
    "includeTools": partial(_tools, what="allow"),
    "excludeTools": partial(_tools, what="deny"),
    "disabledTools": partial(_tools, what="deny"),
    "alwaysAllow": _approve,
    "autoApprove": _approve,
    "trust": _approve,
    "type": _transport,
    "transport": _transport,
    "transportType": _transport,
    "disabled": partial(_switch, off=True),
    "enabled": partial(_switch, off=False),
    "name": _skip,
    "description": _skip,
}
# By the names that `Tool.keys` has for them.
_READERS: Mapping[str, Reader] = {
    **_USUAL,
    "words": _command,
    "argv": _command,
    "http": partial(_attribute, name="url", transport="http"),
    "sse": partial(_attribute, name="url", transport="sse"),
    "start": partial(_timeout, what="start"),
    "start_ms": partial(_timeout, what="start", unit=0.001),
    "call": partial(_timeout, what="call"),
    "allow": partial(_tools, what="allow"),
    "deny": partial(_tools, what="deny"),
    "required": _read_required,
    "passed": _read_passed,
    "stored": _skip,  # read before the others
    "bearer": _bearer,
    "header_variables": _header_variables,
    "headers_command": partial(_leave, why="belongs in your settings, as headers_command: acp-launch help login"),
}
_NO_PROGRAM = ("builtin", "platform", "frontend", "inline_python")  # goose's own extensions, which are not servers


def entries(tool: Tool, root: Any, project: str) -> Iterator[ToolEntry]:
    """Yield every server and agent of a file in order; of two scopes with the same name, the nearer one."""
    nearer: set[tuple[Kind, str]] = set()
    inputs = frozenset(id for part in _parts(tool, root) for id in _inputs(part) if tool.name == "vscode")
    off = _switched_off(root) if tool.name in ("gemini", "qwen") else frozenset[str]()
    for kind, holder in _holders(tool, root, project):
        found = [(name, value) for name, value in _entries_of(holder) if (kind, name) not in nearer]
        nearer |= {(kind, name) for name, _ in found}
        for name, value in found:
            entry = ToolEntry(name, kind, tool, inputs, disabled=name in off)
            _read(entry, value)
            yield entry


def _parts(tool: Tool, root: Any) -> Sequence[Mapping[str, Any]]:
    """Return the mappings of a file that may hold servers. A plugin of Claude Code may have them at the top."""
    if not isinstance(root, Mapping):
        return ()
    if tool.name == "claude" and not {"mcpServers", "projects"} & root.keys():
        return ({"mcpServers": {name: value for name, value in root.items() if is_server(value)}},)
    return (root, *(settings_parts(root) if tool.name == "vscode" else ()))


def _inputs(root: Any) -> frozenset[str]:
    listed = root.get("inputs")
    known = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    ids = (one.get("id") for one in known if one.get("type") == "promptString")
    return frozenset(id for id in ids if isinstance(id, str) and re.fullmatch(r"[\w. -]{1,80}", id, re.ASCII))


def _switched_off(root: Any) -> Container[str]:
    """Name the servers that Gemini CLI does not start, whatever their entries say."""
    mcp = root.get("mcp") if isinstance(root, Mapping) else None
    servers, rules = (root.get("mcpServers"), mcp) if isinstance(mcp, Mapping) else ((), {})
    allowed, excluded = rules.get("allowed"), rules.get("excluded")
    names = {str(name) for name in servers or ()}
    off = names.intersection(map(str, excluded)) if isinstance(excluded, list) else set[str]()
    return off | names.difference(map(str, allowed)) if isinstance(allowed, list) else off


def _holders(tool: Tool, root: Any, project: str) -> Iterator[tuple[Kind, Any]]:
    if not isinstance(root, Mapping):
        return
    if tool.name == "claude" and isinstance(projects := root.get("projects"), Mapping):
        of_here = projects.get(project)
        yield "server", of_here.get("mcpServers") if isinstance(of_here, Mapping) else None
    if tool.servers:
        yield from (("server", part.get(tool.servers)) for part in _parts(tool, root))
    if tool.agents:
        yield "agent", root.get(tool.agents)


def _entries_of(holder: Any) -> Sequence[tuple[str, Any]]:
    if isinstance(holder, Mapping):
        return [(str(name), value) for name, value in holder.items()]
    if not isinstance(holder, list):
        return []
    names = ((one.get("name") if isinstance(one, Mapping) else None, one) for one in holder)
    return [(name if isinstance(name, str) else "", one) for name, one in names]


def _read(entry: ToolEntry, value: Any) -> None:
    if not isinstance(value, Mapping):
        entry.unfit = "it must be a mapping"
        return
    readers = {
        **_USUAL,
        **{theirs: _READERS[ours] for ours, theirs in entry.tool.keys.items()},
        **dict.fromkeys(entry.tool.ignored, _skip),
    }
    if entry.tool.name == "goose":
        entry.stored = _names(value.get("env_keys"))
    entry.filled_in = _filled_in(value)
    for key, inner in value.items():
        if str(key) not in readers:
            if inner not in (None, "", [], {}):
                entry.leave(str(key))
        elif inner is not None:
            try:
                readers[str(key)](entry, str(key), inner)
            except Untranslatable as why:  # without it, it would be another entry
                entry.unfit = f"its {key} {why}"
    _leave_windows(entry)
    entry.unfit = entry.unfit or _fault(entry)
    if entry.url and entry.transport not in ("http", "sse"):
        entry.transport = "sse" if entry.url.rstrip("/").endswith("/sse") and not entry.transport else "http"
    if entry.command and entry.tool.name == "goose":
        entry.env |= {name: f"${{secret:{name}}}" for name in entry.stored}


def _filled_in(value: Mapping[Any, Any]) -> Collection[str]:
    """Name the entry's own variables that its program, mcp-remote or a shell, replaces in its arguments."""
    env, args = value.get("env"), value.get("args")
    if not isinstance(env, Mapping) or not isinstance(args, list):
        return ()
    programs = [PurePath(str(word)).name for word in (value.get("command"), *args)]
    if programs[0] not in ("sh", "bash", "zsh") and not any(name.startswith("mcp-remote") for name in programs):
        return ()
    return {str(name) for name, text in env.items() if text not in (f"${{{name}}}", f"${name}")}


def _leave_windows(entry: ToolEntry) -> None:
    """Start a program directly that an entry starts as Windows needs it: `cmd /c npx`, `npx.cmd`."""
    switches = [word.lower() for word in entry.args[:4]]
    if PureWindowsPath(entry.command).stem.lower() == "cmd" and "/c" in switches:
        words = entry.args[switches.index("/c") + 1 :]
        entry.command, *entry.args = (_split(words[0]) if len(words) == 1 else words) or [""]
    entry.command = re.sub(r"(?i)^([\w-]+)\.(?:cmd|bat|exe)$", r"\1", entry.command)


def _fault(entry: ToolEntry) -> str:
    """Say why an entry as a whole cannot be imported; empty if it can."""
    if not entry.command.strip() and not entry.url:
        is_elsewhere = entry.tool.name == "zed"
        return "its command is not in the file" if is_elsewhere else "it has neither a command nor a url"
    if entry.command and entry.url:
        return "it has both a command and a url"
    if entry.kind == "server":
        return ""
    profile = served_profile([entry.command, *entry.args])
    if profile is not None:
        return f"it is acp-launch itself, which runs the profile {profile}".rstrip()
    return "it is not a program to start" if entry.url else ""


# References of the tools, by dialect. All other text is literal; a `${` in it is written `$${`.
#
#     shell     ${VAR} ${VAR:-default}                             Claude Code, Kiro
#     dollar    $VAR ${VAR} ${VAR:-default}                        Gemini CLI, Qwen Code, Copilot CLI; headers in goose
#     commands  the same, and $(command)                           Crush
#     code      ${env:VAR} ${input:id} ${workspaceFolder} ${userHome}  VS Code, Cursor, Cline, Roo Code, Windsurf
#     braces    {env:VAR} {file:path}                              opencode
#     none      everything is text                                 Claude Desktop, Codex, Zed, JetBrains, acpx, goose
_SHELL = r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}"
_DOLLAR = _SHELL + r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
_PATTERNS: Mapping[Dialect, re.Pattern[str]] = {
    "none": regex(r"(?!)"),
    "shell": regex(_SHELL),
    "dollar": regex(_DOLLAR),
    "commands": regex(_DOLLAR + r"|\$(?P<command>\()"),
    "code": regex(r"\$\{(?P<inside>[^{}]*)\}"),
    "braces": regex(r"\{(?P<kind>env|file):(?P<what>[^{}]*)\}"),
}
_FOLDERS = {"workspaceFolder": "${project}", "workspaceRoot": "${project}", "userHome": "${home}"}
_MARKS = {"pathSeparator": "/", "/": "/"}
# What editors replace; all other text in braces stays as it is, for the program.
EDITOR_VARIABLE = (
    r"(?:config|command|input|env|workspaceFolder|relativeFile|extensionInstallFolder):[^{}]*|cwd|file\w*|relativeFile\w*"
    r"|workspace\w+|userHome|pathSeparator|/|lineNumber|columnNumber|selectedText|exec(?:Path|InstallFolder)"
    r"|defaultBuildTask"
)


class Untranslatable(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for a reference without a counterpart; the message continues a sentence that begins with its place."""


def translate(text: str, dialect: Dialect, stored: Container[str] = (), filled_in: Container[str] = ()) -> str:
    """Translate a tool's references. `stored` are names in its own store; each becomes `${secret:NAME}`. Variables of
    `filled_in` stay text.

    Raises:
        Untranslatable: part of it has no counterpart.
    """
    written, done = "", 0
    for found in _PATTERNS[dialect].finditer(text):
        written += _literal(text[done : found.start()])
        reference = _literal(found[0]) if found.groupdict().get("name") in filled_in else _reference(found, stored)
        if written.endswith("$") and reference.startswith("${"):
            raise Untranslatable('has a "$" right before a variable')
        written += reference
        done = found.end()
    return written + _literal(text[done:])


def _literal(text: str) -> str:
    return text.replace("${", "$${")


def _reference(found: re.Match[str], stored: Container[str]) -> str:
    parts = found.groupdict()
    if parts.get("inside") is not None:
        return _editor_reference(found["inside"], stored)
    if parts.get("command"):
        raise Untranslatable("runs a command")
    if parts.get("kind") == "file":
        raise Untranslatable("is read from a file")
    if parts.get("kind") == "env":
        return _variable(found["what"])
    name = parts.get("name") or parts.get("bare") or ""
    if name == "CLAUDE_PROJECT_DIR":
        return "${project}"
    return f"${{secret:{name}}}" if name in stored else _variable(name, parts.get("default") or "")


def _editor_reference(inside: str, stored: Container[str]) -> str:
    kind, separator, name = inside.partition(":")
    if separator and kind == "env":
        return _variable(name)
    if separator and kind == "input":
        if name in stored:
            return f"${{secret:{name}}}"
        raise Untranslatable("asks for an input that the file does not describe")
    if separator and kind == "workspaceFolder":
        raise Untranslatable("names one of several workspace folders")
    if inside in _FOLDERS or inside in _MARKS:
        return _FOLDERS.get(inside) or _MARKS[inside]
    if re.fullmatch(EDITOR_VARIABLE, inside):
        raise Untranslatable(f"uses a variable that only the editor knows ({kind})")
    return _literal(f"${{{inside}}}")


def _variable(name: str, default: str = "") -> str:
    if not re.fullmatch(NAME, name):
        raise Untranslatable("names a variable with an invalid name")
    if is_private(name):
        raise Untranslatable("names a variable that is reserved for acp-launch")
    if "${" in default or "{" in default:
        raise Untranslatable("has a variable in the default of another")
    return f"${{env:{name}{default}}}"


class Finding(Struct, frozen=True):
    """A configuration file of a tool on this machine. `off` are servers that it does not start. `source` is None if it
    cannot be used; `fault` says why."""

    tool: Tool
    file: Path
    servers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    source: Source | None = None
    fault: str = ""


def survey(machine: Host, project: Path) -> Iterator[Finding]:
    """Find every file of every tool, the nearest first. A file that cannot be read has a `fault`; nothing is raised."""
    for tool in TOOLS.values():
        for file in places(tool, machine, project):
            if os.path.isfile(file):  # noqa: PTH113 - Path.is_file raises in a directory we may not enter
                yield _inspect(tool, file, str(project))


def _inspect(tool: Tool, file: Path, project: str) -> Finding:
    try:
        source = read(file, tool)
    except ProblemsError as error:
        return Finding(tool, file, fault=str(error.problems[0].message))
    except LaunchError as error:
        return Finding(tool, file, fault=error.message)
    found = [entry for entry in entries(tool, source.root, project) if not entry.unfit]
    on = [entry for entry in found if not entry.disabled]
    names = {kind: tuple(entry.name for entry in on if entry.kind == kind) for kind in ("server", "agent")}
    off = tuple(entry.name for entry in found if entry.disabled)
    return Finding(tool, file, names["server"], names["agent"], off, source)
