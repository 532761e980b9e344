"""The client of PyPI `mcp` behind shim and seat: in both eras it gets what it gets from the server itself."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import mcp
import mcp_types as types
import pytest
from mcp.client import ClientRequestContext, Transport
from pydantic import FileUrl

from tests.patience import PATIENCE
from tests.realservers import sdk
from tests.realservers.npm import EVERYTHING
from tests.realservers.published import needs_npm
from tests.realservers.published import server as npm_server
from tests.realservers.sdk_server import URI
from tests.realservers.seated import Seated, Server, seated

CALLS, IN_FLIGHT = 200, 32
CALLED = [call for call in sdk.CALLS if call[0] not in ("ping_back", "no_such_tool")]  # no ping in the newest era
Script = Callable[[mcp.Client, list[Any]], Awaitable[None]]  # the list takes what is to be compared


async def sampled(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    return types.CreateMessageResult(role="assistant", content=types.TextContent(text="nothing"), model="none")


async def elicited(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def roots(context: ClientRequestContext) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///a%20b"))])


async def conversed(where: mcp.StdioServerParameters | Transport, mode: str, script: Script) -> list[Any]:
    """What the client saw, in order; notifications are kept apart, because nothing waits for them."""
    seen: list[Any] = []
    async with mcp.Client(
        where,
        mode=mode,
        sampling_callback=sampled,
        elicitation_callback=elicited,
        list_roots_callback=roots,
        cache=None,
    ) as client:
        seen.append((client.protocol_version, client.server_info, client.server_capabilities, client.instructions))
        await script(client, seen)
    return seen


def run(parameters: mcp.StdioServerParameters, mode: str, script: Script) -> list[Any]:
    return asyncio.run(asyncio.wait_for(conversed(parameters, mode, script), PATIENCE))


def direct(server: Server) -> mcp.StdioServerParameters:
    command, *args = server.argv
    return mcp.StdioServerParameters(command=command, args=args, env=dict(server.env), cwd=server.cwd)


def shim(seats: Seated) -> mcp.StdioServerParameters:
    entry = seats.entries["server"]
    env = {pair["name"]: pair["value"] for pair in entry["env"]}
    return mcp.StdioServerParameters(command=entry["command"], args=entry["args"], env=env)


def both(server: Server, mode: str, script: Script) -> tuple[list[Any], list[Any]]:
    with seated(server=server) as seats:
        return run(direct(server), mode, script), run(shim(seats), mode, script)


async def everything(client: mcp.Client, seen: list[Any]) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    pages = (client.list_tools, client.list_resources, client.list_resource_templates, client.list_prompts)
    seen.extend([await page() for page in pages])
    seen.extend([await client.call_tool(tool, arguments) for tool, arguments in CALLED])
    seen.append(await client.call_tool("count", {"steps": 3}, progress_callback=progress))
    seen.append(told)
    seen.extend([await client.read_resource(uri) for uri in (URI, "test://blob", "test://note/x")])
    seen.append(await client.get_prompt("review", {"code": "x"}))
    reference = types.PromptReference(name="review")
    seen.append(await client.complete(reference, {"name": "language", "value": "p"}))
    with anyio.move_on_after(0.2) as late:
        await client.call_tool("wait", {})  # leaving cancels it
    seen.append(late.cancelled_caught)
    seen.append(await client.call_tool("add", {"a": 1, "b": 1}))


@pytest.mark.sample(0, 1)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_of_both_eras_is_met_with_a_handshake(mode: str, tmp_path: Path) -> None:
    """Our ping has made it choose the older one, and says so to a client that asks for the newer first."""
    with seated(server=sdk.server(tmp_path)) as seats:
        through = run(shim(seats), mode, everything)
    assert through == run(direct(sdk.server(tmp_path)), "legacy", everything)
    assert through[0][0] == "2025-11-25"


async def older(client: mcp.Client, seen: list[Any]) -> None:
    listing = await client.list_tools()
    seen.append(listing.tools)
    tools = ("get-tiny-image", "get-resource-links", "trigger-sampling-request")
    seen.extend([(await client.call_tool(tool, {"prompt": "x"})).content for tool in tools])


@needs_npm
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_of_the_older_era_is_met_in_that_one(mode: str, tmp_path: Path) -> None:
    plain, through = both(npm_server(EVERYTHING, cwd=tmp_path), mode, older)
    assert through == plain
    assert through[0][0] == "2025-11-25"
