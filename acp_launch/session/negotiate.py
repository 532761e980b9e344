"""`initialize`, alone and first: what the agent is and what it can do."""

from acp_launch.errors import AgentError, LaunchError, RemoteProtocolError, RunExpired, WaitExpired
from acp_launch.protocol.acp import Negotiated, Offers
from acp_launch.session.connection import Connection

KNOB = "initialize"
ACP_MODE = "is the command right? many agents speak ACP only with a flag or as an adapter of their own"


async def negotiate(connection: Connection, *, limit: float, offers: Offers | None = None) -> Negotiated:
    """Shake hands within `limit` seconds; without `offers` the agent is offered nothing.

    Raises:
        AgentError: the agent ended, refused, or is no ACP agent: it printed text and did not answer in time.
        RemoteProtocolError: it speaks another version (C-17).
        WaitExpired: it said nothing in time.
    """
    connection.offered = offers or Offers()
    call = connection.conversation.initialize(connection.offered)
    try:
        result = await connection.call(call, what="answer to initialize from the agent", limit=limit, knob=KNOB)
        connection.negotiated = connection.conversation.negotiated(result)
    except (AgentError, WaitExpired) as error:
        raise connection.blamed(_explained(error, connection.noise)) from None
    except RemoteProtocolError as error:
        raise connection.blamed(error) from None
    connection.observer.negotiated(connection.negotiated)
    return connection.negotiated


def _explained(error: LaunchError, noise: list[str]) -> LaunchError:
    """The same error with the reason most likely behind it: a program that is not an ACP agent."""
    printed = [f"it printed: {line}" for line in noise]
    if noise and isinstance(error, WaitExpired) and not isinstance(error, RunExpired):
        return AgentError(f"this is no ACP agent: it printed text, and {error.message}", fix=ACP_MODE, detail=printed)
    error.fix = f"{ACP_MODE}; {error.fix}" if error.fix else ACP_MODE
    error.detail = (*printed, *error.detail)
    return error
