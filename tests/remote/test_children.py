"""The servers that the tests of remote servers rely on, seen by the SDK's client."""

import asyncio
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp_types import ElicitRequestParams, ElicitResult

from tests.remote.children import Json, Tempered, tempered


def spoken(result: Any) -> str:
    return str(result.content[0].text)


async def agreed(context: object, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


def wire(**keys: Any) -> Json:
    return keys


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "settings",
    [
        wire(),
        wire(answers="json"),
        wire(sessions=False),
        wire(get=405, delete=405),
        wire(line_end="\r", multi_line=True),
        wire(era="modern"),
        wire(era="modern", answers="json"),
        wire(era="dual"),
    ],
    ids=str,
)
def test_a_polite_server_of_each_era_is_one_to_the_published_client(settings: Json) -> None:
    async def talk(server: Tempered) -> None:
        async with Client(server.url, elicitation_callback=agreed) as client:
            assert spoken(await client.call_tool("echo", {"text": "mäh \u2028\U0001f600"})) == "mäh \u2028\U0001f600"
            # The published client reads a CR that ends a chunk only when the next one comes: it would never answer.
            if settings.get("answers") != "json" and settings.get("line_end") != "\r":
                steps = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
                asked = await client.call_tool("ask", {"method": "elicitation/create", "params": steps})
                assert "Ada" in spoken(asked)

    with tempered(**settings) as server:
        asyncio.run(talk(server))
        assert server.state["known"] == (1 if settings.get("delete") == 405 else 0)


def test_the_older_transport_is_one_to_the_published_client() -> None:
    async def talk(server: Tempered) -> None:
        async with Client(sse_client(server.url)) as client:
            assert spoken(await client.call_tool("add", {"a": 1, "b": 2})) == "3"

    with tempered(era="sse") as server:
        asyncio.run(talk(server))
