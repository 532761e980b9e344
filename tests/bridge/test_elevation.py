"""Elevated sessions towards the agent, without a process: start, loss, catch-up, takeover, end."""

import json
import re
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.bridge.conversation import ServerGone
from acp_launch.bridge.elevation import MAX_SESSIONS, Elevation, Elevations
from acp_launch.bridge.ledger import MOST_BYTES
from tests.bridge.talker import DEAD, HELLO, INITIALIZE, INITIALIZED, Json, Talker, answer, ask, call, line, tell

CHANGED, TOOLS_CHANGED = "notifications/resources/updated", "notifications/tools/list_changed"
MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


class Launch:
    """The sessions of one launch."""

    def __init__(self) -> None:
        numbers = count(1)
        self.sessions = Elevations(lambda: f"s_{next(numbers)}")

    def opened(self, server: str = "github", *, introduced: bool = True) -> "Opened":
        """The agent has connected to a process of its own."""
        talk = Opened(self, server)
        talk.exchange.attached()
        if introduced:
            talk.agent(INITIALIZE)
            talk.server(answer(0, HELLO))
            talk.agent(INITIALIZED)
            talk.agent_hears(), talk.server_hears()
        return talk

    def started(self) -> "tuple[Opened, str]":
        """A connection with a session; the session's id."""
        talk = self.opened()
        talk.agent(ask("start", "session/start"))
        (said,) = talk.agent_hears()
        return talk, said["result"]["sessionId"]


class Opened(Talker):
    """A conversation and its connection; implements the port of an `Elevation` as a relay does."""

    def __init__(self, launch: Launch, server: str) -> None:
        super().__init__()
        self.launch, self.is_connected, self.is_over = launch, True, False
        self.exchange.state.questions.keeps_lines = True
        self.ids: dict[int, object] = {}  # numbers of requests → their ids
        self.exchange.state.server = server
        self.elevation = Elevation(self, self.exchange.state, self.exchange.restorer, launch.sessions)

    def agent(self, *messages: Json | bytes) -> None:
        for message in messages:
            self.elevation.from_agent(message if isinstance(message, bytes) else line(message))

    def numbers(self) -> dict[object, int]:
        """The ids of the agent's open requests → their numbers at the server."""
        return {json.loads(bytes(asked.id)): number for number, asked in self.elevation._requests.open.items()}

    def server(self, *messages: Json | bytes) -> None:
        """What the server says; it answers requests by the ids that the agent gave them."""
        for message in messages:
            if isinstance(message, dict) and "method" not in message:
                message = {**message, "id": self.numbers().get(message["id"], message["id"])}
            super().server(message)

    def server_hears(self) -> list[Any]:
        """What is new since the last look; requests with the ids that the agent gave."""
        heard = super().server_hears()
        return [
            {**each, "id": self.ids.get(each["id"], each["id"])} if {"id", "method"} <= {*each} else each
            for each in heard
        ]

    def to_server(self, line: bytes) -> None:
        self.ids |= {number: id for id, number in self.numbers().items()}
        super().to_server(line)

    def to_agent(self, line: bytes) -> None:
        self.elevation.to_agent(line)

    def deliver(self, line: bytes) -> None:
        assert self.is_connected
        self.agent_heard.append(line)

    def from_agent(self, line: bytes) -> None:
        self.exchange.from_agent(line)

    def move(self, elevation: Elevation) -> None:
        other = elevation.conversation
        assert isinstance(other, Opened)
        self.exchange.on_gone(ServerGone(server="github", why="was left for another session"), for_good=True)
        self.is_connected = False
        other.disconnect()
        other.exchange.state.take_over(self.exchange.state)
        other.agent_heard, self.agent_heard, other.is_connected = self.agent_heard, [], True
        self.disconnect()

    def release(self) -> None:
        self.is_over = self.is_over or not self.is_connected

    def disconnect(self) -> None:
        self.is_connected = False
        if not self.elevation.on_gone():
            self.is_over = True


