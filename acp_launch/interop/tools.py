"""
The other tools: where each keeps its configuration on each system, what an entry looks like, and how a file is read.

`TOOLS` is the table of all that differs. `places` lists the files of a tool, the nearest first; `sources` and `read`
read them within bounds. A file that is wrong gives a Problem with its line; its content is never quoted, since it may
hold credentials.
"""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any, Literal

from msgspec import Struct, field

from acp_launch.descent import LinkError, pin
from acp_launch.document.nodes import Kind
from acp_launch.document.yaml import parse as parse_yaml
from acp_launch.errors import ProfileError, UsageError
from acp_launch.interop import formats
from acp_launch.private import Unfit, read_bounded
from acp_launch.problem import Problem
from acp_launch.profile.load import shown

# ruff: noqa: PTH110, PTH113 - methods of Path raise for a name too long, or in a directory that we may not enter

Syntax = Literal["json", "toml", "yaml", "shell", "lua", "elisp"]
# The notation of a tool's references: none; `${VAR}`; also `$VAR`; also `$(command)`; `${env:VAR}` and `${input:x}`;
# `{env:VAR}`.
Dialect = Literal["none", "shell", "dollar", "commands", "code", "braces"]


class Tool(Struct, frozen=True):
    """A tool whose configuration can be imported; `servers` and `agents` are the keys that hold them.

    `project` and `user` are its files: below a project, and below one of the directories of a `Host`. `types` are the
    transports that it takes, with the value of `type`, empty for none. `head` is in every entry that is written.
    `keys` are its names for what `read` knows by others; an export writes `cwd` and the like only if they are named
    here. `unit` is its timeouts' unit, in seconds. `folders` is how it writes `${project}` and `${home}`.
    """

    name: str
    title: str
    syntax: Syntax = "json"
    dialect: Dialect = "none"
    servers: str = ""
    agents: str = ""
    header_dialect: Dialect | None = None  # if headers have another one
    project: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(("stdio", "http", "sse"), ""))
    head: Mapping[str, Any] = {}
    keys: Mapping[str, str] = {}
    unit: float = 1
    folders: Mapping[str, str] = {}
    ignored: tuple[str, ...] = ()  # keys without effect for acp-launch, such as an icon
    # The project's file: always; if it exists; never. `nowhere`: acp-launch starts the tool with its servers instead.
    export_goes_to: Literal["project", "there", "user", "nowhere"] = "there"

    def dialect_of(self, key: str) -> Dialect:
        """Return the dialect of `env`, `headers` and the like."""
        return self.header_dialect if key == "headers" and self.header_dialect else self.dialect


