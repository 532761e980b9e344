"""Start a session's agent, do one thing with it that is not a turn, and end it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from acp_launch.cli.start import with_agent
from acp_launch.errors import AuthRequired
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.cli.planning import Planned
    from acp_launch.session.connection import Connection

T = TypeVar("T")


def errand(planned: "Planned", settings: Settings, story: "Callable[[Connection], Awaitable[T]]") -> T:
    """What `story` gives. Where the agent wants a login first, the error says which command logs in.

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

    return with_agent(planned, settings, "session", advised)
