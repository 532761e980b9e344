"""Several sessions and one conversation of a server (M-39, docs/profiles.md "Shared servers")."""

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from acp_launch.bridge.conversation import GIVEN_UP
from acp_launch.bridge.multiplexer import BEGIN_WITH_HANDSHAKE, LEVELS, UNANSWERED, UNCLEAR, USUAL, Multiplexer
from tests.bridge.talker import HELLO, INITIALIZE, INITIALIZED, Json, answer, ask, call, line, tell

UPDATED, SAID = "notifications/resources/updated", "notifications/message"
MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
SAMPLING: Json = {"sampling": {}}


class Sides:
    """Both sides of a multiplexer, and what each of them has heard."""

    def __init__(self) -> None:
        self.server: list[Json] = []
        self.sessions: dict[int, list[Json]] = {}
        self.multiplexer = Multiplexer(self)
        self.has_given_up = False

    def give_up(self) -> None:
        self.has_given_up = True

    def to_server(self, line: bytes) -> None:
        self.server.append(json.loads(line))

    def to_session(self, session: int, line: bytes) -> None:
        self.sessions[session].append(json.loads(line))

    def join(self, launch: str = "") -> int:
        session = self.multiplexer.joins(launch)
        self.sessions[session] = []
        return session

    def opened(self, launch: str = "", **capabilities: Any) -> int:
        """Another session, whose handshake is done."""
        session = self.join(launch)
        self.says(session, hello(**capabilities), INITIALIZED)
        if self.server and self.server[0].get("method") == "initialize":
            self.hears(answer(self.server[0]["id"], HELLO))
        self.server_hears(), self.session_hears(session)
        return session

    def says(self, session: int, *messages: Json) -> None:
        for message in messages:
            self.multiplexer.says(session, line(message))

    def hears(self, *messages: Json) -> None:
        for message in messages:
            self.multiplexer.hears(line(message))

    def server_hears(self) -> list[Json]:
        heard, self.server = self.server, []
        return heard

    def session_hears(self, session: int) -> list[Json]:
        heard, self.sessions[session] = self.sessions[session], []
        return heard


def hello(id: object = 0, **capabilities: Any) -> Json:
    params: Json = json.loads(json.dumps(INITIALIZE["params"]))
    return {**INITIALIZE, "id": id, "params": params | {"capabilities": capabilities}}


def test_the_first_handshake_is_everyones() -> None:
    sides = Sides()
    first, second = sides.join(), sides.join()
    sides.says(first, hello("a"))
    sides.says(second, hello("b", **SAMPLING), INITIALIZED)
    sides.says(first, INITIALIZED)
    sent, introduced = sides.server_hears()
    assert (sent["params"]["capabilities"], introduced) == ({}, INITIALIZED)
    sides.hears(answer(sent["id"], HELLO))
    third = sides.join()
    sides.says(third, hello("c"), INITIALIZED)
    assert [sides.session_hears(session) for session in (first, second, third)] == [
        [answer(id, HELLO)] for id in ("a", "b", "c")
    ]
    assert sides.server_hears() == []


def test_a_refused_handshake_is_refused_to_those_that_waited_and_the_next_may_try() -> None:
    sides = Sides()
    first, second = sides.join(), sides.join()
    sides.says(first, hello())
    sides.says(second, hello())
    (sent,) = sides.server_hears()
    sides.multiplexer.leaves(first)
    refusal = {"code": -32600, "message": "not now"}
    sides.hears({"jsonrpc": "2.0", "id": sent["id"], "error": refusal})
    assert sides.session_hears(second) == [{"jsonrpc": "2.0", "id": 0, "error": refusal}]
    sides.says(second, hello(1))
    (again,) = sides.server_hears()
    sides.hears(answer(again["id"], HELLO))
    assert sides.session_hears(second) == [answer(1, HELLO)]


