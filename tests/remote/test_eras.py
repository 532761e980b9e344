"""
Connections to servers of the newer era and of HTTP+SSE, and how a server's era is found out and remembered.

Statements are those of the acceptance list, such as M-31.
"""

import asyncio
from typing import Any

import pytest

from acp_launch.mcp.http.wire import RemoteMemory
from tests.looped import looped

from .children import Tempered, tempered
from .peer import Peer, connected, error, remote

LISTEN = {"notifications": {"toolsListChanged": True}}


def last_headers(server: Tempered) -> dict[str, str]:
    return dict(server.requests[-1]["headers"])


async def modern_tool(peer: Peer, name: str, **arguments: Any) -> dict[str, Any]:
    return await peer.answer(peer.ask_modern("tools/call", {"name": name, "arguments": arguments}))


@pytest.mark.parametrize("answers", ["json", "sse"])
@looped
async def test_a_modern_request_goes_out_alone_with_headers_that_repeat_its_body(answers: str) -> None:
    """M-31."""
    with tempered(era="modern", answers=answers) as server:
        async with connected(remote(server.url)) as peer:
            assert "result" in await peer.answer(peer.ask_modern("server/discover"))
            assert "result" in await peer.answer(peer.ask_modern("tools/list"))
            assert "result" in await modern_tool(peer, "echo", text="hi")
            sent = last_headers(server)
            assert sent["MCP-Protocol-Version"] == "2026-07-28"
            assert (sent["Mcp-Method"], sent["Mcp-Name"]) == ("tools/call", "echo")
            assert "Mcp-Session-Id" not in sent
            assert peer.remote.era == "modern"
            await peer.remote.stop(grace=2)
        assert set(server.methods()) == {"server/discover", "tools/list", "tools/call"}


@looped
async def test_the_end_of_the_stream_is_the_cancellation_of_a_modern_request() -> None:
    """M-40."""
    with tempered(era="modern") as server:
        async with connected(remote(server.url)) as peer:
            asked = peer.ask_modern("tools/call", {"name": "wait", "arguments": {}})
            await asyncio.to_thread(server.event, "waiting")
            peer.tell("notifications/cancelled", {"requestId": asked})
            await asyncio.to_thread(server.event, "cancelled")
            assert "result" in await modern_tool(peer, "echo", text="hi")
            assert peer.answers(asked) == []
        assert "notifications/cancelled" not in server.methods()


