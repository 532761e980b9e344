"""Ring 2. Our HTTP server against clients and servers that say anything: no bug shows, and a good client is served."""

import asyncio
import json
import random
from typing import Any

import pytest

from tests.bridge.fronted import META, Behind, Json, Wire, fronted
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
