"""
The other tools: where each keeps its configuration on each system, and how a file is read and recognised.

`places` lists the files of a tool, the nearest first. `sources` and `read` read them within bounds. A file that is
wrong gives a Problem with its line; its content is never quoted, since it may hold credentials.
"""

import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from acp_launch.document.nodes import Kind, as_written
from acp_launch.document.yaml import parse as parse_yaml
from acp_launch.errors import ProfileError, UsageError
from acp_launch.interop import formats
from acp_launch.private import Unfit, read_bounded
from acp_launch.problem import Problem
from acp_launch.profile.load import shown

Syntax = Literal["json", "toml", "yaml", "shell", "lua"]
# The notation of a tool's references: none; `${VAR}`; also `$VAR`; `${env:VAR}` and `${input:x}`; `{env:VAR}`.
Dialect = Literal["none", "shell", "dollar", "code", "braces"]


class Tool(Struct, frozen=True):
    """A tool whose configuration can be imported and exported; `servers` and `agents` are the keys that hold them."""

    name: str
    title: str
    syntax: Syntax
    dialect: Dialect
    servers: str = ""
    agents: str = ""
    of_headers: Dialect | None = None  # if headers have another dialect

    def dialect_of(self, key: str) -> Dialect:
        """Return the dialect of `env`, `headers` and the like."""
        return self.of_headers if key == "headers" and self.of_headers else self.dialect


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("claude-desktop", "Claude Desktop", "json", "none", "mcpServers"),
        Tool("claude", "Claude Code", "json", "shell", "mcpServers"),
        Tool("vscode", "VS Code", "json", "code", "servers"),
        Tool("cursor", "Cursor", "json", "code", "mcpServers"),
        Tool("codex", "Codex", "toml", "none", "mcp_servers"),
        Tool("gemini", "Gemini CLI", "json", "dollar", "mcpServers"),
        Tool("zed", "Zed", "json", "none", "context_servers", "agent_servers"),
        Tool("jetbrains", "JetBrains", "json", "none", "", "agent_servers"),
        Tool("opencode", "opencode", "json", "braces", "mcp"),
        Tool("goose", "goose", "yaml", "none", "extensions", of_headers="dollar"),
        Tool("acpx", "acpx", "json", "none", "mcpServers", "agents"),
    )
}

# Tools without a file of entries: an export prints a command line, or a piece of a program, for the user to paste.
PRINTED = {
    tool.name: tool
    for tool in (
        Tool("toad", "toad", "shell", "none", agents="agents"),
        Tool("neovim", "Neovim", "lua", "none", agents="agents"),
    )
}


_SHARED = {"claude", "vscode", "cursor"}  # tools whose users usually keep servers in the project
_OF_USER = {"zed"}  # tools that take no agent from a project, so that a repository cannot start programs


