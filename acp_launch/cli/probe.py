"""
One operation with one MCP server of a profile, for the verbs of `mcp`: without an agent and other servers' secrets.

`probe` makes the plan; `with_server` starts the server, runs the operation and stops the server. The server's stderr is
logged as in a launch. Everything is imported before the server starts, so that measured times are the server's own.
"""

import os
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.cli.planning import at_home, here, loaded_profile, planned, require, resolved_from
from acp_launch.cli.start import verb_processes
from acp_launch.console.servers import ServerMessages
from acp_launch.console.stream.text import Notices
from acp_launch.errors import AgentError, MachineError, ProtocolError, ServerError, UsageError, WaitExpired
from acp_launch.launch.loop import Interrupts
from acp_launch.mcp.client import Client, Connection, connect, shake_hands
from acp_launch.mcp.message import ServerInfo
from acp_launch.plan.model import LaunchPlan, Origin, StdioPlan
from acp_launch.plan.resolve import process, resolve
from acp_launch.problem import did_you_mean, ours
from acp_launch.process.child import attach, stop
from acp_launch.process.logs import ServerLogs
from acp_launch.process.spawn import Spawned, require_platform
from acp_launch.profile.load import Loaded
from acp_launch.profile.model import Agent, StdioServer
from acp_launch.profile.values import Template
from acp_launch.secret.value import Secret
from acp_launch.settings.load import load as load_settings
from acp_launch.settings.model import Settings

T = TypeVar("T")


class Probe(Struct, frozen=True, kw_only=True):
    """One server and everything its process needs; `plan.agent` is that process."""

    plan: LaunchPlan
    server: StdioPlan
    secrets: Mapping[str, Secret]
    settings: Settings

    @property
    def roots(self) -> tuple[Path, ...]:
        return (self.plan.cwd, *self.plan.additional_directories)


class ServerOptions(Struct, frozen=True, kw_only=True):
    """The options of an operation with a server. Roots are declared if the profile says so, or with `offers_roots`."""

    probe: Probe
    telling: ServerMessages
    offers_roots: bool = False

    @property
    def declares_roots(self) -> bool:
        return self.offers_roots or self.probe.server.roots == "session"


class StartedServer(Struct, frozen=True):
    """A server after its handshake, `after` seconds from its start."""

    connection: Connection
    server: ServerInfo
    after: float


Story = Callable[[StartedServer], Awaitable[T]]


def probe(profile: str, name: str | None, *, cwd: Path | None, trust: bool) -> Probe:
    """Plan the start of one server.

    Raises:
        UsageError: there is no such profile or server, or no server is named.
        ProfileError: the file is wrong.
        MachineError: the server is a remote one, or this machine cannot start it.
    """
    require_platform()
    settings = load_settings()
    loaded = loaded_profile(profile, settings)
    require(loaded, resolved_from(loaded, cwd=cwd).found, settings, is_waved=trust)
    alone = _alone(loaded, profile, _named(name, profile, loaded.profile.mcp_servers))
    plan, secrets = planned(resolve(alone, cwd=here(), environ=os.environ, cwd_override=at_home(cwd)), settings)
    (server,) = plan.servers
    assert isinstance(server, StdioPlan)
    plan = replace(plan, agent=process(server, os.environ))
    return Probe(plan=plan, server=server, secrets=secrets, settings=settings)


def with_server(how: ServerOptions, story: "Story[T]") -> T:
    """Start the server, return the result of `story`, stop the server. Output of `story` does not wait for the stop.

    Raises:
        ServerError: the server could not be started, or died.
        LaunchError: as `mcp.client.Connection.ask`; `Stopped` after a signal.
    """
    probe = how.probe
    with verb_processes(probe.settings, probe.plan, "mcp") as processes:
        try:
            _, spawned = processes.server(probe.plan, probe.secrets)
        except AgentError as error:
            raise ServerError(
                f'the MCP server "{probe.server.name}": {error.message}', fix=error.fix, detail=error.detail
            ) from error
        return processes.run(partial(_with_process, how, processes.server_logs, spawned, time.monotonic(), story))


async def _with_process(
    how: ServerOptions, logs: ServerLogs, spawned: Spawned, begun: float, story: "Story[T]", interrupts: Interrupts
) -> T:
    name = how.probe.server.name
    logs.mark(name, f"starting (pid {spawned.pid})")
    async with attach(spawned, log=_both(how.telling, logs.of(name))) as child:

        async def met() -> T:
            client = Client(how.probe.roots, declares_roots=how.declares_roots)
            limit = how.probe.settings.max_line
            async with connect(name, child, client, how.telling, Notices().waiting, max_line=limit) as connection:
                server = await shake_hands(connection, limit=how.probe.server.timeouts.start)
                return await story(StartedServer(connection, server, time.monotonic() - begun))

        try:
            return await interrupts.watch(met())
        except (ServerError, ProtocolError, WaitExpired) as error:
            error.detail = (*error.detail, *child.stderr_tail())
            raise
        finally:
            interrupts.stopping()
            await stop(child, hurry=interrupts.hurry)
            logs.mark(name, f"stopped, {child.exit}" if child.exit else "could not be stopped")


def _both(telling: ServerMessages, log: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Combine both receivers of stderr; it is shown first, because a log that cannot be written raises."""

    def both(data: bytes) -> None:
        telling.stderr(data)
        log(data)

    return both


def _named(name: str | None, profile: str, servers: Collection[str]) -> str:
    """Return the server's name.

    Raises:
        UsageError: the profile has no such server, or no name is given; the message lists the servers.
    """
    if name is not None and name in servers:
        return name
    shown = ours("mcp", "list", profile)
    if name is None and not servers:
        raise UsageError(f"{profile} has no MCP servers", fix="add some under mcp_servers in the profile")
    if name is None:
        raise UsageError(
            f"no MCP server is given: {profile} has {', '.join(servers)}", fix=f"name one; {shown} lists them"
        )
    hint = did_you_mean(name, servers)
    raise UsageError(f'{profile} has no MCP server "{name}"{hint}', fix=shown)


def _alone(loaded: Loaded, profile: str, name: str) -> Loaded:
    """Reduce the profile to this server and an agent that always exists, so that other problems do not matter."""
    servers = loaded.profile.mcp_servers
    path = ("mcp_servers", name)
    at = loaded.positions.where(path)
    server, where = servers[name], Origin(at.file, at.line, at.column, f"mcp_servers.{name}")
    if not isinstance(server, StdioServer):
        raise MachineError(
            [
                where.problem(
                    f"acp-launch cannot talk to {server.type} servers itself yet; the agent connects to it",
                    f"ask the agent: {ours('run', profile, f'which tools does {name} have?')}",
                )
            ]
        )
    own_path = {variable: value for variable, value in loaded.profile.agent.env.items() if variable == "PATH"}
    agent = Agent(command=Template("${python}"), env=own_path, inherit_env=loaded.profile.agent.inherit_env)
    problems = tuple(problem for problem in loaded.problems if problem.path.startswith(where.path))
    return replace(loaded, profile=replace(loaded.profile, agent=agent, mcp_servers={name: server}), problems=problems)
