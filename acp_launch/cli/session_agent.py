"""One operation with a session's agent other than a turn, for the verbs of `session`."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from acp_launch.cli.start import with_agent
from acp_launch.errors import AuthRequired
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.cli.planning import Planned
    from acp_launch.session.connection import Connection

T = TypeVar("T")


def with_session_agent(
    planned: "Planned",
    settings: Settings,
    story: "Callable[[Connection], Awaitable[T]]",
    trace: Path | None = None,
) -> T:
    """Start the agent, run `story`, end the agent; if it wants a login first, the error names the command for that.

    Raises:
        LaunchError: as for `run`.
    """

    async def advised(connection: "Connection") -> T:
        try:
            return await story(connection)
        except AuthRequired as wanted:
            from acp_launch.cli.login import logging_in

            await logging_in(planned, None)(connection, wanted, is_second=True)
            raise

    return with_agent(planned, settings, "session", advised, trace=trace)