_NAMED = {"stdio": "stdio", "http": "http", "sse": "sse"}
_EDITOR = {"project": "${workspaceFolder}", "home": "${userHome}"}
_GEMINI = {
    "cwd": "cwd",
    "http": "httpUrl",
    "sse": "url",
    "call": "timeout",
    "allow": "includeTools",
    "deny": "excludeTools",
}
_EXTENSIONS = "{settings}/Code/User/globalStorage"  # of VS Code
TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "claude-desktop",
            "Claude Desktop",
            servers="mcpServers",
            user=("{settings}/Claude/claude_desktop_config.json",),
            types={"stdio": ""},
        ),
        Tool(
            "claude",
            "Claude Code",
            dialect="shell",
            servers="mcpServers",
            project=(".mcp.json",),
            user=("{CLAUDE_CONFIG_DIR}/.claude.json",),
            types=_NAMED,
            keys={"call": "timeout", "headers_command": "headersHelper"},
            unit=0.001,
            folders={"project": "${CLAUDE_PROJECT_DIR:-.}"},
            export_goes_to="project",
        ),
        Tool(
            "vscode",
            "VS Code",
            dialect="code",
            servers="servers",
            project=(".vscode/mcp.json",),
            user=("{settings}/Code/User/mcp.json",),
            types=_NAMED,
            keys={"cwd": "cwd"},
            folders=_EDITOR,
            ignored=("gallery", "version"),
            export_goes_to="project",
        ),
        Tool(
            "cursor",
            "Cursor",
            dialect="code",
            servers="mcpServers",
            project=(".cursor/mcp.json",),
            user=("{home}/.cursor/mcp.json",),
            keys={"cwd": "cwd"},
            folders=_EDITOR,
            export_goes_to="project",
        ),
        Tool(
            "codex",
            "Codex",
            syntax="toml",
            servers="mcp_servers",
            project=(".codex/config.toml",),
            user=("{CODEX_HOME}/config.toml",),
            keys={
                "cwd": "cwd",
                "passed": "env_vars",
                "headers": "http_headers",
                "bearer": "bearer_token_env_var",
                "header_variables": "env_http_headers",
                "start": "startup_timeout_sec",
                "start_ms": "startup_timeout_ms",
                "call": "tool_timeout_sec",
                "allow": "enabled_tools",
                "deny": "disabled_tools",
                "required": "required",
            },
            export_goes_to="nowhere",
        ),
        Tool(
            "gemini",
            "Gemini CLI",
            dialect="dollar",
            servers="mcpServers",
            project=(".gemini/settings.json",),
            user=("{home}/.gemini/settings.json",),
            keys=_GEMINI,
            unit=0.001,
            export_goes_to="nowhere",
        ),
        Tool(
            "qwen",
            "Qwen Code",
            dialect="dollar",
            servers="mcpServers",
            project=(".qwen/settings.json",),
            user=("{home}/.qwen/settings.json",),
            keys=_GEMINI,
            unit=0.001,
        ),
        Tool(
            "copilot",
            "Copilot CLI",
            dialect="dollar",
            servers="mcpServers",
            user=("{home}/.copilot/mcp-config.json",),
            types={"stdio": "local", "http": "http", "sse": "sse"},
            head={"tools": ["*"]},
            keys={"call": "timeout", "allow": "tools"},
            unit=0.001,
        ),
        Tool(
            "cline",
            "Cline",
            dialect="code",
            servers="mcpServers",
            user=(f"{_EXTENSIONS}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",),
            types={"stdio": "stdio", "http": "streamableHttp", "sse": "sse"},
            keys={"cwd": "cwd", "sse": "url", "call": "timeout"},
        ),
        Tool(
            "roo",
            "Roo Code",
            dialect="code",
            servers="mcpServers",
            project=(".roo/mcp.json",),
            user=(f"{_EXTENSIONS}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",),
            types={"stdio": "stdio", "http": "streamable-http", "sse": "sse"},
            keys={"cwd": "cwd", "call": "timeout", "deny": "disabledTools"},
            folders={"project": "${workspaceFolder}"},
        ),
        Tool(
            "kiro",
            "Kiro",
            dialect="shell",
            servers="mcpServers",
            project=(".kiro/settings/mcp.json",),
            user=("{home}/.kiro/settings/mcp.json",),
            types={"stdio": "", "http": ""},
            keys={"call": "timeout", "deny": "disabledTools"},
            unit=0.001,
        ),
        Tool(
            "windsurf",
            "Windsurf",
            dialect="code",
            servers="mcpServers",
            user=("{home}/.codeium/windsurf/mcp_config.json",),
            keys={"url": "serverUrl", "deny": "disabledTools"},
        ),
        Tool(
            "zed",
            "Zed",
            servers="context_servers",
            agents="agent_servers",
            project=(".zed/settings.json",),
            user=("{config}/zed/settings.json",),
            head={"source": "custom"},
            keys={"call": "timeout"},
            ignored=("source",),
            export_goes_to="user",  # it takes no agent from a project, so that a repository cannot start programs
        ),
        Tool("jetbrains", "JetBrains", agents="agent_servers", user=("{home}/.jetbrains/acp.json",)),
        Tool(
            "opencode",
            "opencode",
            dialect="braces",
            servers="mcp",
            project=("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
            user=("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"),
            keys={"words": "command", "env": "environment", "start": "timeout"},
            unit=0.001,
            export_goes_to="nowhere",
        ),
        Tool(
            "crush",
            "Crush",
            dialect="commands",
            servers="mcp",
            project=("crush.json", ".crush.json"),
            user=("{config}/crush/crush.json",),
            types=_NAMED,
            keys={"start": "timeout", "allow": "enabled_tools", "deny": "disabled_tools"},
        ),
        Tool(
            "goose",
            "goose",
            syntax="yaml",
            servers="extensions",
            header_dialect="dollar",
            user=("{config}/goose/config.yaml",),
            keys={
                "command": "cmd",
                "env": "envs",
                "url": "uri",
                "stored": "env_keys",
                "call": "timeout",
                "allow": "available_tools",
            },
            ignored=("bundled", "display_name"),
            export_goes_to="nowhere",
        ),
        Tool(
            "acpx",
            "acpx",
            servers="mcpServers",
            agents="agents",
            project=(".acpxrc.json",),
            user=("{home}/.acpx/config.json",),
            types={"stdio": "", "http": "http", "sse": "sse"},
            head={"name": ""},
            keys={"argv": "argv"},
        ),
    )
}

