"""
Remote servers that fail: each failure is one sentence with what to do, each request gets one answer, no secret shows.
"""

import asyncio
import socket
from typing import Any

import pytest

from acp_launch.process.lifecycle import Ended
from tests.looped import looped

from .children import cutter, tempered
from .peer import Peer, connected, error, met, remote
from .peer import asked as asked_of

SECRET = "sekret-tok-123456"
GIVEN = {"Authorization": f"Bearer {SECRET}", "X-Env-KEY": SECRET}


def first(url: str, **settings: Any) -> tuple[Ended, Peer]:
    """How a connection ends whose handshake fails."""

    async def use() -> tuple[Ended, Peer]:
        async with connected(remote(url, headers=GIVEN, **settings)) as peer:
            end = await peer.rejected()
        assert SECRET not in f"{end} {peer.logged!r} {peer.heard}"
        return end, peer

    return asyncio.run(use())


def fault(**said: Any) -> dict[str, Any]:
    return {"faults": [{"on": "*", **said}]}


DURING = " during tools/call, whose outcome is unknown"


def test_a_server_that_turns_us_away_at_first_is_described() -> None:
    """M-33, M-44."""
    for said, how, follows in [
        (fault(do="status", status=401), "answered 401 Unauthorized", "never"),
        (fault(do="status", status=403), "answered 403 Forbidden", "never"),
        (fault(do="status", status=404), "answered 404 Not Found", "never"),
        (fault(do="status", status=405), "answered 405 Method Not Allowed", "never"),
        (fault(do="status", status=418, body="short and stout"), "answered 418 I'm a Teapot: short and stout", "never"),
        (fault(do="status", status=500), "answered 500 Internal Server Error", "judged"),
        (fault(do="status", status=502, body=f"no {SECRET} here"), "answered 502 Bad Gateway: no *** here", "judged"),
        (fault(do="html"), "answered 200 OK (text/html) and not with MCP", "never"),
        (fault(do="html", status=503), "answered 503 Service Unavailable", "judged"),
        (fault(do="garbage", text="SSH-2.0-x\r\n\r\n"), "does not speak HTTP: its answer cannot be read", "judged"),
        (fault(do="drop"), "closed the connection before its answer was complete", "judged"),
        (
            fault(do="bad json", text='{"status": "ok"}'),
            'answered 200 OK (application/json) and not with MCP: {"status": "ok"}',
            "never",
        ),
        (fault(do="zipped", broken=True), "sent an answer that cannot be decompressed", "judged"),
        (
            fault(do="redirect", to="https://user:pw@other.example/mcp?token=abc"),
            "redirects to https://other.example",
            "never",
        ),
    ]:
        with tempered(**said) as server:
            end, _ = first(server.url)
        assert (end.how, end.follows) == (how, follows)
        assert end.reason or follows == "judged"


def test_a_connection_that_is_refused_says_where() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plug:
        port = plug.getsockname()[1]
    end, _ = first(f"http://127.0.0.1:{port}/secret-path?token=abc")
    assert end == Ended(
        "could not be reached: connection refused",
        reason=f"check that it runs, and its `url` (http://127.0.0.1:{port})",
        jitter=0.25,
    )


