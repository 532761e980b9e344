"""
The output of the `mcp` verbs: answers on stdout, progress and messages of a server on stderr.

The text of a server may hold anything: on a terminal, control characters and colours are made visible. A pipe gets the
text of a tool unchanged. An answer is printed while its server is alive, so a slow reader must not block.
"""

import codecs
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acp_launch.console import stdout
from acp_launch.console.stderr import DIM, QUOTED, YELLOW, harmless, harmless_line, put, say, share, tell
from acp_launch.console.stdout import columns
from acp_launch.console.stream.outlet import Outlet
from acp_launch.mcp.arguments import types_of
from acp_launch.mcp.client import Survey, ToolResult
from acp_launch.mcp.message import CLIENT_INFO, LogMessage, Progress, ServerInfo, Tool
from acp_launch.plan.model import INHERITED, Value
from acp_launch.problem import count, unmarked
from acp_launch.process.lifecycle import DOWNLOADING
from acp_launch.profile.model import McpServer, StdioServer
from acp_launch.protocol.splice import visible
from acp_launch.secret.detect import masked
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import MASK

if TYPE_CHECKING:
    from acp_launch.console.logins import State
    from acp_launch.mcp.http.wire import RemoteFacts

NOUNS = {
    "tools/list": ("tool", "tools"),
    "resources/list": ("resource", "resources"),
    "resources/templates/list": ("resource template", "resource_templates"),
    "prompts/list": ("prompt", "prompts"),
}


MODERN = "2026-07-28"  # the version of MCP without a handshake
ERAS = {"legacy": "of the legacy era", "modern": "of the modern era", "sse": "over HTTP+SSE (2024-11-05)"}


def say_downloading(name: str) -> None:
    """Tell that a server is being downloaded by its package runner."""
    tell(f"mcp server {name} is {DOWNLOADING}", style=DIM)


class ServerMessages:
    """Prints what a server sends besides its answers. `verbose` also shows its log messages and its stderr."""

    def __init__(self, name: str, *, verbose: bool) -> None:
        self._name = name
        self._verbose = verbose
        if verbose:
            share(at_once=True)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # a chunk may end within a character

    def progress(self, progress: Progress) -> None:
        """Print progress only on a terminal."""
        if sys.stderr.isatty():
            of = f"/{progress.total:g}" if progress.total else ""
            message = f": {harmless_line(progress.message)}" if progress.message else ""
            say(f"{self._name}: {progress.done:g}{of}{message}", style=DIM)

    def said(self, said: LogMessage) -> None:
        if self._verbose:
            who = f"{self._name}: {said.level or 'log'}" + (f" ({said.logger})" if said.logger else "")
            say(f"{harmless_line(who)}: {harmless(said.text)}", style=DIM)

    def note(self, text: str) -> None:
        tell(text, style=YELLOW)

    def stderr(self, data: bytes) -> None:
        if self._verbose:
            put(_safe(self._decoder.decode(data)))


def show_list(servers: Mapping[str, McpServer], logins: "Mapping[str, State]", *, as_json: bool) -> None:
    """Print the declared servers, and the logins to those that have, or want, one. References stay references."""
    if logins:
        from acp_launch.console.logins import data, describe_state
    now, listed, rows = time.time(), [], []
    for name, server in servers.items():
        said = _server_json(name, server)
        is_needed, is_bridged = ("yes" if said[key] else "no" for key in ("required", "bridge"))
        row = [name, server.type, said.get("url") or said["command"], is_needed, is_bridged]
        if logins:
            said["login"] = data(logins[name], now) if name in logins else None
            row.append(describe_state(logins[name], now) if name in logins else "")
        listed.append(said)
        rows.append(row)
    if as_json:
        stdout.put(_json({"servers": listed}))
        return
    head = ["NAME", "TYPE", "COMMAND OR URL", "REQUIRED", "BRIDGED", *(["LOGIN"] if logins else [])]
    stdout.put(_lines(columns([head, *rows] if rows else [])))


async def show_survey(found: Survey, facts: Mapping[str, Any], env: Mapping[str, Value], *, as_json: bool) -> None:
    """Print a survey. `facts` are ours: profile, name, roots, number of hidden tools, seconds until the handshake."""
    await _answer(_json(_survey_json(found, facts, env)) if as_json else _lines(_survey_lines(found, facts, env)))


async def show_tools(name: str, tools: Sequence[Tool], hidden: int, *, as_json: bool) -> None:
    if as_json:
        await _answer(_json({"server": name, "tools": [tool.listing for tool in tools], "hidden": hidden}))
        return
    await _answer(_lines(columns([row for tool in tools for row in _tool_rows(tool)])))
    if hidden:
        tell(f"{count(hidden, 'more tool' if tools else 'tool')} hidden by the profile", style=DIM)
    elif not tools:
        tell(f"the MCP server {name} has no tools", style=DIM)


async def show_result(result: ToolResult, *, as_json: bool) -> None:
    """Print a tool's answer. Errors of the tool go to stderr, unless a script asked for the whole answer."""
    if as_json:
        await _answer(visible(redactor.raw_json(bytes(result.raw)).decode(errors="replace")) + "\n")
        return
    for part in result.parts:
        whole = part.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if result.is_error:
            say(harmless(whole), style=QUOTED)
        else:
            await _answer(stdout.printable(whole) + ("" if whole.endswith("\n") else "\n"))


