"""
The `mcpServers` we send: a pure function of the plan's servers and what the agent can take.

stdio entries carry name, absolute command, args and env, and no `type` (C-39); http and sse go only to agents that
advertise them (C-40). A bridged server is a shim, which knows the way to its seat and nothing else.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.plan.model import RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.protocol.acp import Capabilities
from acp_launch.secret.value import Secret


class Way(Struct, frozen=True):
    """How a shim gets to its seat: the interpreter that runs it, the socket, and the one-launch token."""

    python: Path
    shim: Path
    socket: Path
    token: str


def entries(servers: Sequence[ServerPlan], secrets: Mapping[str, Secret], way: Way | None) -> list[dict[str, Any]]:
    """The entries, the secrets of unbridged servers and all: for the agent's ears only, never for a log (C-48).

    `way` is None where no server is bridged.
    """
    return [_entry(server, secrets, way) for server in servers]


def is_bridged(server: ServerPlan) -> bool:
    """Whether we run it, and the agent gets a shim."""
    return isinstance(server, StdioPlan) and server.bridge


def untakeable(servers: Sequence[ServerPlan], able: Capabilities) -> list[RemotePlan]:
    """Those whose transport the agent does not advertise."""
    takes = {"http": able.http, "sse": able.sse}
    return [server for server in servers if isinstance(server, RemotePlan) and not takes[server.type]]


def _entry(server: ServerPlan, secrets: Mapping[str, Secret], way: Way | None) -> dict[str, Any]:
    if isinstance(server, StdioPlan) and server.bridge:
        assert way is not None, "a bridged server needs a seat"
        return _shim(server, way)
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
        "headers": _pairs(server.headers, secrets),
    }


def _shim(server: StdioPlan, way: Way) -> dict[str, Any]:
    """`-I -S`: neither the agent's environment nor its directory decides what is imported; and it starts at once."""
    return {
        "name": server.name,
        "command": str(way.python),
        "args": ["-I", "-S", str(way.shim), str(way.socket), server.name],
        "env": [{"name": "ACP_LAUNCH_SEAT", "value": way.token}],
    }


def _pairs(values: Mapping[str, Value], secrets: Mapping[str, Secret]) -> list[dict[str, str]]:
    return [{"name": name, "value": value.reveal(secrets)} for name, value in values.items()]
