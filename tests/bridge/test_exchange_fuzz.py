"""Whatever both ends say, in whatever order the server dies: nothing breaks us, every call has exactly one answer."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_launch.profile.model import Tools
from acp_launch.protocol.jsonrpc import LineFramer
from tests import rawjson
from tests.bridge.talker import ANEW, DEAD, HELLO, INITIALIZE, KILLED, Talker, answer, ask, line

pytestmark = pytest.mark.whole

SPICE = st.sampled_from(
    [b"[", b"]", b"{", b"}", b'"id":', b'"method":"', b'"result":', b"null", b"1e9", b'"\\ud800"', b",", b"\xff", b'"']
)
JUNK = st.one_of(st.binary(max_size=60), st.lists(SPICE, max_size=20).map(b"".join), st.just(b"[" * 5000))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
IDS = st.one_of(st.integers(-2, 6), st.sampled_from(["a", "é", "1", "acp-launch:1", "acp-launch:2"]), st.none())
METHODS = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "roots/list", "logging/setLevel", "resources/subscribe", "x"]
)
NOTICES = st.sampled_from(
    ["notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/x"]
)
PARAMS = st.one_of(JSON, st.fixed_dictionaries({"requestId": IDS, "progressToken": IDS, "uri": st.text(max_size=3)}))
MESSAGES = st.one_of(
    st.builds(lambda id, method, params: {"id": id, "method": method, "params": params}, IDS, METHODS, PARAMS),
    st.builds(lambda method, params: {"method": method, "params": params}, NOTICES, PARAMS),
    st.builds(lambda id, result: {"id": id, "result": result}, IDS, JSON),
    st.builds(lambda id, error: {"id": id, "error": error}, IDS, JSON),
    JSON,
).map(line)
WORDS = (
    *(b'{"requestId":"\\ud83d"}', b'{"requestId":' + rawjson.DEEP + b"}", b'{"progressToken":"\\ud83d"}'),
    *(b'{"_meta":{"progressToken":"\\ud83d"}}', b'{"uri":"\\ud83d"}', b'{"cursor":"\\ud83d"}', b'{"capabilities":5}'),
    *(b'{"code":-32022,"message":"\\ud83d"}', b'{"tools":[{"name":"\\ud83d"},5,{"n":99999999999999999999}]}'),
)
RAW = rawjson.messages(
    ["initialize", "ping", "tools/list", "tools/call", "roots/list", "resources/subscribe", "notifications/cancelled"],
    *WORDS,
)
BATCHES = st.lists(MESSAGES, max_size=4)
LINES = st.one_of(JUNK, MESSAGES, BATCHES.map(lambda parts: b"[" + b",".join(parts) + b"]"))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("agent"), LINES),
        st.tuples(st.just("server"), LINES),
        st.tuples(st.sampled_from(["attach", "lose", "end", "renew", "tick"]), st.none()),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from([Tools(), Tools(deny=("d*",))]))
def test_nothing_that_is_said_breaks_us(steps: list[tuple[str, Any]], tools: Tools) -> None:
    talker = Talker(call=5, tools=tools)
    play(talker, steps)
    assert not [event for event in talker.events if "a bug in acp-launch" in event]
    for heard in (*talker.agent_heard, *talker.server_heard):
        assert b"\n" not in heard


ORDINARY = st.one_of(
    st.tuples(st.just("agent"), IDS.map(lambda id: line(ask(id, "tools/call")))),
    st.tuples(st.just("server"), IDS.map(lambda id: line(answer(id, "done")))),
)
MIXED = st.lists(st.one_of(ORDINARY, ORDINARY, STEPS.filter(bool).map(lambda steps: steps[0])), max_size=40)


TWICE = [  # a second handshake, and an answer to a call before it
    ("agent", line(ask(None, "tools/call"))),
    ("agent", b'{"id":0,"method":"initialize"}'),
    ("server", line(answer(None, "done"))),
    ("agent", line(ask(0, "tools/call"))),
]


@example(TWICE, True)
@given(MIXED, st.booleans())
def test_what_passes_quickly_is_what_passes(steps: list[tuple[str, Any]], is_introduced: bool) -> None:
    """The quick way of an ordinary call gives the same as the full one, whatever else is said before and after it."""
    talkers = [Talker(is_quick=is_quick) for is_quick in (False, True)]
    for talker in talkers:
        if is_introduced:
            talker.introduced()
            talker.agent(ask("list", "tools/list"))
            talker.server(answer("list", {"tools": []}))
        play(talker, steps)
        lose(talker, "end")
    full, quick = ((each.agent_heard, each.server_heard, each.events) for each in talkers)
    assert quick == full


RAWS = st.one_of(RAW, RAW, st.lists(RAW, min_size=2, max_size=2).map(lambda parts: b"[" + b",".join(parts) + b"]"))


@given(st.lists(st.tuples(st.sampled_from(["agent", "server"]), RAWS), min_size=5, max_size=20), st.booleans())
def test_no_line_breaks_us_nor_costs_the_next(lines: list[tuple[str, bytes]], is_restricted: bool) -> None:
    talker = Talker(call=5, tools=Tools(deny=("d*",)) if is_restricted else Tools()).introduced()
    play(talker, [*lines])
    assert not [event for event in talker.events if "a bug in acp-launch" in event]
    if any(b'"initialize"' in said for _, said in lines):
        talker.agent(INITIALIZE)  # requests wait for the answer to a handshake
        talker.server(answer(0, HELLO))
    talker.agent_heard.clear()
    talker.agent(ask("the next", "x"))
    talker.server(answer("the next", "here"))
    assert talker.agent_heard == [line(answer("the next", "here"))]


def play(talker: Talker, steps: list[tuple[str, Any]]) -> None:
    """Drive it as a relay does: a process is attached only while there is none, and lost only while there is one."""
    for step, said in steps:
        phase = talker.exchange.state.phase
        if step == "agent":
            talker.agent(said.replace(b"\n", b" "))
        elif step == "server" and phase in ("open", "replaying"):
            talker.server(said.replace(b"\n", b" "))
        elif step == "attach" and phase == "absent":
            talker.exchange.attached(probe=True)
        elif step == "tick":
            talker.wait(3)
        else:
            lose(talker, step)


def lose(talker: Talker, how: str) -> None:
    phase = talker.exchange.state.phase
    if how == "lose" and phase in ("open", "replaying"):
        talker.killed()
    elif how == "end" and phase != "final":
        talker.exchange.on_gone(DEAD, for_good=True)
    elif how == "renew" and phase in ("final", "absent"):
        talker.exchange.on_gone(ANEW, for_good=False)


ACTS = ["call", "call", "answer", "twice", "lose", "attach", "tick", "question", "let go", "end", "renew"]
CALLS = st.lists(st.sampled_from(ACTS), max_size=60)


class Calls:
    """A conversation of numbered calls, and what became of each."""

    def __init__(self) -> None:
        self.talker = Talker().introduced()
        self.asked: list[int] = []
        self.sent: list[int] = []
        self._pending: list[int] = []
        self._is_doomed = False  # there is a process, which is not talked with any more

    def act(self, act: str) -> None:
        if act == "call":
            self.asked.append(len(self.asked) + 1)
            self.talker.agent(ask(self.asked[-1], "tools/call"))
        elif act == "tick":
            self.talker.exchange.tick()
        elif self.talker.exchange.state.phase == "open":
            self._while_open(act)
        else:
            self._while_away(act)
        received = [each["id"] for each in self.talker.server_hears() if each.get("method") == "tools/call"]
        self.sent, self._pending = self.sent + received, self._pending + received

    def _while_open(self, act: str) -> None:
        if act in ("answer", "twice") and self._pending:
            self.talker.server(*[answer(self._pending.pop(0), "done")] * (2 if act == "twice" else 1))
        elif act == "question":
            self.talker.server(ask(len(self.asked), "sampling/createMessage"))
        elif act == "let go":
            self.talker.exchange.detached()
            self._is_doomed = True
        elif act in ("lose", "end"):
            self._lose(act)

    def _while_away(self, act: str) -> None:
        if act == "attach" and self.talker.exchange.state.phase == "absent" and not self._is_doomed:
            self.talker.back()
        elif act == "renew" or (act in ("lose", "end") and self._is_doomed):
            self._lose(act)

    def _lose(self, how: str) -> None:
        lost = {"lose": KILLED, "end": DEAD, "renew": ANEW}[how]
        self.talker.exchange.on_gone(lost, for_good=how == "end")
        self._pending.clear()
        self._is_doomed = False


@given(CALLS)
def test_every_call_is_sent_at_most_once_and_answered_exactly_once(steps: list[str]) -> None:
    calls = Calls()
    for step in steps:
        calls.act(step)
    assert len(calls.sent) == len(set(calls.sent)), "a call is never sent twice"
    calls.talker.exchange.on_gone(DEAD, for_good=True)
    answers = Counter(each["id"] for each in calls.talker.agent_hears() if "method" not in each)
    assert answers == Counter(calls.asked)


@given(st.lists(MESSAGES, max_size=10), st.data())
def test_however_the_pipe_cuts_them_the_lines_are_the_same(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(each + b"\n" for each in lines)
    framer = LineFramer(limit=1 << 20)
    out: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        out += framer.feed(stream[:size])
        stream = stream[size:]
    assert out == lines
