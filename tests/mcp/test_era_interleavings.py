"""Whatever order things happen in, each request of either side has exactly one answer."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.mcp.message import ProtocolInfo
from tests import rawjson
from tests.bridge.talker import answer, ask, tell
from tests.mcp.eras import (
    DISCOVERED,
    INITIALIZE,
    INITIALIZED,
    OFFERS,
    Eras,
    Json,
    refuse,
    upgraded,
)

pytestmark = pytest.mark.whole

CHOICE = st.integers(0, 5)
WHATS = ["ask", "ask", "answer", "answer", "reply", "cancel"]
STEPS = st.lists(st.tuples(st.sampled_from(WHATS), CHOICE))


class Play:
    """An agent and a server that do in turn what the steps say; both remember what they owe and what they await."""

    def __init__(self, eras: Eras) -> None:
        self.eras = eras
        self.numbers = 0
        self.sent: set[str] = set()  # requests of the agent
        self.cancelled: set[str] = set()
        self.answered: Counter[str] = Counter()  # by id, at the agent
        self.owed: list[Json] = []  # requests of the adapter at the agent
        self.open: list[Json] = []  # requests at the server

    def collect(self) -> None:
        for message in self.eras.at_agent():
            self.at_agent(message)
        for message in self.eras.at_server():
            self.at_server(message)

    def at_agent(self, message: Json) -> None:
        if "method" not in message:
            self.answered[json.dumps(message["id"])] += 1
        elif "id" in message:
            self.owed.append(message)
        elif message["method"] == "notifications/cancelled":
            self.owed = [one for one in self.owed if one["id"] != message["params"]["requestId"]]

    def at_server(self, message: Json) -> None:
        assert "method" in message
        if "id" in message:
            assert all(one["id"] != message["id"] for one in self.open), "an id is used twice"
            self.open.append(message)
        elif message["method"] == "notifications/cancelled":
            self.open = [one for one in self.open if one["id"] != message["params"]["requestId"]]

    def ask(self, method: str, **params: Any) -> None:
        self.numbers += 1
        id = f"a{self.numbers}"
        self.sent.add(json.dumps(id))
        self.eras.says(ask(id, method, **params))
        self.collect()

    def answer(self, number: int, *, plainly: bool = False) -> None:
        """The server answers one of its requests."""
        if not self.open:
            return
        asked = self.open.pop(number % len(self.open))
        if asked["method"] == "server/discover":
            said = answer(asked["id"], DISCOVERED | {"capabilities": OFFERS})
        elif number == 1 and not plainly:
            said = refuse(asked["id"], -32603)
        elif number == 2 and not plainly and asked["method"] in ("tools/call", "resources/read"):
            wanted = {"q": {"method": "roots/list"}, "r": {"method": "sampling/createMessage", "params": {}}}
            said = answer(asked["id"], {"resultType": "input_required", "inputRequests": wanted, "requestState": "s"})
        else:
            said = answer(asked["id"], {"resultType": "complete"})
        self.eras.hears(said)
        self.collect()

    def step(self, what: str, number: int) -> None:
        if what == "ask":
            self.ask(
                ["tools/call", "tools/list", "resources/read", "ping", "x/y", "tools/call"][number],
                uri="u",
                level="info",
            )
        elif what == "answer":
            self.answer(number)
        elif what == "reply" and self.owed:
            owed = self.owed.pop(number % len(self.owed))
            self.eras.says(refuse(owed["id"], -1) if number == 1 else answer(owed["id"], {}))
        elif what == "cancel" and self.sent:
            id = sorted(self.sent)[number % len(self.sent)]
            self.cancelled.add(id)
            self.eras.says(tell("notifications/cancelled", requestId=json.loads(id)))
        self.collect()

    def settle(self) -> None:
        """Both sides answer everything that they still owe."""
        for _ in range(300):
            if self.owed:
                self.step("reply", 0)
            elif self.open:
                self.answer(0, plainly=True)
        missing = self.sent - self.answered.keys() - self.cancelled
        assert not missing
        assert not [id for id, count in self.answered.items() if count > 1 and id not in self.cancelled]


@given(STEPS, st.booleans())
def test_an_agent_with_a_handshake_on_a_stateless_server(steps: list[tuple[str, int]], is_known: bool) -> None:
    eras = Eras(ProtocolInfo("modern")).says(INITIALIZE) if is_known else Eras().refuses(refuse("i", -32601))
    play = Play(eras)
    play.collect()
    play.answer(0, plainly=True)
    eras.says(INITIALIZED)
    for what, number in steps:
        play.step(what, number)
    play.settle()


LINES = rawjson.messages(
    ["initialize", "ping", "tools/call", "server/discover", "subscriptions/listen", "notifications/cancelled", "x"],
    *(
        b'{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}',
        b'{"_meta":5,"uri":"u","requestId":1}',
        b'{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"\\ud83d"}',
        b'{"supportedVersions":["2026-07-28"],"capabilities":[]}',
        b'{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}',
        rawjson.DEEP,
    ),
)


@given(
    st.lists(st.tuples(st.sampled_from(["agent", "server"]), LINES), min_size=3, max_size=25),
    st.booleans(),
)
def test_no_line_breaks_us(lines: list[tuple[str, bytes]], is_open: bool) -> None:
    eras = upgraded() if is_open else Eras(ProtocolInfo("modern"))
    for side, said in lines:
        eras.says(said) if side == "agent" else eras.hears(said)
    assert not [said for said in (*eras.agent, *eras.server) if b"\n" in said]
