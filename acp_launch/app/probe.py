"""
One operation with one MCP server of a profile, for the verbs of `mcp`: without an agent and other servers' secrets.

`probe` makes the plan; `with_server` starts the server, runs the operation and stops the server. The server's stderr is
logged as in a launch. Everything is imported before the server starts, so that measured times are the server's own.
"""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.app.operation import StartedProgram, verb_processes
from acp_launch.app.planning import find_server, loaded_profile, prepare_plan, require_trust, resolved_from
from acp_launch.app.stores import say_waiting
from acp_launch.bridge.toolpolicy import ToolPolicy
from acp_launch.console.servers import ServerMessages, say_downloading
from acp_launch.engine.loop import Interrupts
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import ProtocolError, ServerError, WaitExpired
from acp_launch.mcp.client import McpClient, McpConnection, shake_hands
from acp_launch.mcp.http.wire import RemoteFacts
from acp_launch.mcp.message import ServerInfo
from acp_launch.plan.model import LaunchPlan, RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.plan.resolve import process, reduce_to
from acp_launch.process import node
from acp_launch.process.program import Download
from acp_launch.session.login import point_to_trace
from acp_launch.settings.load import load as load_settings
from acp_launch.settings.model import Settings

T = TypeVar("T")


class Probe(Struct, frozen=True, kw_only=True):
    """One server and everything it needs; `plan.agent` is the process of a local one."""

    ready: PreparedPlan
    server: ServerPlan
    settings: Settings
    trace: Path | None = None  # the file of `--trace`

    @property
    def plan(self) -> LaunchPlan:
        return self.ready.plan

    @property
    def variables(self) -> Mapping[str, Value]:
        """The variables that the server gets, in its environment or as headers."""
        return self.server.env if isinstance(self.server, RemotePlan) else self.plan.agent.env

    @property
    def policy(self) -> ToolPolicy:
        return ToolPolicy(self.server.name, self.server.tools)

    @property
    def roots(self) -> tuple[Path, ...]:
        return (self.plan.cwd, *self.plan.additional_directories)


class StartedServer(NamedTuple):
    """A server after its handshake, `after` seconds from its start; `was_fetched`: with a download by a package
    runner."""

    connection: McpConnection
    server: ServerInfo
    after: float
    limit: float
    was_fetched: bool
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
    settings = load_settings()
    loaded = loaded_profile(profile, settings)
    require_trust(loaded, settings, allow_once=trust, found=resolved_from(loaded, cwd=cwd).found)
    alone = reduce_to(loaded, [find_server(name, profile, loaded.profile.mcp_servers)])
    resolved = resolved_from(alone, cwd=cwd)
    planned = prepare_plan(resolved, settings, is_alone=True)
    (server,) = planned.plan.servers
    if isinstance(server, StdioPlan):
        planned = planned._replace(plan=replace(planned.plan, agent=process(server, os.environ)))
    return Probe(ready=planned, server=server, settings=settings, trace=trace)


def with_server(probe: Probe, story: "Story[T]", *, verbose: bool, offers_roots: bool = False) -> T:
    """Start the server, return the result of `story`, stop the server. Output of `story` does not wait for the stop.
    With `verbose` the server's own output is shown.

    Raises:
        ServerError: the server could not be started, or died.
        LaunchError: as `mcp.client.Connection.ask`; `Stopped` after a signal.
    """

    telling = ServerMessages(probe.server.name, verbose=verbose)

    async def greet(program: StartedProgram) -> T:
        async with meet_server(program, probe.plan, telling, probe.settings, offers_roots=offers_roots) as started:
            return await story(started)

    async def operate(interrupts: Interrupts) -> T:
        async with processes.server(probe.ready, interrupts.hurry, telling.stderr) as program:
            try:
                return await interrupts.watch(greet(program))
            except (ServerError, ProtocolError, WaitExpired) as error:
                error.detail = (*error.detail, *program.running.stderr_tail())
                error.fix = node.advice(error.detail) or error.fix
                explained = program.explained(error)
                point_to_trace(explained, str(probe.trace or ""))
                raise explained from None
            finally:
                interrupts.stopping()

    with verb_processes(probe.settings, probe.plan, "mcp", probe.trace) as processes:
        return processes.run(operate)


@asynccontextmanager
async def meet_server(
    program: StartedProgram,
    plan: LaunchPlan,
    telling: ServerMessages,
    settings: Settings,
    *,
    offers_roots: bool = False,
) -> AsyncIterator[StartedServer]:
    """Do the handshake with the only server of a plan. Roots are declared if the profile says so, or `offers_roots`."""
    (server,) = plan.servers
    limit, roots = server.timeouts.start, (plan.cwd, *plan.additional_directories)
    made = McpConnection(
        server.name,
        program.transport,
        McpClient(roots, declares_roots=offers_roots or server.roots == "session"),
        telling,
        say_waiting,
        max_line=settings.max_line,
        is_remote=isinstance(server, RemotePlan),
    )
    async with made.running() as connection:
        may_take = server.timeouts.download if isinstance(server, StdioPlan) else 0.0
        fetching = program.running.pid if program.program.may_fetch else None
        with Download(fetching, may_take, partial(say_downloading, server.name)) as download:
            info = await shake_hands(connection, limit=limit, since=download.since)
        after, era = time.monotonic() - program.begun, program.transport.era
        yield StartedServer(connection, info, after, limit, download.was_seen, program.remote, era)
