"""Which tools there are, and where each keeps its configuration on each system; the nearest first. Nothing is read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

Syntax = Literal["json", "toml", "yaml"]
# How a tool writes what it takes from elsewhere: `${VAR}`, `$VAR` too, `${env:VAR}` and `${input:x}`, `{env:VAR}`.
Dialect = Literal["none", "shell", "dollar", "code", "braces"]


class Tool(Struct, frozen=True):
    """`speaks` is what it launches: agents over ACP, or only MCP servers of its own."""

    name: str
    title: str
    syntax: Syntax
    dialect: Dialect
    servers: str = ""  # the key that holds them
    agents: str = ""
    of_headers: Dialect | None = None  # where they are written otherwise

    def dialect_of(self, key: str) -> Dialect:
        """How it reads `env`, `headers` and the like."""
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


_SHARED = {"claude", "vscode", "cursor"}  # whose users keep servers with the project


class Machine(Struct, frozen=True):
    """`platform` as in `sys.platform`; `environ` is asked for directories only."""

    home: Path
    environ: Mapping[str, str]
    platform: str

    @property
    def settings(self) -> Path:
        """Where programs with a window keep their settings."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming")
        return self.config

    @property
    def config(self) -> Path:
        """Where programs of the shell keep theirs: `~/.config`, on macOS too."""
        return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")

    def named(self, variable: str, default: Path) -> Path:
        return Path(self.environ.get(variable) or default)


def places(tool: Tool, machine: Machine, project: Path) -> tuple[Path, ...]:
    """Every file the tool would read here, whether it is there or not."""
    return (*_of_project(tool.name, project), *_of_user(tool.name, machine))


def own_place(tool: Tool, machine: Machine, project: Path) -> Path:
    """Where `export --write` writes: into the project's file if there is one, or if that is the usual place; else into
    the user's. Of several names that a file may have, the one that is there: the tool would read two of them."""
    shared, own = _of_project(tool.name, project), _of_user(tool.name, machine)
    if there := next((file for file in shared if _is_taken(file)), None):
        return there
    if shared and tool.name in _SHARED:
        return shared[0]
    return next((file for file in own if _is_taken(file)), own[0])


def _is_taken(file: Path) -> bool:
    """A link that leads nowhere is a name that is taken, too."""
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


def _of_user(tool: str, machine: Machine) -> tuple[Path, ...]:
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
