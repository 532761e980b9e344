"""
Connections to servers of the older era: sessions, both kinds of answers, the event stream, resumption, the end.

Statements are those of the acceptance list, such as M-24.
"""

from typing import Any

import pytest

from acp_launch.mcp.http.connection import RemoteConnection
from acp_launch.protocol.jsonrpc import Envelope
from tests.looped import looped

from .children import Tempered, tempered
from .peer import asked as asked_of
from .peer import connected, met, remote


def headers_of(server: Tempered, method: str) -> dict[str, str]:
    for request in server.requests:
        asked = request["message"].get("method", "response") if request["message"] else request["verb"]
        if asked == method:
            return {name.lower(): value for name, value in request["headers"]}
    raise AssertionError(f"no {method}")


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
@looped
async def test_every_request_has_the_headers_of_its_era_and_the_handshake_has_no_session(version: str) -> None:
    """M-8, M-24, M-46."""
    with tempered() as server:
        given = {"Authorization": "Bearer abc", "X-Env-API_KEY": "key"}
        async with connected(remote(server.url, headers=given)) as peer:
            answer = await peer.shake_hands(version)
            assert answer["result"]["protocolVersion"] == version
            await peer.tool("echo", text="hi")
            await peer.remote.stop(grace=2)
        first, then = headers_of(server, "initialize"), headers_of(server, "tools/call")
        assert first["accept"] == then["accept"] == "application/json, text/event-stream"
        assert "mcp-session-id" not in first
        assert "mcp-protocol-version" not in first
        assert then["mcp-protocol-version"] == version
        assert then["mcp-session-id"]
        raw = [dict(request["headers"]) for request in server.requests]
        assert all(each["X-Env-API_KEY"] == "key" and each["Authorization"] == "Bearer abc" for each in raw)


@pytest.mark.parametrize("answers", ["json", "sse"])
@pytest.mark.parametrize("odd", [{}, {"line_end": "\r", "piece": 1}, {"bom": True, "comments": True}])
@looped
async def test_json_and_event_streams_are_read_however_they_are_written(answers: str, odd: dict[str, Any]) -> None:
    """M-25: line ends, comments, data on several lines, a byte order mark, borders within a character."""
    async with met(answers=answers, multi_line=bool(odd), **odd) as (_, peer):
        answer = await peer.tool("echo", text="größe \u2028 😀 \\n")
        assert answer["result"]["content"][0]["text"] == "größe \u2028 😀 \\n"


@looped
async def test_the_event_stream_brings_notifications_and_is_opened_again_when_it_ends() -> None:
    """M-26, M-30."""
    async with met(retry=1) as (server, peer):
        await peer.tool("echo", text="hi")
        server.do("push", message={"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await peer.until(lambda message: message.get("method") == "notifications/tools/list_changed")
        server.do("end streams")
        server.do("push", message={"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
        await peer.until(lambda message: message.get("method") == "notifications/prompts/list_changed")
        assert [message["method"] for message in peer.heard if "method" in message] == [
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
        ]


@pytest.mark.parametrize("do", ["hang up", "drop"])
@looped
async def test_a_stream_with_event_ids_is_resumed_after_the_pause_it_asks_for(do: str) -> None:
    """M-27."""
    fault = {"on": "tools/call", "do": do, "times": 1, **({"after": 180} if do == "drop" else {})}
    async with met(retry=10, faults=[fault]) as (server, peer):
        answer = await peer.tool("echo", text="hi")
        assert answer["result"]["content"][0]["text"] == "hi"
        resumed = [
            dict(request["headers"]) for request in server.requests
            if "Last-Event-ID" in dict(request["headers"])
        ]  # fmt: skip
        assert len(resumed) == 1
        assert server.state["calls"] == 1


@pytest.mark.parametrize("sessions", [True, False])
@pytest.mark.parametrize("status", [200, 405])
@looped
async def test_the_end_of_a_session_is_told_to_the_server(sessions: bool, status: int) -> None:
    """M-29."""
    with tempered(sessions=sessions, delete=status) as server:
        async with connected(remote(server.url)) as peer:
            await peer.shake_hands()
            await peer.remote.stop(grace=2)
            assert peer.remote.end is not None
            assert peer.remote.end.is_clean
        assert server.methods().count("DELETE") == int(sessions)


@looped
async def test_a_cancelled_request_is_cancelled_by_a_message_and_gets_no_error() -> None:
    """M-40."""
    async with met() as (server, peer):
        asked = peer.ask("tools/call", {"name": "wait", "arguments": {}})
        peer.tell("notifications/cancelled", {"requestId": asked, "reason": "enough"})
        await peer.tool("echo", text="hi")
        await asked_of(server, "notifications/cancelled")
        assert peer.answers(asked) == []


@pytest.mark.whole
@looped
async def test_a_result_of_ten_megabytes_comes_through_a_slow_reader() -> None:
    """M-4."""
    for answers in ("json", "sse"):
        async with met(answers=answers) as (_, peer):
            answer = await peer.tool("big", size=10_000_000)
            assert len(answer["result"]["content"][0]["text"]) == 10_000_000


@looped
async def test_a_ping_before_the_handshake_is_answered_once_the_server_lives() -> None:
    """M-42; the question is one of the newer era, so that its answer tells the era."""
    for era, found in (("legacy", "legacy"), ("dual", "modern"), ("modern", "modern"), ("sse", "sse")):
        with tempered(era=era) as server:
            async with connected(remote(server.url)) as peer:
                assert await peer.call("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}
                assert peer.remote.era == found, era


@looped
async def test_what_is_sent_while_a_message_is_given_on_waits_for_the_step_that_gave_it() -> None:
    """The connection is never entered twice, also by a user who answers at once."""
    entered: list[str] = []

    def watch(connection: RemoteConnection, name: str) -> None:
        step = getattr(connection, name)

        def watched(*arguments: Any) -> None:
            assert not entered
            entered.append(name)
            step(*arguments)
            entered.clear()

        setattr(connection, name, watched)

    with tempered() as server:
        async with connected(remote(server.url)) as peer:
            await peer.shake_hands()
            watch(peer.remote._connection, "send")
            watch(peer.remote._connection, "receive_chunk")

            def answer(line: bytes, message: Envelope | None) -> None:
                peer._hear(line, message)
                if peer.heard[-1].get("method") == "roots/list":
                    peer.write({"id": peer.heard[-1]["id"], "result": {"roots": []}})

            peer.remote.listen(answer)
            asked = peer.ask("tools/call", {"name": "ask", "arguments": {"method": "roots/list"}})
            assert "result" in await peer.answer(asked)
        assert peer.logged == b""
