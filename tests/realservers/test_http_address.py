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


@needs_npm
def test_a_server_on_the_typescript_sdk_is_reached_as_well(tmp_path: Path) -> None:
    async def script(client: mcp.Client, seen: list[Any]) -> None:
        seen.append(await client.list_tools())
        tools = ("get-tiny-image", "get-resource-links", "trigger-sampling-request")
        seen.extend([await client.call_tool(tool, {"prompt": "x"}) for tool in tools])

    plain, through = both(npm_server(EVERYTHING, cwd=tmp_path), "legacy", script)
    assert through == plain
