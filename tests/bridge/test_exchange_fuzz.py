"""Whatever both ends say, in whatever order the server dies: nothing raises, every call has exactly one answer."""

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.profile.model import Tools
from acp_launch.protocol.framing import LineFramer
from tests.bridge.talker import DEAD, HELLO, INITIALIZED, KILLED, Talker, answer, ask, line, tell

calm = settings(deadline=None, max_examples=300)
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
LINES = st.one_of(JUNK, MESSAGES, st.lists(MESSAGES, max_size=4).map(lambda parts: b"[" + b",".join(parts) + b"]"))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("agent"), LINES),
        st.tuples(st.just("server"), LINES),
        st.tuples(st.sampled_from(["attach", "lose", "end", "tick"]), st.none()),
    ),
    max_size=40,
)


@calm
@given(STEPS, st.sampled_from([Tools(), Tools(deny=("d*",))]))
def test_nothing_that_is_said_raises(steps: list[tuple[str, Any]], tools: Tools) -> None:
    talker = Talker(call=5, tools=tools)
    play(talker, steps)
    for heard in (*talker.agent_heard, *talker.server_heard):
        assert b"\n" not in heard


def play(talker: Talker, steps: list[tuple[str, Any]]) -> None:
    """Drive it as a relay does: a process is attached only while there is none, and lost only while there is one."""
    for step, said in steps:
        phase = talker.exchange.phase
        if step == "agent":
            talker.agent(said.replace(b"\n", b" "))
        elif step == "server" and phase in ("open", "replaying"):
            talker.server(said.replace(b"\n", b" "))
        elif step == "attach" and phase == "absent":
            talker.exchange.attached(probe=True)
        elif step == "lose" and phase in ("open", "replaying"):
            talker.exchange.lost(KILLED, for_good=False)
        elif step == "end" and phase != "final":
            talker.exchange.lost(DEAD, for_good=True)
        elif step == "tick":
            talker.clock += 3
            talker.exchange.tick()


ACTS = ["call", "call", "answer", "twice", "lose", "attach", "tick", "question"]
CALLS = st.lists(st.sampled_from(ACTS), max_size=60)


@calm
@given(CALLS)
def test_every_call_is_sent_at_most_once_and_answered_exactly_once(steps: list[str]) -> None:
    talker = Talker().introduced()
    asked: list[int] = []
    sent: list[int] = []
    pending: list[int] = []
    for step in steps:
        if step == "call":
            asked.append(len(asked) + 1)
            talker.agent(ask(asked[-1], "tools/call"))
        elif step in ("answer", "twice") and pending and talker.exchange.phase == "open":
            talker.server(*[answer(pending.pop(0), "done")] * (2 if step == "twice" else 1))
        elif step == "question" and talker.exchange.phase == "open":
            talker.server(ask(len(asked), "sampling/createMessage"))
        elif step == "lose" and talker.exchange.phase == "open":
            talker.exchange.lost(KILLED, for_good=False)
            pending.clear()
        elif step == "attach" and talker.exchange.phase == "absent":
            talker.back()
        elif step == "tick":
            talker.exchange.tick()
        received = [each["id"] for each in talker.server_hears() if each.get("method") == "tools/call"]
        sent, pending = sent + received, pending + received
    assert len(sent) == len(set(sent)), "a call is never sent twice"
    talker.exchange.lost(DEAD, for_good=True)
    answers = Counter(each["id"] for each in talker.agent_hears() if "method" not in each)
    assert answers == Counter(asked)


@calm
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


def test_a_whole_conversation_is_the_same_with_and_without_us() -> None:
    """But for nothing: both hear the bytes the other one said."""
    talker = Talker()
    talker.exchange.attached()
    agent = [ask(1, "initialize", capabilities={"sampling": {}}), INITIALIZED, ask("2", "tools/list"), tell("x", y=1)]
    server = [answer(1, HELLO), ask(1, "sampling/createMessage"), answer("2", {"tools": []}), tell("notifications/z")]
    for one, other in zip(agent, server, strict=True):
        talker.agent(one)
        talker.server(other)
    talker.agent(answer(1, {"model": "m"}))
    assert [json.loads(each) for each in talker.server_heard] == [*agent, answer(1, {"model": "m"})]
    assert [json.loads(each) for each in talker.agent_heard] == server
