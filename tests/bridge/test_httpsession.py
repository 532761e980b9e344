"""Ring 1. The streams of a session over HTTP."""

import json
import random

import pytest

from acp_launch.bridge.front.session import KEPT_EVENTS, LISTENING, HttpSession
from tests.bridge.replying import Json, Said, Server, line


def begun(version: str = "2025-11-25", *, kept: int = 1 << 20) -> tuple[HttpSession, Server]:
    server = Server()
    session = HttpSession("an-id", server, kept=kept)
    opening = Said()
    session.posts(line(id=0, method="initialize", params={}), opening)
    session.says(line(id=0, result={"protocolVersion": version}))
    assert (opening.status, opening.session) == (200, "an-id")
    assert not opening.is_open
    server.take()
    return session, server


def call(session: HttpSession, id: object, *, token: object = None, method: str = "tools/call", **how: bool) -> Said:
    said = Said(**how)
    params: Json = {} if token is None else {"_meta": {"progressToken": token}}
    session.posts(line(id=id, method=method, params=params), said)
    return said


def listen(session: HttpSession, last: str = "") -> Said:
    said = Said()
    session.listens(said, last)
    return said


def methods(said: Said) -> list[object]:
    return [message.get("method", message.get("id")) for message in said.messages]


def test_each_message_goes_to_one_stream() -> None:
    """M-30: answers and progress to their requests, questions and log messages to the newest call, the rest to GET."""
    session, _ = begun()
    first, second, alone = call(session, 1, token="a"), call(session, 2, token=7), listen(session)
    listing = call(session, 3, method="tools/list")
    session.says(line(method="notifications/progress", params={"progressToken": "a", "progress": 1}))
    session.says(line(method="notifications/progress", params={"progressToken": 7, "progress": 1}))
    session.says(line(method="notifications/progress", params={"progressToken": "7", "progress": 1}))
    session.says(line(id="q", method="sampling/createMessage"))
    session.says(line(method="notifications/message", params={}))
    session.says(line(method="notifications/tools/list_changed"))
    session.says(line(id=2, result={}))
    session.says(line(id="r", method="roots/list"))
    session.says(line(id=1, result={}))
    session.says(line(id=3, result={}))
    session.says(line(id="s", method="roots/list"))
    progress = "notifications/progress"
    assert methods(first) == [progress, "roots/list", 1]
    assert methods(second) == [progress, "sampling/createMessage", "notifications/message", 2]
    assert methods(listing) == [3]
    assert methods(alone) == [progress, "notifications/tools/list_changed", "roots/list"]
    assert first.is_over
    assert not alone.is_over


def test_what_nobody_listens_for_waits_for_a_stream_within_bounds() -> None:
    """M-30. A question of the server that is dropped is answered, as it would wait for ever."""
    session, server = begun()
    session.says(line(id="q", method="roots/list"))
    for number in range(KEPT_EVENTS):
        session.says(line(method="notifications/x", params={"n": number}))
    (refusal,) = server.take()
    assert (refusal["id"], refusal["error"]["code"]) == ("q", -32603)
    alone = listen(session)
    assert [message["params"]["n"] for message in alone.messages] == list(range(KEPT_EVENTS))
    session.gone(alone)
    assert listen(session).messages == []


def test_the_newest_of_several_listening_streams_gets_the_messages() -> None:
    session, _ = begun()
    streams = [listen(session) for _ in range(LISTENING + 1)]
    assert [stream.is_over for stream in streams] == [True, *[False] * LISTENING]
    session.says(line(method="notifications/x"))
    session.gone(streams[-1])
    session.says(line(method="notifications/y"))
    assert [methods(stream) for stream in streams[-2:]] == [["notifications/y"], ["notifications/x"]]


@pytest.mark.parametrize(("version", "primed"), [("2025-11-25", True), ("2025-06-18", False), ("2025-03-26", False)])
def test_a_stream_begins_with_an_id_to_resume_at_if_the_client_knows_that(version: str, primed: bool) -> None:
    session, _ = begun(version)
    said = call(session, 1)
    assert said.is_open
    assert said.ids == (["2-0"] if primed else [])
    assert (b"retry: 1000" in said.text) is primed


