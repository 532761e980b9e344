"""The servers and the proxy that the tests of remote servers rely on, seen by the SDK's client and by plain HTTP."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp_types import ElicitRequestParams, ElicitResult

from tests.remote.children import Json, Tempered, cutter, tempered

HEADERS = {"Accept": "application/json, text/event-stream"}
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def spoken(result: Any) -> str:
    return str(result.content[0].text)


def post(url: str, method: str, **headers: str) -> httpx2.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"protocolVersion": "2025-11-25"}}
    return httpx2.post(url, json=message, headers=HEADERS | headers)


async def agreed(context: object, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


def wire(**keys: Any) -> Json:
    return keys


@pytest.mark.parametrize(
    "settings",
    [
        wire(),
        wire(answers="json"),
        wire(sessions=False),
        wire(get=405, delete=405),
        wire(line_end="\r\n", comments=True),
        wire(line_end="\r", multi_line=True),
        wire(bom=True, piece=1),
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


def test_a_stream_that_hangs_up_is_resumed_by_the_published_client() -> None:
    async def talk(server: Tempered) -> None:
        async with Client(server.url, mode="legacy") as client:
            assert spoken(await client.call_tool("add", {"a": 1, "b": 2})) == "3"

    with tempered(retry=10, faults=[{"on": "tools/call", "do": "hang up"}]) as server:
        asyncio.run(talk(server))
        resumed = [dict(each["headers"]) for each in server.requests if each["verb"] == "GET"]
        assert "s" in resumed[-1]["last-event-id"]


@pytest.mark.parametrize("after", [0, 1, 40, 200])
def test_an_answer_can_be_cut_after_any_byte(after: int) -> None:
    with tempered(faults=[{"on": "initialize", "do": "drop", "after": after, "times": 1}]) as server:
        with pytest.raises(httpx2.RemoteProtocolError):
            post(server.url, "initialize")
        assert server.event("cut")
        assert post(server.url, "initialize").status_code == 200


def test_faults_are_counted_and_changed_while_it_runs() -> None:
    busy = {"do": "status", "status": 503, "headers": {"Retry-After": "1"}, "skip": 1, "times": 1}
    with tempered(sessions=False, faults=[busy]) as server:
        assert [post(server.url, "ping").status_code for _ in range(3)] == [200, 503, 200]
        server.do("change", faults=[{"do": "html"}])
        assert post(server.url, "ping").headers["content-type"].startswith("text/html")
        assert server.methods() == ["ping"] * 4


def test_sessions_can_be_forgotten_and_the_server_can_come_back_on_its_port() -> None:
    with tempered() as server:
        session = {"Mcp-Session-Id": post(server.url, "initialize").headers["mcp-session-id"]}
        assert post(server.url, "ping", **session).status_code == 200
        server.do("forget")
        assert post(server.url, "ping", **session).status_code == 404
        assert post(server.url, "ping").status_code == 400
        server.kill()
        with pytest.raises(httpx2.ConnectError):
            post(server.url, "ping")
        server.again(sessions=False)
        assert post(server.url, "ping").status_code == 200


def test_the_proxy_cuts_a_connection_at_a_byte_and_holds_all_of_them() -> None:
    with tempered(sessions=False, answers="json") as server, cutter(server.port) as proxy:
        assert post(proxy.url, "ping").status_code == 200
        whole = proxy.do("passed")["down"]
        proxy.do("change", settings={"cut": [whole + whole // 2]})
        with pytest.raises(httpx2.RemoteProtocolError):
            post(proxy.url, "ping")
        assert proxy.event("cut")["at"] == whole + whole // 2
        proxy.do("hold")
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(proxy.url, json={}, timeout=0.1)
        proxy.do("flow")
        assert json.loads(post(proxy.url, "ping").text)["result"] == {}