def test_tls_towards_a_server_without_it_is_told() -> None:
    with tempered() as server:
        end, _ = first(server.url.replace("http:", "https:"), limits={"connect": 1.0})
    assert end.how.startswith(("does not speak TLS at this address", "could not be reached: no TLS connection within"))


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"do": "status", "status": 500, "body": "oops"}, "answered 500 Internal Server Error: oops" + DURING),
        (
            {"do": "status", "status": 429, "headers": {"Retry-After": "30"}},
            "answered 429 Too Many Requests; it may be asked again in 30 s",
        ),
        ({"do": "status", "status": 403}, "answered 403 Forbidden"),
        ({"do": "html"}, "answered 200 OK (text/html) and not with MCP" + DURING),
        ({"do": "status", "status": 202}, "answered 202 Accepted and not with MCP" + DURING),
        ({"do": "drop"}, "closed the connection before its answer was complete" + DURING),
        ({"do": "drop", "reset": True}, "lost the connection (connection reset by peer)" + DURING),
        ({"do": "endless body"}, "sent an answer of more than 1,000,000 bytes" + DURING),
        ({"do": "endless stream", "data": True}, "sent an answer of more than 1,000,000 bytes" + DURING),
        ({"do": "redirect", "to": "http://other.example/"}, "redirects to http://other.example"),
        ({"do": "zipped", "broken": True}, "sent an answer that cannot be decompressed" + DURING),
    ],
)  # fmt: skip
@looped
async def test_one_request_that_fails_later_fails_alone(said: dict[str, Any], text: str) -> None:
    with tempered(ids=False, faults=[{"on": "tools/call", "times": 1, **said}]) as server:
        async with connected(remote(server.url, headers=GIVEN, limits={"max_line": 1_000_000})) as peer:
            await peer.shake_hands()
            assert error(await peer.tool("echo", text="hi")) == f'MCP server "docs" {text}'
            assert "result" in await peer.tool("echo", text="hi")
            assert peer.remote.end is None


@looped
async def test_an_error_in_json_rpc_is_passed_on_under_the_id_of_its_request() -> None:
    for id in (True, False):
        async with met(faults=[{"on": "tools/call", "do": "rpc error", "no_id": id, "text": "bad input"}]) as (_, peer):
            answer = await peer.answer(peer.ask("tools/call", {"name": "echo"}, id="a\u00e4"))
            assert answer["id"] == "aä"
            assert answer["error"]["message"] == "bad input"


@looped
async def test_a_redirect_within_the_origin_keeps_method_and_body() -> None:
    """M-33."""
    with tempered(faults=[{"on": "*", "do": "redirect", "to": "/other", "status": 302, "times": 1}]) as server:
        async with connected(remote(server.url)) as peer:
            await peer.shake_hands()
            assert "result" in await peer.tool("echo", text="hi")
        assert [request["path"] for request in server.requests[:2]] == ["/mcp", "/other"]


@pytest.mark.whole
@looped
async def test_a_silent_server_that_shows_no_sign_of_life_ends_the_connection() -> None:
    """A half-open connection: nothing comes, and nothing ends."""
    with tempered(get=405) as server, cutter(server.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/mcp"
        async with connected(remote(url, limits={"silence": 0.1, "health_check": 3.0})) as peer:
            await peer.shake_hands()
            await peer.tool("echo", text="hi")
            proxy.do("hold")
            peer.ask("tools/call", {"name": "wait", "arguments": {}})
            end = await peer.ended()
            assert (end.how, end.follows) == ("did not answer within 3 s", "judged")
            proxy.do("flow")


@looped
async def test_a_server_that_dies_is_noticed_while_nothing_is_asked() -> None:
    async with met(retry=1) as (server, peer):
        await peer.tool("echo", text="hi")
        server.kill()
        end = await peer.ended()
        assert end.how == "could not be reached: connection refused"
        server.again()


@looped
async def test_a_connection_that_is_refused_leaves_a_call_that_is_being_answered_alone() -> None:
    with tempered(get=405) as server, cutter(server.port) as proxy:
        async with connected(remote(f"http://127.0.0.1:{proxy.port}/mcp")) as peer:
            await peer.shake_hands()
            long = peer.ask("tools/call", {"name": "wait", "arguments": {}})
            await asked_of(server, "tools/call")
            proxy.do("refuse")
            calls = [peer.ask("tools/call", {"name": "echo", "arguments": {"text": "x"}}) for _ in range(8)]
            await peer.answer(calls[0])  # some go out on connections that were idle
            proxy.do("accept")
            answers = [await peer.answer(call) for call in calls]
            assert all("result" in each for each in answers), "they wait for a connection"
            server.do("release")
            assert "result" in await peer.answer(long)


def test_nothing_of_a_remote_server_shows_its_secrets() -> None:
    program = remote("https://docs.example.com/mcp?key=abc", headers=GIVEN)
    assert repr(program) == "RemoteProgram('docs')"