@pytest.mark.parametrize("id", [7, "7", 12345678901234567890123])
def test_ids_tokens_and_all_other_bytes_come_back_as_they_were(id: object) -> None:
    sides = Sides()
    one, two = sides.opened(), sides.opened()
    for session in (one, two):
        sides.says(session, ask(id, "tools/call", name="x", _meta={"progressToken": "t", "more": 1}))
    sent = sides.server_hears()
    numbers = [each["id"] for each in sent]
    assert len(set(numbers)) == 2
    assert [each["params"]["_meta"] for each in sent] == [{"progressToken": number, "more": 1} for number in numbers]
    sides.hears(tell("notifications/progress", progressToken=numbers[1], progress=1))
    sides.multiplexer.hears(b'{"jsonrpc":"2.0","id":%d,"result":{"n":1.0,"m":1e400}}' % numbers[0])
    assert sides.session_hears(two) == [tell("notifications/progress", progressToken="t", progress=1)]
    assert sides.session_hears(one) == [answer(id, {"n": 1.0, "m": float("inf")})]
    sides.hears(answer(numbers[0], "too late"))
    assert sides.session_hears(one) == []


def test_a_question_goes_to_the_session_with_the_newest_call_and_only_its_answer_counts() -> None:
    sides = Sides()
    silent, one, two = sides.opened(), sides.opened(**SAMPLING), sides.opened(**SAMPLING)
    sides.says(one, call(1))
    sides.says(two, call(1))
    sides.server_hears()
    sides.hears(ask("q", "sampling/createMessage"))
    assert sides.session_hears(two) == [ask("q", "sampling/createMessage")]
    sides.says(one, answer("q", "mine"))
    sides.says(two, answer("q", "yours"))
    assert sides.server_hears() == [answer("q", "yours")]
    assert sides.session_hears(one) == sides.session_hears(silent) == []


def test_a_question_is_for_the_first_that_can_answer_it_and_never_about_a_call_of_another() -> None:
    sides = Sides()
    unable, able = sides.opened(), sides.opened(**SAMPLING)
    sides.hears(ask(1, "sampling/createMessage"), ask(2, "ping"), ask(3, "elicitation/create"))
    assert sides.session_hears(able) == [ask(1, "sampling/createMessage")]
    pong, refused = sides.server_hears()
    assert (pong, refused["id"], refused["error"]["message"]) == (answer(2, {}), 3, UNANSWERED)
    sides.says(unable, call(1))
    sides.hears(ask(4, "sampling/createMessage"))
    assert sides.session_hears(able) == sides.session_hears(unable) == []
    assert sides.server_hears()[-1]["error"]["message"] == UNANSWERED


def test_a_question_goes_to_the_launch_with_open_calls_if_exactly_one_has_any() -> None:
    sides = Sides()
    one, two = sides.opened("a", sampling={}), sides.opened("b", sampling={})
    sides.hears(ask(1, "sampling/createMessage"))
    sides.says(one, call(1))
    sides.hears(ask(2, "sampling/createMessage"))
    assert sides.session_hears(one) == [ask(2, "sampling/createMessage")]
    sides.says(two, call(1))
    sides.hears(ask(3, "sampling/createMessage"))
    refused = [each["error"]["message"] for each in sides.server_hears() if "error" in each]
    assert refused == [UNCLEAR, UNCLEAR]
    assert (sides.session_hears(one), sides.session_hears(two)) == ([], [])


def test_every_launch_may_say_the_roots_as_all_have_the_same() -> None:
    sides = Sides()
    one, two = sides.opened("a", roots={}), sides.opened("b", roots={})
    sides.hears(ask(1, "roots/list"))
    assert [*sides.session_hears(one), *sides.session_hears(two)] == [ask(1, "roots/list")]


def test_a_launch_that_is_alone_gets_the_log_messages_that_it_asked_for() -> None:
    sides = Sides()
    one = sides.opened("a")
    said = tell(SAID, level="error", data="x")
    sides.hears(said)
    assert sides.session_hears(one) == []
    sides.says(one, ask(1, "logging/setLevel", level="warning"))
    sides.hears(said, tell(SAID, level="info", data="y"))
    assert sides.session_hears(one) == [said]


