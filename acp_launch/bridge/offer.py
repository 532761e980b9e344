"""
The `mcpServers` that the agent gets. Pure: made from the plan's servers and the agent's capabilities.

stdio entries have a name, an absolute command, args and env, but no `type` (C-39). http and sse entries go only to
agents that advertise them (C-40). The entry of a bridged server, also of a remote one, starts a shim, which knows only
its socket and token; or it is an address on 127.0.0.1 with a token, for agents that take servers only over HTTP.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from acp_launch.plan.model import (
    PROGRAMS,
    STARTER,
    InContainer,
    LaunchPlan,
    OverSsh,
    Place,
    RemotePlan,
    ServerPlan,
    StdioPlan,
    Value,
    there_directory,
)
from acp_launch.private import SOCKET
from acp_launch.profile.agents import started
from acp_launch.protocol.acp import Capabilities
from acp_launch.secret.value import Secret


class ShimCommand(Struct, frozen=True):
    """The start of a shim: its interpreter and program, the launch's socket, and the launch's token.

    The paths are those of the machine or container where the agent runs. `options` are the interpreter's. The shim
    `copies` where its descriptors cannot reach the socket.
    """

    python: Path
    shim: Path
    socket: Path
    token: str
    options: tuple[str, ...] = ("-I", "-S")
    copies: bool = False


def shim_command(where: Place | None, seat: Path, token: str) -> ShimCommand:
    """Return the start of a shim for an agent in its place, whose socket here is `seat`."""
    match where.elsewhere if where else None:
        case InContainer():
            return ShimCommand(Path("/bin/sh"), Path("shim"), seat, token, (str(PROGRAMS / STARTER),))
        case OverSsh() as there:
            folder = Path(there_directory(seat.parent))
            start = ("-c", 'exec "$0" -I -S "$@"', there.python)  # it may be a name on PATH
            return ShimCommand(Path("/bin/sh"), folder / "shim.py", folder / SOCKET, token, start, copies=True)
        case None:
            return ShimCommand(Path(sys.executable), PROGRAMS / "shim.py", seat, token)


class HttpAddress(Struct, frozen=True):
    """Where the agent reaches a server over HTTP, and the token it must send."""

    url: str
    token: str

    def __repr__(self) -> str:
        return "HttpAddress(...)"


Way = ShimCommand | Mapping[str, HttpAddress]  # one shim for all servers, or an address for each name
Transport = Literal["stdio", "http"]


def wanted_transport(plan: LaunchPlan) -> Transport:
    """Return how the agent should reach bridged servers, by the profile, or by the known facts about the agent."""
    if plan.mcp != "auto":
        return plan.mcp
    known = started(str(plan.agent.command), [argument.display() for argument in plan.agent.args])
    takes = known.takes if known else ()
    return "http" if "http" in takes and "stdio" not in takes else "stdio"


def transport(plan: LaunchPlan, able: Capabilities) -> Transport:
    """Return how the agent reaches bridged servers: as wanted, but by `auto` over HTTP only if it advertises that."""
    return "stdio" if plan.mcp == "auto" and not able.http else wanted_transport(plan)


def is_unable(plan: LaunchPlan, able: Capabilities) -> bool:
    """Tell whether the profile wants HTTP for bridged servers, which the agent does not advertise."""
    return plan.mcp == "http" and not able.http


def entries(servers: Sequence[ServerPlan], secrets: Mapping[str, Secret], way: Way | None) -> list[dict[str, Any]]:
    """Build the entries. They hold the secrets of unbridged servers, and must go only to the agent (C-48).

    `way` is None if no server is bridged.
    """
    return [_entry(server, secrets, way) for server in servers]


def is_bridged(server: ServerPlan) -> bool:
    """Tell whether acp-launch runs the server or connects to it, and the agent gets a shim."""
    return server.bridge


def untakeable(servers: Sequence[ServerPlan], able: Capabilities) -> list[RemotePlan]:
    """List the servers that the agent would have to connect to by a transport that it does not advertise."""
    takes = {"http": able.http, "sse": able.sse}
    theirs = (server for server in servers if isinstance(server, RemotePlan) and not is_bridged(server))
    return [server for server in theirs if not takes[server.type]]


def _entry(server: ServerPlan, secrets: Mapping[str, Secret], way: Way | None) -> dict[str, Any]:
    if is_bridged(server):
        assert way is not None, "a bridged server needs a seat"
        return make_entry(server.name, way) if isinstance(way, ShimCommand) else _address(server, way[server.name])
    if isinstance(server, StdioPlan):
        return {
            "name": server.name,
            "command": str(server.command),
            "args": [arg.reveal(secrets) for arg in server.args],
            "env": _pairs(server.env, secrets),
        }
    return {
        "type": server.type,
        "name": server.name,
        "url": server.url.reveal(secrets),
        "headers": _pairs(server.sent, secrets),
    }


def make_entry(name: str, way: ShimCommand) -> dict[str, Any]:
    """Build a shim's entry. `-I -S` keeps the agent's environment and directory from affecting imports, and is fast."""
    env = {"ACP_LAUNCH_SEAT": way.token} | ({"ACP_LAUNCH_SEAT_COPY": "1"} if way.copies else {})
    return {
        "name": name,
        "command": str(way.python),
        "args": [*way.options, str(way.shim), str(way.socket), name],
        "env": [{"name": variable, "value": value} for variable, value in env.items()],
    }


def _address(server: ServerPlan, where: HttpAddress) -> dict[str, Any]:
    headers = [{"name": "Authorization", "value": f"Bearer {where.token}"}]
    return {"type": "http", "name": server.name, "url": where.url, "headers": headers}


def _pairs(values: Mapping[str, Value], secrets: Mapping[str, Secret]) -> list[dict[str, str]]:
    return [{"name": name, "value": value.reveal(secrets)} for name, value in values.items()]
