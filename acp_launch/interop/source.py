"""
A file of another tool is read, within bounds, and told apart from those of others.

What is wrong with it is a Problem with its line; nothing of its content is repeated, since that may be a credential.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.document.nodes import as_written
from acp_launch.document.source import Kind
from acp_launch.document.tree import parse as parse_yaml
from acp_launch.errors import ProfileError, UsageError
from acp_launch.interop import jsonc
from acp_launch.interop.places import TOOLS, Machine, Syntax, Tool, places
from acp_launch.private import Unfit, read_bounded
from acp_launch.problem import Problem
from acp_launch.profile.load import shown

MOST_JSON = 32 * 1024 * 1024  # bytes; `~/.claude.json` remembers every project
MOST = 1024 * 1024  # bytes of TOML or YAML, whose readers are slow
YAML = Kind("a settings file", "extensions:", 8, may_be_empty=True)
_SYNTAX: dict[str, Syntax] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


class Source(Struct, frozen=True):
    """`root` is what the file says; `twice` are keys that it says twice."""

    tool: Tool
    file: Path
    text: str
    root: Any
    twice: tuple[str, ...] = ()


def sources(what: str, machine: Machine, project: Path, start: Path) -> tuple[Source, ...]:
    """The file at a path, or those a tool would read here, the nearest first. `start` is where the command was typed.

    Raises:
        UsageError: it is neither, or the tool has none here.
        ProfileError: a file cannot be read, or is not what it should be.
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
    """A path as it was typed.

    Raises:
        UsageError: nobody knows the home it begins with.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"no home directory is known for {path}", fix="give an absolute path") from None


def read(file: Path, tool: Tool | None = None) -> Source:
    """`tool` is whose it is; None to find out.

    Raises:
        ProfileError: it cannot be read, or is not what it should be.
        UsageError: nobody knows whose it is.
    """
    syntax = tool.syntax if tool else _SYNTAX.get(file.suffix.lower(), "json")
    text = _text(file, MOST_JSON if syntax == "json" else MOST)
    root, twice = _parsed(file, text, syntax)
    owner = tool or _owner(file, root, syntax)
    if owner is None:
        raise UsageError(f"{shown(file)}: this is no configuration that acp-launch knows", fix=_fix())
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
        parsed = jsonc.parse(text)
    except jsonc.BadJson as bad:
        raise ProfileError([Problem(shown(file), bad.line, bad.column, "", str(bad), "mend it first")]) from None
    return parsed.root, parsed.twice


def _toml(file: Path, text: str) -> Any:
    try:
        return tomllib.loads(text, parse_float=lambda written: as_written(float(written), written))
    except tomllib.TOMLDecodeError as bad:
        # The message may quote a key: only its end, the place, is repeated.
        place = str(bad).rpartition(" (at ")[2].rstrip(")")
        what = f"not valid TOML (at {place})" if place.startswith(("line", "end")) else "not valid TOML"
        raise ProfileError([Problem(shown(file), 0, 0, "", what, "mend it first")]) from None
    except (RecursionError, ValueError):
        raise ProfileError([Problem(shown(file), 0, 0, "", "not valid TOML: nested too deep", "")]) from None


def _owner(file: Path, root: Any, syntax: Syntax) -> Tool | None:
    """Whose it is: by its name, then by what it holds."""
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
    """Claude Code's own format is the one that others took over."""
    return "gemini" if keys & {"selectedAuthType", "security", "general", "context", "ui"} else "claude"