# Messages of a server that do not say which session they are about.
UNADDRESSED = [
    tell(SAID, level="error", data="x"),
    tell(SAID, level="loud", data="x"),
    tell("notifications/elicitation/complete", elicitationId="e"),
    tell("notifications/tasks/status", taskId="t", status="completed"),
    tell("x/unknown"),
]


@pytest.mark.parametrize("said", UNADDRESSED, ids=str)
def test_a_message_of_which_nothing_says_whose_it_is_goes_to_the_launch_that_alone_waits_for_the_server(
    said: Json,
) -> None:
    sides = Sides()
    one, again, two = sides.opened("a"), sides.opened("a"), sides.opened("b")
    for session in (one, again, two):
        sides.says(session, ask(1, "logging/setLevel", level="debug"))
    for number in [each["id"] for each in sides.server_hears()]:
        sides.hears(answer(number, {}))
    for session in (one, again, two):
        sides.session_hears(session)

    def heard() -> list[int]:
        sides.hears(said)
        return [session for session in (one, again, two) if sides.session_hears(session) == [said]]

    assert heard() == []
    sides.says(one, call(2))
    (called,) = sides.server_hears()
    assert heard() == [one, again]
    sides.says(two, ask(3, "tools/list"))
    (listed,) = sides.server_hears()
    assert heard() == []
    sides.hears(answer(called["id"], {}))
    sides.session_hears(one)
    assert heard() == [two]
    sides.hears(answer(listed["id"], {}))
    sides.session_hears(two)
    sides.multiplexer.leaves(two)
    assert heard() == [], "it may be about what the other one has left behind"


def test_launches_with_different_levels_get_their_own() -> None:
    sides = Sides()
    levels = {"a": "debug", "b": "error"}
    sessions = {launch: sides.opened(launch) for launch in levels}
    for launch, session in sessions.items():
        sides.says(session, ask(1, "logging/setLevel", level=levels[launch]))
    (asked,) = sides.server_hears()
    assert asked["params"] == {"level": "debug"}
    sides.hears(answer(asked["id"], {}))
    for launch, session in sessions.items():
        sides.says(session, call(2))
        number = sides.server_hears()[-1]["id"]
        said = [tell(SAID, level=level, data=launch) for level in ("debug", "error")]
        sides.hears(*said, answer(number, {}))
        heard = [each["params"] for each in sides.session_hears(session) if "params" in each]
        assert [each["level"] for each in heard] == (["debug", "error"] if launch == "a" else ["error"])
        assert {each["data"] for each in heard} == {launch}


@pytest.mark.parametrize("launches", ["", "ab"])
def test_updates_are_told_to_those_that_subscribed_to_the_resource_or_to_what_it_is_part_of(launches: str) -> None:
    sides = Sides()
    addresses = ["x://one", "x://one-more", "x://other/"]
    sessions = {uri: sides.opened(launches[number % 2 : number % 2 + 1]) for number, uri in enumerate(addresses)}
    for uri, session in sessions.items():
        sides.says(session, ask(1, "resources/subscribe", uri=uri))
    for uri, told in {
        "x://one": ["x://one"],
        "x://one/part": ["x://one"],
        "x://one#part": ["x://one"],
        "x://one-more": ["x://one-more"],
        "x://one-more?part": ["x://one-more"],
        "x://one-more-yet": [],
        "x://other/part": ["x://other/"],
        "x://other": [],
        "x://": [],
    }.items():
        sides.hears(tell(UPDATED, uri=uri))
        heard = {each: sides.session_hears(session) for each, session in sessions.items()}
        assert heard == {each: [tell(UPDATED, uri=uri)] if each in told else [] for each in addresses}


def test_changes_of_lists_are_told_to_all_launches() -> None:
    sides = Sides()
    one, two = sides.opened("a"), sides.opened("b")
    changed = tell("notifications/tools/list_changed")
    sides.hears(changed)
    assert sides.session_hears(one) == sides.session_hears(two) == [changed]


