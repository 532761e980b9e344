"""
A profile becomes entries of another tool: its servers, and its agent where the tool starts agents. Pure.

What the tool cannot say is left out, and why is said (`Exported.notes`): of a server whose command or address cannot
be said nothing is left.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from acp_launch.interop.outward import References, Surroundings, bearer_variable, only_variable
from acp_launch.interop.places import Tool
from acp_launch.interop.saying import Saying, without_nothing
from acp_launch.interop.variables import Untranslatable
from acp_launch.profile.model import Agent, HttpServer, McpServer, Profile, SseServer, StdioServer

Entry = dict[str, Any]
Remote = HttpServer | SseServer


class Exported(Struct, frozen=True):
    """`servers` and `agents` as the tool writes them; `variables` and `inputs` are secrets by what it calls them."""

    servers: Mapping[str, Entry]
    agents: Mapping[str, Entry]
    notes: tuple[str, ...]
    variables: Mapping[str, str]
    inputs: Mapping[str, str]


def exported(profile: Profile, tool: Tool, around: Surroundings) -> Exported:
    say = Saying(tool, around, References(), [])
    for server in profile.mcp_servers.values():
        for name, text in server.env.items() if isinstance(server, StdioServer) else ():
            say.references.reserve(text, name)
    agents = _agent(say, profile.agent) if tool.agents else {}
    servers = dict(_servers(say, profile.mcp_servers)) if tool.servers else {}
    if profile.mcp_servers and not tool.servers:
        say.notes.append(f"the profile's MCP servers are left out: {tool.title} keeps its own elsewhere")
    return Exported(servers, agents, tuple(say.notes), say.references.variables, say.references.inputs)


def _agent(say: Saying, agent: Agent) -> dict[str, Entry]:
    try:
        command = say.path(agent.command, is_program=True)
        args = [say.text(text) for text in agent.args]
    except Untranslatable as why:
        say.notes.append(f"the agent is left out: its command {why}")
        return {}
    title = say.tool.title
    say.notes.append(f"{title} starts the agent itself: acp-launch is not in between, and supervises nothing")
    if say.tool.name == "acpx":
        if agent.env:
            say.notes.append(f"agent: env is left out ({', '.join(agent.env)}): acpx gives its agents its own")
        return {say.around.profile: {"argv": [command, *args]}}
    kind = {"type": "custom"} if say.tool.name == "zed" else {}
    env = say.texts("agent", "env", agent.env)
    return {say.around.profile: {**kind, "command": command, "args": args, "env": env}}


def _servers(say: Saying, servers: Mapping[str, McpServer]) -> Iterator[tuple[str, Entry]]:
    for name, server in servers.items():
        try:
            if isinstance(server, StdioServer):
                entry = _PROGRAMS.get(say.tool.name, _program)(say, name, server)
                say.mention(name, server)
            else:
                entry = _REMOTES.get(say.tool.name, _remote)(say, name, server)
        except Untranslatable as why:
            say.notes.append(f"{name} is left out: it {why}")
        else:
            yield name, entry


def _started(say: Saying, server: StdioServer) -> Entry:
    command = say.path(server.command, is_program=True)
    return {"command": command, "args": [say.text(text) for text in server.args]}


def _cwd(say: Saying, server: StdioServer) -> str:
    return say.path(server.cwd, is_program=False) if server.cwd else ""


def _program(say: Saying, name: str, server: StdioServer) -> Entry:
    """Claude Desktop, Claude Code, Zed: the shape that most have in common."""
    kinds = {"claude": {"type": "stdio"}, "zed": {"source": "custom"}}
    say.without_cwd(name, server)
    say.unrestricted(name, server)
    call = say.seconds(name, server, "call") if say.tool.name == "claude" else None
    more = without_nothing(env=say.texts(name, "env", server.env), timeout=call and round(call * 1000))
    return {**kinds.get(say.tool.name, {}), **_started(say, server), **more}


def _program_of_an_editor(say: Saying, name: str, server: StdioServer) -> Entry:
    kind = {"type": "stdio"} if say.tool.name == "vscode" else {}
    say.unrestricted(name, server)
    more = without_nothing(env=say.texts(name, "env", server.env), cwd=_cwd(say, server))
    return {**kind, **_started(say, server), **more}


def _gemini_program(say: Saying, name: str, server: StdioServer) -> Entry:
    call = say.seconds(name, server, "call")
    more = without_nothing(
        env=say.texts(name, "env", server.env),
        cwd=_cwd(say, server),
        timeout=call and round(call * 1000),
        includeTools=say.tools(name, server, "allow"),
        excludeTools=say.tools(name, server, "deny"),
    )
    return {**_started(say, server), **more}


def _codex_program(say: Saying, name: str, server: StdioServer) -> Entry:
    literals, names = say.named(name, server.env)
    more = without_nothing(
        env=literals,
        env_vars=names,
        cwd=_cwd(say, server),
        startup_timeout_sec=say.seconds(name, server, "start"),
        tool_timeout_sec=say.seconds(name, server, "call"),
        enabled_tools=say.tools(name, server, "allow"),
        disabled_tools=say.tools(name, server, "deny"),
        required=None if server.required else False,
    )
    return {**_started(say, server), **more}


def _opencode_program(say: Saying, name: str, server: StdioServer) -> Entry:
    started = _started(say, server)
    say.without_cwd(name, server)
    say.unrestricted(name, server)
    start = say.seconds(name, server, "start")
    more = without_nothing(environment=say.texts(name, "env", server.env), timeout=start and round(start * 1000))
    return {"type": "local", "command": [started["command"], *started["args"]], "enabled": True, **more}


def _goose_program(say: Saying, name: str, server: StdioServer) -> Entry:
    started = _started(say, server)
    literals, names = say.named(name, server.env)
    say.without_cwd(name, server)
    call = say.seconds(name, server, "call")
    more = without_nothing(timeout=call and round(call), available_tools=say.tools(name, server, "allow"))
    if server.tools.deny:
        say.notes.append(f"{name}: tools.deny is left out: goose can only be told which tools are allowed")
    head = {"enabled": True, "type": "stdio", "name": name, "description": ""}
    return {**head, "cmd": started["command"], "args": started["args"], "envs": literals, "env_keys": names, **more}


def _acpx_program(say: Saying, name: str, server: StdioServer) -> Entry:
    say.without_cwd(name, server)
    say.unrestricted(name, server)
    return {"name": name, **_started(say, server), "env": _pairs(say.texts(name, "env", server.env))}


def _remote(say: Saying, name: str, server: Remote) -> Entry:
    """Claude Code, VS Code, Cursor, Zed."""
    kinds: dict[str, Entry] = {"zed": {"source": "custom"}}
    kinds |= {tool: {"type": server.type} for tool in ("claude", "vscode")}
    headers = say.texts(name, "headers", server.headers)
    return {**kinds.get(say.tool.name, {}), "url": say.text(server.url), **without_nothing(headers=headers)}


def _no_remote(say: Saying, name: str, server: Remote) -> Entry:
    raise Untranslatable(f"has a url, and {say.tool.title}'s file takes programs only")


def _gemini_remote(say: Saying, name: str, server: Remote) -> Entry:
    headers = without_nothing(headers=say.texts(name, "headers", server.headers))
    return {"httpUrl" if server.type == "http" else "url": say.text(server.url), **headers}


def _codex_remote(say: Saying, name: str, server: Remote) -> Entry:
    if server.type == "sse":
        raise Untranslatable("speaks SSE, which Codex does not")
    literals, from_env, bearer = dict[str, str](), dict[str, str](), ""
    for header, text in server.headers.items():
        if header.lower() == "authorization" and (variable := bearer_variable(text, say.references)):
            bearer = variable
        elif variable := only_variable(text, say.references):
            from_env[header] = variable
        else:
            literals |= say.texts(name, "headers", {header: text})
    more = without_nothing(
        bearer_token_env_var=bearer,
        http_headers=literals,
        env_http_headers=from_env,
        required=None if server.required else False,
    )
    return {"url": say.text(server.url), **more}


def _opencode_remote(say: Saying, name: str, server: Remote) -> Entry:
    headers = without_nothing(headers=say.texts(name, "headers", server.headers))
    return {"type": "remote", "url": say.text(server.url), "enabled": True, **headers}


def _goose_remote(say: Saying, name: str, server: Remote) -> Entry:
    headers = say.texts(name, "headers", server.headers)
    keys = [variable for variable in say.references.variables if f"${{{variable}}}" in "".join(headers.values())]
    kind = "streamable_http" if server.type == "http" else "sse"
    head = {"enabled": True, "type": kind, "name": name, "description": "", "uri": say.text(server.url)}
    return {**head, "headers": headers, "envs": {}, "env_keys": keys}


def _acpx_remote(say: Saying, name: str, server: Remote) -> Entry:
    headers = _pairs(say.texts(name, "headers", server.headers))
    return {"name": name, "type": server.type, "url": say.text(server.url), "headers": headers}


def _pairs(texts: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": text} for name, text in texts.items()]


_PROGRAMS: Mapping[str, Callable[[Saying, str, StdioServer], Entry]] = {
    "vscode": _program_of_an_editor,
    "cursor": _program_of_an_editor,
    "gemini": _gemini_program,
    "codex": _codex_program,
    "opencode": _opencode_program,
    "goose": _goose_program,
    "acpx": _acpx_program,
}
_REMOTES: Mapping[str, Callable[[Saying, str, Remote], Entry]] = {
    "claude-desktop": _no_remote,
    "gemini": _gemini_remote,
    "codex": _codex_remote,
    "opencode": _opencode_remote,
    "goose": _goose_remote,
    "acpx": _acpx_remote,
}
