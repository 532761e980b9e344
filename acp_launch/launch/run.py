"""
The story of a run on one page: attach → negotiate → offer → open → turn → stop.

The agent was spawned before this module was imported, so that its start and our imports overlap. It is visited once;
a second time when a login on the terminal made it necessary to start it again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.bridge import offer
from acp_launch.errors import AgentError, AgentRefused, AuthRequired, MachineError, RunExpired, Stopped, WaitExpired
from acp_launch.launch.loop import Interrupts, kept
from acp_launch.launch.servers import LaunchServers, launch_servers
from acp_launch.launch.services import Means, served
from acp_launch.plan.model import LaunchPlan, ProcessPlan, RemotePlan, ServerPlan
from acp_launch.problem import Problem, errors
from acp_launch.process.child import GRACE, HASTY, attach, stop
from acp_launch.process.guard import Guard
from acp_launch.process.logs import ServerLogs
from acp_launch.process.spawn import Spawned
from acp_launch.protocol.acp import Capabilities, Negotiated, Offers
from acp_launch.protocol.conversation import How
from acp_launch.rpc import StdioTransport
from acp_launch.secret.value import Secret
from acp_launch.session.client import LATE_GRACE, Client, Turn
from acp_launch.session.connection import Budget, Connection, connect, in_profile, negotiate, on_command_line
from acp_launch.session.observer import Observer, SessionReady, TurnEnd
from acp_launch.session.opening import Setting, Stay, configure, how_to_continue, open_session
from acp_launch.session.store import Record, drift

if TYPE_CHECKING:
    from acp_launch.profile.agents import Replay

# A visit to an agent that was spawned: attach → negotiate → what the story wants → stop. Whatever happens in the
# middle, the last line is the same: the agent and everything it started are ended.


NO_REASON = ": Internal error ("  # what an agent says that does not say why
T = TypeVar("T")
Story = Callable[[Connection], Awaitable[T]]


class Visit(Struct, frozen=True, kw_only=True):
    """What every talk with an agent needs."""

    guard: Guard
    secrets: Mapping[str, Secret]
    max_line: int  # bytes
    log: Callable[[bytes], None]  # takes the agent's stderr
    offers: Offers = Offers()


async def visit(plan: LaunchPlan, needs: Visit, spawned: Spawned, observer: Observer, story: Story[T]) -> T:
    """Shake hands with the agent, do what `story` says, and end the agent, however the story ended.

    Raises:
        LaunchError: as the tree in `errors` says; `Stopped` after a signal.
    """
    async with kept(needs.guard), Interrupts() as interrupts:
        outcome = await call_on(plan, needs, spawned, observer, interrupts, story)
        check(interrupts)
        return outcome


def explained(plan: LaunchPlan, error: AgentRefused) -> None:
    """Add what can be done about it to a refusal that names a variable which the agent does not have."""
    from acp_launch.session.advice import Advice  # most agents refuse nothing

    has = {name for name, value in plan.agent.env.items() if any(value.parts)}
    command = plan.agent.command.name
    advice = Advice(profile=plan.called, is_built_in=plan.is_built_in, command=command, has=has)
    if lacking := advice.lacking((error.message, *error.detail)):
        error.fix, lines = advice.giving(lacking)
        error.detail = (*error.detail, *lines)


def check(interrupts: Interrupts) -> None:
    """Raise `Stopped` if a signal came, the agent being stopped just then for instance."""
    if interrupts.signal_number is not None:
        raise Stopped("stopped", signal_number=interrupts.signal_number)


async def call_on(
    plan: LaunchPlan,
    needs: Visit,
    spawned: Spawned,
    observer: Observer,
    interrupts: Interrupts,
    story: Story[T],
    servers: LaunchServers | None = None,
) -> T:
    """The same within a launch, which may call on its agent more than once. `servers` are told when it is the last."""
    is_orderly, grace = False, GRACE
    async with attach(spawned, log=needs.log) as child:

        async def met() -> T:
            async with connect(
                StdioTransport(child),
                observer,
                max_line=needs.max_line,
                command=plan.agent.display,
                longer=in_profile if plan.file else on_command_line,
                budget=interrupts.budget,
            ) as connection:
                connection.explain = partial(explained, plan)
                await negotiate(connection, limit=plan.timeouts.initialize, offers=needs.offers)
                return await story(connection)

        try:
            outcome = await interrupts.watch(met())
            is_orderly = interrupts.signal_number is None
        except (WaitExpired, AgentRefused) as error:
            last_words = child.stderr_tail()
            error.detail = (*error.detail, *last_words)
            grace = HASTY if isinstance(error, WaitExpired) else GRACE
            if NO_REASON in error.message and not error.fix:
                from acp_launch.session.advice import more

                error.fix = more(plan.called, has_log=bool(last_words))
            raise
        finally:
            interrupts.stopping()
            if servers is not None:
                servers.stopping(is_orderly=is_orderly)
            await stop(child, grace=grace, hurry=interrupts.hurry)
        return outcome


# A session is opened as the plan has it: new or continued, with its servers, after a login if the agent wants one.


class LogIn(Protocol):
    async def __call__(self, connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        """Log in where the agent wants it, and return when the request may be tried again; or raise Reconnect.

        With `is_second` there was a login already: then this raises `wanted`, and says what else can be done.
        """


class Reconnect(Exception):  # noqa: N818 - it reads as what is to be done
    """Raised when a login was done that the agent learns of only when it is started anew (C-27)."""


class Wanted(Struct, frozen=True, kw_only=True):
    """Which session, and how it is to be set up."""

    name: str
    continued: Record | None  # None opens a new one
    replay: bool  # whether its history is wanted
    wishes: Sequence[Setting]  # its mode and options
    opened: Callable[[SessionReady, Negotiated], None]  # keeps it in the store


async def open_wanted(
    plan: LaunchPlan,
    wanted: Wanted,
    secrets: Mapping[str, Secret],
    connection: Connection,
    client: Client,
    servers: LaunchServers,
    log_in: LogIn,
) -> SessionReady:
    """Open it, and set what is wished for.

    Raises:
        LaunchError: as `open_session`, `configure` and `log_in`.
    """
    agent = connection.agent
    how: How = "new"
    if wanted.continued is not None:
        how = how_to_continue(agent.capabilities, replay=wanted.replay, name=wanted.name)
        if changed := drift(wanted.continued, agent):
            connection.observer.note(changed)
    taken = _taken(plan, agent, connection.observer)
    await servers.up()
    taken = [server for server in taken if server.name not in servers.absent]
    stay = _stay(plan, agent, connection.observer, offer.entries(taken, secrets, servers.way))

    async def tried() -> SessionReady:
        session_id = wanted.continued.session_id if wanted.continued else ""
        limit, replay = plan.timeouts.session, _replay(plan.agent) if how == "load" else ""
        return await open_session(connection, client, stay, how=how, session_id=session_id, limit=limit, replay=replay)

    ready = await after_login(tried, connection, log_in)
    wanted.opened(ready, agent)
    servers.opened()
    await configure(connection, client.state, ready.session_id, wanted.wishes, limit=plan.timeouts.session)
    client.settled()
    return ready


async def after_login(tried: Callable[[], Awaitable[T]], connection: Connection, log_in: LogIn) -> T:
    """What `tried` gives; when the agent wants a login first, after that, and once only (C-30)."""
    try:
        return await tried()
    except AuthRequired as wanted:
        await log_in(connection, wanted, is_second=False)
    try:
        return await tried()
    except AuthRequired as wanted:
        await log_in(connection, wanted, is_second=True)
        raise


def once(log_in: LogIn) -> LogIn:
    """For an agent that was started again after a login: nobody is asked a second time."""

    async def refused(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        await log_in(connection, wanted, is_second=True)

    return refused


def untakeable(servers: Sequence[ServerPlan], agent: Negotiated, otherwise: str) -> list[Problem]:
    """A problem for each server that this agent cannot be given. A run ends with them, if a session needs the server,
    and `doctor` tells them before.

    `otherwise` is what to call an agent that has not said its name.
    """
    name = agent.title or otherwise
    return [_untakeable(name, server) for server in offer.untakeable(servers, agent.capabilities)]


def unhurried(log_in: LogIn, budget: Budget) -> LogIn:
    """For a login by a person, who takes the time it takes."""

    async def logged_in(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        with budget.paused():
            await log_in(connection, wanted, is_second=is_second)

    return logged_in


def _taken(plan: LaunchPlan, negotiated: Negotiated, observer: Observer) -> list[ServerPlan]:
    """The servers that the agent takes.

    Raises:
        MachineError: it does not take one that is required.
    """
    problems = untakeable(plan.servers, negotiated, plan.agent.name)
    if needed := errors(problems):
        raise MachineError(needed)
    for problem in problems:
        observer.note(problem.message)
    refused = offer.untakeable(plan.servers, negotiated.capabilities)
    return [server for server in plan.servers if server not in refused]


def _stay(plan: LaunchPlan, negotiated: Negotiated, observer: Observer, entries: list[dict[str, Any]]) -> Stay:
    """Where the session will live, as far as the agent can take it."""
    able = negotiated.capabilities
    agent = negotiated.title or plan.agent.name
    if plan.additional_directories and not able.additional_directories:
        names = ", ".join(map(str, plan.additional_directories))
        observer.note(f"{agent} takes no additional directories; it is not told about {names}")
    return Stay(plan.cwd, plan.additional_directories, entries)


def _replay(agent: ProcessPlan) -> "Replay":
    """What is known of an agent's way to tell a history."""
    from acp_launch.profile.agents import started

    found = started(str(agent.command), [argument.display() for argument in agent.args])
    return found.replay if found else ""