@pytest.mark.parametrize(("launch", "is_over"), [("a", False), ("b", True)])
def test_a_server_is_given_up_unless_another_launch_has_a_call(launch: str, is_over: bool) -> None:
    sides = Sides()
    one, two = sides.opened(launch), sides.opened("b")
    sides.says(one, call(1))
    sides.multiplexer.says(two, GIVEN_UP)
    assert sides.has_given_up is is_over


def test_no_agent_gives_a_server_up() -> None:
    sides = Sides()
    one = sides.opened()
    sides.multiplexer.says(one, GIVEN_UP)
    assert not sides.has_given_up
    assert [each["error"]["code"] for each in sides.session_hears(one)] == [-32700]


def test_a_question_that_the_server_takes_back_is_taken_back_where_it_was() -> None:
    sides = Sides()
    able, other = sides.opened(**SAMPLING), sides.opened(**SAMPLING)
    taken_back = tell("notifications/cancelled", requestId="q")
    sides.hears(ask("q", "sampling/createMessage"), taken_back)
    assert sides.session_hears(able) == [ask("q", "sampling/createMessage"), taken_back]
    sides.says(able, answer("q", "too late"))
    assert (sides.server_hears(), sides.session_hears(other)) == ([], [])


def test_a_session_that_ends_leaves_nothing_behind() -> None:
    sides = Sides()
    ending, other = sides.opened(**SAMPLING), sides.opened()
    sides.says(ending, call(1), ask(2, "resources/subscribe", uri="u"), ask(3, "logging/setLevel", level="debug"))
    called, *_ = sides.server_hears()
    sides.hears(ask("q", "sampling/createMessage"))
    sides.multiplexer.leaves(ending)
    cancelled, refused, unsubscribed, *level = sides.server_hears()
    assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", called["id"])
    assert (refused["id"], refused["error"]["code"]) == ("q", -32603)
    assert (unsubscribed["method"], unsubscribed["params"], level) == ("resources/unsubscribe", {"uri": "u"}, [])
    sides.hears(answer(called["id"], "late"), tell(UPDATED, uri="u"))
    assert sides.session_hears(other) == []


def test_a_subscription_that_is_refused_is_none_of_the_session_and_asked_for_again() -> None:
    sides = Sides()
    one, two = sides.opened(), sides.opened()
    sides.says(one, ask(1, "resources/subscribe", uri="u"))
    (sent,) = sides.server_hears()
    sides.hears({"jsonrpc": "2.0", "id": sent["id"], "error": {"code": -32002, "message": "not there"}})
    assert sides.session_hears(one)[0]["id"] == 1
    sides.says(two, ask(3, "resources/subscribe", uri="u"))
    (again,) = sides.server_hears()
    sides.hears(answer(again["id"], {}), tell(UPDATED, uri="u/part"))
    assert sides.session_hears(two) == [answer(3, {}), tell(UPDATED, uri="u/part")]
    assert sides.session_hears(one) == []


def test_a_session_without_a_level_does_not_get_what_another_asked_to_see() -> None:
    sides = Sides()
    quiet, curious = sides.opened(), sides.opened()
    sides.hears(tell(SAID, level="debug", data=1))
    assert [len(sides.session_hears(each)) for each in (quiet, curious)] == [1, 1]
    sides.says(curious, ask(1, "logging/setLevel", level="debug"))
    (sent,) = sides.server_hears()
    sides.hears(answer(sent["id"], {}), tell(SAID, level="debug", data=2), tell(SAID, level=USUAL, data=3))
    assert sides.session_hears(quiet) == [tell(SAID, level=USUAL, data=3)]
    assert len(sides.session_hears(curious)) == 3
    sides.says(curious, ask(2, "logging/setLevel", level="loud"))
    assert sides.server_hears()[0]["params"] == {"level": "loud"}, "it is the server's to refuse"


