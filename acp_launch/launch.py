"""
The story of a run on one page: attach → negotiate → offer → open → turn → stop.

The agent was spawned before this module was imported, so that its start and our imports overlap. Whatever happens in
the middle, the last line of the story is the same: the agent and everything it started are ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from acp_launch.bridge import offer
from acp_launch.bridged import Bridged, Supplies, bridged
from acp_launch.errors import AgentRefused, MachineError, Stopped, WaitExpired
from acp_launch.interrupts import Interrupts
from acp_launch.plan.model import LaunchPlan, RemotePlan
from acp_launch.problem import Problem
from acp_launch.process.child import attach
from acp_launch.process.guard import Guard
from acp_launch.process.serverlog import ServerLogs
from acp_launch.process.spawn import Spawned
from acp_launch.process.stop import stop
from acp_launch.process.vigil import kept
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import How
from acp_launch.secret.value import Secret
from acp_launch.session.client import Ask, Client
from acp_launch.session.connection import Connection, connect
from acp_launch.session.keep import drift
from acp_launch.session.negotiate import negotiate
from acp_launch.session.observer import Observer, SessionReady, TurnEnd
from acp_launch.session.opening import Stay, how_to_continue, open_session
from acp_launch.session.permission import Policy
from acp_launch.session.registry import Record
from acp_launch.session.turn import Turn
from acp_launch.transport.stdio import StdioTransport

T = TypeVar("T")


class Visit(Struct, frozen=True, kw_only=True):
    """What every talk with an agent needs."""

    guard: Guard

    secrets: Mapping[str, Secret]
    max_line: int  # bytes
    log: Callable[[bytes], None]  # takes the agent's stderr


class Job(Visit, frozen=True, kw_only=True):
    """One prompt in one session."""

    prompt: str
    name: str  # of the session
    continued: Record | None  # None opens a new one
    replay: bool  # whether its history is wanted
    policy: Policy
    ask: Ask | None  # None when there is no one to ask
    timeout: float | None  # seconds for the whole turn
    opened: Callable[[SessionReady, Negotiated], None]  # keeps the session in the store
    server_logs: ServerLogs


async def launch(plan: LaunchPlan, job: Job, spawned: Spawned, observer: Observer) -> TurnEnd:
    """Run one turn with the agent that was spawned for `plan`, and end the agent; its servers run meanwhile.

    Raises:
        LaunchError: as the tree in `errors` says; `Stopped` after a signal.
    """
    supplies = Supplies(secrets=job.secrets, max_line=job.max_line, logs=job.server_logs)
    async with (
        kept(job.guard),
        Interrupts() as interrupts,
        bridged(plan, supplies, observer, interrupts.hurry) as servers,
    ):

        async def story(connection: Connection) -> TurnEnd:
            return await _turn(plan, job, connection, interrupts, servers)

        return await _visit(plan, job, spawned, observer, interrupts, story, servers)


async def visit(
    plan: LaunchPlan,
    needs: Visit,
    spawned: Spawned,
    observer: Observer,
    story: Callable[[Connection], Awaitable[T]],
) -> T:
    """Shake hands with the agent, do what `story` says, and end the agent, however the story ended."""
    async with kept(needs.guard), Interrupts() as interrupts:
        return await _visit(plan, needs, spawned, observer, interrupts, story, None)


async def _visit(
    plan: LaunchPlan,
    needs: Visit,
    spawned: Spawned,
    observer: Observer,
    interrupts: Interrupts,
    story: Callable[[Connection], Awaitable[T]],
    servers: Bridged | None,
) -> T:
    is_orderly = False
    async with attach(spawned, log=needs.log) as child:

        async def met() -> T:
            async with connect(StdioTransport(child), observer, max_line=needs.max_line) as connection:
                await negotiate(connection, limit=plan.timeouts.initialize)
                return await story(connection)

        try:
            outcome = await interrupts.watch(met())
            is_orderly = interrupts.signal_number is None
        except (WaitExpired, AgentRefused) as error:
            error.detail = (*error.detail, *child.stderr_tail())
            raise
        finally:
            interrupts.stopping()
            if servers is not None:
                servers.stopping(is_orderly=is_orderly)
            await stop(child, hurry=interrupts.hurry)
        if interrupts.signal_number is not None:  # it came while the agent was being stopped
            raise Stopped("stopped", signal_number=interrupts.signal_number)
        return outcome


async def _turn(
    plan: LaunchPlan, job: Job, connection: Connection, interrupts: Interrupts, servers: Bridged
) -> TurnEnd:
    client = Client(connection, name=job.name, policy=job.policy, ask=job.ask)
    ready = await _open(plan, job, connection, client, servers)
    turn = Turn(connection, client, ready.session_id, silence=plan.timeouts.silence, over=servers.first_turn_over)
    with interrupts.turn(turn.cancel):
        end = await _within(turn, job)
    if interrupts.signal_number is not None:
        raise Stopped("cancelled", signal_number=interrupts.signal_number)
    await connection.observer.drain()
    return end


async def _open(plan: LaunchPlan, job: Job, connection: Connection, client: Client, servers: Bridged) -> SessionReady:
    agent = connection.agent
    how: How = "new"
    if job.continued is not None:
        how = how_to_continue(agent.capabilities, replay=job.replay, name=job.name)
        if changed := drift(job.continued, agent):
            connection.observer.note(changed)
    stay = _stay(plan, job, agent, connection.observer, servers)
    await servers.up()
    ready = await open_session(
        connection,
        client,
        stay,
        how=how,
        session_id=job.continued.session_id if job.continued else "",
        limit=plan.timeouts.session,
    )
    job.opened(ready, agent)
    servers.opened()
    return ready


def _stay(plan: LaunchPlan, job: Job, negotiated: Negotiated, observer: Observer, servers: Bridged) -> Stay:
    """Where the session will live, as far as the agent can take it."""
    able = negotiated.capabilities
    agent = negotiated.title or plan.agent.name
    if refused := offer.untakeable(plan.servers, able):
        raise MachineError([_untakeable(agent, server) for server in refused])
    if plan.additional_directories and not able.additional_directories:
        names = ", ".join(map(str, plan.additional_directories))
        observer.note(f"{agent} takes no additional directories; it is not told about {names}")
    return Stay(plan.cwd, plan.additional_directories, offer.entries(plan.servers, job.secrets, servers.way))


async def _within(turn: Turn, job: Job) -> TurnEnd:
    """The turn, cancelled when it takes longer than `--timeout`."""
    blocks = [{"type": "text", "text": job.prompt}]
    if job.timeout is None:
        return await turn.run(blocks)
    late = asyncio.get_running_loop().call_later(job.timeout, turn.cancel)
    said = f"the turn took longer than --timeout {job.timeout:g}s"
    try:
        end = await turn.run(blocks)
    except WaitExpired as error:
        if _is_past(late):
            error.message = f"{said}; {error.message}"
        raise
    finally:
        late.cancel()
    if _is_past(late):
        raise WaitExpired(f"{said} and was cancelled")
    return end


def _is_past(timer: asyncio.TimerHandle) -> bool:
    return timer.when() <= asyncio.get_running_loop().time()


def _untakeable(agent: str, server: RemotePlan) -> Problem:
    return server.url.origin.problem(
        f'{agent} takes no {server.type} MCP servers, so it cannot have "{server.name}"'
        f" (mcpCapabilities.{server.type} is not advertised)",
        "remove the server from the profile, or use an agent that takes it",
    )