def events(heard: list[Json]) -> list[int]:
    """The numbers of the events among these messages."""
    ids = [each["params"]["sessionEventId"] for each in heard if "sessionEventId" in each.get("params", {})]
    return [int(id.rpartition(".")[2]) for id in ids]


def resume(id: object, session: str, last: object = None) -> Json:
    return ask(id, "session/resume", sessionId=session, **({} if last is None else {"lastSessionEventId": last}))


def event(session: str, number: int) -> str:
    return f"{session}.{number:012}"


def noted(number: int) -> Json:
    return tell("notifications/message", level="info", data=number)


def refusal(heard: list[Json]) -> tuple[int, Any]:
    (refused,) = heard
    return refused["error"]["code"], refused["error"].get("data", {}).get("reason")


# Start and end.


def test_a_session_begins_with_an_id_and_from_then_on_notifications_are_numbered() -> None:
    """M-52: event ids strictly increase; what else passes is untouched."""
    talk = Launch().opened()
    before = b'{"jsonrpc":"2.0", "method":"notifications/x"}'
    talk.server(before)
    talk.agent(ask(1, "session/start"))
    talk.server(noted(1), b'{"jsonrpc":"2.0","method":"notifications/x"}', tell("x", sessionEventId="forged", a=1))
    assert talk.agent_heard[0] == before
    _, begun, *rest = talk.agent_hears()
    session = begun["result"]["sessionId"]
    assert begun == answer(1, {"sessionId": session})
    assert [each["params"] for each in rest] == [
        {"sessionEventId": event(session, 1), "level": "info", "data": 1},
        {"sessionEventId": event(session, 2)},
        {"sessionEventId": event(session, 3), "a": 1},
    ]
    talk.agent(call(2))
    talk.server(answer(2, {}), ask("q", "roots/list"))
    assert talk.server_hears()[0] == call(2), "the server hears nothing of the session"
    assert talk.agent_heard == [line(answer(2, {}))]


def test_the_handshake_tells_of_sessions() -> None:
    talk = Launch().opened(introduced=False)
    talk.agent(INITIALIZE)
    talk.server(answer(0, HELLO))
    (hello,) = talk.agent_hears()
    assert hello["result"] == {**HELLO, "capabilities": {"experimental": {"session-elevation": {"catchup": True}}}}


def test_before_the_handshake_there_is_no_session() -> None:
    talk = Launch().opened(introduced=False)
    talk.agent(ask(1, "session/start"), ask(2, "session/start", **MODERN))
    assert [each["error"]["data"]["reason"] for each in talk.agent_hears()] == ["no_handshake"] * 2
    hasty = Launch().opened(introduced=False)
    hasty.agent(INITIALIZE, INITIALIZED, ask(1, "session/start"))
    assert refusal(hasty.agent_hears()) == (-32600, "no_handshake"), "it has not waited for the answer"


def test_a_connection_has_one_session_at_a_time() -> None:
    talk, session = Launch().started()
    talk.agent(ask(1, "session/start"))
    assert refusal(talk.agent_hears()) == (-32600, "has_session")
    talk.agent(ask(2, "session/end", sessionId=session), ask(3, "session/start"))
    ended, begun = talk.agent_hears()
    assert (ended["result"], begun["result"]["sessionId"] != session) == ({}, True)
    talk.server(noted(1))
    assert events(talk.agent_hears()) == [1]


def test_after_its_end_nothing_of_a_session_arrives_and_its_subscriptions_end() -> None:
    """M-52."""
    talk, session = Launch().started()
    talk.agent(ask(1, "resources/subscribe", uri="a:1"))
    talk.server(answer(1, {}))
    talk.agent(ask(2, "session/end", sessionId=session))
    talk.server(noted(1), tell(CHANGED, uri="a:1"))
    assert talk.agent_hears() == [answer(1, {}), answer(2, {})]
    assert [(each["method"], each.get("params")) for each in talk.server_hears()] == [
        ("resources/subscribe", {"uri": "a:1"}),
        ("resources/unsubscribe", {"uri": "a:1"}),
    ]
    talk.agent(call(3))
    talk.server(answer(3, {}))
    assert talk.agent_hears() == [answer(3, {})], "the connection goes on"
    talk.agent(resume(4, session))
    assert refusal(talk.agent_hears()) == (-32010, "unknown_session")