def _safe(text: str) -> str:
    """Return `text` safe on stderr, next to our own lines."""
    return harmless(text) if sys.stderr.isatty() else unmarked(text)


def _server_json(name: str, server: McpServer) -> dict[str, Any]:
    runs = {"command": masked(server.command)} if isinstance(server, StdioServer) else {"url": masked(server.url)}
    return {"name": name, "type": server.type, **runs, "required": server.required, "bridge": server.bridge}


def _survey_json(found: Survey, facts: Mapping[str, Any], env: Mapping[str, Value]) -> dict[str, Any]:
    server, remote = found.server, facts["remote"]
    return {
        "profile": facts["profile"],
        "server": facts["name"],
        "server_info": {"name": server.name, "title": server.title, "version": server.version},
        "protocol_version": server.protocol_version,
        "capabilities": server.capabilities,
        "instructions": server.instructions,
        "counts": {plural: found.counts.get(method) for method, (_, plural) in NOUNS.items()},
        "hidden_tools": facts["hidden"],
        "refused": dict(found.refused),
        "connection": remote.as_json if remote else {"type": "stdio", "era": facts["era"] or None},
        "timings": {
            "initialize": round(facts["after"], 4),
            **{method: round(taken, 4) for method, taken in found.timings.items()},
        },
        "answers_ping": found.answers_ping,
        "roots_asked": found.roots_asked,
        "client_info": {
            **CLIENT_INFO,
            "protocol_version": server.protocol_version,
            "sampling_supported": False,
            "sampling_caps": {"supported": False, "audio": {"supported": False}},
            "env": dict.fromkeys(sorted(env), MASK),
            "roots": facts["roots"],
        },
    }


def _survey_lines(found: Survey, facts: Mapping[str, Any], env: Mapping[str, Value]) -> Iterator[str]:
    server = found.server
    yield f"server        {_server_name(server)}"
    translated = f", translated from {MODERN}" if facts["era"] == "modern" else ""
    yield f"protocol      MCP {server.protocol_version}{translated}"
    if remote := facts["remote"]:
        yield f"connection    {_connection(remote)}"
    yield f"capabilities  {', '.join(sorted(server.capabilities)) or '(none)'}"
    counted = [count(found.counts[method], noun) for method, (noun, _) in NOUNS.items() if method in found.counts]
    hidden = f" ({facts['hidden']} hidden by the profile)" if facts["hidden"] else ""
    yield f"offers        {', '.join(counted) or 'nothing'}{hidden}"
    yield from (f"refused       {method}: {why}" for method, why in found.refused.items())
    timings = "".join(f", {method} in {_seconds(taken)}" for method, taken in found.timings.items())
    yield f"timings       ready in {_seconds(facts['after'])}{timings}"
    yield f"ping          {'answered' if found.answers_ping else 'not answered'}"
    own = sorted(name for name, value in env.items() if value.origin != INHERITED)
    yield f"variables     {', '.join(own) or '(none of its own)'}"
    if remote is None:
        yield f"  inherited   {', '.join(sorted(set(env) - set(own)))}"
    asked = {0: "it did not ask for them", 1: "it asked for them"}.get(found.roots_asked, "it asked several times")
    yield f"roots         {facts['roots'][0]['uri']}  ({asked})"
    yield from (f"              {root['uri']}" for root in facts["roots"][1:])
    for index, line in enumerate(server.instructions.splitlines()):
        yield f"{'' if index else 'instructions':12}  {line}"


def _connection(remote: "RemoteFacts") -> str:
    """Describe a connection: `http, TLSv1.3, of the legacy era, with a session`."""
    session = "" if remote.era == "sse" else "with a session" if remote.has_session else "without a session"
    return ", ".join(filter(None, [remote.type, remote.tls or "not encrypted", ERAS.get(remote.era, ""), session]))


def _server_name(server: ServerInfo) -> str:
    title = f" ({server.title})" if server.title and server.title != server.name else ""
    return f"{server.name or '(without a name)'} {server.version}".strip() + title


def _tool_rows(tool: Tool) -> Iterator[tuple[str, str]]:
    first, _, _ = tool.description.strip().partition("\n")
    yield tool.name, first
    if arguments := ", ".join(_argument(tool, name, schema) for name, schema in tool.properties.items()):
        yield "", f"({arguments})"


def _argument(tool: Tool, name: str, schema: object) -> str:
    types = "|".join(sorted(types_of(schema, tool.schema)))
    star = "*" if name in tool.required else ""
    return f"{name}{star}: {types}" if types else f"{name}{star}"


def _seconds(amount: float) -> str:
    return (
        f"{amount:.2f} s" if amount >= 1 else f"{1000 * amount:.0f} ms" if amount >= 0.01 else f"{1000 * amount:.1f} ms"
    )


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{harmless_line(line)}\n" for line in lines)


def _json(answer: dict[str, Any]) -> str:
    return visible(json.dumps(redactor.tree(answer))) + "\n"


async def _answer(text: str) -> None:
    """Write at once, without blocking the event loop; unlike `stdout.put`, redact here and skip `sys.stdout`."""
    outlet = Outlet()
    outlet.write(redactor.data(text.encode(errors="replace")))
    await outlet.drain()
