"""The demo agent's MCP servers over HTTP: both transports, what is sent, and what is said when one does not answer."""

import socket
from pathlib import Path

import pytest

from tests.demo.client import Client, Message
from tests.demo.conftest import Start
from tests.demo.web import SESSION, serving


def entry(url: str, type: str = "http", **headers: str) -> Message:
    pairs = [{"name": name.replace("_", "-"), "value": value} for name, value in headers.items()]
    return {"type": type, "name": "web", "url": url, "headers": pairs}


@pytest.mark.parametrize("way", ["json", "stream", "sse"])
def test_a_tool_of_a_remote_server_is_called_with_its_headers(agent: Client, tmp_path: Path, way: str) -> None:
    with serving(way) as web:
        session = agent.open(tmp_path, entry(web.url, "sse" if way == "sse" else "http", X_Token="secret"))
        agent.prompt(session, "tools")
        assert "**web**: connected, 2 tools" in agent.said()
        agent.prompt(session, "call web headers")
        assert agent.said().endswith("token secret")


def test_it_keeps_to_the_session_and_the_version_and_says_goodbye(agent: Client, tmp_path: Path) -> None:
    with serving() as web:
        session = agent.open(tmp_path, entry(web.url, X_Token="secret"))
        agent.prompt(session, "tools")
        first, later = web.heard("initialize"), web.heard("notifications/initialized")
        assert "Mcp-Session-Id" not in first
        assert (later["Mcp-Session-Id"], later["MCP-Protocol-Version"]) == (SESSION, "2025-06-18")
        assert "text/event-stream" in first["Accept"]
        assert agent.finish() == 0
        assert web.heard("DELETE")["Mcp-Session-Id"] == SESSION


@pytest.mark.parametrize("way", ["json", "sse"])
def test_a_call_that_is_cancelled_is_withdrawn(agent: Client, tmp_path: Path, way: str) -> None:
    with serving(way) as web:
        session = agent.open(tmp_path, entry(web.url, "sse" if way == "sse" else "http"))
        agent.prompt(session, "tools")
        request = agent.begin_prompt(session, "call web forever")
        web.heard("tools/call")
        agent.notify("session/cancel", {"sessionId": session})
        assert agent.answer_to(request)["result"]["stopReason"] == "cancelled"
        web.heard("notifications/cancelled")


@pytest.mark.parametrize("type", ["http", "sse"])
def test_what_is_wrong_with_a_remote_server_is_said(start: Start, tmp_path: Path, type: str) -> None:
    with serving(status=401) as refusing, serving() as other, socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{dead.getsockname()[1]}/mcp"
        for url, headers, said in (
            (refusing.url, {}, "it answered 401 Unauthorized"),
            (gone, {}, "Connection refused"),
            ("http://[127/mcp", {}, "its url is not valid, or one of its headers cannot be sent"),
            (other.url, {"A": "hunter2\n\nB"}, "its url is not valid, or one of its headers cannot be sent"),
        ):
            with start() as agent:
                agent.prompt(agent.open(tmp_path, entry(url, type, **headers)), "tools")
                assert "**web**: not connected: " in agent.said()
                assert said in agent.said()
                assert "hunter2" not in agent.said()


@pytest.mark.parametrize("endpoint", ["https://elsewhere.example/messages", "//elsewhere.example/messages"])
def test_messages_go_to_no_other_host_than_the_stream_came_from(agent: Client, tmp_path: Path, endpoint: str) -> None:
    """They carry the headers, which may be credentials."""
    with serving("sse") as web:
        web.endpoint = endpoint
        agent.prompt(agent.open(tmp_path, entry(web.url, "sse", X_Token="secret")), "tools")
        assert "not connected: it does not name an address for messages on its own host" in agent.said()
