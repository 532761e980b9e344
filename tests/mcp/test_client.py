"""Our side of a conversation with a server, without any process: lines in, events out (MCP 2025-11-25)."""

import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.mcp.client import Event, McpClient, messages
from acp_launch.mcp.message import LogMessage, Progress
from acp_launch.protocol.conversation import Reply
from acp_launch.protocol.jsonrpc import Answered, Junk
from tests import rawjson

ROOTS = (PurePosixPath("/project/a b%c"), PurePosixPath("/lib/é"))
LISTED = {
    "roots": [{"uri": "file:///project/a%20b%25c", "name": "a b%c"}, {"uri": "file:///lib/%C3%A9", "name": "é"}],
}


def received(client: McpClient, line: bytes) -> list[Event]:
    return [event for message in messages(line) for event in client.receive(message)]


def heard(client: McpClient, message: object) -> Event:
    (event,) = received(client, json.dumps(message).encode())
    return event


def reply(client: McpClient, message: object) -> object:
    event = heard(client, message)
    assert isinstance(event, Reply)
    return json.loads(event.line)


@pytest.mark.parametrize(("declares", "capabilities"), [(False, {}), (True, {"roots": {"listChanged": True}})])
def test_initialize_names_us_the_newest_version_with_a_handshake_and_roots_on_demand(
    declares: bool, capabilities: object
) -> None:
    message = json.loads(McpClient(ROOTS, declares_roots=declares).initialize().line)
    assert message["method"] == "initialize"
    assert message["params"]["protocolVersion"] == "2025-11-25"
    assert message["params"]["capabilities"] == capabilities
    assert message["params"]["clientInfo"]["name"] == "acp-launch"


@pytest.mark.parametrize("id", ["roots-request-1", 1, "1", 0])
def test_the_roots_are_the_directories_in_their_order_under_the_id_of_the_question(id: object) -> None:
    client = McpClient(ROOTS)
    assert reply(client, {"id": id, "method": "roots/list"}) == {"jsonrpc": "2.0", "id": id, "result": LISTED}
    assert client.roots_asked == 1


def test_a_ping_is_answered_and_what_was_not_offered_is_refused() -> None:
    client = McpClient(ROOTS)
    assert reply(client, {"id": 1, "method": "ping"}) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    for method in ("sampling/createMessage", "elicitation/create", "unheard/of"):
        refused = {"code": -32601, "message": f"acp-launch does not offer {method}"}
        assert reply(client, {"id": method, "method": method}) == {"jsonrpc": "2.0", "id": method, "error": refused}


def test_progress_and_log_messages_are_news_and_other_notifications_are_none() -> None:
    client = McpClient(ROOTS)
    told = {"progressToken": 1, "progress": 2, "total": 3.5, "message": "half"}
    assert heard(client, {"method": "notifications/progress", "params": told}) == Progress(2.0, 3.5, "half")
    wild = {"progress": 10**400, "total": "many"}
    assert heard(client, {"method": "notifications/progress", "params": wild}) == Progress(0.0, 0.0, "")
    said = {"level": "info", "logger": "db", "data": {"rows": 3}}
    assert heard(client, {"method": "notifications/message", "params": said}) == LogMessage("info", "db", '{"rows": 3}')
    assert list(received(client, b'{"method": "notifications/tools/list_changed"}')) == []


def test_a_batch_is_read_message_by_message() -> None:
    """MCP 2025-03-26: a client MUST be able to receive them."""
    client = McpClient(ROOTS)
    call = client.call("tools/list", {})
    batch = [{"id": call.number, "result": {}}, {"id": "p", "method": "ping"}, {"jsonrpc": "2.0"}]
    kinds = [type(event) for event in received(client, json.dumps(batch).encode())]
    assert kinds == [Answered, Reply, Junk]


@pytest.mark.parametrize(
    "line", [b"Welcome!", b"", b"[1, 2", b"\xff", b"42", b'{"id": 7, "result": {}}', b"[[]]", b"[" * 200_000]
)
def test_what_is_no_message_is_junk(line: bytes) -> None:
    (event,) = received(McpClient(ROOTS), line)
    assert isinstance(event, Junk)


def test_half_an_emoji_does_not_cost_the_message() -> None:
    """JavaScript cuts texts between the halves of a surrogate pair; an escaped backslash begins no escape."""
    client = McpClient(ROOTS)
    number = client.call("tools/call", {}).number
    (event,) = received(
        client, rb'{"id":%d,"result":["\ud83d","\ud83d\ude00","\\ud83d","\uD83D\u0041","\ude00"]}' % number
    )
    assert isinstance(event, Answered)
    assert json.loads(bytes(event.result)) == ["\ud83d", "\U0001f600", "\\ud83d", "\ud83dA", "\ude00"]


def test_a_cancellation_names_the_request_and_why() -> None:
    client = McpClient(ROOTS)
    client.initialize()
    call = client.call("tools/call", {})
    params = {"requestId": call.number, "reason": "it took too long"}
    expected = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    assert json.loads(client.cancel(call.number, "it took too long")) == expected


WORDS = st.sampled_from(["ping", "roots/list", "notifications/progress", "notifications/message", "x"])
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))
MESSAGES = st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), VALUES | WORDS)


HEARD = ["ping", "roots/list", "notifications/progress", "notifications/message"]
RAW = rawjson.messages(HEARD, b'{"level":"\\ud83d"}', b'{"progress":1e999,"message":"\\ud83d"}')


@given(st.binary() | MESSAGES.map(lambda message: json.dumps(message).encode()) | RAW)
def test_no_line_is_a_surprise(line: bytes) -> None:
    client = McpClient(ROOTS)
    client.call("tools/list", {})
    for event in received(client, line):
        assert isinstance(event, Event)


@given(MESSAGES, st.binary(max_size=3))
def test_whatever_is_asked_gets_one_answer_under_its_own_id(message: dict[str, object], id: bytes) -> None:
    asked = {**message, "id": id.hex(), "method": "ping"}
    assert reply(McpClient(ROOTS), asked) == {"jsonrpc": "2.0", "id": id.hex(), "result": {}}
