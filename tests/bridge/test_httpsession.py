"""Ring 1. The streams of a session over HTTP."""

import json
import random

import pytest

from acp_launch.bridge.http.session import MAX_WAITING, HttpSession
from tests.bridge.replying import Json, Said, Server, line


def begun(version: str = "2025-11-25") -> tuple[HttpSession, Server]:
    server = Server()
    session = HttpSession("an-id", server.send)
    opening = Said()
    session.post(line(id=0, method="initialize", params={}), opening)
    session.receive(line(id=0, result={"protocolVersion": version}))
    assert (opening.status, opening.session, opening.is_over) == (200, "an-id", True)
    server.take()
    return session, server


def call(session: HttpSession, id: object, *, token: object = None, method: str = "tools/call") -> Said:
    said = Said()
    params: Json = {} if token is None else {"_meta": {"progressToken": token}}
    session.post(line(id=id, method=method, params=params), said)
    return said


def listen(session: HttpSession) -> Said:
    said = Said()
    session.listen(said)
    return said


def methods(said: Said) -> list[object]:
    return [message.get("method", message.get("id")) for message in said.messages]


def test_each_message_goes_to_one_stream() -> None:
    """M-30: answers and progress to their requests, questions and log messages to the newest call, the rest to GET."""
    session, _ = begun()
    first, second, alone = call(session, 1, token="a"), call(session, 2, token=7), listen(session)
    listing = call(session, 3, method="tools/list")
    session.receive(line(method="notifications/progress", params={"progressToken": "a", "progress": 1}))
    session.receive(line(method="notifications/progress", params={"progressToken": 7, "progress": 1}))
    session.receive(line(method="notifications/progress", params={"progressToken": "7", "progress": 1}))
    session.receive(line(id="q", method="sampling/createMessage"))
    session.receive(line(method="notifications/message", params={}))
    session.receive(line(method="notifications/tools/list_changed"))
    session.receive(line(id=2, result={}))
    session.receive(line(id="r", method="roots/list"))
    session.receive(line(id=1, result={}))
    session.receive(line(id=3, result={}))
    session.receive(line(id="s", method="roots/list"))
    progress = "notifications/progress"
    assert methods(first) == [progress, "roots/list", 1]
    assert methods(second) == [progress, "sampling/createMessage", "notifications/message", 2]
    assert methods(listing) == [3]
    assert methods(alone) == [progress, "notifications/tools/list_changed", "roots/list"]
    assert first.is_over
    assert not alone.is_over


def test_what_the_client_does_not_listen_for_yet_waits_for_a_stream_within_bounds() -> None:
    """M-30. A question of the server that cannot wait is answered, as it would wait for ever."""
    session, server = begun()
    session.receive(line(id="q", method="roots/list"))
    for number in range(MAX_WAITING):
        session.receive(line(method="notifications/x", params={"n": number}))
    assert server.take() == []
    session.receive(line(id="r", method="roots/list"))
    (refusal,) = server.take()
    assert (refusal["id"], refusal["error"]["code"]) == ("r", -32603)
    alone = listen(session)
    assert methods(alone) == ["roots/list", *["notifications/x"] * (MAX_WAITING - 1)]
    session.lose(alone)
    assert listen(session).messages == []


def test_a_further_listening_stream_takes_the_place_of_the_older_one() -> None:
    session, _ = begun()
    older, newer = listen(session), listen(session)
    session.receive(line(method="notifications/x"))
    assert (older.is_over, older.messages, methods(newer)) == (True, [], ["notifications/x"])


def test_a_session_that_is_resumed_gets_no_notification_twice() -> None:
    """M-53: what waits for a listening stream is sent again by the session."""
    session, _ = begun()
    session.receive(line(method="notifications/x"))
    session.receive(line(id="q", method="roots/list"))
    call(session, 1, method="session/resume")
    assert methods(listen(session)) == ["roots/list"]


def test_a_lost_stream_does_not_cancel_its_request_and_what_is_said_later_goes_to_the_listening_one() -> None:
    session, server = begun()
    said, alone = call(session, 1, token=1), listen(session)
    session.lose(said)
    session.receive(line(method="notifications/progress", params={"progressToken": 1, "progress": 2}))
    session.receive(line(id="q", method="sampling/createMessage"))
    session.receive(line(id=1, result={}))
    assert methods(alone) == ["notifications/progress", "sampling/createMessage"]
    assert [message["method"] for message in server.take()] == ["tools/call"]
    assert not session.is_waiting


