"""
The story of a run on one page: attach → negotiate → offer → open → turn → stop.

The agent was spawned before this module was imported, so that its start and our imports overlap. It is visited once;
a second time when a login on the terminal made it necessary to start it again.
"""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from acp_launch.bridged import Bridged, Supplies, bridged
from acp_launch.errors import AgentError, RunExpired, Stopped, WaitExpired
from acp_launch.interrupts import Interrupts
from acp_launch.opened import LogIn, Reconnect, Wanted, after_login, once, open_wanted, unhurried
from acp_launch.plan.model import LaunchPlan
from acp_launch.process.logs import ServerLogs
from acp_launch.process.spawn import Spawned
from acp_launch.process.vigil import kept
from acp_launch.protocol.acp import Capabilities
from acp_launch.served import Means, served
from acp_launch.session.client import Client
from acp_launch.session.connection import Connection
from acp_launch.session.observer import Observer, TurnEnd
from acp_launch.session.turn import LATE_GRACE, Turn
from acp_launch.session.waits import Budget
from acp_launch.visit import Visit, call_on, check


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
    supplies = Supplies(secrets=job.secrets, max_line=job.max_line, logs=job.server_logs)
    async with (
        kept(job.guard),
        Interrupts(budget=Budget(job.timeout)) as interrupts,
        bridged(plan, supplies, observer, interrupts) as servers,
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
    plan: LaunchPlan, job: Job, connection: Connection, interrupts: Interrupts, servers: Bridged
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
