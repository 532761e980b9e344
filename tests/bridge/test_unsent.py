"""Requests that certainly never reached a server: they wait for its next connection, and have one answer each."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.bridge.ledger import MAX_QUEUED
from tests.bridge.talker import DEAD, HELLO, INITIALIZE, INITIALIZED, KILLED, Talker, answer, call, line, tell


def test_an_unsent_request_waits_for_the_next_connection_before_those_asked_meanwhile() -> None:
    talker = Talker().introduced()
    talker.agent(call(1), call(2))
    talker.exchange.detached()
    talker.agent(call(3))
    talker.exchange.on_gone(KILLED, for_good=False, unsent=[line(call(2))])
    (refused,) = talker.agent_hears()
    assert refused["id"] == 1
    assert "whose outcome is unknown" in refused["error"]["message"]
    talker.server_hears()
    talker.back()
    heard = [message.get("id") for message in talker.server_hears()]
    assert heard == [0, None, 2, 3], "the handshake is replayed before them"
    talker.server(answer(2, "two"), answer(3, "three"))
    assert [message["result"] for message in talker.agent_hears()] == ["two", "three"]
    assert not talker.exchange.is_waiting


def test_for_good_they_are_refused_as_never_begun() -> None:
    talker = Talker().introduced()
    talker.agent(call(1))
    talker.exchange.on_gone(DEAD, for_good=True, unsent=[line(call(1))])
    (refused,) = talker.agent_hears()
    assert refused["id"] == 1
    assert "outcome" not in refused["error"]["message"]
    assert not talker.exchange.is_waiting


def test_one_that_comes_back_again_and_again_has_one_time_limit() -> None:
    """`timeouts.start` counts from when it first came back."""
    talker = Talker(start=30).introduced()
    talker.agent(call(1))
    for _ in range(3):
        talker.exchange.on_gone(KILLED, for_good=False, unsent=[line(call(1))])
        assert talker.agent_hears() == []
        talker.wait(12)
        if not talker.exchange.is_waiting:
            break
        talker.back()
    (late,) = talker.agent_hears()
    assert late["error"]["message"] == 'MCP server "github" was killed by SIGKILL, and did not come back within 30 s'


def test_the_queue_bounds_them() -> None:
    talker = Talker().introduced()
    calls = [call(number) for number in range(1, MAX_QUEUED + 3)]
    talker.agent(*calls)
    talker.exchange.on_gone(KILLED, for_good=False, unsent=[line(each) for each in calls])
    assert [refused["id"] for refused in talker.agent_hears()] == [MAX_QUEUED + 1, MAX_QUEUED + 2]


def test_what_the_agent_has_cancelled_is_not_sent_again() -> None:
    talker = Talker().introduced()
    talker.agent(call(1), tell("notifications/cancelled", requestId=1))
    talker.exchange.on_gone(KILLED, for_good=False, unsent=[line(call(1))])
    talker.server_hears()
    talker.back()
    assert [message["method"] for message in talker.server_hears()] == ["initialize", "notifications/initialized"]


def test_the_handshake_is_replayed_once_and_notifications_about_it_are_not_queued() -> None:
    talker = Talker().introducing()
    lines = [line(INITIALIZE), line(INITIALIZED), line(tell("notifications/roots/list_changed"))]
    talker.exchange.on_gone(KILLED, for_good=False, unsent=lines)
    talker.server_hears()
    talker.exchange.attached()
    talker.server(answer(0, HELLO))
    methods = [message["method"] for message in talker.server_hears()]
    assert methods == ["initialize", "notifications/roots/list_changed"]
    assert [message["id"] for message in talker.agent_hears()] == [0]


@pytest.mark.parametrize("unsent", [b"", b"not json", b"[]", b'{"jsonrpc":"2.0","id":7,"result":{}}', line(call(99))])
def test_lines_that_are_not_open_requests_are_dropped(unsent: bytes) -> None:
    talker = Talker().introduced()
    talker.exchange.on_gone(KILLED, for_good=False, unsent=[unsent])
    talker.back()
    assert "tools/call" not in [message["method"] for message in talker.server_hears()]


def test_the_requests_of_a_batch_come_back_one_by_one() -> None:
    talker = Talker().introduced()
    talker.agent(line([call(1), call(2)]))
    talker.exchange.on_gone(KILLED, for_good=False, unsent=[line([call(1), call(2)])])
    talker.server_hears()
    talker.back()
    assert [message.get("id") for message in talker.server_hears()] == [0, None, 1, 2]


class Fuzz:
    """An agent and a server that do what `step` says with requests chosen at random."""

    def __init__(self, random: Random) -> None:
        self.talker, self.random = Talker().introduced(), random
        self.asked = 0
        self.at_server: dict[int, bytes] = {}
        self.cancelled: set[int] = set()

    def ask(self) -> None:
        self.asked += 1
        self.talker.agent(call(self.asked))

    def answer(self) -> None:
        if self.at_server:
            self.at_server.pop(id := self.random.choice(sorted(self.at_server)))
            self.talker.server(answer(id, "done"))

    def cancel(self) -> None:
        if self.asked:
            self.cancelled.add(id := self.random.randint(1, self.asked))
            self.talker.agent(tell("notifications/cancelled", requestId=id))

    def lose(self) -> None:
        unsent = [said for said in self.at_server.values() if self.random.random() < 0.5]
        self.at_server.clear()
        self.talker.exchange.on_gone(KILLED, for_good=False, unsent=unsent)
        self.talker.back()

    def end(self) -> None:
        self.talker.exchange.on_gone(DEAD, for_good=True, unsent=list(self.at_server.values()))

    def hear(self) -> None:
        for message in self.talker.server_hears():
            if message["method"] == "tools/call":
                self.at_server[message["id"]] = line(message)


STEPS = st.lists(st.sampled_from([Fuzz.ask, Fuzz.answer, Fuzz.cancel, Fuzz.lose]), max_size=40)


@given(STEPS, st.randoms(use_true_random=False))
def test_every_request_has_exactly_one_answer_whatever_comes_back(
    steps: list[Callable[[Fuzz], None]], random: Random
) -> None:
    fuzz = Fuzz(random)
    for step in [*steps, Fuzz.end]:
        step(fuzz)
        fuzz.hear()
    answers = [message["id"] for message in fuzz.talker.agent_hears() if message.get("id")]
    assert len(answers) == len(set(answers))
    assert set(range(1, fuzz.asked + 1)) - fuzz.cancelled <= set(answers)