@looped
async def test_a_subscription_is_a_long_stream_and_its_break_fails_the_request() -> None:
    """M-15, M-27."""
    with tempered(era="modern") as server:
        async with connected(remote(server.url)) as peer:
            asked = peer.ask_modern("subscriptions/listen", LISTEN)
            await peer.until(lambda message: "acknowledged" in message.get("method", ""))
            server.do("push", message={"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            news = await peer.until(lambda message: "list_changed" in message.get("method", ""))
            assert news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == asked
            server.do("cut")
            assert "whose outcome is unknown" in error(await peer.answer(asked))
            assert peer.remote.end is None
        assert not [request for request in server.requests if "Last-Event-ID" in dict(request["headers"])]


@looped
async def test_an_error_of_the_newer_era_is_passed_on_as_it_is() -> None:
    """M-16."""
    with tempered(era="modern") as server:
        async with connected(remote(server.url)) as peer:
            answer = await peer.call("initialize", {"protocolVersion": "2025-11-25"})
            assert answer["error"]["code"] == -32022
            assert answer["error"]["data"] == {"supported": ["2026-07-28"]}
            answer = await peer.answer(peer.ask_modern("tools/none"))
            assert answer["error"]["code"] == -32601


@looped
async def test_a_modern_request_that_an_older_server_refuses_is_answered_so_that_the_era_can_change() -> None:
    """M-11: 400 without a body."""
    for status in (400, 404, 405):
        said = {"on": "server/discover", "do": "status", "status": status}
        with tempered(faults=[said]) as server:
            async with connected(remote(server.url)) as peer:
                answer = await peer.answer(peer.ask_modern("server/discover"))
                assert answer["error"]["code"] == -32601
                assert "result" in await peer.shake_hands()
                assert "result" in await peer.tool("echo", text="hi")


# HTTP+SSE.


@pytest.mark.parametrize("endpoint", ["/messages?session=", "messages/x?session=", "?s="])
@looped
async def test_messages_go_where_the_older_transport_says(endpoint: str) -> None:
    """M-32."""
    with tempered(era="sse", endpoint=endpoint) as server:
        given = {"Authorization": "Bearer abc"}
        async with connected(remote(server.url, type="sse", headers=given)) as peer:
            assert await peer.call("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}
            await peer.shake_hands("2024-11-05")
            assert "result" in await peer.tool("echo", text="hi")
        assert {dict(request["headers"])["Authorization"] for request in server.requests} == {"Bearer abc"}
        assert {request["verb"] for request in server.requests} == {"GET", "POST"}


@pytest.mark.parametrize("status", [None, 400, 404, 405])
@looped
async def test_a_server_of_the_older_transport_is_found_behind_type_http(status: int | None) -> None:
    """M-11: POST is refused, and GET gives the endpoint."""
    faults = [] if status is None else [{"on": "initialize", "do": "status", "status": status, "times": 1}]
    with tempered(era="sse", faults=faults) as server:
        program = remote(server.url)
        async with connected(program) as peer:
            assert "result" in await peer.shake_hands("2024-11-05")
            assert "result" in await peer.tool("echo", text="hi")
            assert peer.remote.era == "sse"
        before = len(server.requests)
        async with connected(program) as peer:
            assert "result" in await peer.call("ping")
        assert [request["verb"] for request in server.requests[before:]] == ["GET"]


@looped
async def test_an_event_stream_of_the_older_transport_that_ends_is_the_end() -> None:
    with tempered(era="sse") as server:
        async with connected(remote(server.url, type="sse")) as peer:
            await peer.shake_hands("2024-11-05")
            asked = peer.ask("tools/call", {"name": "wait", "arguments": {}})
            await asyncio.to_thread(server.event, "waiting")
            server.do("cut")
            end = await peer.ended()
            assert (end.how, end.follows) == ("closed the connection before its answer was complete", "judged")
            assert peer.unsent == []
            assert peer.answers(asked) == []


@looped
async def test_an_address_without_any_mcp_server_is_told_at_the_first_ping() -> None:
    with tempered(faults=[{"on": "*", "do": "status", "status": 404}]) as server:
        async with connected(remote(server.url)) as peer:
            peer.ask("ping")
            end = await peer.ended()
            assert (end.how, end.follows) == ("answered 404 Not Found", "never")
            assert server.methods() == ["server/discover", "initialize", "GET"]


# The era, remembered.


@looped
async def test_the_era_is_remembered_for_the_next_connection_and_corrected_when_it_has_changed() -> None:
    """M-12."""
    with tempered(era="sse") as server:
        program = remote(server.url)
        async with connected(program) as peer:
            assert "result" in await peer.call("ping")
        server.do("change", settings={"era": "legacy"})
        before = len(server.requests)
        async with connected(program) as peer:
            peer.ask("ping")
            assert (await peer.ended()).follows == "judged"
        assert server.methods()[before:] == ["GET"]
        async with connected(program) as peer:
            assert "result" in await peer.shake_hands()
            assert peer.remote.era == "legacy"
        before = len(server.requests)
        async with connected(program) as peer:
            assert "result" in await peer.call("ping")
        assert server.methods()[before:] == ["ping"]


@pytest.mark.parametrize(("pin", "asked"), [("legacy", "ping"), ("2025-06-18", "ping"), ("modern", "server/discover")])
@looped
async def test_a_pinned_era_is_asked_in_its_own_way(pin: str, asked: str) -> None:
    with tempered(era="dual") as server:
        async with connected(remote(server.url, protocol=pin, memory=RemoteMemory())) as peer:
            assert "result" in await peer.call("ping")
        assert server.methods() == [asked]
