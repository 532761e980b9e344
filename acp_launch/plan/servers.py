"""The MCP servers of a profile on this machine, as far as it has them; what is missing is noted by `plan.machine`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.document.keypath import KeyPath
from acp_launch.plan.environment import environment, search_path
from acp_launch.plan.machine import Machine
from acp_launch.plan.model import Inherited, ProcessPlan, RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.plan.reach import is_of_session, kept_out, names_project
from acp_launch.profile.address import CLEAR, CLEAR_FIX, URL_FIX, header_fault, host, is_in_the_clear, url_fault
from acp_launch.profile.model import HttpServer, SseServer, StdioServer
from acp_launch.secret.wording import noun


class Session(Struct, frozen=True):
    """`agent_env` is what the profile sets for the agent, which starts some servers itself. `is_accepted`: the profile
    speaks for the project that the session works in."""

    cwd: Path
    agent_env: Mapping[str, Value]
    is_accepted: bool


def servers(machine: Machine, session: Session) -> Iterator[ServerPlan]:
    for name, server in machine.substitution.loaded.profile.mcp_servers.items():
        made = (
            _stdio(machine, name, server, session)
            if isinstance(server, StdioServer)
            else _remote(machine, name, server)
        )
        if made is not None:
            yield made


def process(server: StdioPlan, environ: Mapping[str, str]) -> ProcessPlan:
    """The process to start where no agent is. What an agent would start itself gets what any server inherits.

    A server that is to have a directory of its own has the root until there is one.
    """
    env = server.env if server.bridge else environment(environ, "minimal", server.env)
    cwd = server.cwd or Path("/")
    return ProcessPlan(name=server.name, command=server.command, args=server.args, env=env, cwd=cwd)


def _stdio(machine: Machine, name: str, server: StdioServer, session: Session) -> StdioPlan | None:
    path = ("mcp_servers", name)
    own = machine.substitution.values((*path, "env"), server.env)
    args = machine.substitution.sequence((*path, "args"), server.args)
    is_apart = _is_apart(machine, server, session)
    cwd = None if is_apart else _directory(machine, name, server, session.cwd)
    command = machine.command(
        (*path, "command"),
        server.command,
        search=_search(machine, server, session, own),
        required=server.required,
    )
    if command is None or (cwd is None and not is_apart):
        return None
    if is_apart:
        _warn(machine, args, session.cwd)
    if cwd is not None and _is_exposed(machine, server, session):
        own = {**kept_out(command, args), **own}
        command = machine.as_named((*path, "command"), command, args, cwd=cwd, required=server.required)
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


def _warn(machine: Machine, args: Sequence[Value], session: Path) -> None:
    """Of arguments that mean files of the session's directory, where the server does not run."""
    for argument in args:
        text = argument.display()
        if is_of_session(text, session):
            what = f'the server runs in an empty directory of its own, and "{text}" is relative'
            problem = argument.origin.problem(what, "begin it with ${project}/, or set cwd: ${project}")
            machine.substitution.problems.append(problem._replace(severity="warning"))


def _is_apart(machine: Machine, server: StdioServer, session: Session) -> bool:
    """Whether it runs in an empty directory of its own."""
    is_free = server.bridge and server.cwd is None and not session.is_accepted
    return is_free and not _is_of_project(machine, server.command)


def _is_exposed(machine: Machine, server: StdioServer, session: Session) -> bool:
    """Whether it runs in a project that nobody has accepted, without being a program of that project itself."""
    if session.is_accepted:
        return False
    if server.bridge and server.cwd is not None:
        return names_project(server.cwd, machine.substitution.loaded.found)
    return not _is_of_project(machine, server.command)


def _is_of_project(machine: Machine, command: str) -> bool:
    return ("/" in command or os.sep in command) and names_project(command, machine.substitution.loaded.found)


def _directory(machine: Machine, name: str, server: StdioServer, session: Path) -> Path | None:
    path = ("mcp_servers", name, "cwd")
    if server.cwd is None or not server.bridge:
        machine.found[path] = session
        return session
    return machine.directory(path, server.cwd, required=server.required)


def _search(machine: Machine, server: StdioServer, session: Session, own: Mapping[str, Value]) -> str | None:
    """The PATH of whoever starts it, where the server sets none."""
    if server.bridge:
        return search_path(machine.environ, server.inherit_env, own)
    agent = machine.substitution.loaded.profile.agent
    return search_path(machine.environ, agent.inherit_env, session.agent_env, own)


def _remote(machine: Machine, name: str, server: HttpServer | SseServer) -> RemotePlan | None:
    path, substitution = ("mcp_servers", name), machine.substitution
    url = substitution.value((*path, "url"), server.url)
    headers = substitution.values((*path, "headers"), server.headers)
    if url and (fault := url_fault("".join(str(part) for part in url.parts))):
        substitution.problem((*path, "url"), _discreet(url, fault), URL_FIX)
    if url and "$" in host(server.url):
        _clear(machine, path, url, headers)
    for header, value in headers.items():
        if fault := next(filter(None, (header_fault(part) for part in value.parts if isinstance(part, str))), ""):
            substitution.problem((*path, "headers", header), fault, "write it on one line")
    return RemotePlan(name=name, type=server.type, url=url, headers=headers, required=server.required) if url else None


def _clear(machine: Machine, path: KeyPath, url: Value, headers: Mapping[str, Value]) -> None:
    """A warning, where only this machine knows the host; of any other `rules` speaks."""
    names = [name for name, value in headers.items() if value.secrets or noun(name)]
    if names and is_in_the_clear("".join(str(part) for part in url.parts)):
        machine.warn((*path, "url"), CLEAR.format(", ".join(names)), CLEAR_FIX)


def _discreet(url: Value, fault: str) -> str:
    """An address that came from the environment may hold a credential, so it is not repeated."""
    if not any(isinstance(part, Inherited) for part in url.parts):
        return fault
    return f"{url.display()} does not stand for an http or https url"
