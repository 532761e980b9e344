"""The MCP servers of a profile on this machine, as far as it has them; what is missing is noted by `plan.machine`."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from acp_launch.plan.environment import environment, search_path
from acp_launch.plan.machine import Machine
from acp_launch.plan.model import Inherited, RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.profile.address import URL_FIX, header_fault, url_fault
from acp_launch.profile.model import HttpServer, SseServer, StdioServer


def servers(machine: Machine, *, cwd: Path, agent_env: Mapping[str, Value]) -> Iterator[ServerPlan]:
    """`cwd` is the session's; `agent_env` is what the profile sets for the agent, which starts some of them itself."""
    for name, server in machine.substitution.loaded.profile.mcp_servers.items():
        made = (
            _stdio(machine, name, server, cwd, agent_env)
            if isinstance(server, StdioServer)
            else _remote(machine, name, server)
        )
        if made is not None:
            yield made


def _stdio(
    machine: Machine, name: str, server: StdioServer, session: Path, agent_env: Mapping[str, Value]
) -> StdioPlan | None:
    path = ("mcp_servers", name)
    own = machine.substitution.values((*path, "env"), server.env)
    args = machine.substitution.sequence((*path, "args"), server.args)
    cwd = _directory(machine, name, server, session)
    command = machine.command(
        (*path, "command"),
        server.command,
        search=_search(machine, server, agent_env, own),
        required=server.required,
    )
    if command is None or cwd is None:
        return None
    command = machine.fetching((*path, "command"), command, args, cwd=cwd, required=server.required)
    if command is None:
        return None
    return StdioPlan(
        name=name,
        command=command,
        args=args,
        env=environment(machine.environ, server.inherit_env, own) if server.bridge else own,
        cwd=cwd,
        required=server.required,
        restart=server.restart,
        timeouts=server.timeouts,
        tools=server.tools,
        roots=server.roots,
        bridge=server.bridge,
    )


def _directory(machine: Machine, name: str, server: StdioServer, session: Path) -> Path | None:
    if server.cwd is None or not server.bridge:
        return session
    return machine.directory(("mcp_servers", name, "cwd"), server.cwd, required=server.required)


def _search(
    machine: Machine, server: StdioServer, agent_env: Mapping[str, Value], own: Mapping[str, Value]
) -> str | None:
    """The PATH of whoever starts it, where the server sets none."""
    if server.bridge:
        return search_path(machine.environ, server.inherit_env, own)
    agent = machine.substitution.loaded.profile.agent
    return search_path(machine.environ, agent.inherit_env, agent_env, own)


def _remote(machine: Machine, name: str, server: HttpServer | SseServer) -> RemotePlan | None:
    path, substitution = ("mcp_servers", name), machine.substitution
    url = substitution.value((*path, "url"), server.url)
    headers = substitution.values((*path, "headers"), server.headers)
    if url and (fault := url_fault("".join(str(part) for part in url.parts))):
        substitution.problem((*path, "url"), _discreet(url, fault), URL_FIX)
    for header, value in headers.items():
        if fault := next(filter(None, (header_fault(part) for part in value.parts if isinstance(part, str))), ""):
            substitution.problem((*path, "headers", header), fault, "write it on one line")
    return RemotePlan(name=name, type=server.type, url=url, headers=headers) if url else None


def _discreet(url: Value, fault: str) -> str:
    """An address that came from the environment may hold a credential, so it is not repeated."""
    if not any(isinstance(part, Inherited) for part in url.parts):
        return fault
    return f"{url.display()} does not stand for an http or https url"