# Tools without a file of entries: an export prints a command line, or a piece of a program, for the user to paste.
PRINTED = {
    tool.name: tool
    for tool in (
        Tool("toad", "toad", syntax="shell", agents="agents"),
        Tool("neovim", "Neovim", syntax="lua", agents="agents"),
        Tool("emacs", "Emacs", syntax="elisp", agents="agents"),
    )
}
EXPORTED = {name: tool for name, tool in (TOOLS | PRINTED).items() if tool.export_goes_to != "nowhere"}

SERVE = "serve"
_OURS = ("acp-launch", "acp_launch")  # the program, and the module of `python -m`
_TAKES_VALUE = ("--cwd", "--login", "--trace")


def served_profile(words: Sequence[str]) -> str | None:
    """Return the profile that our command runs for an editor, empty if it names none; None for other commands."""
    for each in (words, [piece for word in words for piece in word.split()]):
        for index, word in enumerate(each[1:], 1):
            if word == SERVE and PureWindowsPath(each[index - 1]).stem in _OURS:  # of either separator
                rest = iter(each[index + 1 :])
                while (word := next(rest, "")).startswith("-"):
                    if word in _TAKES_VALUE:
                        next(rest, "")
                return word
    return None


class Host(Struct, frozen=True):
    """This machine. `platform` as in `sys.platform`; `environ` is used for directories only."""

    home: Path
    environ: Mapping[str, str]
    platform: str

    def directories(self) -> dict[str, Path]:
        """Name the directories that tools keep their files in; `~/.config` is for command-line programs on macOS,
        too."""
        config = Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")
        return {
            "home": self.home,
            "config": config,
            "settings": self.home / "Library" / "Application Support" if self.platform == "darwin" else config,
            "CLAUDE_CONFIG_DIR": Path(self.environ.get("CLAUDE_CONFIG_DIR") or self.home),
            "CODEX_HOME": Path(self.environ.get("CODEX_HOME") or self.home / ".codex"),
        }


def this_machine() -> Host:
    return Host(Path.home(), os.environ, sys.platform)


def _user_places(tool: Tool, machine: Host) -> tuple[Path, ...]:
    directories = machine.directories()
    return tuple(Path(place.format(**directories)) for place in tool.user)


def places(tool: Tool, machine: Host, project: Path) -> tuple[Path, ...]:
    """List every file that the tool would read here, whether it exists or not."""
    return (*(project / place for place in tool.project), *_user_places(tool, machine))


def own_place(tool: Tool, machine: Host, project: Path) -> Path:
    """Return the file that `export --write` changes: the project's if it exists or is the usual place, else the user's.

    If a file may have several names, it is the one that exists, since the tool would read both.
    """
    shared = [] if tool.export_goes_to == "user" else [project / place for place in tool.project]
    if there := next((file for file in shared if os.path.lexists(file)), None):
        return there
    return shared[0] if tool.export_goes_to == "project" else _user_places(tool, machine)[0]


MAX_JSON_BYTES = 32 * 1024 * 1024  # `~/.claude.json` holds every project
MAX_CONFIG_BYTES = 1024 * 1024  # TOML and YAML, whose parsers are slow
YAML = Kind("a settings file", "extensions:", may_be_empty=True)
_SYNTAX: dict[str, Syntax] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


class Source(Struct, frozen=True):
    """A file that was read. `root` is its content; `twice` are keys that appear twice in one object."""

    tool: Tool
    file: Path
    text: str
    root: Any
    twice: tuple[str, ...] = ()


def sources(what: str, machine: Host, project: Path, start: Path) -> tuple[Source, ...]:
    """Read the file at a path, or a tool's files, the nearest first. `start` is where the command was typed.

    Raises:
        UsageError: `what` is neither a tool nor a file, or the tool has no file here.
        ProfileError: a file cannot be read, or has the wrong format.
    """
    if what in TOOLS:
        known = places(TOOLS[what], machine, project)
        if not (files := [file for file in known if os.path.isfile(file)]):
            fix = "give a file's path: acp-launch import FILE --into PROFILE"
            looked = [f"looked for {file}" for file in known]
            raise UsageError(f"{TOOLS[what].title} is not configured here", fix=fix, detail=looked)
        return tuple(read(file, TOOLS[what]) for file in files)
    file = start / at_home(what)
    if "/" not in what and not os.path.exists(file):
        fix = f"give a file's path, or one of {', '.join(TOOLS)}"
        raise UsageError(f'"{what}" is neither a tool nor a file', fix=fix)
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
    text = _text(file, MAX_JSON_BYTES if syntax == "json" else MAX_CONFIG_BYTES)
    root, twice = parse(text, syntax, shown(file))
    owner = tool or _by_name(file) or _by_keys(root if isinstance(root, dict) else {}, syntax)
    if owner is None:
        fix = f"it must be one of {', '.join(tool.title for tool in TOOLS.values())}; --from TOOL says which"
        raise UsageError(f"{shown(file)}: this is not a configuration that acp-launch knows", fix=fix)
    return Source(owner, file, text, root, twice)