def test_another_connection_may_end_a_session_that_has_lost_its_own() -> None:
    old, session = Launch().started()
    old.disconnect()
    assert not old.is_over
    talk = old.launch.opened()
    talk.agent(ask(1, "session/end", sessionId=session))
    assert talk.agent_hears() == [answer(1, {})]
    assert old.is_over


@pytest.mark.parametrize("method", ["session/resume", "session/end"])
def test_an_unknown_session_is_an_error(method: str) -> None:
    """M-52: also one of another server, whose token is another one."""
    launch = Launch()
    _, session = launch.started()
    talk, other = launch.opened(), launch.opened("other")
    talk.agent(ask(1, method, sessionId="s_0"))
    assert refusal(talk.agent_hears()) == (-32010, "unknown_session")
    other.agent(ask(2, method, sessionId=session))
    assert refusal(other.agent_hears()) == (-32010, "unknown_session")
    talk.agent(ask(3, method), ask(4, method, sessionId=5))
    assert [each["error"]["code"] for each in talk.agent_hears()] == [-32602, -32602]


def test_there_are_so_many_sessions_and_one_without_a_connection_makes_room() -> None:
    launch = Launch()
    talks = [launch.started()[0] for _ in range(MAX_SESSIONS)]
    last = launch.opened()
    last.agent(ask(1, "session/start"))
    assert refusal(last.agent_hears()) == (-32010, "too_many_sessions")
    talks[5].disconnect()
    last.agent(ask(2, "session/start"))
    assert last.agent_hears()[0]["result"]["sessionId"]
    assert [talk.is_over for talk in talks].index(True) == 5


# Resume.


def test_within_the_window_the_answer_comes_first_then_what_was_missed_then_what_follows() -> None:
    """M-53."""
    old, session = Launch().started()
    old.server(noted(1), noted(2))
    assert events(old.agent_hears()) == [1, 2]
    old.disconnect()
    old.server(noted(3), noted(4))
    new = old.launch.opened()
    new.agent(resume(9, session, event(session, 1)))
    old.server(noted(5))
    said, *rest = old.agent_hears()
    assert said == answer(9, {"resumed": True, "catchup": True})
    assert [each["params"]["data"] for each in rest] == [2, 3, 4, 5]
    assert events(rest) == [2, 3, 4, 5]
    assert new.is_over, "the process that was started for the new connection is not needed"
    assert not old.is_over
    old.agent(call(1))
    old.server(answer(1, {}))
    assert (old.server_hears(), old.agent_hears()) == ([call(1)], [answer(1, {})])


def test_from_every_id_exactly_the_rest_comes_however_often_it_is_asked() -> None:
    """M-53: nothing twice, nothing left out; on the connection that the session has, too."""
    talk, session = Launch().started()
    talk.server(*(noted(number) for number in range(1, 6)))
    talk.agent_hears()
    for last in (1, 5, 3, 3, 2, 4):
        talk.agent(resume(last, session, event(session, last)))
        said, *rest = talk.agent_hears()
        assert said["result"] == {"resumed": True, "catchup": True}
        assert events(rest) == list(range(last + 1, 6))


@pytest.mark.parametrize(
    "last", [None, "{0}.000000000007", "{0}.000000000000", "{0}.1", "s_9.000000000001", 1, "x", []]
)
def test_outside_of_the_window_it_says_so_and_goes_on_live(last: object) -> None:
    """M-54: an id that was never given, or none."""
    old, session = Launch().started()
    old.server(noted(1), noted(2))
    old.disconnect()
    old.agent_hears()
    new = old.launch.opened()
    new.agent(resume(1, session, last.format(session) if isinstance(last, str) else last))
    old.server(noted(3))
    said, *rest = old.agent_hears()
    assert said["result"] == {"resumed": True, "catchup": False}
    assert events(rest) == [3]


