"""The client of PyPI `mcp` over the HTTP address of an agent: it gets what it gets from the stdio server itself."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from tests.patience import PATIENCE
from tests.realservers import sdk
from tests.realservers.npm import EVERYTHING
from tests.realservers.published import needs_npm
from tests.realservers.published import server as npm_server
from tests.realservers.seated import Server, seated
from tests.realservers.test_sdk_client import (
    Script,
    conversed,
    direct,
    everything,
    older,
    run,
)


def both(server: Server, mode: str, script: Script) -> tuple[list[Any], list[Any]]:
    async def over_http(where: Mapping[str, str]) -> list[Any]:
        headers = {"Authorization": f"Bearer {where['token']}"}
        async with asyncio.timeout(PATIENCE), httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            return await conversed(streamable_http_client(where["url"], http_client=http), mode, script)

    with seated(server=server) as seats:
        return run(direct(server), "legacy", script), asyncio.run(over_http(seats.front["server"]))


@pytest.mark.sample(0, 1)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools_progress_questions_and_cancels_are_those_of_the_server(mode: str, tmp_path: Path) -> None:
    """M-37, M-41, M-43. A client that asks for the newer era first falls back."""
    plain, through = both(sdk.server(tmp_path), mode, everything)
    assert through == plain
    assert through[0][0] == "2025-11-25"


@needs_npm
def test_a_server_on_the_typescript_sdk_is_reached_as_well(tmp_path: Path) -> None:
    plain, through = both(npm_server(EVERYTHING, cwd=tmp_path), "legacy", older)
    assert through == plain
