"""What is fixed when an agent is started, for all its sessions and fronts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from acp_launch.errors import AuthRequired
from acp_launch.launch.services import ServicePolicy
from acp_launch.protocol.acp import Offers
from acp_launch.session.connection import Connection

if TYPE_CHECKING:
    from acp_launch.mcp.http.wire import Credentials
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.process.guard import Guard
    from acp_launch.process.logs import ServerLogs
    from acp_launch.process.spawn import Spawned
    from acp_launch.secret.value import Secret
    from acp_launch.trace import Trace


class LogIn(Protocol):
    async def __call__(self, connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        """Log in, and return when the request may be tried again; or raise RestartAgent.

        With `is_second` there was a login already: then raise `wanted` with advice on what else can be done.
        """


async def leave_login(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
    """Leave a login to the caller."""
    raise wanted


class LaunchContext(Struct, frozen=True, kw_only=True):
    """What is fixed when an agent is started, for all its sessions and fronts."""

    plan: "LaunchPlan"  # its servers have directories
    guard: "Guard | None"  # None for a front of a host, which starts nothing
    secrets: "Mapping[str, Secret]"
    credentials: "Mapping[str, Credentials]" = field(default_factory=dict)  # of servers that need a login, by name
    max_line: int  # bytes
    log: Callable[[bytes], None]  # takes the agent's stderr
    server_logs: "ServerLogs | None" = None  # None for a front of a host, and a verb without servers
    cache: Path | None = None  # acp-launch's own, where it keeps what lazy servers offer
    trace: "Trace | None" = None
    offers: Offers = Offers()
    greeting: bytes = b""  # the `initialize` of an editor, in place of the offers
    grace: float | None = None  # seconds for the agent to end, once it is not needed any more; None for GRACE
    respawn: "Callable[[], Spawned] | None" = None  # starts the agent again; None where that is not wanted
    services: ServicePolicy | None = None  # of sessions that bring none
    log_in: LogIn = leave_login
