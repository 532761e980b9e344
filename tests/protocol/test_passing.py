"""Ring 1. What passes between an editor and an agent changes in its id alone, and every request has one answer."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from acp_launch.protocol import jsonrpc
from acp_launch.protocol.conversation import Conversation, Passing, PermissionAsked, Updated, Withdrawn
from acp_launch.protocol.jsonrpc import Called, Junk, Peer

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
IDS = st.integers(-(2**70), 2**70) | st.text(max_size=8) | st.none() | st.floats(allow_nan=False, allow_infinity=False)
LAYOUTS = st.sampled_from([None, (", ", ": "), (",\t", " :\r ")])
GREETING = b'{"jsonrpc":"2.0","id":"g","method":"initialize","params":{"protocolVersion":1,"x":1.50}}'


def said(message: object, layout: tuple[str, str] | None = None) -> bytes:
    return json.dumps(message, separators=layout).encode()


@given(IDS, VALUES, st.text(min_size=1), LAYOUTS)
def test_nothing_but_the_id_changes_of_a_request_and_of_its_answer(
    id: object, value: object, method: str, layout: tuple[str, str] | None
) -> None:
    asked = {"jsonrpc": "2.0", "x": value, "id": "here", "method": method, "params": value}
    call = Peer().pass_on(method, said(asked, layout))
    assert call.line == said({**asked, "id": call.number}, layout) + b"\n"
    agent = Peer()
    called = agent.receive(said({"id": id, "method": method}))
    assert isinstance(called, Called)
    answer = {"result": value, "id": 7, "y": value}
    assert agent.settle(called.id, said(answer, layout)) == said({**answer, "id": id}, layout) + b"\n"
    assert not agent.owes(called.id)


def test_a_second_request_with_the_id_of_an_open_one_is_answered_too_where_messages_pass() -> None:
    line = said({"id": 1, "method": "x"})
    peer = Peer()
    peer.receive(line)
    assert isinstance(peer.receive(line), Junk)
    peer.allow_duplicate_ids = True
    assert isinstance(peer.receive(line), Called)
    answers = [peer.settle(Raw(b"1"), said({"id": 0, "result": number})) for number in (1, 2)]
    assert [json.loads(answer)["result"] for answer in answers] == [1, 2]
    assert not peer.owes(Raw(b"1"))


def passing() -> Conversation:
    """A conversation with an agent that an editor has greeted, with one session, `s`."""
    conversation = Conversation()
    call = conversation.initialize_for(GREETING)
    assert call.line == GREETING.replace(b'"g"', b"0") + b"\n"
    conversation.negotiated(Raw(b'{"protocolVersion":1}'))
    call = conversation.open("new", "", cwd="/", servers=(), directories=(), asked={"cwd": "/", "x": 1})
    assert json.loads(call.line)["params"] == {"cwd": "/", "x": 1, "mcpServers": []}
    conversation.receive(said({"id": call.number, "result": {"sessionId": "s"}}))
    return conversation


@pytest.mark.parametrize(
    "message",
    [
        {"method": "_vendor/notice", "params": [1]},
        {"method": "elicitation/complete", "params": {"elicitationId": "e"}},
        {"method": "session/update", "params": {"nothing": "of it"}},
        {"id": 1, "method": "fs/read_text_file", "params": {"sessionId": "s"}},
        {"id": 1, "method": "session/request_permission", "params": {"sessionId": "of another"}},
    ],
)
def test_what_is_for_the_editor_comes_as_it_is(message: dict[str, Any]) -> None:
    line = said(message)
    (event,) = passing().receive(line)
    assert isinstance(event, Passing)
    assert (event.line, event.id is None) == (line, "id" not in message)


def test_what_concerns_a_session_is_read_and_keeps_its_line() -> None:
    conversation = passing()
    update = said(
        {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "x"}, "_meta": 1}}
    )
    (event,) = conversation.receive(update)
    assert isinstance(event, Updated)
    assert event.line == update
    question = said({"id": "q", "method": "session/request_permission", "params": {"sessionId": "s", "options": []}})
    (event,) = conversation.receive(question)
    assert isinstance(event, PermissionAsked)
    assert event.line == question
    taken = said({"method": "$/cancel_request", "params": {"requestId": "q"}})
    (event,) = conversation.receive(taken)
    assert isinstance(event, Withdrawn)
    assert event.line == taken
    assert json.loads(conversation.settle(event.id, said({"id": 3, "result": {}}))) == {"id": "q", "result": {}}
    assert conversation.settle(event.id, b"{}") == b"", "it was answered"
    assert jsonrpc.decode(conversation.refuse(event.id, 1, "again")) is None
