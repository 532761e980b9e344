"""
The `mcpServers` we send: a pure function of the plan's servers and what the agent can take.

stdio entries carry name, absolute command, args and env, and no `type` (C-39); http and sse go only to agents that
advertise them (C-40). Bridging comes later: until then a server the agent cannot take is a problem that names it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from acp_launch.plan.model import RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.protocol.acp import Capabilities
from acp_launch.secret.value import Secret


def entries(servers: Sequence[ServerPlan], secrets: Mapping[str, Secret]) -> list[dict[str, Any]]:
    """The entries, secrets and all: for the agent's ears only, never for a log (C-48)."""
    return [_entry(server, secrets) for server in servers]


def untakeable(servers: Sequence[ServerPlan], able: Capabilities) -> list[RemotePlan]:
    """Those whose transport the agent does not advertise."""
    takes = {"http": able.http, "sse": able.sse}
    return [server for server in servers if isinstance(server, RemotePlan) and not takes[server.type]]


def _entry(server: ServerPlan, secrets: Mapping[str, Secret]) -> dict[str, Any]:
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


def _pairs(values: Mapping[str, Value], secrets: Mapping[str, Secret]) -> list[dict[str, str]]:
    return [{"name": name, "value": value.reveal(secrets)} for name, value in values.items()]