def _untakeable(agent: str, server: RemotePlan) -> Problem:
    message = (
        f'{agent} takes no {server.type} MCP servers, so it cannot have "{server.name}"'
        f" (mcpCapabilities.{server.type} is not advertised)"
    )
    fix = "remove the server from the profile, or use an agent that takes it"
    if server.required:
        return server.url.origin.problem(message, fix)
    return server.url.origin.problem(f"{message}; the session opens without it", fix)._replace(severity="warning")


class Talks(Visit, frozen=True, kw_only=True):
    """What a session needs, one prompt long or interactive."""

    means: Means
    log_in: LogIn
    respawn: Callable[[], Spawned]  # the agent anew
    server_logs: ServerLogs


class Job(Talks, frozen=True, kw_only=True):
    """One prompt in one session."""

    wanted: Wanted
    blocks: Callable[[Capabilities], Sequence[object]]  # the prompt, as far as the agent takes it
    timeout: float | None  # seconds for the whole run
    over: Callable[[TurnEnd], None]  # keeps in the store how it ended


async def launch(plan: LaunchPlan, job: Job, spawned: Spawned, observer: Observer) -> TurnEnd:
    """Run one turn with the agent that was spawned for `plan`, and end the agent; its servers run meanwhile.

    Raises:
        LaunchError: as the tree in `errors` says; `Stopped` after a signal.
        ServerError: a required server has never answered, so that the turn was done without it.
    """
    async with (
        kept(job.guard),
        Interrupts(budget=Budget(job.timeout)) as interrupts,
        launch_servers(
            plan,
            observer,
            interrupts,
            secrets=job.secrets,
            max_line=job.max_line,
            logs=job.server_logs,
        ) as servers,
    ):

        async def story(connection: Connection, job: Job = job) -> TurnEnd:
            return await _turn(plan, job, connection, interrupts, servers)

        async def called() -> TurnEnd:
            try:
                return await call_on(plan, job, spawned, observer, interrupts, story, servers)
            except Reconnect:
                again = partial(story, job=replace(job, log_in=once(job.log_in)))
                return await call_on(plan, job, job.respawn(), observer, interrupts, again, servers)

        try:
            end = await called()
        except (AgentError, WaitExpired) as error:
            if (number := interrupts.signal_number) is None:
                raise
            raise Stopped(f"cancelled; {error.message}", signal_number=number, detail=error.detail) from None
        check(interrupts)
        return end


