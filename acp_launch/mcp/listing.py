"""What a server has, page after page (MCP "pagination")."""

from typing import Any

from acp_launch.errors import RemoteProtocolError
from acp_launch.mcp.message import Server, Tool, read_tools
from acp_launch.mcp.stdio import Connection
from acp_launch.protocol.acp import decoded, mapping, sequence, text

# method → (the capability that offers it, the member of its result)
LISTS = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
    "prompts/list": ("prompts", "prompts"),
}
PAGES = 1000
EMPTY_PAGES = 100  # in a row; a page may be empty when the server filters after paging


async def everything(connection: Connection, method: str, *, limit: float) -> list[dict[str, Any]]:
    """The items of all pages, `limit` seconds for each.

    Raises:
        ServerRefused: as the server says.
        RemoteProtocolError: a page is none, or the list has too many.
    """
    items: list[dict[str, Any]] = []
    seen: set[str] = set()
    empty = 0
    params: dict[str, str] = {}
    for _ in range(PAGES):
        found, cursor = await _page(connection, method, params, limit)
        items += found
        empty = 0 if found else empty + 1
        if cursor is None:
            return items
        if cursor in seen:
            raise _refused(connection, method, "goes in circles: a cursor came twice")
        if empty == EMPTY_PAGES:
            raise _refused(connection, method, f"has no end: {EMPTY_PAGES} empty pages in a row")
        seen.add(cursor)
        params = {"cursor": cursor}
    raise _refused(connection, method, f"has more than {PAGES} pages")


def _refused(connection: Connection, method: str, reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"the answer of {connection.label} to {method} {reason}")


async def _page(
    connection: Connection, method: str, params: dict[str, str], limit: float
) -> tuple[list[dict[str, Any]], str | None]:
    call = connection.client.call(method, params)
    knob = f"mcp_servers.{connection.name}.timeouts.start in the profile"
    page = decoded(await connection.ask(call, what=f"answer to {method}", limit=limit, knob=knob))
    listed = mapping(page).get(LISTS[method][1])
    if not isinstance(listed, list):
        raise RemoteProtocolError(f"{connection.label} answered {method} without a list of {LISTS[method][1]}")
    found = [item for item in sequence(listed) if isinstance(item, dict)]
    return found, text(mapping(page).get("nextCursor")) or None


async def tools(connection: Connection, server: Server, *, limit: float) -> list[Tool]:
    """None where the server does not offer any."""
    if not server.offers("tools"):
        return []
    return list(read_tools(await everything(connection, "tools/list", limit=limit)))
