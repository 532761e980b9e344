"""
One operation with one MCP server of a profile, for the verbs of `mcp`: without an agent and other servers' secrets.

`probe` makes the plan; `with_server` starts the server, runs the operation and stops the server. The server's stderr is
logged as in a launch. Everything is imported before the server starts, so that measured times are the server's own.
"""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from acp_launch.cli.operation import StartedProgram, VerbProcesses, verb_processes
from acp_launch.cli.planning import loaded_profile, named, ready, reduced, require, resolved_from
from acp_launch.cli.verb import at_home
from acp_launch.console.servers import ServerMessages, say_downloading
from acp_launch.console.stream.text import Notices
from acp_launch.errors import ProtocolError, ServerError, WaitExpired
from acp_launch.launch.loop import Interrupts
from acp_launch.mcp.client import Client, Connection, connect, shake_hands
from acp_launch.mcp.http.wire import Credentials, RemoteFacts
from acp_launch.mcp.message import ServerInfo
from acp_launch.plan.model import LaunchPlan, RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.plan.resolve import process, resolve
from acp_launch.process.spawn import require_platform
from acp_launch.profile.discover import here
from acp_launch.secret.value import Secret
from acp_launch.session.login import pointed
from acp_launch.settings.load import load as load_settings
from acp_launch.settings.model import Settings

T = TypeVar("T")


class Probe(Struct, frozen=True, kw_only=True):
    """One server and everything it needs; `plan.agent` is the process of a local one."""

    plan: LaunchPlan
    server: ServerPlan
    secrets: Mapping[str, Secret]
    settings: Settings
    trace: Path | None = None  # the file of `--trace`
    credentials: Mapping[str, Credentials] = field(default_factory=dict)

    @property
    def variables(self) -> Mapping[str, Value]:
        """The variables that the server gets, in its environment or as headers."""
        return self.server.env if isinstance(self.server, RemotePlan) else self.plan.agent.env

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
    remote: RemoteFacts | None
    era: str


Story = Callable[[StartedServer], Awaitable[T]]


def probe(profile: str, name: str | None, *, cwd: Path | None, trust: bool, trace: Path | None = None) -> Probe:
    """Plan the start of one server.

    Raises:
        UsageError: there is no such profile or server, or no server is named.
        ProfileError: the file is wrong.
        MachineError: this machine cannot start it.
    """
    require_platform()
    settings = load_settings()
    loaded = loaded_profile(profile, settings)
    require(loaded, resolved_from(loaded, cwd=cwd).found, settings, is_waved=trust)
    alone = reduced(loaded, [named(name, profile, loaded.profile.mcp_servers)])
    resolved = resolve(alone, cwd=here(), environ=os.environ, cwd_override=at_home(cwd))
    plan, secrets, credentials = ready(resolved, settings, is_alone=True)
    (server,) = plan.servers
    if isinstance(server, StdioPlan):
        plan = replace(plan, agent=process(server, os.environ))
    return Probe(plan=plan, server=server, secrets=secrets, settings=settings, trace=trace, credentials=credentials)


def with_server(how: ServerOptions, story: "Story[T]") -> T:
    """Start the server, return the result of `story`, stop the server. Output of `story` does not wait for the stop.

    Raises:
        ServerError: the server could not be started, or died.
        LaunchError: as `mcp.client.Connection.ask`; `Stopped` after a signal.
    """
    probe = how.probe
    with verb_processes(probe.settings, probe.plan, "mcp", probe.trace) as processes:
        return processes.run(partial(_with_server, how, processes, story))


async def _with_server(how: ServerOptions, processes: VerbProcesses, story: "Story[T]", interrupts: Interrupts) -> T:
    probe = how.probe
    starting = processes.server(
        probe.plan, probe.secrets, interrupts.hurry, how.telling.stderr, credentials=probe.credentials
    )
    async with starting as program:
        try:
            return await interrupts.watch(_met(how, program, story))
        except (ServerError, ProtocolError, WaitExpired) as error:
            error.detail = (*error.detail, *program.running.stderr_tail())
            told = program.explained(error)
            pointed(told, str(probe.trace or ""))
            raise told from None
        finally:
            interrupts.stopping()


async def _met(how: ServerOptions, program: StartedProgram, story: "Story[T]") -> T:
    probe, name, limits = how.probe, how.probe.server.name, how.probe.server.timeouts
    client = Client(probe.roots, declares_roots=how.declares_roots)
    connecting = connect(
        name,
        program.transport,
        client,
        how.telling,
        Notices().waiting,
        max_line=probe.settings.max_line,
        is_remote=isinstance(probe.server, RemotePlan),
    )
    async with connecting as connection:
        with program.download(how.probe.server, partial(say_downloading, name)) as download:
            server = await shake_hands(connection, limit=limits.start, since=download.since)
        return await story(
            StartedServer(connection, server, time.monotonic() - program.begun, program.remote, program.transport.era)
        )