class Host(Struct, frozen=True):
    """This machine. `platform` as in `sys.platform`; `environ` is used for directories only."""

    home: Path
    environ: Mapping[str, str]
    platform: str

    @property
    def settings(self) -> Path:
        """The settings directory of desktop programs."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming")
        return self.config

    @property
    def config(self) -> Path:
        """The settings directory of command-line programs: `~/.config`, on macOS too."""
        return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")

    def named(self, variable: str, default: Path) -> Path:
        return Path(self.environ.get(variable) or default)


def this_machine() -> Host:
    return Host(Path.home(), os.environ, sys.platform)


def places(tool: Tool, machine: Host, project: Path) -> tuple[Path, ...]:
    """List every file that the tool would read here, whether it exists or not."""
    return (*_of_project(tool.name, project), *_of_user(tool.name, machine))


def own_place(tool: Tool, machine: Host, project: Path) -> Path:
    """Return the file that `export --write` changes: the project's if it exists or is the usual place, else the user's.

    If a file may have several names, it is the one that exists, since the tool would read both.
    """
    shared = () if tool.name in _OF_USER else _of_project(tool.name, project)
    own = _of_user(tool.name, machine)
    if there := next((file for file in shared if _is_taken(file)), None):
        return there
    if shared and tool.name in _SHARED:
        return shared[0]
    return next((file for file in own if _is_taken(file)), own[0])


def _is_taken(file: Path) -> bool:
    """Whether a name is taken; also by a link that leads nowhere."""
    return file.exists() or file.is_symlink()


def _of_project(tool: str, project: Path) -> tuple[Path, ...]:
    inside = {
        "claude": (".mcp.json",),
        "vscode": (".vscode/mcp.json",),
        "cursor": (".cursor/mcp.json",),
        "codex": (".codex/config.toml",),
        "gemini": (".gemini/settings.json",),
        "zed": (".zed/settings.json",),
        "opencode": ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        "acpx": (".acpxrc.json",),
    }
    return tuple(project / name for name in inside.get(tool, ()))


def _of_user(tool: str, machine: Host) -> tuple[Path, ...]:
    home, config, settings = machine.home, machine.config, machine.settings
    windows = machine.platform == "win32"
    return {
        "claude-desktop": (settings / "Claude" / "claude_desktop_config.json",),
        "claude": (machine.named("CLAUDE_CONFIG_DIR", home) / ".claude.json",),
        "vscode": (settings / "Code" / "User" / "mcp.json",),
        "cursor": (home / ".cursor" / "mcp.json",),
        "codex": (machine.named("CODEX_HOME", home / ".codex") / "config.toml",),
        "gemini": (home / ".gemini" / "settings.json",),
        "zed": ((settings / "Zed" if windows else config / "zed") / "settings.json",),
        "jetbrains": (home / ".jetbrains" / "acp.json",),
        "opencode": (config / "opencode" / "opencode.json", config / "opencode" / "opencode.jsonc"),
        "goose": ((settings / "Block" / "goose" / "config" if windows else config / "goose") / "config.yaml",),
        "acpx": (home / ".acpx" / "config.json",),
    }[tool]


MOST_JSON = 32 * 1024 * 1024  # bytes; `~/.claude.json` holds every project
MOST = 1024 * 1024  # bytes of TOML or YAML, whose parsers are slow
YAML = Kind("a settings file", "extensions:", 8, may_be_empty=True)
_SYNTAX: dict[str, Syntax] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


class Source(Struct, frozen=True):
    """A file that was read. `root` is its content; `twice` are keys that appear twice in one object."""

    tool: Tool
    file: Path
    text: str
    root: Any
    twice: tuple[str, ...] = ()


def sources(what: str, machine: Host, project: Path, start: Path) -> tuple[Source, ...]:
    """Read the file at a path, or those of a tool, the nearest first. `start` is where the command was typed.

    Raises:
        UsageError: `what` is neither a tool nor a file, or the tool has no file here.
        ProfileError: a file cannot be read, or has the wrong format.
    """
    if what in TOOLS:
        files = [file for file in places(TOOLS[what], machine, project) if file.is_file()]
        if not files:
            looked = [f"looked for {file}" for file in places(TOOLS[what], machine, project)]
            fix = "give a file's path: acp-launch import FILE --into PROFILE"
            raise UsageError(f"{TOOLS[what].title} is not configured here", fix=fix, detail=looked)
        return tuple(read(file, TOOLS[what]) for file in files)
    file = start / at_home(what)
    if not file.exists() and "/" not in what:
        known = ", ".join(TOOLS)
        raise UsageError(f'"{what}" is neither a tool nor a file', fix=f"give a file's path, or one of {known}")
    return (read(file),)


def at_home(path: str) -> Path:
    """Expand `~` in a path that the user typed.

    Raises:
        UsageError: the home directory is unknown.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"no home directory is known for {path}", fix="give an absolute path") from None


def read(file: Path, tool: Tool | None = None) -> Source:
    """Read a file. `tool` is the tool it belongs to; None to detect it.

    Raises:
        ProfileError: it cannot be read, or has the wrong format.
        UsageError: its tool cannot be detected.
    """
    syntax = tool.syntax if tool else _SYNTAX.get(file.suffix.lower(), "json")
    text = _text(file, MOST_JSON if syntax == "json" else MOST)
    root, twice = _parsed(file, text, syntax)
    owner = tool or _owner(file, root, syntax)
    if owner is None:
        raise UsageError(f"{shown(file)}: this is not a configuration that acp-launch knows", fix=_fix())
    return Source(owner, file, text, root, twice)


