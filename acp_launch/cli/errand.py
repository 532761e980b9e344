"""Start a session's agent, do one thing with it that is no turn, and end it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from acp_launch.errors import AuthRequired
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.cli.planning import Planned
    from acp_launch.session.connection import Connection

T = TypeVar("T")


def errand(planned: "Planned", settings: Settings, story: "Callable[[Connection], Awaitable[T]]") -> T:
    """What `story` gives.

    Raises:
        LaunchError: as for `run`.
    """
    import asyncio

    from acp_launch.cli.start import guarded, started, stderr_log
    from acp_launch.console.stream.redacted import Discreet
    from acp_launch.console.stream.text import Notices
    from acp_launch.launch.run import Visit, visit
    from acp_launch.process.spawn import require_platform

    require_platform()
    plan, secrets = planned
    log_file = stderr_log(settings, plan, echo=False)

    async def advised(connection: "Connection") -> T:
        try:
            return await story(connection)
        except AuthRequired as wanted:
            from acp_launch.cli.login import logging_in

            await logging_in(planned, None)(connection, wanted, is_second=True)  # says which command would
            raise

    with guarded(settings, plan, "session") as guard, started(plan, secrets) as spawned, log_file as log:
        needs = Visit(guard=guard, secrets=secrets, max_line=settings.max_line, log=log)
        return asyncio.run(visit(plan, needs, spawned, Discreet(Notices()), advised))
