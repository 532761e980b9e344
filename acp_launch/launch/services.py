"""The services of a launch for its agent: files, terminals, forms and links."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from acp_launch.protocol.acp import Offers
from acp_launch.session.connection import Connection
from acp_launch.session.observer import Observer, Serve, Services

if TYPE_CHECKING:
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.session.elicitation import Elicitation
    from acp_launch.session.permission.gate import Gate

# Makes the elicitation of an agent: takes its name, and the receiver of notes.
Elicit = Callable[[str, Callable[[str], None]], "Elicitation"]


class ServicePolicy(Struct, frozen=True, kw_only=True):
    """The needs of the services, and the services that are offered."""

    offers: Offers
    gate: "Gate | None"  # None for a front, as its host judges
    env: Mapping[str, str]  # of the commands that are run for the agent
    elicit: Elicit | None  # None if no user can be asked


class ClientServices(Struct, frozen=True):
    """The services by method. `completed` is called for each `elicitation/complete`."""

    services: Services
    completed: Callable[[str], None] = lambda elicitation_id: None


def offers(plan: "LaunchPlan", *, has_person: bool) -> Offers:
    """Return the offers: services that the profile grants, and those that need a user at the terminal."""
    return Offers(
        read_files=plan.client.fs is not False,
        write_files=plan.client.fs is True,
        terminals=plan.client.terminal,
        forms=has_person,
        urls=has_person,
        terminal_login=has_person,
    )


@asynccontextmanager
async def client_services(
    plan: "LaunchPlan", connection: Connection, policy: ServicePolicy, hurry: asyncio.Event, observer: Observer
) -> AsyncIterator[ClientServices]:
    """Provide the offered services while the block runs; leaving ends running commands, at once if `hurry` is set."""
    tell = observer.served
    completed: Callable[[str], None] = lambda elicitation_id: None  # noqa: E731

    def files() -> Services:
        from acp_launch.session.files import Files

        assert policy.gate is not None, "a front offers no files"
        roots = (plan.cwd, *plan.additional_directories)
        may_write, allowed = policy.offers.write_files, policy.gate.serve
        return Files(roots, may_write=may_write, allowed=allowed, tell=tell).services()

    def terminals() -> Services:
        from acp_launch.session.terminals import Terminals

        assert policy.gate is not None, "a front offers no terminals"
        made = Terminals(plan.cwd, policy.env, allowed=policy.gate.serve, tell=tell)
        ending.push_async_callback(made.close, hurry)
        return made.services()

    async with AsyncExitStack() as ending:
        services = {**_later("fs/", files, policy.offers), **_later("terminal/", terminals, policy.offers)}
        if policy.elicit is not None:
            eliciting = policy.elicit(connection.agent.title or "the agent", observer.note)
            services |= eliciting.services()
            completed = eliciting.completed
        yield ClientServices(services, completed)


def _later(family: str, make: Callable[[], Services], offers: Offers) -> dict[str, Serve]:
    """Return the methods of a family; the service is made at the first request, as most agents never send one."""
    made = cache(make)

    async def serve(method: str, params: dict[str, Any]) -> object:
        return await made()[method](params)

    return {method: partial(serve, method) for method in offers.methods if method.startswith(family)}