def test_a_lost_stream_is_resumed_after_the_last_event_that_came() -> None:
    """M-27 from the server's side: what was missed in order, then what follows, and nothing twice."""
    session, _ = begun()
    said = call(session, 1, token=1)
    for step in range(4):
        session.says(line(method="notifications/progress", params={"progressToken": 1, "progress": step}))
        if step == 1:
            session.gone(said)
    again = listen(session, said.ids[-1])
    assert [message["params"]["progress"] for message in again.messages] == [2, 3]
    session.says(line(id=1, result={}))
    assert methods(again)[-1] == 1
    assert again.is_over
    late = listen(session, again.ids[-2])
    assert (methods(late), late.is_over) == ([1], True)


def test_the_listening_stream_is_resumed_as_well() -> None:
    session, _ = begun()
    alone = listen(session)
    for number in range(4):
        session.says(line(method="notifications/x", params={"n": number}))
    session.gone(alone)
    session.says(line(method="notifications/x", params={"n": 4}))
    again = listen(session, alone.ids[2])
    assert [message["params"]["n"] for message in again.messages] == [2, 3, 4]


@pytest.mark.parametrize("last", ["9-1", "x", "-", "1-", "1-x", "²-1", "9" * 5000 + "-1"])
def test_an_event_that_is_not_known_is_refused_without_ending_the_session(last: str) -> None:
    session, _ = begun()
    assert listen(session, last).status == 400
    assert not call(session, 1).is_over


def test_a_client_that_was_gone_before_its_stream_began_is_not_waited_for() -> None:
    """It knows no id to resume at; the request goes on, and its answer is dropped."""
    session, server = begun()
    opening = Said()
    session.posts(line(id=5, method="initialize"), opening)
    session.gone(opening)
    session.says(line(id=5, result={"protocolVersion": "2025-11-25"}))
    assert [message["id"] for message in server.take()] == [5]
    assert not session.is_waiting
    assert session.replies == []


def test_a_client_that_takes_json_alone_gets_json() -> None:
    """M-25. What else the server says goes to the listening stream."""
    session, _ = begun()
    said, alone = call(session, 1, token=1, takes_events=False), listen(session)
    session.says(line(method="notifications/progress", params={"progressToken": 1, "progress": 1}))
    session.says(line(id=1, result={}))
    assert (said.is_open, methods(said)) == (False, [1])
    assert methods(alone) == ["notifications/progress"]


@pytest.mark.parametrize("takes_events", [True, False])
def test_a_batch_is_answered_element_by_element(takes_events: bool) -> None:
    """M-6. The server gets single messages, as a batch is not known to most versions."""
    session, server = begun("2025-03-26")
    said = Said(takes_events=takes_events)
    batch = [json.loads(line(id=id, method="tools/list")) for id in (1, "1")]
    session.posts(json.dumps([*batch, json.loads(line(method="notifications/x"))]).encode(), said)
    assert [message.get("id") for message in server.take()] == [1, "1", None]
    session.says(line(id="1", result={}))
    assert not said.is_over
    session.says(b"[" + line(id=1, result={}) + b"]")
    assert (methods(said), said.is_over) == (["1", 1], True)


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"[1]", b"{}", b'{"jsonrpc":"2.0"}', b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_a_message_is_refused(body: bytes) -> None:
    session, server = begun()
    said = Said()
    session.posts(body, said)
    assert (said.status, said.messages[0]["error"]["code"]) == (400, -32700)
    assert server.lines == []


def test_ids_keep_their_type_and_their_spelling() -> None:
    """M-2."""
    session, server = begun()
    said = {id: call(session, id) for id in ("1", 10**25, "ä")}
    plain = call(session, 1)
    assert [message["id"] for message in server.take()] == ["1", 10**25, "ä", 1]
    for id in ("1", 10**25, "ä", 1):
        session.says(line(id=id, result={"for": repr(id)}))
    assert [each.messages[0]["result"]["for"] for each in (*said.values(), plain)] == ["'1'", repr(10**25), "'ä'", "1"]


def test_an_id_that_is_used_again_belongs_to_the_newer_request() -> None:
    session, _ = begun()
    older, newer = call(session, 1), call(session, 1)
    session.says(line(id=1, result={}))
    assert (older.messages, older.is_over) == ([], True)
    assert (methods(newer), newer.is_over) == ([1], True)


