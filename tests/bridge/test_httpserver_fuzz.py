"""Ring 2. Our HTTP server against clients and servers that say anything: no bug shows, and a good client is served."""

import asyncio
import itertools
import json
import random
from typing import Any

import pytest

from tests.bridge.fronted import KEY, META, Behind, Json, Wire, fronted
from tests.looped import looped

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
SAID: list[Json] = [
    {"method": "notifications/message", "params": {}},
    {"id": "q", "method": "roots/list"},
    {"id": 99, "result": 1},
    {"id": None, "error": 3},
    {"method": "notifications/progress", "params": [1]},
    {"method": "x", "params": {"_meta": {SUBSCRIPTION: [1]}}},
]
RESULTS: list[object] = [1, None, [], {}, {"tools": 3}, {"tools": [{"name": "a", "inputSchema": {"properties": 3}}]}]
METHODS = ["tools/call", "tools/list", "server/discover", "subscriptions/listen", "ping", 3]


class Liar:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def server(self, server: Behind, message: Json) -> None:
        if "id" in message and "method" in message:
            for said in self.dice.sample(SAID, self.dice.randrange(3)):
                server.say(**said)
            server.say(id=message["id"], result=self.dice.choice(RESULTS))

    def request(self, wire: Wire, session: str) -> bytes:
        """A request that may be good in every part; some have wrong bytes, or end too soon."""
        choose = self.dice.choice
        token = choose([1, "a", None, [1]])
        meta = choose([META, {}, 3, {**META, "progressToken": token}])
        arguments = choose([{}, {"x": 1}, {"x": None}, [], "x"])
        params: object = choose([{"name": "a", "arguments": arguments, "_meta": meta}, [], None, 3])
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": choose([1, "a", None, 1.5, [1], {}]), "params": params}
        raw = wire.request(
            choose(["POST"] * 5 + ["GET"] * 3 + ["DELETE"]),
            json.dumps({**message, "method": choose(METHODS)}).encode(),
            mcp_protocol_version=choose([None, "2025-11-25", "2026-07-28", "x"]),
            mcp_method=choose([None, "tools/call", "tools/list"]),
            mcp_name=choose([None, "a"]),
            mcp_session_id=choose([None, session, session, "x"]),
            last_event_id=choose([None, "1-1", "0-0", "0-99999", "5-"]),
            mcp_param_x=choose([None, "1"]),
        )
        if self.dice.random() < 0.3:
            at = self.dice.randrange(len(raw))
            raw = raw[:at] + bytes([self.dice.randrange(256)]) + raw[at + 1 :]
        return raw[: self.dice.randrange(len(raw))] if self.dice.random() < 0.1 else raw


@pytest.mark.parametrize("seed", range(8))
@looped
async def test_whatever_is_said_no_bug_shows_and_the_next_client_is_served(seed: int) -> None:
    """M-44."""
    liar = Liar(random.Random(seed))
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
    async with fronted(liar.server) as found:
        session = await found.session()
        for _ in range(60):
            wire = await found.connect()
            for _ in range(liar.dice.randrange(1, 4)):
                wire.send(liar.request(wire, session))
            await wire.writer.drain()
            if liar.dice.random() < 0.8:
                wire.close()
        await found.session()
        assert [note for note in found.notes if "bug" in note] == []
    assert unhandled == []


METHODS_OF_HTTP = (
    "HEAD",
    "GET",
    "POST",
    "DELETE",
    "PUT",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PROPFIND",
    "head",
    "M-SEARCH",
)
FRAMES = {
    "no body": ("", ""),
    "a body": ("Content-Length: 5\r\n", "12345"),
    "a part of it": ("Content-Length: 5\r\n", "12"),
    "chunks": ("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"),
    "bad chunks": ("Transfer-Encoding: chunked\r\n", "x\r\n"),
    "an upgrade": ("Connection: upgrade\r\nUpgrade: h2c\r\n", ""),
    "an expectation": ("Expect: 100-continue\r\nContent-Length: 2\r\n", "{}"),
    "a second request": ("", "HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.0\r\n\r\n"),
}


@pytest.mark.parametrize("method", METHODS_OF_HTTP)
@looped
async def test_each_method_with_each_body_is_answered_and_no_bug_shows(method: str) -> None:
    """The answer is short and says no, with and without the token: none of these requests is a good one."""
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
    async with fronted() as found:
        token = f"Host: 127.0.0.1:{found.http.port}\r\nAuthorization: Bearer {KEY.token}\r\n"
        kinds = itertools.product(FRAMES.items(), ("1.1", "1.0"), ((KEY.path, token), ("/", "Host: x\r\n")))
        for (frame, (headers, body)), version, (path, admitted) in kinds:
            wire = await found.connect()
            wire.send(f"{method} {path} HTTP/{version}\r\n{admitted}{headers}\r\n{body}".encode())
            wire.writer.write_eof()
            said = await wire.ended()
            assert said.startswith(b"HTTP/1.1 4") or (frame != "no body" and not said), said  # it may be reset
            assert len(said) < 1000
            if method == "HEAD":
                assert said.partition(b"\r\n\r\n")[2] == b""
        await found.session()
    assert [note for note in found.notes if "bug" in note] == []
    assert unhandled == []
