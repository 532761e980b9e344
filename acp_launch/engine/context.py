"""
What is fixed when an agent is started, for all its sessions and fronts; and the services of a session for its agent:
files, terminals, forms and links.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import AuthRequired
from acp_launch.plan.model import LaunchPlan
from acp_launch.protocol.acp import Offers
from acp_launch.session.connection import Connection
from acp_launch.session.events import Observer, Serve, Services, show_note

if TYPE_CHECKING:
    from acp_launch.bridge.servers import ShareServer
    from acp_launch.process.guard_client import Guard
    from acp_launch.process.logs import ServerLogs
    from acp_launch.process.spawn import Spawned
    from acp_launch.session.elicitation import Elicitation
    from acp_launch.session.permission.gate import Gate
    from acp_launch.trace import Trace

# Makes the elicitation of an agent: takes its name, and the receiver of notes.
Elicit = Callable[[str, Callable[[str], None]], "Elicitation"]


def offers(plan: LaunchPlan, *, has_person: bool) -> Offers:
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
    context: "LaunchContext", gate: "Gate | None", connection: Connection, hurry: asyncio.Event, observer: Observer
) -> AsyncIterator[tuple[Services, Callable[[str], None]]]:
    """Provide the offered services while the block runs, and the handler of each `elicitation/complete`.

    Leaving ends running commands, at once if `hurry` is set.
    """
    plan, offers, tell = context.plan, context.offers, observer.show
    completed: Callable[[str], None] = lambda elicitation_id: None  # noqa: E731

    def files() -> Services:
        from acp_launch.session.files import Files

        assert gate is not None, "a front offers no files"
        roots = (plan.cwd, *plan.additional_directories)
        return Files(roots, may_write=offers.write_files, allowed=gate.serve, tell=tell, place=plan.place).services()

    def terminals() -> Services:
        from acp_launch.session.terminals import Terminals

        assert gate is not None, "a front offers no terminals"
        made = Terminals(plan.cwd, context.env, allowed=gate.serve, tell=tell, place=plan.place)
        ending.push_async_callback(made.close, hurry)
        return made.services()

    async with AsyncExitStack() as ending:
        services = {**_loaded_at_use("fs/", files, offers), **_loaded_at_use("terminal/", terminals, offers)}
        if context.elicit is not None:
            eliciting = context.elicit(connection.agent.title or "the agent", partial(show_note, observer))
            services |= eliciting.services()
            completed = eliciting.completed
        yield services, completed


def _loaded_at_use(family: str, make: Callable[[], Services], offers: Offers) -> dict[str, Serve]:
    """Return the methods of a family; the service is made at the first request, as most agents never send one."""
    made = cache(make)

    async def serve(method: str, params: dict[str, Any]) -> object:
        return await made()[method](params)

    return {method: partial(serve, method) for method in offers.methods if method.startswith(family)}


class LogIn(Protocol):
    async def __call__(self, connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        """Log in, and return when the request may be tried again; or raise RestartAgent.

        With `is_second` there was a login already: then raise `wanted` with advice on what else can be done.
        """


async def leave_login(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
    """Leave a login to the caller."""
    raise wanted


# Asks the user whether to log in to the MCP server of this name, and does it; returns whether it worked.
OfferLogin = Callable[[str], Awaitable[bool]]


class LaunchContext(Struct, frozen=True, kw_only=True):
    """What is fixed when an agent is started, for all its sessions and fronts."""

    prepared: PreparedPlan  # its servers have directories
    guard: "Guard | None"  # None for a front of a host, which starts nothing
    max_line: int  # bytes
    log: Callable[[bytes], None]  # takes the agent's stderr
    server_logs: "ServerLogs | None" = None  # None for a front of a host, and a verb without servers
    state: Path | None = None  # the user's, where the sockets of a launch outlive a login
    cache: Path | None = None  # acp-launch's own, where it keeps what lazy servers offer
    share: "ShareServer | None" = None  # makes the program of a server that launches share
    trace: "Trace | None" = None
    offers: Offers = Offers()
    gate: "Gate | None" = None  # of sessions that bring none; None for a front, as its host judges
    env: "Mapping[str, str]" = field(default_factory=dict)  # of the commands that are run for the agent
    elicit: Elicit | None = None  # None if no user can be asked
    greeting: bytes = b""  # the `initialize` of an editor, in place of the offers
    grace: float | None = None  # seconds for the agent to end, once it is not needed any more; None for GRACE
    respawn: "Callable[[], Spawned] | None" = None  # starts the agent again; None where that is not wanted
    log_in: LogIn = leave_login
    handshake: Callable[[], AbstractAsyncContextManager[None]] = nullcontext  # around it; ssh may ask in it
    offer_login: OfferLogin | None = None

    @property
    def plan(self) -> LaunchPlan:
        return self.prepared.plan
