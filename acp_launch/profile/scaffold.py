"""The text of a new profile: the required keys, and comments about the others. Also its .gitignore. Pure."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from acp_launch.document.nodes import Plain
from acp_launch.profile.agents import KnownAgent
from acp_launch.profile.edit import put

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
SCHEMA = "schema.json"  # lies next to the profile
OVERLAYS = ("*.local.yaml", "*.local.yml")
_RUNNERS = {"npx", "uvx", "node", "bun", "bunx", "deno", "python", "python3", "${python}"}
_EDITORS = {
    True: "Editors complete and check this file with it. If missing: acp-launch schema -o .acp-launch/schema.json",
    False: "Editors complete and check this file with it; `acp-launch init` brings it up to date.",
}
_SERVERS = """
# MCP servers. Store a token with `acp-launch secret set github`; do not write it here:
# mcp_servers:
#   github:
#     command: npx
#     args: [-y, "@modelcontextprotocol/server-github"]
#     env: {GITHUB_TOKEN: "${secret:github}"}
"""
_AGENT = """
# What the agent may do without asking you. Without a terminal, ask means deny.
permissions:
  default: ask

# What acp-launch does for the agent in the session's directories: read and write files, run commands.
# client:
#   fs: true
#   terminal: true
"""


class NewServer(Struct, frozen=True):
    """A new entry under `mcp_servers`, and the comments above it."""

    name: str
    entry: Mapping[str, Plain]
    comments: tuple[str, ...] = ()


def beginning(agent: KnownAgent, servers: Sequence[NewServer], *, schema: str) -> str:
    """Write a profile with its own agent. `schema` is the address of the schema for editors; empty if there is none."""
    return _with_servers(without_servers(agent, schema=schema), servers)


def without_servers(agent: KnownAgent, *, schema: str) -> str:
    """Write a profile as `beginning`, to which servers will be added."""
    head = [*agent.needs, *agent.notes]
    text = f"{_schema(schema)}{_comments(head)}version: 1\ndescription: x\n\nagent:\n  command: x\n{_AGENT}"
    text = put(text, ("description",), agent.title)
    text = put(text, ("agent", "command"), agent.command)
    if agent.args:
        text = put(text, ("agent", "args"), agent.args)
    if agent.timeouts:
        text = put(text, ("agent", "timeouts"), dict(agent.timeouts))
    return text


def extending(parent: str, agent: KnownAgent | None, servers: Sequence[NewServer], *, schema: str) -> str:
    """Write a profile that extends another one, with its own agent if there is one."""
    said = "Mappings merge with those of the extended profile, lists replace them, and null removes a key."
    text = f"{_schema(schema)}{_comments([said])}version: 1\nextends: x\n"
    text = put(text, ("extends",), parent)
    if agent:  # the other's arguments are for its own agent
        text = put(text, ("description",), agent.title)
        text = put(text, ("agent",), {"command": agent.command, "args": list(agent.args)})
        text = put(text, ("agent", "timeouts"), dict(agent.timeouts)) if agent.timeouts else text
    return _with_servers(text, servers)


def own_agent(words: Sequence[str]) -> KnownAgent:
    """Describe an agent that is not in the table, by its command line."""
    name = called(words)
    return KnownAgent(name=name, title=name, command=words[0], args=tuple(words[1:]), timeouts=())


def called(words: Sequence[str]) -> str:
    """Name a program: by itself, or by the package that a runner such as npx starts."""
    program = _stem(words[0])
    inner = next((word for word in words[1:] if not word.startswith("-")), "") if program in _RUNNERS else ""
    stem = _stem(inner) or program
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-._") or "agent"


def ignoring(text: str | None, patterns: Sequence[str] = OVERLAYS) -> str:
    """Add patterns to the text of a .gitignore; unchanged if they are in it. Overlays are personal."""
    old = text or ""
    missing = [pattern for pattern in patterns if pattern not in old.splitlines()]
    if not missing:
        return old
    ending = "\r\n" if "\r\n" in old else "\n"
    gap = ending if old and not old.endswith("\n") else ""
    return old + gap + "".join(pattern + ending for pattern in missing)


def _with_servers(text: str, servers: Sequence[NewServer]) -> str:
    if not servers:
        return text + _SERVERS
    for one in servers:
        text = put(text, ("mcp_servers", one.name), one.entry, comments=one.comments)
    return text


def _schema(schema: str) -> str:
    if not schema:
        return ""
    return f"# yaml-language-server: $schema={schema}\n# {_EDITORS[schema.startswith('./')]}\n"


def _comments(said: Sequence[str]) -> str:
    lines = [line for text in said for line in text.splitlines()]
    return "#\n" + "".join(f"# {line}\n" for line in lines) if lines else ""


def _stem(program: str) -> str:
    last = program.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return re.sub(r"(?<=.)@.*|\.(?:py|js|mjs|cjs|ts|sh|exe|cmd)$", "", last)
