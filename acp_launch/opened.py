"""A session is opened as the plan has it: new or continued, with its servers, after a login if the agent wants one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from acp_launch.bridge import offer
from acp_launch.bridged import Bridged
from acp_launch.errors import AuthRequired, MachineError
from acp_launch.plan.model import LaunchPlan, RemotePlan, ServerPlan
from acp_launch.problem import Problem, errors
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.event import How
from acp_launch.secret.value import Secret
from acp_launch.session.client import Client
from acp_launch.session.connection import Connection
from acp_launch.session.observer import Observer, SessionReady
from acp_launch.session.opening import Stay, how_to_continue, open_session
from acp_launch.session.options.configure import Wish, configure
from acp_launch.session.store.keep import drift
from acp_launch.session.store.registry import Record
from acp_launch.session.waits import Budget

T = TypeVar("T")


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
    wishes: Sequence[Wish]  # its mode and options
    opened: Callable[[SessionReady, Negotiated], None]  # keeps it in the store


async def open_wanted(
    plan: LaunchPlan,
    wanted: Wanted,
    secrets: Mapping[str, Secret],
    connection: Connection,
    client: Client,
    servers: Bridged,
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
        limit = plan.timeouts.session
        return await open_session(connection, client, stay, how=how, session_id=session_id, limit=limit)

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


def _untakeable(agent: str, server: RemotePlan) -> Problem:
    message = (
        f'{agent} takes no {server.type} MCP servers, so it cannot have "{server.name}"'
        f" (mcpCapabilities.{server.type} is not advertised)"
    )
    fix = "remove the server from the profile, or use an agent that takes it"
    if server.required:
        return server.url.origin.problem(message, fix)
    warning = server.url.origin.problem(f"{message}; the session opens without it", fix)
    return warning._replace(severity="warning")