def test_a_request_without_a_handshake_is_refused_and_a_handshake_can_follow() -> None:
    sides = Sides()
    session = sides.join()
    sides.says(session, ask(1, "server/discover", **MODERN), ask(2, "tools/list", **MODERN))
    assert [each["error"] for each in sides.session_hears(session)] == [
        {"code": -32601, "message": BEGIN_WITH_HANDSHAKE}
    ] * 2
    assert sides.server_hears() == []
    sides.says(session, hello())
    assert sides.server_hears()[0]["method"] == "initialize"


def test_a_batch_is_answered_one_by_one_and_junk_to_the_session_that_sent_it() -> None:
    sides = Sides()
    one, two = sides.opened(), sides.opened()
    sides.multiplexer.says(one, line([call(1), call(2)]))
    sent = sides.server_hears()
    sides.multiplexer.hears(line([answer(each["id"], each["params"]) for each in sent]))
    assert [each["id"] for each in sides.session_hears(one)] == [1, 2]
    for junk in (b"{", b"[]", b"7", b"  "):
        sides.multiplexer.says(two, junk)
    assert [each["error"]["code"] for each in sides.session_hears(two)] == [-32700] * 3
    assert sides.server_hears() == []


class SharedServer(RuleBasedStateMachine):
    """Sessions that use few ids and few names, so that they collide; and a server that answers in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.sides = Sides()
        self.tag = 0
        self.expected: dict[int, dict[object, int]] = {}  # by session and id: what its answer will repeat
        self.subscriptions: dict[int, set[str]] = {}
        self.levels: dict[int, str] = {}
        self.open: dict[int, Json] = {}  # of the server: requests without an answer
        self.seen: set[int] = set()
        self.subscribed: set[str] = set()
        self.level = ""
        self.join()

    def live(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.expected)))

    @precondition(lambda self: len(self.expected) < 4)
    @rule()
    def join(self) -> None:
        session = self.sides.join()
        self.sides.says(session, hello(), INITIALIZED)
        for message in self.sides.server:
            if message["method"] == "initialize":
                self.sides.hears(answer(message["id"], HELLO))
        self.sides.server = [message for message in self.sides.server if "initialize" not in message["method"]]
        assert self.sides.session_hears(session) == [answer(0, HELLO)]
        self.expected[session], self.subscriptions[session] = {}, set()
        self.serve()

    @precondition(lambda self: len(self.expected) > 1)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        session = self.live(data)
        self.sides.multiplexer.leaves(session)
        del self.expected[session], self.subscriptions[session]
        self.levels.pop(session, None)
        self.serve()

    @rule(data=st.data(), id=st.sampled_from([1, "1", 2]), has_token=st.booleans())
    def call(self, data: st.DataObject, id: object, has_token: bool) -> None:
        session = self.live(data)
        if id in self.expected[session]:
            return
        self.tag += 1
        meta = {"_meta": {"progressToken": f"{session}/{id!r}"}} if has_token else {}
        self.sides.says(session, ask(id, "tools/call", tag=self.tag, **meta))
        self.expected[session][id] = self.tag
        self.serve()

    @rule(data=st.data(), id=st.sampled_from([1, "1", 2]))
    def cancel(self, data: st.DataObject, id: object) -> None:
        session = self.live(data)
        self.sides.says(session, tell("notifications/cancelled", requestId=id))
        heard = self.sides.server_hears()
        tag = self.expected[session].get(id)
        if tag is None:
            assert heard == []
        else:
            (cancelled,) = heard
            number = cancelled["params"]["requestId"]
            assert self.open[number]["params"]["tag"] == tag
            self.sides.hears(answer(number, "too late"))
            del self.open[number], self.expected[session][id]

    @rule(data=st.data(), uri=st.sampled_from("uv"), is_on=st.booleans())
    def subscribe(self, data: st.DataObject, uri: str, is_on: bool) -> None:
        session = self.live(data)
        self.tag += 1
        id = f"s{self.tag}"
        self.sides.says(session, ask(id, f"resources/{'' if is_on else 'un'}subscribe", uri=uri))
        (self.subscriptions[session].add if is_on else self.subscriptions[session].discard)(uri)
        self.expected[session][id] = 0
        self.serve()

    @rule(data=st.data(), level=st.sampled_from(["debug", "info", "error"]))
    def set_level(self, data: st.DataObject, level: str) -> None:
        session = self.live(data)
        self.tag += 1
        id = f"l{self.tag}"
        self.sides.says(session, ask(id, "logging/setLevel", level=level))
        self.levels[session] = level
        self.expected[session][id] = 0
        self.serve()

    @precondition(lambda self: self.open)
    @rule(data=st.data(), has_progress=st.booleans())
    def answer(self, data: st.DataObject, has_progress: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        request = self.open[number]
        if has_progress and "_meta" in request["params"]:
            token = request["params"]["_meta"]["progressToken"]
            self.sides.hears(tell("notifications/progress", progressToken=token, tag=request["params"]["tag"]))
        del self.open[number]
        self.sides.hears(answer(number, {"tag": request["params"].get("tag", 0)}))

    @rule(uri=st.sampled_from("uv"), level=st.sampled_from(["debug", "info", "error"]))
    def notify(self, uri: str, level: str) -> None:
        self.take_answers()
        self.sides.hears(tell(UPDATED, uri=uri), tell(SAID, level=level), tell("notifications/tools/list_changed"))
        for session in self.expected:
            heard = [each["method"] for each in self.sides.session_hears(session)]
            least = self.levels.get(session, USUAL if self.levels or self.level else "debug")
            assert (UPDATED in heard) == (uri in self.subscriptions[session])
            assert (SAID in heard) == (LEVELS.index(level) >= LEVELS.index(least))
            assert heard.count("notifications/tools/list_changed") == 1

    @rule(data=st.data())
    def question(self, data: st.DataObject) -> None:
        self.take_answers()
        self.sides.hears(ask("q", "x/question"))
        calls = [number for number, each in self.open.items() if each["method"] == "tools/call"]
        newest = self.open[max(calls)]["params"]["tag"] if calls else None
        (asked,) = [session for session in self.expected if self.sides.session_hears(session)]
        assert newest is None or newest in self.expected[asked].values()
        self.sides.says(asked, answer("q", asked))
        assert self.sides.server_hears() == [answer("q", asked)]

    def serve(self) -> None:
        """Take what has come to the server: it acts on it at once, and answers later."""
        for message in self.sides.server_hears():
            if message.get("method") == "notifications/cancelled":
                del self.open[message["params"]["requestId"]]
                continue
            number = message["id"]
            assert number not in self.seen
            self.seen.add(number)
            self.open[number] = message
            params = message["params"]
            if message["method"] == "resources/subscribe":
                assert params["uri"] not in self.subscribed
                self.subscribed.add(params["uri"])
            elif message["method"] == "resources/unsubscribe":
                self.subscribed.remove(params["uri"])
            elif message["method"] == "logging/setLevel":
                self.level = params["level"]

    def take_answers(self) -> None:
        for session in self.expected:
            for message in self.sides.session_hears(session):
                if "method" in message:
                    assert message["params"]["progressToken"].startswith(f"{session}/")
                    assert message["params"]["tag"] in self.expected[session].values()
                else:
                    assert self.expected[session].pop(message["id"]) == message["result"].get("tag", 0)

    @invariant()
    def each_gets_its_own_and_the_server_has_what_the_sessions_want_together(self) -> None:
        self.take_answers()
        assert self.subscribed == set().union(*self.subscriptions.values())
        wanted = [self.levels.get(session, USUAL) for session in self.expected] if self.levels else []
        assert self.level == min(wanted, key=LEVELS.index, default=self.level)

    def teardown(self) -> None:
        """Once the server has answered everything, no request waits."""
        for number, request in list(self.open.items()):
            self.sides.hears(answer(number, {"tag": request["params"].get("tag", 0)}))
        self.take_answers()
        assert [waiting for waiting in self.expected.values() if waiting] == []
        assert not any(map(self.sides.multiplexer.owes, self.expected))


SharedServer.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_any_sessions_in_any_order = SharedServer.TestCase
