"""Start a session's agent, do one thing with it that is no turn, and end it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.session.connection import Connection

T = TypeVar("T")


def errand(plan: "LaunchPlan", settings: Settings, story: "Callable[[Connection], Awaitable[T]]") -> T:
    """What `story` gives.

    Raises:
        LaunchError: as for `run`.
    """
    import asyncio
    import os

    from acp_launch.cli.start import started, stderr_log
    from acp_launch.console.notices import Notices
    from acp_launch.launch import Visit, visit
    from acp_launch.process.spawn import require_platform
    from acp_launch.secret.provider import lookup

    require_platform()
    secrets, _ = lookup(plan.secrets, os.environ)
    with started(plan, secrets) as spawned, stderr_log(settings, plan, echo=False) as log:
        needs = Visit(secrets=secrets, max_line=settings.max_line, log=log)
        return asyncio.run(visit(plan, needs, spawned, Notices(), lambda connection, _: story(connection)))
