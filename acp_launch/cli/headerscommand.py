"""
The commands of the user that print headers for a plan's remote servers (`headers_command`): which command is for which
server, and its first call, before anything starts.

A server with such a command needs no login.
"""

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from acp_launch.cli.bearers import Lack
from acp_launch.plan.model import RemotePlan, ServerPlan
from acp_launch.secret.value import Secret
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acp_launch.mcp.headerscommand import PrintedHeaders
    from acp_launch.mcp.http.wire import NoToken
    from acp_launch.process.capture import Captured

GRACE = 2.0  # seconds beyond the limit in which a command that reaches it is stopped


def printing(servers: Iterable[ServerPlan], settings: Settings) -> dict[str, str]:
    """Return which servers have a command, by their names: the address of its entry in the settings."""
    if not settings.headers_command:
        return {}
    remotes = [server for server in servers if isinstance(server, RemotePlan) and server.bridge]
    found = {server.name: _address(server, settings) for server in remotes}
    return {name: address for name, address in found.items() if address is not None}


def _address(server: RemotePlan, settings: Settings) -> str | None:
    from acp_launch.settings.address import nearest

    unknown = {reference.name: Secret("-") for reference in server.url.secrets}  # no part of an address in the settings
    return nearest(settings.headers_command, server.url.reveal(unknown))


def program(address: str, settings: Settings) -> str:
    """Return the name of the program that an entry runs."""
    return Path(settings.headers_command[address].command[0]).name


def first_headers(
    servers: Iterable[ServerPlan], addresses: Mapping[str, str], settings: Settings
) -> tuple[dict[str, "PrintedHeaders"], list[Lack]]:
    """Run each command once, all at once; return the headers of each server, and the servers without any.

    `addresses` are those of the entries, by the servers' names.
    """
    from acp_launch.cli.stores import protect_secrets
    from acp_launch.mcp.headerscommand import PrintedHeaders

    protect_secrets()
    limit = settings.secrets.timeout
    made = {address: _printed(address, settings) for address in dict.fromkeys(addresses.values())}
    failed = _first(made, limit)
    headers, lacks = dict[str, PrintedHeaders](), list[Lack]()
    for server in servers:
        if (address := addresses.get(server.name)) is None or not isinstance(server, RemotePlan):
            continue
        if (error := failed[address]) is None:
            headers[server.name] = made[address]
        else:
            lacks.append(Lack(server, error.how, error.fix))
    return headers, lacks


def later_headers(addresses: Mapping[str, str], settings: Settings) -> "dict[str, PrintedHeaders]":
    """Return what runs the command of each server at its first request."""
    return {server: _printed(address, settings) for server, address in addresses.items()}


def _printed(address: str, settings: Settings) -> "PrintedHeaders":
    from acp_launch.mcp.headerscommand import PrintedHeaders

    entry = settings.headers_command[address]
    return PrintedHeaders(address, entry, limit=settings.secrets.timeout, run=_captured)


def _first(made: Mapping[str, "PrintedHeaders"], limit: float) -> Mapping[str, "NoToken | None"]:
    """Make the first calls; return why one gave no headers."""
    from acp_launch.cli.stores import captured, say_waiting
    from acp_launch.mcp.http.wire import NoToken
    from acp_launch.secret.command import AT_ONCE, in_parallel
    from acp_launch.secret.isolate import Late, NoThread, bounded

    def first(address: str) -> "NoToken | None":
        try:
            made[address].first(captured)
        except NoToken as error:
            return error
        return None

    work = partial(in_parallel, first, list(made))
    patience = limit * -(-len(made) // AT_ONCE) + GRACE
    what = f"headers for {', '.join(made)}"
    try:
        return bounded(work, limit=patience, waiting=lambda waited: say_waiting(what, waited, patience))
    except NoThread:
        return work()
    except Late:  # the command cannot be killed
        return {address: made[address].late() for address in made}


async def _captured(argv: "Sequence[str]", limit: float) -> "Captured":
    """Run a command while a session is open, as `stores.captured` does before."""
    from acp_launch.plan.environment import inherited
    from acp_launch.process.capture import captured

    return await captured(argv, limit, env=inherited(os.environ, "all"), cwd=Path.home())