def test_what_is_too_old_or_too_much_is_outside() -> None:
    """M-54, M-58: 1000 events, 4 MiB, 10 minutes."""
    talk, session = Launch().started()
    talk.server(*(noted(number) for number in range(1, 1003)))
    talk.agent_hears()
    talk.agent(resume(1, session, event(session, 1)), resume(2, session, event(session, 1001)))
    assert [each["result"]["catchup"] for each in talk.agent_hears() if "result" in each] == [False, True]
    talk.server(*(tell("x", blob="x" * 1024 * 1024) for _ in range(5)))
    talk.agent_hears()
    talk.agent(resume(3, session, event(session, 1002)), resume(4, session, event(session, 1004)))
    assert [each["result"]["catchup"] for each in talk.agent_hears() if "result" in each] == [False, True]
    talk.clock += 600
    talk.agent(resume(5, session, event(session, 1006)), resume(6, session, event(session, 1007)))
    assert [each["result"]["catchup"] for each in talk.agent_hears()] == [False, True]


def test_what_supersedes_each_other_becomes_one_and_the_rest_is_kept() -> None:
    """M-55: five `updated` for two URIs become two, three `list_changed` one, progress one for each request."""
    old, session = Launch().started()
    old.agent(*(ask(id, "tools/call", _meta={"progressToken": f"t{id}"}) for id in (1, 2)))
    numbers = old.numbers()
    progress = "notifications/progress"
    old.server(
        noted(0),
        *(tell(progress, progressToken=numbers[id], progress=done) for done, id in enumerate((1, 2, 1))),
    )
    old.disconnect()
    old.agent_hears()
    old.server(
        *(tell(CHANGED, uri=uri) for uri in ("a:1", "a:2", "a:1", "a:1")),
        tell(TOOLS_CHANGED),
        noted(1),
        tell(progress, progressToken=numbers[1], progress=3),
        tell(TOOLS_CHANGED),
        tell("notifications/elicitation/complete", elicitationId="e"),
        tell("notifications/elicitation/complete", elicitationId="e"),
        tell("x/unknown"),
        tell("x/unknown"),
        tell(TOOLS_CHANGED),
        tell(CHANGED, uri="a:2"),
        noted(1),
    )
    new = old.launch.opened()
    new.agent(resume(1, session, event(session, 1)))
    _, *rest = old.agent_hears()
    assert [(*events([each]), each["method"].removeprefix("notifications/")) for each in rest] == [
        (3, "progress"),
        (4, "progress"),
        (8, "resources/updated"),
        (10, "message"),
        (12, "elicitation/complete"),
        (13, "elicitation/complete"),
        (14, "x/unknown"),
        (15, "x/unknown"),
        (16, "tools/list_changed"),
        (17, "resources/updated"),
        (18, "message"),
    ]
    assert [each["params"] for each in rest[:2]] == [
        {"sessionEventId": event(session, 3), "progressToken": "t2", "progress": 1},
        {"sessionEventId": event(session, 4), "progressToken": "t1", "progress": 2},
    ]


def test_a_second_connection_silences_the_first_at_once() -> None:
    """M-56: its requests get errors, and its connection is closed."""
    old, session = Launch().started()
    old.agent(call(1))
    first = old.agent_heard
    new = old.launch.opened()
    new.agent(call("its own"), resume(2, session))
    left, said = old.agent_hears()
    assert left["id"] == "its own"
    assert (
        left["error"]["message"]
        == 'MCP server "github" was left for another session during tools/call, whose outcome is unknown'
    )
    assert said == answer(2, {"resumed": True, "catchup": False})
    assert first == [], "and nothing came on the first one"
    old.server(noted(1), answer(1, {"late": True}))
    assert events(old.agent_hears()) == [1], "the answer belongs to a connection that is gone"


