"""
The `mcpServers` that the agent gets. Pure: made from the plan's servers and the agent's capabilities.

stdio entries have a name, an absolute command, args and env, but no `type` (C-39). http and sse entries go only to
agents that advertise them (C-40). The entry of a bridged server starts a shim, which knows only its socket and token.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.plan.model import RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.protocol.acp import Capabilities
from acp_launch.secret.value import Secret


class Way(Struct, frozen=True):
    """The start of a shim: its interpreter and program, the launch's socket, and the launch's token."""

    python: Path
    shim: Path
    socket: Path
    token: str


def entries(servers: Sequence[ServerPlan], secrets: Mapping[str, Secret], way: Way | None) -> list[dict[str, Any]]:
    """Build the entries. They hold the secrets of unbridged servers, and must go only to the agent (C-48).

    `way` is None if no server is bridged.
    """
    return [_entry(server, secrets, way) for server in servers]


def is_bridged(server: ServerPlan) -> bool:
    """Tell whether acp-launch runs the server, and the agent gets a shim."""
    return isinstance(server, StdioPlan) and server.bridge


def untakeable(servers: Sequence[ServerPlan], able: Capabilities) -> list[RemotePlan]:
    """List the servers whose transport the agent does not advertise."""
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
    """Build a shim's entry. `-I -S` keeps the agent's environment and directory from affecting imports, and is fast."""
    return {
        "name": server.name,
        "command": str(way.python),
        "args": ["-I", "-S", str(way.shim), str(way.socket), server.name],
        "env": [{"name": "ACP_LAUNCH_SEAT", "value": way.token}],
    }


def _pairs(values: Mapping[str, Value], secrets: Mapping[str, Secret]) -> list[dict[str, str]]:
    return [{"name": name, "value": value.reveal(secrets)} for name, value in values.items()]