def _fix() -> str:
    return f"it must be one of {', '.join(tool.title for tool in TOOLS.values())}; --from TOOL says which"


def _text(file: Path, most: int) -> str:
    try:
        found = read_bounded(file, most)
        content = found[0].decode() if found else None
    except (Unfit, UnicodeDecodeError) as unfit:
        why = "is not UTF-8 text" if isinstance(unfit, UnicodeDecodeError) else str(unfit)
        raise ProfileError([Problem(shown(file), 0, 0, "", f"this file {why}", "give another file")]) from None
    except OSError as fault:
        why = (fault.strerror or str(fault)).lower()
        raise ProfileError([Problem(shown(file), 0, 0, "", f"cannot be read: {why}", "")]) from None
    if content is None:
        raise ProfileError([Problem(shown(file), 0, 0, "", "no such file", "acp-launch import lists what is here")])
    return content


def _parsed(file: Path, text: str, syntax: Syntax) -> tuple[Any, tuple[str, ...]]:
    if syntax == "toml":
        return _toml(file, text), ()
    if syntax == "yaml":
        document, problems = parse_yaml(text, shown(file), YAML)
        if document is None and problems:
            raise ProfileError(problems)
        return (document.root if document else {}), ()
    if not text.strip():
        return {}, ()
    try:
        parsed = formats.parse(text)
    except formats.BadJson as bad:
        raise ProfileError([Problem(shown(file), bad.line, bad.column, "", str(bad), "fix the file first")]) from None
    return parsed.root, parsed.twice


def _toml(file: Path, text: str) -> Any:
    try:
        return tomllib.loads(text, parse_float=lambda written: as_written(float(written), written))
    except tomllib.TOMLDecodeError as bad:
        # The message may quote a key, so only its end is used, which is the place.
        place = str(bad).rpartition(" (at ")[2].rstrip(")")
        what = f"not valid TOML (at {place})" if place.startswith(("line", "end")) else "not valid TOML"
        raise ProfileError([Problem(shown(file), 0, 0, "", what, "fix the file first")]) from None
    except (RecursionError, ValueError):
        raise ProfileError([Problem(shown(file), 0, 0, "", "not valid TOML: nested too deep", "")]) from None


def _owner(file: Path, root: Any, syntax: Syntax) -> Tool | None:
    """Detect the tool of a file by its name, then by its keys; None if unknown."""
    keys = set(root) if isinstance(root, dict) else set()
    return TOOLS.get(_by_name(file) or _by_keys(keys, root, syntax))


def _by_name(file: Path) -> str:
    name, folder = file.name, file.parent.name
    named = {
        "claude_desktop_config.json": "claude-desktop",
        ".mcp.json": "claude",
        ".claude.json": "claude",
        "acp.json": "jetbrains",
        "opencode.json": "opencode",
        "opencode.jsonc": "opencode",
        ".acpxrc.json": "acpx",
    }
    folders = {".vscode": "vscode", ".cursor": "cursor", ".codex": "codex", ".gemini": "gemini", ".acpx": "acpx"}
    editors = {".zed": "zed", "zed": "zed", "Zed": "zed", "goose": "goose"}
    return named.get(name) or (folders | editors).get(folder, "")


def _by_keys(keys: Iterable[str], root: Any, syntax: Syntax) -> str:
    found = set(keys)
    if syntax != "json":
        return {"toml": "codex", "yaml": "goose"}[syntax] if found & {"mcp_servers", "extensions"} else ""
    if "context_servers" in found:
        return "zed"
    if "agent_servers" in found:
        return "jetbrains" if found <= {"agent_servers", "default_mcp_settings"} else "zed"
    if "servers" in found:
        return "vscode"
    if "mcpServers" in found:
        return "acpx" if isinstance(root["mcpServers"], list) else _with_map(found)
    return "opencode" if "mcp" in found else ""


def _with_map(keys: set[str]) -> str:
    """Choose between tools that share a format; other tools adopted that of Claude Code."""
    return "gemini" if keys & {"selectedAuthType", "security", "general", "context", "ui"} else "claude"
