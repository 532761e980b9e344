"""One operation of a verb with an agent or MCP servers: `verb_processes` starts them, and ends them with its block."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from msgspec import Struct

from acp_launch.app.spec import load_settings
from acp_launch.app.start import agent_log, agent_process, guarded_launch, server_logs, tee, with_workdir
from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.console.stream.text import Notices
from acp_launch.engine import surroundings
from acp_launch.engine.context import LaunchContext
from acp_launch.engine.loop import Interrupts, run_supervised
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import AgentError, AuthRequired, LaunchError, RemoteProtocolError, ServerError
from acp_launch.mcp.http.wire import RemoteFacts, advice
from acp_launch.mcp.transport import TranslatedTransport
from acp_launch.plan.model import LaunchPlan, RemotePlan
from acp_launch.problem import ours
from acp_launch.process.guard_client import Guard
from acp_launch.process.logs import LogFile, ServerLogs
from acp_launch.process.program import LocalProgram, Program, Running, stop
from acp_launch.process.spawn import Spawned
from acp_launch.protocol.acp import Offers
from acp_launch.rpc import connected
from acp_launch.session.connection import Connection
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.mcp.remote import Remote
    from acp_launch.trace import Trace

T = TypeVar("T")


class StartedProgram(NamedTuple):
    """A server that a verb talks to; `begun` is when it was started, by time.monotonic."""

    program: Program
    running: Running
    transport: TranslatedTransport
    begun: float

    @property
    def remote(self) -> RemoteFacts | None:
        """The state of the connection to a remote server; None for a local one."""
        if isinstance(self.program, LocalProgram):
            return None
        return cast("Remote", self.running).facts(self.transport.era)

    def explained(self, error: LaunchError) -> LaunchError:
        """Return the error of a remote server as what it says of the server, with its exit code; any other as it is."""
        end = self.running.end
        if self.running.pid is not None or end is None or end.is_clean:
            return error
        kind = {"credentials": AuthRequired, "protocol": RemoteProtocolError, "": ServerError}[end.fault]
        name = self.program.name
        why, fix = advice(name, end.reason)
        return kind(f'the MCP server "{name}" {end.how}' + (f": {why}" if why else ""), fix=fix)


def server_program(planned: PreparedPlan, settings: Settings) -> Program:
    """Return the program of the only server of a plan, with its secrets revealed. `plan.agent` is a local one's."""
    plan, secrets, credentials, _ = planned
    (server,) = plan.servers
    if isinstance(server, RemotePlan):
        from acp_launch.mcp.program import RemoteProgram

        login, proof = ours("mcp", "login", plan.called, server.name), credentials.get(server.name)
        return RemoteProgram.of(server, secrets, max_line=settings.max_line, credentials=proof, login=login)
    return LocalProgram.of(plan.agent, server.name, secrets)


class VerbProcesses(Struct, frozen=True):
    """Starts processes for a verb. Made by `verb_processes`; they are ended with its block.

    `log` takes an agent's stderr.
    """

    settings: Settings
    guard: Guard
    log: LogFile
    server_logs: ServerLogs
    ending: ExitStack
    trace: "Trace | None"

    def agent(self, planned: PreparedPlan) -> Spawned:
        """Start the agent of a plan.

        Raises:
            AgentError: it cannot be started.
        """
        self.log.begin()
        return self.ending.enter_context(agent_process(planned))

    @asynccontextmanager
    async def server(
        self, planned: PreparedPlan, hurry: asyncio.Event, shown: Callable[[bytes], None] | None = None
    ) -> AsyncIterator[StartedProgram]:
        """Run the only server of a plan while the block runs, in a directory of its own if it has none; then end it.

        A local server's process is `plan.agent`. Its stderr is logged as in a launch, and given to `shown` first,
        because a log that cannot be written raises. `hurry` cuts its patience for the end.

        Raises:
            ServerError: the server cannot be started.
            StateError: its directory cannot be made.
        """
        (server,) = planned.plan.servers
        name, log = server.name, self.server_logs.of(server.name)
        with with_workdir(self.settings, planned.plan) as given:
            program, begun = server_program(planned._replace(plan=given), self.settings), time.monotonic()
            async with AsyncExitStack() as stack:
                took = log if shown is None else tee(shown, log)
                try:
                    running = await stack.enter_async_context(program.begin(restarts=0, log=took))
                except AgentError as error:
                    what = f'the MCP server "{name}": {error.message}'
                    raise ServerError(what, fix=error.fix, detail=error.detail) from error
                self.server_logs.mark(name, "starting" + (f" (pid {running.pid})" if running.pid else ""))
                with connected(running, self.trace, name) as inner:
                    transport = TranslatedTransport(inner, name, server.protocol, max_line=self.settings.max_line)
                    try:
                        yield StartedProgram(program, running, transport, begun)
                    finally:
                        await stop(running, hurry=hurry)
                        end = running.end
                        self.server_logs.mark(name, f"stopped, {end.how}" if end else "could not be stopped")

    def context(
        self, planned: PreparedPlan, offers: Offers, log: Callable[[bytes], None] | None = None
    ) -> LaunchContext:
        """Build the context of `engine.surroundings.with_agent`; `log` takes the agent's stderr."""
        return LaunchContext(
            prepared=planned,
            guard=self.guard,
            max_line=self.settings.max_line,
            log=log or self.log,
            offers=offers,
            trace=self.trace,
        )

    def run(self, story: Callable[[Interrupts], Coroutine[Any, Any, T]]) -> T:
        """Run an event loop that keeps the guard informed and handles signals.

        Raises:
            Stopped: a signal came.
        """
        return run_supervised(self.guard, story)


@contextmanager
def verb_processes(
    settings: Settings, plan: LaunchPlan, verb: str, trace: Path | None = None
) -> Iterator[VerbProcesses]:
    """Provide a guard and logs to a verb that starts processes for one operation; leaving ends the processes.

    `verb` is the name in `ps`. A trace is written to the file `trace`, if it is given.
    """
    with (
        guarded_launch(settings, plan, verb, trace) as (watching, tracing),
        closing(agent_log(settings, plan)) as log,
        closing(server_logs(settings, plan)) as logs,
        ExitStack() as ending,
    ):
        yield VerbProcesses(settings, watching, log, logs, ending, tracing)


def with_agent(
    planned: PreparedPlan,
    verb: str,
    story: Callable[[Connection], Awaitable[T]],
    offers: Offers | None = None,
    trace: Path | None = None,
) -> T:
    """Start the agent of a plan, do the handshake, run `story` and end the agent; `verb` is the name in `ps`.

    Raises:
        LaunchError: as for `run`.
    """
    with verb_processes(load_settings(), planned.plan, verb, trace) as processes:
        spawned = processes.agent(planned)
        context = processes.context(planned, offers or Offers())
        return processes.run(partial(surroundings.with_agent, context, spawned, RedactedOutput(Notices()), story))