def test_a_refused_handshake_gives_no_session() -> None:
    server = Server()
    session, said = HttpSession("an-id", server), Said()
    session.posts(line(id=0, method="initialize"), said)
    session.says(line(id=0, error={"code": -32602, "message": "no"}))
    assert session.is_refused
    assert (said.status, said.session, said.messages[0]["error"]["code"]) == (200, "", -32602)


def test_a_long_handshake_becomes_a_stream_that_shows_life() -> None:
    server = Server()
    session, said = HttpSession("an-id", server), Said()
    session.posts(line(id=0, method="initialize"), said)
    session.beat()
    assert (said.is_open, said.session) == (True, "an-id")
    session.says(line(id=0, result={"protocolVersion": "2025-11-25"}))
    assert (methods(said), said.is_over) == ([0], True)


def test_an_answer_that_cannot_be_kept_becomes_an_error() -> None:
    """Each request gets exactly one answer, also when its client was gone for too long."""
    session, _ = begun(kept=10_000)
    lost = [call(session, id) for id in range(1, 6)]
    for said in lost:
        session.gone(said)
    for id in range(1, 6):
        session.says(line(id=id, result={"x": "y" * 4000}))
    answers = [listen(session, said.ids[0]).messages for said in lost]
    assert [[message["id"] for message in each] for each in answers] == [[1], [2], [3], [4], [5]]
    assert [each[0].get("error", {}).get("code") for each in answers] == [-32010, -32010, -32010, None, None]


def test_the_end_of_a_session_answers_everything() -> None:
    session, _ = begun()
    open_one, json_one, alone = call(session, "1"), call(session, 1, takes_events=False), listen(session)
    session.end("the server has gone")
    assert [said.messages[0]["error"]["message"] for said in (open_one, json_one)] == ["the server has gone"] * 2
    assert [said.messages[0]["id"] for said in (open_one, json_one)] == ["1", 1]
    assert all(said.is_over for said in (open_one, json_one, alone))


class Clients:
    """Requests whose clients lose their connections, and resume."""

    def __init__(self, session: HttpSession, dice: random.Random) -> None:
        self.session, self.dice = session, dice
        self.streams: dict[int, list[Said]] = {}
        self.unanswered: list[int] = []

    def asks(self, step: int) -> None:
        self.streams[step] = [call(self.session, step, token=step)]
        self.unanswered.append(step)

    def hears(self, step: int) -> None:
        params = {"progressToken": self.dice.choice(self.unanswered), "progress": step}
        self.session.says(line(method="notifications/progress", params=params))

    def is_answered(self, step: int) -> None:
        id = self.unanswered.pop(self.dice.randrange(len(self.unanswered)))
        self.session.says(line(id=id, result={}))

    def breaks(self, step: int) -> None:
        self.session.gone(self.dice.choice(list(self.streams.values()))[-1])

    def resumes(self, step: int) -> None:
        self.resume(self.dice.choice(list(self.streams.values())))

    def resume(self, tried: list[Said]) -> None:
        self.session.gone(tried[-1])
        seen = [id for said in tried for id in said.ids]
        tried.append(listen(self.session, max(seen, key=lambda id: int(id.split("-")[1]))))

    def step(self, number: int) -> None:
        steps = [self.asks, *([self.hears, self.is_answered] if self.unanswered else [])]
        self.dice.choice([*steps, *([self.breaks, self.resumes] if self.streams else [])])(number)


def test_whatever_breaks_each_request_gets_one_answer_and_each_message_comes_once() -> None:
    """M-30."""
    for seed in range(30):
        session, _ = begun()
        clients = Clients(session, random.Random(seed))
        for number in range(200):
            clients.step(number)
        while clients.unanswered:
            clients.is_answered(0)
        for tried in clients.streams.values():
            clients.resume(tried)
        for id, tried in clients.streams.items():
            came = [message for said in tried for message in said.messages]
            assert [message["id"] for message in came if "id" in message] == [id]
            steps = [message["params"]["progress"] for message in came if "method" in message]
            assert steps == sorted(set(steps))