async def _turn(
    plan: LaunchPlan, job: Job, connection: Connection, interrupts: Interrupts, servers: LaunchServers
) -> TurnEnd:
    blocks = job.blocks(connection.agent.capabilities)
    async with served(plan, connection, job.means, interrupts.hurry) as serving:
        client = Client(
            connection,
            name=job.wanted.name,
            gate=job.means.gate,
            services=serving.services,
            completed=serving.completed,
        )
        log_in = unhurried(job.log_in, interrupts.budget) if job.means.elicit else job.log_in
        ready = await open_wanted(plan, job.wanted, job.secrets, connection, client, servers, log_in)

        async def prompted() -> TurnEnd:
            over = servers.first_turn_over
            turn = Turn(connection, client, ready.session_id, silence=plan.timeouts.silence, over=over)
            with interrupts.turn(turn.cancel, partial(turn.cancel, LATE_GRACE)):
                return await turn.run(blocks)

        try:
            end = await after_login(prompted, connection, log_in)
        except WaitExpired as error:
            if not interrupts.budget.is_spent or isinstance(error, RunExpired):
                raise
            raise _late(interrupts.budget, error.message) from None
    if interrupts.signal_number is not None:
        raise Stopped("cancelled", signal_number=interrupts.signal_number)
    if interrupts.budget.is_spent:
        raise _late(interrupts.budget, "its turn was cancelled")
    job.over(end)
    await connection.observer.drain()
    await servers.proven()
    return end


def _late(budget: Budget, how: str) -> RunExpired:
    return RunExpired(f"the run took longer than {budget}; {how}")
