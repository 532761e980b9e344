"""
The MCP servers of a launch.

Bridged servers run next to the agent, which gets shims for them; the launch waits for required ones and reports their
states. Remote servers that the agent connects to itself are only checked for accepting connections.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.bridge import offer
from acp_launch.bridge.offer import HttpAddress, Transport, Way, is_bridged, shim_command
from acp_launch.engine.context import LaunchContext, OfferLogin
from acp_launch.engine.loop import Interrupts
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import AuthRequired, LaunchError, MachineError, ServerError, StateError, WaitExpired
from acp_launch.plan.model import LaunchPlan, Origin, RemotePlan, ServerPlan, StdioPlan
from acp_launch.problem import Problem, errors, ours
from acp_launch.process.lifecycle import OVERDUE, Change, Standing
from acp_launch.protocol.acp import Negotiated
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret
from acp_launch.session.connection import Budget, Connection
from acp_launch.session.events import Observer, ServersEvent, WaitingEvent, show_note
from acp_launch.waits import FIRST_NOTICE, awaited, next_notice, seconds, stretch

if TYPE_CHECKING:
    from acp_launch.bridge.servers import RunningServers, Servers
    from acp_launch.process.logs import ServerLogs
    from acp_launch.trace import Trace

RemoteCheck = tuple[RemotePlan, "asyncio.Task[str]"]
OVER = ("failed", "stopped")
CHECK_TIMEOUT = stretch(10.0)  # of a remote server; `checks.answers` gives up earlier
SILENT_SECONDS = 3.0  # after which a live but silent process is accepted, as not every server answers a ping


class LaunchServers:
    """The servers of a launch, and their observer. Made by `launch_servers`; does nothing without bridged servers."""

    def __init__(
        self,
        plan: LaunchPlan,
        observer: Observer,
        budget: Budget,
        logs: "ServerLogs | None",
        trace: "Trace | None" = None,
        offer_login: OfferLogin | None = None,
    ) -> None:
        """`logs` are None if the servers are a host's."""
        self._offer_login = offer_login
        self._plan, self._observer, self._budget, self._logs, self._trace = plan, observer, budget, logs, trace
        self._asked: Sequence[RemoteCheck] = ()
        self.absent: frozenset[str] = frozenset()  # names of optional servers that the agent could not connect to
        self._inner: RunningServers | None = None
        self._is_up = self._is_open = self._is_told = self._is_stopping = False
        self._fatal = ""  # the first required server that has failed before the session is to be opened
        self._late = set[str]()  # servers without which the session was opened
        self._news = asyncio.Event()

    def running(self, inner: "RunningServers") -> None:
        self._inner = inner

    def changed(self, change: Change) -> None:
        """Report a state change of a server, except while the servers are being stopped."""
        self._own_logs.mark(change.server, _mark(change))
        if self._trace is not None:
            _trace_change(self._trace, change)
        if not self._is_stopping:
            self._observer.show(replace(change, ends_run=True) if self._ends_run(change) else change)
            self._news.set()
            self.listed()

    def _ends_run(self, change: Change) -> bool:
        """Whether `up` will raise an error about this."""
        if self._is_up or not change.required or change.state not in OVER:
            return False
        self._fatal = self._fatal or change.server
        return self._fatal == change.server

    def listed(self) -> None:
        """Report the states of the servers once all of them are known."""
        if self._inner is None or self._is_told or not self._is_open:
            return
        standings = self._inner.servers.standings()
        if standings and all(map(_is_settled, standings)):
            self._is_told = True
            self._observer.show(ServersEvent(when="opened", servers=standings))
            self._news.set()

    def log(self, server: str) -> Callable[[bytes], None]:
        return self._own_logs.of(server)

    def log_end(self, server: str) -> None:
        self._own_logs.end(server)

    @property
    def _own_logs(self) -> "ServerLogs":
        assert self._logs is not None, "a host has the logs of its servers"
        return self._logs

    def note(self, text: str) -> None:
        """Show a line to the user."""
        show_note(self._observer, text)
        self._news.set()

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        """Report a wait for `what` of so many seconds, which ends at `limit`."""
        limit = self._budget.clamped(seconds, limit)
        self._observer.show(WaitingEvent(what=what, seconds=seconds, limit=limit))
        self._news.set()

    async def tell(self) -> None:
        """Drain the observer after an event, as it may hold events back until then."""
        await self._news.wait()
        self._news.clear()
        await self._observer.drain()

    async def way(self, transport: Transport, session: str) -> Way | None:
        """Return how the agent reaches the launcher in a session of this name; None without bridged servers.

        Raises:
            StateError: there is no port for the HTTP server.
        """
        if self._inner is None:
            return None
        if transport == "http":
            return await self._addresses(self._inner)

        listener = self._inner.listener
        return shim_command(self._plan.place, listener.path, listener.session_token(session))

    def hang_up(self, session: str) -> None:
        """End the connections of a session to servers, which the agent does not free itself; those over HTTP stay."""
        if self._inner is not None:
            self._inner.servers.hang_up(self._inner.listener.session_token(session))

    async def _addresses(self, inner: "RunningServers") -> Way:
        try:
            http = await inner.http()
        except OSError as error:
            what = f"there is no address on 127.0.0.1 for the agent to reach MCP servers: {error.strerror}"
            raise StateError(what, fix="with agent.mcp: stdio it reaches them without one") from None

        names = [server.name for server in filter(is_bridged, self._plan.servers)]
        redactor.register(*(Secret(http.token(name)) for name in names))  # every user of this machine reaches the port
        return {name: HttpAddress(http.address(name), http.token(name)) for name in names}

    def asking(self, asked: "Sequence[RemoteCheck]") -> None:
        """Take the running checks of remote servers."""
        self._asked = asked

    async def up(self) -> None:
        """Wait until the required servers have answered a ping, or have been alive but silent for a moment.

        A server that its package runner downloads is waited for: a session without it would not be what was asked for.

        Raises:
            ServerError: one of them failed.
            AuthRequired: one of them refuses our credentials, or there are none.
        """
        await self._await_checks()
        if self._inner is None:
            return
        servers = self._inner.servers
        waits = {servers.up(plan): plan for plan in _ours(self._plan) if plan.required}
        patience = min(SILENT_SECONDS, max((plan.timeouts.start for plan in waits.values()), default=0.0))
        deadline = asyncio.get_running_loop().time() + patience
        downloads = _Downloads(servers, self.waiting)
        while waits:
            left = deadline - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait(waits, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if not done and downloads.still(waits.values()):
                deadline = asyncio.get_running_loop().time() + patience
                continue
            if not done:
                break
            for task in sorted(done, key=lambda task: waits[task].name != self._fatal):
                plan = waits.pop(task)
                if not task.result():
                    await self._log_in(plan)
                    deadline = asyncio.get_running_loop().time() + patience
                    waits[servers.up(plan)] = plan
        for task, plan in waits.items():
            task.cancel()
            self._late.add(plan.name)
            self.note(f"{plan.name} has not answered within {patience:g} s; the session opens meanwhile")
        self._is_up = True

    async def _log_in(self, plan: ServerPlan) -> None:
        """Let the user log in to a server that has failed for want of that, and restart it.

        Raises:
            ServerError, AuthRequired: why it has failed, in any other case.
        """
        assert self._inner is not None
        change = self._inner.servers.last(plan)
        offer = self._offer_login if change is not None and change.fault == "credentials" else None
        with self._budget.paused():
            if offer is None or not await offer(plan.name):
                raise _failure(self._plan.called, change, plan)
        self._fatal = ""
        self._inner.servers.restart(plan.name)

    async def _await_checks(self) -> None:
        for server, answer in self._asked:
            what = f'connection to the MCP server "{server.name}"'
            why = await awaited(answer, what=what, limit=CHECK_TIMEOUT, waiting=self.waiting)
            if not why or server.name in self.absent:
                continue

            from acp_launch.secret.detect import masked

            said = f'no answer from the MCP server "{server.name}" at {masked(server.url.display())}: {why}'
            if server.required:
                fix = "start it, or correct its url; with required: false the session opens without it"
                raise ServerError(said, fix=fix)
            self.note(f"{said}; the session opens without it")
            self.absent |= {server.name}

    async def reload(self, prepared: PreparedPlan) -> None:
        """Go on with the servers of this plan (`bridge.servers.Servers.reload`); `may_change` was set.

        Servers that the agent runs or connects to itself are as the plan says in sessions opened from now on.
        """
        assert self._inner is not None
        self._plan, self._asked, self.absent, self._fatal = prepared.plan, (), frozenset(), ""
        await self._inner.servers.reload(_ours(prepared.plan), prepared.secrets, prepared.credentials)

    async def refresh(self) -> None:
        """Learn the states of the servers, where they run in a host."""

    def standings(self) -> list[Standing]:
        """Return the state of each bridged server, in the profile's order."""
        return self._inner.servers.standings() if self._inner else []

    def restart(self, name: str) -> None:
        """Restart a server, also a failed one, and reset its budget of restarts."""
        if self._inner is not None:
            self._inner.servers.restart(name)

    def opened(self) -> None:
        """Note that the session is open; the servers' states are reported when known, as some agents open them late."""
        self._is_open = True
        self.listed()

    def first_turn_over(self) -> None:
        """Report the states after the first turn: the agent opens no more servers, and some drop servers silently
        (docs/agents.md)."""
        if self._inner is None or not (standings := self._inner.servers.standings()):
            return
        if not self._is_told:
            self._is_told = True
            self._observer.show(ServersEvent(when="opened", servers=standings))
        self._observer.show(ServersEvent(when="turn", servers=standings))

    async def proven(self) -> None:
        """Wait for the first answer of each required server that has not answered yet, up to its `timeouts.start`: a
        prompt without a user must not be carried out without it.

        If the agent has not opened the server, the handshake is done here, as in `doctor`, because some servers answer
        nothing before it.

        Raises:
            ServerError: a server has not answered.
            AuthRequired: for want of credentials.
        """
        if self._inner is None:
            return
        servers = self._inner.servers
        waits = [plan for plan in _ours(self._plan) if plan.required and not servers.has_answered(plan)]
        if not waits:
            return
        late = [f"{plan.name} ({seconds(plan.timeouts.start)})" for plan in waits if plan.name in self._late]
        if late:  # of others `waiting` is told after a moment
            self.note(f"the prompt waits for {', '.join(late)}, as timeouts.start says")
        opened = {standing.server for standing in servers.standings() if standing.opened}
        from acp_launch.mcp.client import McpClient

        with ExitStack() as connections:
            for plan in waits:
                if plan.name not in opened:
                    connections.enter_context(servers.greet(plan, McpClient(()).initialize().line))
            for plan in waits:
                await self._answer_of(plan)

    async def _answer_of(self, plan: ServerPlan) -> None:
        assert self._inner is not None
        servers, what = self._inner.servers, f'answer from the MCP server "{plan.name}"'
        up = servers.up(plan)
        try:
            has_answered = await awaited(up, what=what, limit=servers.patience(plan), waiting=self.waiting)
        except WaitExpired:
            has_answered = False
        finally:
            up.cancel()
        if not has_answered:
            raise _unproven(self._plan.called, plan, servers.last(plan))

    def stopping(self, *, is_orderly: bool) -> None:
        """Note that the last agent is about to be stopped; only the first call counts.

        After an orderly end each server is stopped when the agent has left it; otherwise at once, with less patience.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._inner is None:
            return
        self._inner.servers.stopping()
        if not is_orderly:
            self._inner.servers.abandon()


class _Downloads:
    """Tells of servers that are awaited because their package runners are downloading them."""

    def __init__(self, servers: "Servers", waiting: Callable[[str, float, float], None]) -> None:
        self._servers, self._waiting = servers, waiting
        self._begun, self._word = asyncio.get_running_loop().time(), FIRST_NOTICE

    def still(self, plans: Iterable[ServerPlan]) -> bool:
        """Whether one of these is being downloaded; the user is told at growing intervals."""
        found = [plan for plan in plans if self._servers.is_fetching(plan)]
        waited = asyncio.get_running_loop().time() - self._begun
        if found and waited >= self._word:
            self._word = next_notice(self._word)
            limit = max(plan.timeouts.download for plan in found if isinstance(plan, StdioPlan))
            self._waiting(f"download of the MCP server {', '.join(plan.name for plan in found)}", waited, limit)
        return bool(found)


@asynccontextmanager
async def launch_servers(
    context: LaunchContext, observer: Observer, interrupts: Interrupts, *, may_change: bool = False
) -> AsyncIterator[LaunchServers]:
    """Start the servers of the plan; leaving stops them, which must be after the agent, because its shims use them.

    Servers may be added later if they `may_change`.
    """
    plan = context.plan
    servers = LaunchServers(plan, observer, interrupts.budget, context.server_logs, context.trace, context.offer_login)
    ours = _ours(plan)
    async with _check_remote(plan) as asked:
        servers.asking(asked)
        if not ours and not may_change:
            yield servers
            return
        from acp_launch.bridge.servers import ServerNeeds, running  # takes 15 ms, which a launch without servers saves

        directories = (plan.cwd, *plan.additional_directories)
        needs = ServerNeeds(
            secrets=context.prepared.secrets,
            directories=directories,
            max_line=context.max_line,
            hurry=interrupts.hurry,
            trace=context.trace,
            cache=context.cache,
            state=context.state,
            credentials=context.prepared.credentials,
            called=plan.called,
            share=context.share,
            seat=plan.place.seat if plan.place else None,
        )
        async with running(ours, needs, servers) as inner:
            servers.running(inner)
            yield servers


@asynccontextmanager
async def _check_remote(plan: LaunchPlan) -> AsyncIterator[Sequence[RemoteCheck]]:
    """Check the remote servers that the agent connects to itself, while it starts."""
    remote = [server for server in plan.servers if isinstance(server, RemotePlan) and not is_bridged(server)]
    asked = [(server, asyncio.create_task(_why_unreachable(server))) for server in remote]
    try:
        yield asked
    finally:
        for _, task in asked:
            task.cancel()
        await asyncio.gather(*(task for _, task in asked), return_exceptions=True)


async def _why_unreachable(server: RemotePlan) -> str:
    """Return why a remote server does not answer; empty if it does, or if that is unknown."""
    from acp_launch.checks.answers import CONNECT_TIMEOUT, LATE, address, connect
    from acp_launch.session.files import run_in_thread

    where = address(server.url, os.environ)
    if where is None or isinstance(where, str):
        return where or ""
    try:
        return await run_in_thread(lambda: connect(*where), name="mcp server", limit=CONNECT_TIMEOUT)
    except TimeoutError:
        return LATE
    except OSError:  # no thread is available; the agent will find out
        return ""


def _ours(plan: LaunchPlan) -> list[ServerPlan]:
    return [server for server in plan.servers if is_bridged(server)]


def _mark(change: Change) -> str:
    """Return the line about a state change in the server's log."""
    words = [change.state + (f" (pid {change.pid})" if change.pid else ""), change.exit, change.reason]
    return ", ".join(filter(None, words))


def _trace_change(trace: "Trace", change: Change) -> None:
    has_begun = change.pid is not None or change.is_remote
    if change.state == "starting" and has_begun and not change.reason:  # else it was started before
        trace.started(change.pid, change.server)
    elif change.state in ("resting", "asleep", *OVER):
        trace.ended("; ".join(filter(None, (change.exit, change.reason))) or change.state, change.server)


def _unproven(called: str, plan: ServerPlan, last: Change | None) -> LaunchError:
    """Build the error of a required server that has never answered."""
    if last is not None and last.state in OVER and not (last.exit or "").startswith(OVERDUE):
        return _failure(called, last, plan)

    from acp_launch.mcp.client import silent  # the same message as in `doctor`

    error = silent(plan.name, plan.timeouts.start, is_remote=isinstance(plan, RemotePlan))
    error.fix = f"{error.fix}; with required: false a run starts without it"
    return error


def _is_settled(standing: Standing) -> bool:
    """Tell whether the state of a server is final, or ready or asleep with its tools listed.

    One that the agent has closed may be opened again.
    """
    if standing.state == "stopped":
        return not standing.closed
    return standing.state in OVER or (standing.state in ("ready", "asleep") and standing.tools is not None)


def _failure(called: str, change: Change | None, plan: ServerPlan) -> LaunchError:
    """Build the error of a required server that will not be started again."""
    name, without = plan.name, "with required: false the session opens without it"
    if change is not None and isinstance(plan, RemotePlan):
        from acp_launch.mcp.http.wire import advice

        why, fix = advice(name, change.reason or "")
        how = ": ".join(filter(None, (change.exit, why)))
        kind = AuthRequired if change.fault == "credentials" else ServerError
        return kind(f'the MCP server "{name}" failed: {how}', fix="; ".join(filter(None, (fix, without))))
    how = "; ".join(filter(None, (change.exit, change.reason))) if change else "it was stopped"
    return ServerError(
        f'the MCP server "{name}" failed: {how}',
        fix=f"{ours('logs', called, name)} shows its log; {without}",
        detail=change.detail if change else (),
    )


# What an agent is offered.


async def offer_servers(
    prepared: PreparedPlan, connection: Connection, servers: "LaunchServers", session: str
) -> "list[dict[str, object]]":
    """Return the servers as the agent is told of them in a session of this name, once the required ones are up."""
    plan, agent = prepared.plan, connection.agent
    offered = usable_servers(plan, agent, connection.observer)
    await servers.up()
    offered = [server for server in offered if server.name not in servers.absent]
    return offer.entries(
        offered, prepared.secrets, await servers.way(offer.transport(plan, agent.capabilities), session)
    )


def usable_servers(plan: "LaunchPlan", negotiated: Negotiated, observer: Observer) -> "list[ServerPlan]":
    """List the servers that the agent supports.

    Raises:
        MachineError: it does not support a required server.
    """
    problems = [*unable(plan, plan.servers, negotiated), *untakeable(plan.servers, negotiated, plan.agent.name)]
    if needed := errors(problems):
        raise MachineError(needed)
    for problem in problems:
        show_note(observer, problem.message)
    refused = offer.untakeable(plan.servers, negotiated.capabilities)
    return [server for server in plan.servers if server not in refused]


def untakeable(servers: "Sequence[ServerPlan]", agent: Negotiated, otherwise: str) -> list[Problem]:
    """List a problem for each server that this agent does not support, for `run` and `doctor` alike.

    `otherwise` names an agent that has not sent its name.
    """
    found, title = list[Problem](), agent.title or otherwise
    fix = "remove the server from the profile, or use an agent that supports it"
    for server in offer.untakeable(servers, agent.capabilities):
        what = f'{title} does not support {server.type} MCP servers, so it cannot use "{server.name}"'
        what = f"{what} (mcpCapabilities.{server.type} is not advertised)"
        if server.required:
            found.append(server.url.origin.problem(what, fix))
        else:
            problem = server.url.origin.problem(f"{what}; the session opens without it", fix)
            found.append(problem._replace(severity="warning"))
    return found


def unable(plan: "LaunchPlan", servers: "Sequence[ServerPlan]", agent: Negotiated) -> list[Problem]:
    """List the problem of a profile that wants HTTP for these servers, which this agent does not support."""
    if not offer.is_unable(plan, agent.capabilities) or not any(map(offer.is_bridged, servers)):
        return []
    what = f"{agent.title or plan.agent.name} does not take MCP servers over HTTP, as agent.mcp: http wants"
    fix = "write agent: {mcp: auto}, or use an agent that supports it"
    origin = plan.origins.get(("agent", "mcp"), Origin(plan.profile))
    return [origin.problem(f"{what} (mcpCapabilities.http is not advertised)", fix)]