def test_a_connection_with_a_session_does_not_take_another() -> None:
    launch = Launch()
    _, session = launch.started()
    new, _ = launch.started()
    new.agent(resume(1, session))
    assert refusal(new.agent_hears()) == (-32600, "has_session")


# Requests of both sides across a loss.


def test_a_request_with_the_id_and_token_of_one_that_was_lost_gets_its_own_answer() -> None:
    old, session = Launch().started()
    asked = ask(1, "tools/call", name="slow", _meta={"progressToken": 1})
    old.agent(asked)
    lost = old.numbers()[1]
    old.disconnect()
    old.launch.opened().agent(resume(0, session))
    old.agent(asked)
    again = old.numbers()[1]
    assert again != lost
    old.agent_hears()
    old.server(
        *(tell("notifications/progress", progressToken=number, progress=number) for number in (lost, again)),
        answer(lost, "of the first"),
        answer(again, "of the second"),
    )
    progress, second = old.agent_hears()
    assert (progress["params"]["progressToken"], progress["params"]["progress"]) == (1, again)
    assert second == answer(1, "of the second")


def test_a_cancelled_request_is_forgotten_and_cancelled_at_the_server() -> None:
    talk, _ = Launch().started()
    talk.agent(call(1))
    number = talk.numbers()[1]
    talk.agent(tell("notifications/cancelled", requestId=1), tell("notifications/cancelled", requestId=2))
    called, cancelled = talk.server_hears()
    assert (called["id"], cancelled["params"]) == (1, {"requestId": number})
    talk.server(answer(number, "late"))
    assert talk.agent_hears() == []


def test_the_servers_open_questions_are_asked_again_under_new_ids() -> None:
    old, session = Launch().started()
    ping = ask(4, "sampling/createMessage", messages=[])
    old.server(ping, ask(5, "elicitation/create"), ask(6, "elicitation/create"))
    old.agent(answer(5, {"action": "cancel"}))
    old.disconnect()
    old.server(ask(7, "elicitation/create"), tell("notifications/cancelled", requestId=6))
    old.agent_hears(), old.server_hears()
    old.launch.opened().agent(resume(1, session))
    _, sampled, elicited = old.agent_hears()
    assert sampled == {**ping, "id": sampled["id"]}
    assert len({4, 5, 6, 7, sampled["id"], elicited["id"]}) == 6
    old.agent(answer(4, "stale"), answer(sampled["id"], "fresh"))
    assert old.server_hears() == [answer(4, "fresh")]
    old.server(tell("notifications/cancelled", requestId=7))
    assert old.agent_hears() == [tell("notifications/cancelled", requestId=elicited["id"])]
    old.disconnect()
    old.launch.opened().agent(resume(2, session))
    assert len(old.agent_hears()) == 1, "all are answered"


def test_questions_are_kept_within_bounds() -> None:
    """M-58."""
    talk, _ = Launch().started()
    talk.server(ask(1, "x", blob="x" * MOST_BYTES), ask(2, "x"))
    assert [(each["id"], each["error"]["message"]) for each in talk.server_hears()] == [
        (2, "too many requests are already waiting for an answer")
    ]


def test_a_server_that_died_in_between_has_its_end_told_to_the_new_connection() -> None:
    old, session = Launch().started()
    old.agent(call(1))
    old.disconnect()
    old.exchange.on_gone(DEAD, for_good=True)
    old.launch.opened().agent(resume(2, session))
    assert [each["id"] for each in old.agent_hears()] == [2], "the answer to the lost request is not for it"
    old.agent(call(1))
    (refused,) = old.agent_hears()
    assert (refused["id"], refused["error"]["data"]["stderr"]) == (1, ["no token", "bye"])