def _refusal(file: str, what: str, fix: str = "", line: int = 0, column: int = 0) -> ProfileError:
    return ProfileError([Problem(file, line, column, "", what, fix)])


def _text(file: Path, most: int) -> str:
    try:
        pin(file, follow=True)  # a repository, or an agent, would choose which of the user's files is read
        found = read_bounded(file, most)
        content = found[0].decode() if found else None
    except UnicodeDecodeError:
        raise _refusal(shown(file), "this file is not UTF-8 text", "give another file") from None
    except Unfit as unfit:
        raise _refusal(shown(file), f"this file {unfit}", "give another file") from None
    except LinkError:
        what = "this file is a link that leads out of the project"
        raise _refusal(shown(file), what, "name the file it leads to") from None
    except OSError as fault:
        raise _refusal(shown(file), f"cannot be read: {(fault.strerror or str(fault)).lower()}") from None
    if content is None:
        raise _refusal(shown(file), "no such file", "acp-launch import lists what is here")
    return content


def parse(text: str, syntax: Syntax, file: str) -> tuple[Any, tuple[str, ...]]:
    """Return the content of a file, and the keys that appear twice in one object.

    Raises:
        ProfileError: it has another format.
    """
    if syntax == "yaml":
        document, problems = parse_yaml(text, file, YAML)
        if document is None and problems:
            raise ProfileError(problems)
        return (document.root if document else {}), ()
    try:
        if syntax == "toml":
            return tomllib.loads(text, parse_float=formats.number), ()
        return formats.parse(text if text.strip() else "{}")
    except formats.BadJson as bad:
        raise _refusal(file, str(bad), "fix the file first", bad.line, bad.column) from None
    except tomllib.TOMLDecodeError as bad:
        # The message may quote a key, so only its end is used, which is the place.
        place = str(bad).rpartition(" (at ")[2].rstrip(")")
        what = f"not valid TOML (at {place})" if place.startswith(("line", "end")) else "not valid TOML"
        raise _refusal(file, what, "fix the file first") from None
    except (RecursionError, ValueError):
        raise _refusal(file, "not valid TOML: nested too deep") from None


def _by_name(file: Path) -> Tool | None:
    """Detect the tool of a file: by its name if that says so, else together with its directory."""
    return next((tool for tool in TOOLS.values() if any(map(file.match, _patterns(tool)))), None)


def _patterns(tool: Tool) -> Iterator[str]:
    for place in (*tool.project, *tool.user):
        *_, folder, name = f"/{place}".split("/")
        says_so = name.startswith((".", tool.name.partition("-")[0]))
        yield name if says_so else f"{folder.strip('{}')}/{name}"


def _by_keys(found: Mapping[str, Any], syntax: Syntax) -> Tool | None:
    """Detect the tool by the key that holds its servers or agents. Other tools adopted the format of Claude Code."""
    if settings_parts(found):
        return TOOLS["vscode"]
    known = (tool for tool in TOOLS.values() if tool.syntax == syntax and tool.name != "claude-desktop")
    by_key = next((tool for tool in known if {tool.servers, tool.agents} & found.keys()), None)
    return TOOLS["claude"] if by_key is None and syntax == "json" and any(map(is_server, found.values())) else by_key


def is_server(value: Any) -> bool:
    return isinstance(value, Mapping) and not {"command", "url", "httpUrl", "serverUrl"}.isdisjoint(value)


def settings_parts(root: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return what VS Code's settings have under `mcp`, and under `mcp.servers` and `mcp.inputs`."""
    within = root.get("mcp")
    servers = within.get("servers") if isinstance(within, Mapping) else None
    nested = within if isinstance(servers, Mapping) and not is_server(servers) else None
    dotted = {key.partition(".")[2]: root[key] for key in ("mcp.servers", "mcp.inputs") if key in root}
    return tuple(part for part in (nested, dotted) if part)
