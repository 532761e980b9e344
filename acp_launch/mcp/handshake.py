"""`initialize` and `notifications/initialized`, first and in this order: who the server is and what it offers."""

from acp_launch.errors import LaunchError, ProtocolError, ServerError, ServerRefused, WaitExpired
from acp_launch.mcp.message import OURS, RELEASE, Server, read_server
from acp_launch.mcp.stdio import Connection

UNSUPPORTED_VERSION = -32022  # MCP 2026-07-28: a server that shakes no hands any more
ANSWER = "answer to initialize"
STDIO = "is the command right? some servers speak MCP on stdio only with a flag or a subcommand"


def silent(name: str, limit: float) -> ServerError:
    """The error of a server that has not answered the handshake within `limit` seconds, in every verb."""
    return ServerError(
        f'no {ANSWER} from the MCP server "{name}" within {limit:.3g} s',
        fix=f"{STDIO}; if it needs longer: mcp_servers.{name}.timeouts.start in the profile",
    )


async def shake_hands(connection: Connection, *, limit: float) -> Server:
    """At most `limit` seconds from here to the server's answer.

    Raises:
        ServerError: it ended, or is no MCP server: it printed text and did not answer in time.
        RemoteProtocolError: it speaks none of our versions, or refused.
        WaitExpired: it said nothing in time.
    """
    call = connection.client.initialize()
    try:
        result = await connection.ask(call, what=ANSWER, limit=limit, knob="")
    except WaitExpired as error:
        told = silent(connection.name, limit)
        error.message, error.fix = told.message, told.fix
        raise _explained(error, connection.noise) from None
    except LaunchError as error:
        raise _explained(error, connection.noise) from None
    server = read_server(connection.label, result)
    connection.opened()
    connection.send(connection.client.initialized())
    return server


def _explained(error: LaunchError, noise: list[str]) -> LaunchError:
    """The same error with the reason most likely behind it: a program that is not an MCP server on stdio."""
    printed = [f"it printed: {line}" for line in noise]
    if noise and isinstance(error, WaitExpired):
        return ServerError(f"this is no MCP server: it printed text, and {error.message}", fix=STDIO, detail=printed)
    error.detail = (*printed, *error.detail)
    if not isinstance(error, ProtocolError | WaitExpired):
        error.fix = f"{STDIO}; {error.fix}" if error.fix else STDIO
    elif isinstance(error, ServerRefused) and error.code == UNSUPPORTED_VERSION:
        error.fix = f"{RELEASE} {OURS}"
    return error
