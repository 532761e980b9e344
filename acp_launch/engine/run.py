"""
One launch: the order of its parts, on this page and once.

    guards are informed, signals are handled     `supervise`
      servers are started                        `launch_servers`
        one agent after the other                `Launch.run`
          it is attached; the handshake          `with_agent`
            services are offered, a session opens  `Launch.session`
              turns                              `Launch.turn`
            services end
          it is stopped, with all it started
      servers are stopped

The parts are left in the reverse order, whatever happens within them. Events go to an observer. A run of one prompt
(`run_prompt`), an interactive session and a host are fronts of the same `conversation`, which does not depend on them.
A verb that needs an agent for something other than turns uses only `with_agent`.

The agent is started before this module is imported, so that its start and our imports overlap.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from acp_launch.engine.context import LaunchContext, LogIn, client_services
from acp_launch.engine.loop import Interrupts
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import (
    AgentError,
    AgentRefused,
    AuthRequired,
    LaunchError,
    RemoteProtocolError,
    RunExpired,
    SessionError,
    Stopped,
    UsageError,
    WaitExpired,
)
from acp_launch.plan.model import InContainer, LaunchPlan, ProcessPlan
from acp_launch.problem import ours
from acp_launch.protocol import acp
from acp_launch.protocol.acp import Capabilities, Negotiated
from acp_launch.protocol.conversation import How, PermissionAsked
from acp_launch.rpc import Transport
from acp_launch.session.client import LATE_GRACE, AcpSession, Turn
from acp_launch.session.connection import Budget, Connection, connect, in_profile, negotiate, on_command_line
from acp_launch.session.events import Observer, Said, Services, SessionEvent, TurnEnd, show_note
from acp_launch.session.opening import AppliedOption, SessionParams, Setting, configure, how_to_continue, open_session

if TYPE_CHECKING:
    from acp_launch.engine.servers import LaunchServers
    from acp_launch.process.table import Process
    from acp_launch.profile.agents import Replay
    from acp_launch.session.permission.gate import Gate
    from acp_launch.session.store import Record
    from acp_launch.trace import Trace

T = TypeVar("T")
Story = Callable[[Connection], Awaitable[T]]
Again = Callable[[Exception | None], Awaitable[bool]]
Ending = Callable[[BaseException | None], None]  # takes the error of a story, or None after an orderly end


class RestartAgent(Exception):  # noqa: N818 - a request, not an error
    """Raised after a login that takes effect only when the agent is restarted (C-27)."""


class Opening(Struct, frozen=True, kw_only=True):
    """How a session is opened that is not continued by its record, by default as a new one."""

    how: How = "new"
    session_id: str = ""
    params: Mapping[str, object] | None = None  # of an editor, whose other members stay
    replay: "Replay" = ""  # as of `open_session`, if it does not depend on the agent
    asking: Callable[[PermissionAsked, dict[str, Any]], None] = lambda question, call: None  # hears of a question


class SessionRequest(Struct, frozen=True, kw_only=True):
    """A session to open, and its settings.

    If the agent has several sessions at the same time, `observer` is this one's, and `listen` takes its client,
    which gets only what concerns the session. `services` are others' work.
    """

    name: str
    continued: "Record | None" = None  # None opens a new session
    replay: bool = False  # whether to show its history
    wanted_options: Sequence[Setting] = ()  # its mode and options
    opened: Callable[[SessionEvent, Negotiated], None] = lambda ready, agent: None  # stores its record
    meta: Mapping[str, object] | None = None  # `_meta` of the request that opens it
    servers: Sequence[object] = ()  # entries of others, added to the launch's
    gate: "Gate | None" = None  # the launch's own without one
    observer: Observer | None = None
    listen: Callable[[AcpSession], None] | None = None
    services: Services = field(default_factory=dict)
    opening: Opening = Opening()


class OpenSession(Struct, frozen=True):
    connection: Connection
    client: AcpSession
    ready: SessionEvent
    made: Sequence[AppliedOption]  # the settings of `wanted_options` that were made


class Launch:
    """A launch with running servers, and its agent: its own (`surroundings.AgentLaunch`), or a host's."""

    outlives_terminal = False

    def __init__(
        self,
        context: LaunchContext,
        observer: Observer,
        interrupts: Interrupts,
        servers: "LaunchServers",
    ) -> None:
        self.context, self.observer = context, observer
        self.interrupts, self.servers = interrupts, servers
        self.began: Callable[[str], None] = lambda prompt: None  # hears of a turn that another front begins
        self.asked: Callable[[bool], None] = lambda is_asked: None  # hears when a front is asked, and when no more
        self.agent_process: Process | None = None  # of its own agent, the latest
        self.log_in = outside_budget(context.log_in, interrupts.budget) if context.elicit else context.log_in

    @property
    def plan(self) -> LaunchPlan:
        return self.context.plan

    async def run(self, story: Story[T], again: Again, ending: Ending) -> T:
        """Run `story` with one agent after the other, for as long as `again` wants another; return its last result.

        `again` is asked after each agent. It takes None after the end of the story, a RestartAgent, or how the agent
        could not be started, has ended or has broken the protocol. `ending` as `with_agent`.

        Raises:
            LaunchError: as `with_agent`.
        """
        while True:
            try:
                result = await self.meet(story, ending)
            except (RestartAgent, AgentError, WaitExpired, RemoteProtocolError) as error:
                if isinstance(error, RestartAgent):
                    self.log_in = once(self.log_in)
                if not await again(error):
                    raise
            else:
                if not await again(None):
                    return result

    async def meet(self, story: Story[T], ending: Ending) -> T:
        """Run `story` with the agent, which each call after the first starts again. As `run`.

        A launch that only opens sessions, with a connection of another, cannot do it.
        """
        raise NotImplementedError

    @property
    def after_death(self) -> str:
        """What becomes of an agent that has ended, to follow that in a message."""
        return "; it is started again with the next request"

    async def detach(self) -> None:
        """Let the turn of this front go on without it.

        Raises:
            UsageError: nothing would run it.
        """
        fix = f"to keep one running: {ours('up', self.plan.called)}"
        raise UsageError("this launch ends with its terminal", fix=fix)

    async def take(self) -> None:
        """Become the front that drives the session: that is asked questions.

        Raises:
            UsageError: there is no other.
        """
        raise UsageError("only this terminal is attached to the session")

    def completed(self, request: SessionRequest) -> SessionRequest:
        """Return the request for a session with what its agent wants besides."""
        return request

    async def reload(self, prepared: PreparedPlan) -> None:
        """Go on with the servers of this plan, which differs in nothing else.

        Raises:
            LaunchError: as `LaunchServers.up`; the other servers are as the plan says.
        """
        self.context = replace(self.context, prepared=prepared)
        await self.servers.reload(prepared)
        await self.servers.up()

    @asynccontextmanager
    async def session(
        self,
        connection: Connection,
        request: SessionRequest,
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[OpenSession]:
        """Open a session, and provide the client's services while the block runs. `changed` is called on state changes.

        Raises:
            LaunchError: as `open_requested`.
        """
        context, hurry = self.context, self.interrupts.hurry
        gate, observer = request.gate or context.gate, request.observer or connection.observer
        async with client_services(context, gate, connection, hurry, observer) as (services, completed):
            client = AcpSession(
                connection,
                name=request.name,
                title=request.continued.title if request.continued else "",
                gate=gate,
                services={**services, **request.services},
                completed=completed,
                changed=changed,
                observer=observer,
                listen=request.listen,
                asking=request.opening.asking,
            )
            yield await open_requested(context.prepared, request, connection, client, self.servers, self.log_in)

    def turn(self, session: OpenSession, *, is_first: bool, broken: Callable[[Said], None] = lambda said: None) -> Turn:
        """Make a turn of this session; the caller runs it. `broken` as for `Turn`."""
        over = self.servers.first_turn_over if is_first else lambda: None
        silence = self.plan.timeouts.silence
        id, client = session.ready.session_id, session.client
        return Turn(session.connection, client, id, silence=silence, over=over, broken=broken)


async def converse(
    context: LaunchContext,
    transport: Transport,
    observer: Observer,
    story: Story[T],
    interrupts: Interrupts,
    stall_reason: Callable[[], LaunchError | None] = lambda: None,
) -> T:
    """Do the handshake with the agent of a transport, and run `story`. `stall_reason` is for `Connection`.

    Raises:
        LaunchError: as `negotiate`, and as the story.
    """
    plan = context.plan
    async with connect(
        transport,
        observer,
        max_line=context.max_line,
        command=plan.agent.display,
        longer=in_profile if plan.file else on_command_line,
        budget=interrupts.budget,
    ) as connection:
        connection.stall_reason = stall_reason
        connection.explain = partial(add_advice, plan, trace=file_of(context.trace))
        limit = plan.timeouts.initialize
        async with context.handshake():
            await negotiate(connection, limit=limit, offers=context.offers, greeting=context.greeting)
        return await story(connection)


class Prompt(Struct, frozen=True, kw_only=True):
    """One prompt in one session."""

    request: SessionRequest
    blocks: Callable[[Capabilities], Sequence[object]]  # the prompt, in a form that the agent supports
    timeout: float | None  # seconds for the whole run
    over: Callable[[TurnEnd], None] = lambda end: None  # stores how the turn ended
    broken: Callable[[Said], None] = lambda said: None  # the same, without an end


async def run_once(launch: Launch, story: Story[T]) -> T:
    """Run `story` with an agent that is restarted only for a login, and at most once.

    Raises:
        LaunchError: see the tree in `errors`; `Stopped` after a signal.
    """
    interrupts = launch.interrupts

    def ending(error: BaseException | None) -> None:
        if not isinstance(error, RestartAgent):
            launch.servers.stopping(is_orderly=error is None and interrupts.signal_number is None)

    async def again(error: Exception | None) -> bool:
        return isinstance(error, RestartAgent)

    try:
        return await launch.run(story, again, ending)
    except (AgentError, WaitExpired) as error:
        if (number := interrupts.signal_number) is None:
            raise
        raise Stopped(f"cancelled; {error.message}", signal_number=number, detail=error.detail) from None


async def open_and_prompt(launch: Launch, prompt: Prompt, connection: Connection) -> TurnEnd:
    """Open the session, and run the turn.

    Raises:
        LaunchError: as `run_prompt`.
    """
    blocks, interrupts = prompt.blocks(connection.agent.capabilities), launch.interrupts
    async with launch.session(connection, launch.completed(prompt.request)) as session:
        await launch.servers.proven()

        async def tried() -> TurnEnd:
            turn = launch.turn(session, is_first=True, broken=prompt.broken)
            with interrupts.turn(turn.cancel, partial(turn.cancel, LATE_GRACE)):
                return await turn.run(blocks)

        try:
            end = await after_login(tried, connection, launch.log_in)
        except WaitExpired as error:
            if not interrupts.budget.is_spent or isinstance(error, RunExpired):
                raise
            raise _late(interrupts.budget, error.message) from None
    prompt.over(end)
    if interrupts.signal_number is not None:
        raise Stopped("cancelled", signal_number=interrupts.signal_number)
    if interrupts.budget.is_spent:
        raise _late(interrupts.budget, "its turn was cancelled")
    await connection.observer.drain()
    return end


def _late(budget: Budget, how: str) -> RunExpired:
    return RunExpired(f"the run took longer than {budget}; {how}")


def file_of(trace: "Trace | None") -> str:
    """Return the file of a trace as a command names it; empty without one."""
    return trace.name if trace else ""


def add_advice(plan: LaunchPlan, error: AgentRefused, *, trace: str = "") -> None:
    """Add advice to a refusal that names a variable which the agent does not have, or gives no reason.

    `trace` is the file of `--trace`.
    """

    from acp_launch.session.login import Advice, point_to_trace

    has = {name for name, value in plan.agent.env.items() if any(value.parts)}
    command = plan.agent.command.name
    advice = Advice(profile=plan.called, is_built_in=plan.is_built_in, command=command, has=has)
    if lacking := advice.lacking((error.message, *error.detail)):
        error.fix, lines = advice.giving(lacking)
        error.detail = (*error.detail, *lines)
    point_to_trace(error, trace)


# Opening a session: new or resumed, with its servers, after a login if the agent requires one.


async def open_requested(
    prepared: PreparedPlan,
    request: SessionRequest,
    connection: Connection,
    client: AcpSession,
    servers: "LaunchServers",
    log_in: LogIn,
) -> OpenSession:
    """Open the requested session, and set its mode and options.

    Raises:
        LaunchError: as `open_session`, `configure` and `log_in`.
    """
    plan, agent, opening = prepared.plan, connection.agent, request.opening
    how, session_id = opening.how, opening.session_id
    if request.continued is not None:
        from acp_launch.session.store import drift

        how = how_to_continue(agent.capabilities, replay=request.replay, name=request.name)
        session_id = request.continued.session_id
        if changed := drift(request.continued, agent):
            connection.note(changed)
    entries = [*request.servers]
    if plan.servers:
        from acp_launch.engine.servers import offer_servers

        entries[:0] = await offer_servers(prepared, connection, servers, request.name)
    asked, cwd = opening.params, plan.directory if plan.place else plan.cwd
    if asked is not None and plan.machine:  # it has no directory of the editor's machine
        others = {name: value for name, value in asked.items() if name != "additionalDirectories"}
        if len(others) < len(asked):
            connection.note(f"the agent works {plan.machine}, without the editor's additional directories")
        asked = {**others, "cwd": str(cwd)}
    theirs = acp.sequence((asked or {}).get("additionalDirectories"))
    directories = _directories(plan, agent, connection.observer, theirs)
    params = SessionParams(cwd, directories, entries, request.meta, asked)
    limit, replay = plan.timeouts.session, opening.replay or (_replay(plan.agent) if how == "load" else "")
    tried = partial(
        open_session, connection, client, params, how=how, session_id=session_id, limit=limit, replay=replay
    )
    try:
        ready = await after_login(tried, connection, log_in)
    except SessionError as error:
        if session_id and plan.place is not None and isinstance(plan.place.elsewhere, InContainer):
            error.fix = f"{error.fix}; it keeps only what lies in runtime.container.mounts"
        raise
    request.opened(ready, agent)
    servers.opened()
    made = await configure(connection, client.state, ready.session_id, request.wanted_options, limit=limit)
    client.settled()
    return OpenSession(connection, client, ready, made)


async def after_login(tried: Callable[[], Awaitable[T]], connection: Connection, log_in: LogIn) -> T:
    """Return the result of `tried`; if the agent requires a login, log in and try once more (C-30)."""
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
    """Wrap `log_in` so that a second request fails instead of asking the user again (the agent was restarted)."""

    async def refused(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        await log_in(connection, wanted, is_second=True)

    return refused


def outside_budget(log_in: LogIn, budget: Budget) -> LogIn:
    """Wrap `log_in` so that a login by the user does not spend the time of the run."""

    async def logged_in(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        with budget.paused():
            await log_in(connection, wanted, is_second=is_second)

    return logged_in


def _directories(plan: LaunchPlan, agent: Negotiated, observer: Observer, asked: Sequence[object]) -> list[str]:
    """List the additional directories of a session, those that an editor has asked for first.

    Report the profile's if the agent does not support any.
    """
    ours = list(map(str, plan.additional_directories))
    if ours and not agent.capabilities.additional_directories:
        title = agent.title or plan.agent.name
        show_note(observer, f"{title} does not support additional directories; it does not get {', '.join(ours)}")
    return [*map(str, asked), *(directory for directory in ours if directory not in asked)] if ours else []


def _replay(agent: ProcessPlan) -> "Replay":

    from acp_launch.profile.agents import started

    found = started(str(agent.command), [argument.display() for argument in agent.args])
    return found.replay if found else ""
