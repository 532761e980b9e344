"""
A visit to an agent that was spawned: attach → negotiate → what the story wants → stop. Whatever happens in the middle,
the last line is the same: the agent and everything it started are ended.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from msgspec import Struct

from acp_launch.bridged import Bridged
from acp_launch.errors import AgentRefused, Stopped, WaitExpired
from acp_launch.interrupts import Interrupts
from acp_launch.plan.model import LaunchPlan
from acp_launch.process.child import GRACE, HASTY, attach, stop
from acp_launch.process.guard import Guard
from acp_launch.process.spawn import Spawned
from acp_launch.process.vigil import kept
from acp_launch.protocol.acp import Offers
from acp_launch.secret.value import Secret
from acp_launch.session.connection import Connection, connect
from acp_launch.session.negotiate import negotiate
from acp_launch.session.observer import Observer
from acp_launch.session.waits import in_profile, on_command_line
from acp_launch.transport.stdio import StdioTransport

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
    servers: Bridged | None = None,
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
