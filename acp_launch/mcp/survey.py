"""All that can be learned of a server without using it."""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from acp_launch.errors import ServerRefused, WaitExpired
from acp_launch.mcp.listing import LISTS, everything
from acp_launch.mcp.message import Server
from acp_launch.mcp.stdio import Connection
from acp_launch.protocol import jsonrpc

PING = 5.0  # seconds; a server that needs longer for `{}` does not answer
ROOTS = 0.5  # seconds from the handshake for its first question about the roots; server-everything asks after 0.35


class Survey(Struct, frozen=True, kw_only=True):
    """`counts`, `timings` (seconds) and `refused` (why) are by method; what was not offered is in none of them.

    `tool_names` are those of the server, before any policy. `roots_asked` is how often it asked for the roots.
    """

    server: Server
    counts: Mapping[str, int]
    timings: Mapping[str, float]
    refused: Mapping[str, str]
    tool_names: tuple[str, ...]
    answers_ping: bool
    roots_asked: int


async def survey(connection: Connection, server: Server, *, limit: float) -> Survey:
    """Read every list there is, then `ping`; `limit` seconds for each answer.

    Raises:
        ServerError: the server died.
        RemoteProtocolError: it broke the protocol; a list it refuses is part of the answer.
        WaitExpired: it did not answer in time.
    """
    clock = asyncio.get_running_loop().time
    counts: dict[str, int] = {}
    timings: dict[str, float] = {}
    refused: dict[str, str] = {}
    names: tuple[str, ...] = ()
    for method, (capability, _) in LISTS.items():
        if not server.offers(capability):
            continue
        begun = clock()
        try:
            items = await everything(connection, method, limit=limit)
        except ServerRefused as error:
            if error.code != jsonrpc.METHOD_NOT_FOUND:
                refused[method] = error.message
            continue
        counts[method], timings[method] = len(items), clock() - begun
        if method == "tools/list":
            names = tuple(str(item.get("name")) for item in items)
    return Survey(
        server=server,
        counts=counts,
        timings=timings,
        refused=refused,
        tool_names=names,
        answers_ping=await _answers_ping(connection),
        roots_asked=await connection.roots_asked(within=ROOTS),
    )


async def _answers_ping(connection: Connection) -> bool:
    call = connection.client.call("ping", {})
    try:
        await connection.ask(call, what="answer to ping", limit=PING, knob="")
    except (ServerRefused, WaitExpired):
        return False
    return True