def test_a_batch_passes_and_its_notifications_are_numbered() -> None:
    talk, session = Launch().started()
    talk.agent(line([call(1), ask(2, "session/start")]))
    number = talk.numbers()[1]
    assert [json.loads(each) for each in talk.server_heard] == [[call(number)]]
    assert refusal(talk.agent_hears()) == (-32600, "has_session")
    talk.server(line([noted(1), answer(number, {})]))
    (both,) = talk.agent_hears()
    assert both[0]["params"]["sessionEventId"] == event(session, 1)
    assert both[1] == answer(1, {})


@pytest.mark.parametrize(
    "params", ["null", "[]", "5", '{"uri":5}', '{"sessionEventId":null,"sessionEventId":1}', '{"uri":"\\ud83d"}']
)
def test_notifications_of_any_shape_are_events(params: str) -> None:
    talk, session = Launch().started()
    talk.server(f'{{"jsonrpc":"2.0","method":"{CHANGED}","params":{params}}}'.encode())
    (raw,) = talk.agent_heard
    assert re.findall(rb'"sessionEventId":"([^"]*)"', raw) == [event(session, 1).encode()]
    assert json.loads(raw)["params"]["sessionEventId"] == event(session, 1)


# All of it at once.


class Agent:
    """An agent that comes and goes, and checks what it hears."""

    def __init__(self) -> None:
        self.launch = Launch()
        self.talk, self.session = self.launch.started()
        self.said: list[int | None] = []  # the keys of all events
        self.seen = [0]
        self.open, self.at_server = set[int](), list[Json]()
        self.say(None)
        self.listen()

    def say(self, key: int | None) -> None:
        self.said.append(key)
        self.talk.server(noted(len(self.said)) if key is None else tell(CHANGED, uri=f"a:{key}"))

    def lose(self, _: object) -> None:
        self.talk.disconnect()
        self.open.clear()

    def take_over(self, _: object) -> None:
        self.open.clear()
        self.launch.opened().agent(resume("resume", self.session, event(self.session, self.seen[-1])))

    def resume(self, _: object) -> None:
        if self.talk.is_connected:
            self.talk.agent(resume("resume", self.session, event(self.session, self.seen[-1])))

    def ask(self, _: object) -> None:
        """Its ids begin anew on each connection."""
        if self.talk.is_connected:
            self.open.add(id := next(number for number in count() if number not in self.open))
            self.talk.agent(call(id))

    def answer(self, which: object) -> None:
        if self.at_server:
            asked = self.at_server.pop(which if which == 0 else -1)
            self.talk.server(answer(asked["id"], {}))

    def listen(self) -> None:
        for each in self.talk.agent_hears():
            if "method" in each:
                (number,) = events([each])
                assert number > self.seen[-1], "nothing comes twice, or out of order"
                self.seen.append(number)
            elif each["id"] == "resume":
                assert each["result"] == {"resumed": True, "catchup": True}
            else:
                self.open.remove(each["id"])
        self.at_server += [each for each in self.talk.server_hears() if each.get("method") == "tools/call"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from([Agent.say, Agent.lose, Agent.take_over, Agent.resume, Agent.ask, Agent.answer]),
        st.sampled_from([None, 0, 1]),
    ),
    max_size=60,
)


@given(STEPS)
def test_an_agent_that_comes_and_goes_hears_each_event_once_in_order(
    steps: list[tuple[Callable[[Agent, int | None], None], int | None]],
) -> None:
    """M-53, M-55, M-56: of events that supersede each other the last; answers only to requests of its connection."""
    agent = Agent()
    for step, key in [*steps, (Agent.take_over, None)]:
        step(agent, key)
        agent.listen()
    last = {key: number for number, key in enumerate(agent.said, 1)}
    needed = {number for number, key in enumerate(agent.said, 1) if key is None or last[key] == number}
    assert needed <= set(agent.seen)
    assert not agent.open - {each["id"] for each in agent.at_server if isinstance(each["id"], int)}