def test_a_batch_is_answered_element_by_element() -> None:
    """M-6. The server gets single messages, as a batch is not known to most versions."""
    session, server = begun("2025-03-26")
    said = Said()
    batch = [json.loads(line(id=id, method="tools/list")) for id in (1, "1")]
    session.post(json.dumps([*batch, json.loads(line(method="notifications/x"))]).encode(), said)
    assert [message.get("id") for message in server.take()] == [1, "1", None]
    session.receive(line(id="1", result={}))
    assert not said.is_over
    session.receive(b"[" + line(id=1, result={}) + b"]")
    assert (methods(said), said.is_over) == (["1", 1], True)


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"[1]", b"{}", b'{"jsonrpc":"2.0"}', b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_a_message_is_refused(body: bytes) -> None:
    session, server = begun()
    said = Said()
    session.post(body, said)
    assert (said.status, said.messages[0]["error"]["code"]) == (400, -32700)
    assert server.lines == []


def test_ids_keep_their_type_and_their_spelling() -> None:
    """M-2."""
    session, server = begun()
    said = {id: call(session, id) for id in ("1", 10**25, "ä")}
    plain = call(session, 1)
    assert [message["id"] for message in server.take()] == ["1", 10**25, "ä", 1]
    for id in ("1", 10**25, "ä", 1):
        session.receive(line(id=id, result={"for": repr(id)}))
    assert [each.messages[0]["result"]["for"] for each in (*said.values(), plain)] == ["'1'", repr(10**25), "'ä'", "1"]


def test_an_id_that_is_used_again_belongs_to_the_newer_request() -> None:
    session, _ = begun()
    older, newer = call(session, 1), call(session, 1)
    session.receive(line(id=1, result={}))
    assert (older.messages, older.is_over) == ([], True)
    assert (methods(newer), newer.is_over) == ([1], True)


def test_a_refused_handshake_ends_the_session() -> None:
    server = Server()
    session, said = HttpSession("an-id", server.send), Said()
    session.post(line(id=0, method="initialize"), said)
    session.receive(line(id=0, error={"code": -32602, "message": "no"}))
    assert session.is_refused
    assert (said.status, said.messages[0]["error"]["code"]) == (200, -32602)


def test_the_end_of_a_session_answers_everything() -> None:
    session, _ = begun()
    open_one, json_one, alone = call(session, "1"), call(session, 1), listen(session)
    session.receive(line(id="q", method="roots/list"))
    session.end("the server has gone")
    assert [said.messages[-1]["error"]["message"] for said in (open_one, json_one)] == ["the server has gone"] * 2
    assert [said.messages[-1]["id"] for said in (open_one, json_one)] == ["1", 1]
    assert all(said.is_over for said in (open_one, json_one, alone))


def test_whatever_breaks_each_message_comes_once_in_order() -> None:
    """M-30: an answer to a connection that was lost is dropped; the rest goes elsewhere."""
    for seed in range(30):
        session, _ = begun()
        dice = random.Random(seed)
        alone, lost = listen(session), set[int]()
        streams: dict[int, Said] = {}
        for number in range(200):
            act = dice.choice(["ask", "tell", "answer", "break"]) if streams else "ask"
            id = dice.choice(list(streams)) if streams else 0
            if act == "ask":
                streams[number] = call(session, number, token=number)
            elif act == "tell":
                params = {"progressToken": id, "progress": number}
                session.receive(line(method="notifications/progress", params=params))
            elif act == "answer":
                session.receive(line(id=id, result={}))
                said = streams.pop(id)
                assert ([id] if id not in lost else []) == [each["id"] for each in said.messages if "id" in each]
            else:
                session.lose(streams[id])
                lost.add(id)
        steps = [message["params"]["progress"] for message in alone.messages]
        assert steps == sorted(set(steps))


def test_an_id_that_is_used_twice_in_a_batch_is_answered_once() -> None:
    session, _ = begun("2025-03-26")
    said = Said()
    session.post(json.dumps([json.loads(line(id=1, method="tools/list"))] * 2).encode(), said)
    session.receive(line(id=1, result={}))
    assert (methods(said), said.is_over) == ([1], True)
    assert session.replies == []
