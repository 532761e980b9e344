"""The client of PyPI `mcp` over the HTTP address of an agent: it gets what it gets from the stdio server itself."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client

from tests.patience import PATIENCE
from tests.realservers import sdk
from tests.realservers.npm import EVERYTHING
from tests.realservers.published import needs_npm
from tests.realservers.published import server as npm_server
from tests.realservers.seated import Seated, Server, seated
from tests.realservers.test_sdk_client import (
    Script,
    direct,
    elicited,
    everything,
    roots,
    run,
    sampled,
)


@asynccontextmanager
async def connected(where: Mapping[str, str], mode: str) -> AsyncIterator[mcp.Client]:
    headers = {"Authorization": f"Bearer {where['token']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        mcp.Client(
            streamable_http_client(where["url"], http_client=http),
            mode=mode,
            sampling_callback=sampled,
            elicitation_callback=elicited,
            list_roots_callback=roots,
            cache=None,
        ) as client,
    ):
        yield client


async def conversed(where: Mapping[str, str], mode: str, script: Script) -> list[Any]:
    seen: list[Any] = []
    async with asyncio.timeout(PATIENCE), connected(where, mode) as client:
        seen.append((client.protocol_version, client.server_info, client.server_capabilities, client.instructions))
        await script(client, seen)
    return seen


def over_http(seats: Seated, mode: str, script: Script) -> list[Any]:
    return asyncio.run(conversed(seats.front["server"], mode, script))


def both(server: Server, mode: str, script: Script) -> tuple[list[Any], list[Any]]:
    with seated(server=server) as seats:
        return run(direct(server), "legacy", script), over_http(seats, mode, script)


@pytest.mark.sample(0, 1)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools_progress_questions_and_cancels_are_those_of_the_server(mode: str, tmp_path: Path) -> None:
    """M-37, M-41, M-43. A client that asks for the newer era first falls back."""
    plain, through = both(sdk.server(tmp_path), mode, everything)
    assert through == plain
    assert through[0][0] == "2025-11-25"


def test_clients_are_served_at_once(tmp_path: Path) -> None:
    """M-39: four sessions, which use the same ids."""

    async def script(client: mcp.Client, seen: list[Any]) -> None:
        seen.extend([(await client.call_tool("add", {"a": n, "b": n})).structured_content for n in range(20)])

    async def together(where: Mapping[str, str]) -> list[list[Any]]:
        modes = ("auto", "legacy", "auto", "legacy")
        return await asyncio.gather(*(conversed(where, mode, script) for mode in modes))

    with seated(server=sdk.server(tmp_path)) as seats:
        found = asyncio.run(together(seats.front["server"]))
    assert [answers[1:] for answers in found] == [[{"result": 2 * n} for n in range(20)]] * 4


def test_a_server_killed_in_mid_call_answers_it_with_an_error_and_is_back_for_the_next(tmp_path: Path) -> None:
    """M-21, M-44: the session goes on, and so do the calls of another client."""

    async def killed(where: Mapping[str, str]) -> list[object]:
        async with asyncio.timeout(PATIENCE), connected(where, "auto") as client, connected(where, "legacy") as other:
            calls = [client.call_tool("die", {}), other.call_tool("add", {"a": 1, "b": 1})]
            ended, added = await asyncio.gather(*calls, return_exceptions=True)
            again = await client.call_tool("add", {"a": 2, "b": 2})
            assert isinstance(added, mcp.types.CallToolResult)
            return [str(ended), added.structured_content, again.structured_content]

    with seated(server=sdk.server(tmp_path)) as seats:
        ended, added, again = asyncio.run(killed(seats.front["server"]))
    assert 'MCP server "server" was killed by SIGKILL during tools/call' in str(ended)
    assert (added, again) == ({"result": 2}, {"result": 4})


@needs_npm
def test_a_server_on_the_typescript_sdk_is_reached_as_well(tmp_path: Path) -> None:
    async def script(client: mcp.Client, seen: list[Any]) -> None:
        seen.append(await client.list_tools())
        tools = ("get-tiny-image", "get-resource-links", "trigger-sampling-request")
        seen.extend([await client.call_tool(tool, {"prompt": "x"}) for tool in tools])

    plain, through = both(npm_server(EVERYTHING, cwd=tmp_path), "legacy", script)
    assert through == plain
