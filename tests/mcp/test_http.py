"""A remote connection without any I/O: what it asks for, and what it makes of the answers."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from acp_launch.mcp.http.connection import RemoteConnection
from acp_launch.mcp.http.site import Endpoint
from acp_launch.mcp.http.wire import Era, Failure, HttpRequest, Limits
from acp_launch.process.lifecycle import Ended
from acp_launch.protocol.jsonrpc import Envelope, decode
from acp_launch.waits import stretch

Json = dict[str, Any]
STREAM, JSON = {"content-type": "text/event-stream"}, {"content-type": "application/json"}
URL = "https://docs.example.com/mcp"
REFUSED = Failure("could not be reached", was_sent=False)
BROKEN = Failure("lost the connection")


class Wire:
    """Records what the connection wants, and plays the server."""

    def __init__(self, **settings: Any) -> None:
        self.delivered: list[Json] = []
        self.sent: list[HttpRequest] = []
        self.closed: list[int] = []
        self.timers: dict[int, float] = {}
        self.ends: list[Ended] = []
        self.notes: list[str] = []
        self.eras: list[Era] = []
        self.time = 0.0
        known, limits = settings.pop("known", ""), settings.pop("limits", Limits())
        url, refusal = settings.pop("url", URL), settings.pop("refusal", None)
        site = Endpoint("docs", url, settings.pop("headers", {}), **settings)
        self.connection = RemoteConnection(site, self, known=known, limits=limits)
        self.connection.refusal = refusal
        self.connection.begin()

    def receive(self, line: bytes, message: Envelope | None = None) -> None:
        assert b"\n" not in line
        assert message is None or message == decode(line), "what it says is what was read of it"
        self.delivered.append(json.loads(line))

    def request(self, request: HttpRequest) -> None:
        self.sent.append(request)

    def drop(self, stream: int) -> None:
        self.closed.append(stream)
        self.timers.pop(stream, None)

    def timer(self, stream: int, after: float) -> None:
        self.timers[stream] = after

    def note_end(self, ended: Ended) -> None:
        self.ends.append(ended)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def remember_era(self, era: Era) -> None:
        self.eras.append(era)

    def now(self) -> float:
        return self.time

    # Shorthands.

    @property
    def last(self) -> HttpRequest:
        return self.sent[-1]

    def say(self, method: str, id: object = None, params: Json | None = None, *, is_sent: bool = True) -> int:
        """Say something; return the number of the request made of it, 0 if there is none. It may wait to be sent."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        message |= {} if id is None else {"id": id}
        message |= {} if params is None else {"params": params}
        before = len(self.sent)
        self.connection.send(json.dumps(message).encode())
        if len(self.sent) == before:
            return 0
        if is_sent:
            self.connection.note_sent(self.last.stream)
        return self.last.stream

    def reply(self, stream: int, status: int, headers: Mapping[str, str] = JSON, body: bytes = b"") -> None:
        self.connection.begin_answer(stream, status, headers)
        if body:
            self.connection.receive_chunk(stream, body)
        self.connection.end_answer(stream)

    def result(self, stream: int, id: object, **more: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18"}}).encode()
        self.reply(stream, 200, {**JSON, **more}, body)

    def wait_until(self, time: float) -> None:
        self.time = time
        self.connection.tick()

    def wake_up(self, stream: int) -> None:
        del self.timers[stream]
        self.connection.on_timer(stream)


def opened(**settings: Any) -> Wire:
    wire = Wire(**settings)
    wire.result(wire.say("initialize", 0, {}), 0, **{"mcp-session-id": "abc"})
    wire.reply(wire.say("notifications/initialized"), 202, {})
    wire.reply(wire.last.stream, 405, {})
    wire.delivered.clear()
    return wire


def introduced(**settings: Any) -> Wire:
    """A server without sessions, which is asked for its event stream now."""
    wire = Wire(**settings)
    wire.result(wire.say("initialize", 0, {}), 0)
    wire.reply(wire.say("notifications/initialized"), 202, {})
    return wire


def streaming(**settings: Any) -> tuple[Wire, int]:
    """The answer to a call is an event stream."""
    wire = opened(**settings)
    stream = wire.say("tools/call", 1)
    wire.connection.begin_answer(stream, 200, STREAM)
    return wire, stream


def test_messages_wait_for_the_session_and_then_go_out_in_order() -> None:
    """M-9: nothing overtakes `notifications/initialized`."""
    wire = Wire()
    first = wire.say("initialize", 0, {})
    assert wire.say("tools/list", 1) == 0
    wire.result(first, 0, **{"mcp-session-id": "abc"})
    assert wire.last.headers["Mcp-Session-Id"] == "abc"
    initialized = wire.say("notifications/initialized")
    assert wire.say("tools/call", 2) == 0
    wire.reply(initialized, 202, {})
    assert [request.method for request in wire.sent[-2:]] == ["GET", "POST"]
    assert wire.last.headers["MCP-Protocol-Version"] == "2025-06-18"


def test_a_batch_is_answered_element_by_element() -> None:
    """M-6."""
    wire = opened()
    wire.connection.send(b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":"1","method":"b"}]')
    first, second = wire.sent[-2:]
    wire.reply(second.stream, 200, JSON, b'[{"jsonrpc":"2.0","id":"1",\r\n"result":2}]')
    wire.reply(first.stream, 200, JSON, b'{"jsonrpc":"2.0","id":1,"result":1}')
    assert [(each["id"], each["result"]) for each in wire.delivered] == [("1", 2), (1, 1)]


@pytest.mark.parametrize("id", [1, "1", 1234567890123456789012345, "ä\\"])
def test_an_answer_comes_back_under_the_id_of_its_request_and_once(id: object) -> None:
    """M-2."""
    wire = opened()
    stream = wire.say("tools/call", id)
    wire.connection.begin_answer(stream, 200, STREAM)
    event = b"data: " + json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}, ensure_ascii=False).encode() + b"\n\n"
    wire.connection.receive_chunk(stream, event + event)
    wire.connection.end_answer(stream)
    assert [each["id"] for each in wire.delivered] == [id]


def test_a_result_of_any_shape_and_unknown_members_pass_unchanged() -> None:
    """M-1, M-3, M-5."""
    wire = opened()
    passed: list[bytes] = []
    wire.receive = lambda line, message=None: passed.append(line)  # type: ignore[method-assign]
    for id, result in enumerate((b"null", b"[1.0,1e400]", b"7", b'{"b":1,"a":123456789012345678901234567890}')):
        line = b'{"x":{"y":1},"jsonrpc":"2.0","id":%d,"result":%b}' % (id, result)
        wire.reply(wire.say("tools/call", id), 200, JSON, line)
        assert passed[-1] == line


def test_the_schemas_of_tools_pass_unchanged_and_nothing_that_they_refer_to_is_fetched() -> None:
    """M-7."""
    wire = opened()
    passed: list[bytes] = []
    wire.receive = lambda line, message=None: passed.append(line)  # type: ignore[method-assign]
    schema = b'{"$ref":"https://docs.example.com/s",  "x-mcp-header":1,"properties":{"a":{"x-mcp-header":"two words"}}}'
    line = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":%b}]}}' % schema
    before = len(wire.sent)
    wire.reply(wire.say("tools/list", 1), 200, JSON, line)
    assert passed == [line]
    assert len(wire.sent) == before + 1


def test_a_stream_with_an_event_id_is_resumed_and_given_up_after_some_attempts_without_news() -> None:
    """M-27."""
    wire, stream = streaming()
    wire.connection.receive_chunk(stream, b"id: 7\nretry: 250\ndata:\n\n")
    wire.connection.end_answer(stream)
    for _ in range(4):
        assert wire.timers[stream] == 0.25
        wire.wake_up(stream)
        assert wire.last.method == "GET"
        assert wire.last.headers["Last-Event-ID"] == "7"
        wire.connection.begin_answer(stream, 200, STREAM)
        wire.connection.fail(stream, BROKEN)
    assert [each["id"] for each in wire.delivered] == [1]
    assert "lost the connection during tools/call" in wire.delivered[0]["error"]["message"]


def test_a_resumed_stream_that_the_server_cannot_be_reached_for_fails_its_request_and_the_connection() -> None:
    wire, stream = streaming()
    wire.connection.receive_chunk(stream, b"id: 7\ndata:\n\n")
    wire.connection.fail(stream, BROKEN)
    pauses = []
    while stream in wire.timers:
        pauses.append(wire.timers[stream])
        wire.wake_up(stream)
        wire.connection.fail(stream, REFUSED)
    assert pauses == [1, 2, 4, 8]
    assert [each["id"] for each in wire.delivered] == [1]
    assert [end.how for end in wire.ends] == ["could not be reached"]
    assert wire.connection.unsent == []


def test_when_the_session_is_gone_no_other_stream_is_asked_for_without_one() -> None:
    wire = opened()
    first, second = (wire.say("tools/call", number) for number in (1, 2))
    for stream in (first, second):
        wire.connection.begin_answer(stream, 200, STREAM)
        wire.connection.receive_chunk(stream, b"id: 7\ndata:\n\n")
        wire.connection.fail(stream, BROKEN)
    wire.wake_up(first)
    wire.reply(first, 404, {})
    sent = len(wire.sent)
    wire.wake_up(second)
    assert len(wire.sent) == sent
    said = [(each["id"], each["error"]["message"]) for each in wire.delivered]
    how = "has closed the session during tools/call, whose outcome is unknown"
    assert [(id, how in text) for id, text in said] == [(1, True), (2, True)]
    assert [end.how for end in wire.ends] == ["has closed the session"]


def test_when_the_session_is_gone_other_requests_are_waited_for_and_tell_whether_they_had_an_effect() -> None:
    """M-28."""
    wire = opened()
    first, second, third, fourth = (wire.say("tools/call", id) for id in (1, 2, 3, 4))
    wire.connection.begin_answer(fourth, 200, STREAM)
    wire.reply(first, 404, {})
    assert wire.say("tools/call", 5) == 0
    wire.reply(third, 404, JSON, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}')
    assert wire.ends == []
    wire.result(second, 2)
    assert [each["id"] for each in wire.delivered] == [2]
    assert wire.ends == [Ended("has closed the session", follows="again")]
    assert [json.loads(line)["id"] for line in wire.connection.unsent] == [1, 3, 5]


def test_a_session_that_is_gone_is_not_waited_for_longer_than_a_moment() -> None:
    wire = opened()
    first, _ = wire.say("tools/call", 1), wire.say("tools/call", 2)
    wire.reply(first, 404, {})
    ((timer, after),) = wire.timers.items()
    assert after == stretch(0.5)
    wire.wake_up(timer)
    assert [end.follows for end in wire.ends] == ["again"]
    assert [json.loads(line)["id"] for line in wire.connection.unsent] == [1]


def test_a_request_that_cannot_be_sent_while_others_are_answered_is_sent_again_and_at_last_fails_alone() -> None:
    wire = opened()
    wire.connection.begin_answer(wire.say("tools/call", 1), 200, STREAM)
    stream, pauses = wire.say("tools/call", 2, is_sent=False), []
    wire.connection.fail(stream, REFUSED)
    while stream in wire.timers:
        assert wire.delivered == []
        pauses.append(wire.timers[stream])
        wire.wake_up(stream)
        wire.connection.fail(stream, REFUSED)
    assert pauses == [1, 2, 4, 8]
    assert [each["error"]["message"] for each in wire.delivered] == ['MCP server "docs" could not be reached']
    assert wire.ends == []


def test_when_the_connection_ends_what_waits_to_be_sent_had_no_effect() -> None:
    """An agent that subscribes again beside its calls, while the server is started again, loses none of them."""
    wire = opened()
    call, _ = wire.say("tools/call", 1, is_sent=False), wire.say("tools/call", 2, is_sent=False)
    wire.connection.fail(call, REFUSED)
    assert (wire.delivered, [end.how for end in wire.ends]) == ([], ["could not be reached"])
    assert [json.loads(line)["id"] for line in wire.connection.unsent] == [1, 2]
    wire = opened()
    call, _, sent = (wire.say("tools/call", id, is_sent=id == 3) for id in (1, 2, 3))
    wire.connection.fail(call, REFUSED)
    assert (wire.delivered, wire.ends, wire.timers) == ([], [], {call: 1}), "one is at the server"
    wire.connection.fail(sent, BROKEN)
    sign = wire.last.stream
    for _ in range(2):
        wire.connection.fail(sign, REFUSED)
        wire.wake_up(sign)
    wire.connection.fail(sign, REFUSED)
    assert [each["id"] for each in wire.delivered] == [3]
    assert [json.loads(line)["id"] for line in wire.connection.unsent] == [1, 2]


def test_when_nothing_lives_what_could_not_be_sent_is_unsent() -> None:
    wire = opened()
    wire.connection.fail(wire.say("tools/call", 1), REFUSED)
    assert (wire.delivered, [end.how for end in wire.ends]) == ([], ["could not be reached"])
    assert [json.loads(line)["id"] for line in wire.connection.unsent] == [1]


def test_a_request_that_waits_to_be_sent_again_and_is_cancelled_is_never_sent() -> None:
    wire = opened()
    stream = wire.say("tools/call", 2)
    wire.reply(stream, 429)
    assert wire.say("notifications/cancelled", None, {"requestId": 2}) == 0
    assert stream not in wire.timers


@pytest.mark.parametrize("failure", [REFUSED, BROKEN])
def test_a_sign_of_life_that_does_not_get_through_is_tried_twice_more_before_all_is_given_up(failure: Failure) -> None:
    wire = opened()
    wire.connection.begin_answer(wire.say("tools/call", 1), 200, STREAM)
    wire.connection.check_health()
    sign = wire.last.stream
    wire.connection.fail(sign, failure)
    for pause in (1, 2):
        assert (wire.timers[sign], wire.ends) == (pause, [])
        wire.wake_up(sign)
        wire.connection.fail(sign, failure)
    assert [end.how for end in wire.ends] == [failure.how]


@pytest.mark.parametrize(
    ("status", "headers", "pauses"),
    [
        (429, {"retry-after": "2"}, [2, 2, 2, 2]),
        (503, {"retry-after": "0"}, [0.25] * 4),
        (429, {}, [1, 2, 4]),
        (429, {"retry-after": "60"}, []),
        (503, {}, []),
        (500, {"retry-after": "1"}, []),
    ],
)
def test_a_request_that_a_busy_server_refuses_is_sent_again_a_few_times_if_it_may_be_soon(
    status: int, headers: Mapping[str, str], pauses: list[float]
) -> None:
    wire = opened()
    stream, waited = wire.say("tools/call", 1), []
    wire.reply(stream, status, headers)
    while stream in wire.timers:
        assert wire.delivered == []
        waited.append(wire.timers[stream])
        wire.wake_up(stream)
        wire.reply(stream, status, headers)
    assert waited == pauses
    (answer,) = wire.delivered
    assert f"answered {status}" in answer["error"]["message"]
    assert ("asked again in 60 s" in answer["error"]["message"]) == (headers.get("retry-after") == "60")
    assert wire.ends == []


@pytest.mark.parametrize("status", [429, 503])
def test_a_handshake_that_a_busy_server_refuses_is_sent_again_as_long_as_the_caller_waits(status: int) -> None:
    wire = Wire()
    wire.connection.send(b'{"jsonrpc":"2.0","id":0,"method":"ping"}')
    wire.reply(
        wire.last.stream, 200, JSON, b'{"jsonrpc":"2.0","id":"acp-launch:1","error":{"code":-32601,"message":"?"}}'
    )
    stream, waited = wire.say("initialize", 1, {}), []
    for _ in range(6):
        wire.reply(stream, status, {})
        waited.append(wire.timers[stream])
        wire.wake_up(stream)
    assert waited == [1, 2, 4, 8, 16, 16]
    assert wire.ends == []


def test_a_refusal_for_headers_that_the_arguments_of_a_tool_want_is_the_servers_answer() -> None:
    wire = Wire(known="modern")
    modern = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    call = wire.say("tools/call", 1, {"name": "region", "arguments": {"where": "north"}, **modern})
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"Mcp-Param-Region is missing"}}'
    wire.reply(call, 400, JSON, error)
    assert [each["error"]["code"] for each in wire.delivered] == [-32020]
    assert (len(wire.sent), wire.ends) == (1, [])


def test_after_the_end_nothing_is_asked_and_every_line_is_unsent() -> None:
    wire = opened()
    wire.connection.stop(Ended("was disconnected", is_clean=True))
    wire.connection.stop(Ended("again"))
    assert wire.say("tools/call", 1) == 0
    assert len(wire.ends) == 1
    assert len(wire.connection.unsent) == 1


def test_a_silent_stream_is_asked_for_a_sign_of_life_and_not_again_before_as_much_silence() -> None:
    """M-42."""
    wire = opened(limits=Limits(silence=30.0))
    wire.say("tools/call", 1)
    wire.wait_until(29.0)
    assert len(wire.sent) == 4
    wire.wait_until(30.0)
    sign = wire.last
    assert (json.loads(sign.body)["method"], sign.patience) == ("ping", stretch(10.0))
    wire.result(sign.stream, json.loads(sign.body)["id"])
    wire.wait_until(59.0)
    assert wire.last is sign
    wire.wait_until(60.0)
    assert wire.last is not sign
    assert wire.delivered == []
    wire.connection.fail(wire.last.stream, Failure("did not answer within 10 s", timed_out=True))
    assert [end.how for end in wire.ends] == ["did not answer within 10 s"]


def test_a_body_that_stops_in_the_middle_is_given_up() -> None:
    wire = opened(limits=Limits(idle=5.0))
    stream = wire.say("tools/call", 1)
    wire.connection.begin_answer(stream, 200, JSON)
    wire.connection.receive_chunk(stream, b'{"jsonrpc":')
    wire.wait_until(5.0)
    assert stream in wire.closed
    assert "stopped in the middle of its answer: nothing came for 5 s" in wire.delivered[0]["error"]["message"]


def test_a_stream_that_stays_open_after_its_answer_is_closed_by_us() -> None:
    wire, stream = streaming()
    wire.connection.receive_chunk(stream, b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n')
    wire.wait_until(4.9)
    assert stream not in wire.closed
    wire.wait_until(5.0)
    assert stream in wire.closed


def test_the_handshake_is_never_cancelled() -> None:
    """M-40."""
    wire = Wire()
    wire.say("initialize", 0, {})
    assert wire.say("notifications/cancelled", None, {"requestId": 0}) == 0
    assert wire.closed == []


def test_the_writer_waits_while_too_much_waits_for_the_session() -> None:
    wire = Wire()
    first = wire.say("initialize", 0, {})
    wire.say("notifications/message", None, {"data": "x" * 2_000_000})
    assert wire.connection.is_full
    wire.result(first, 0)
    assert not wire.connection.is_full


def test_a_redirect_in_circles_is_followed_a_few_times_only() -> None:
    """M-33."""
    wire = Wire()
    stream = wire.say("initialize", 0, {})
    for _ in range(6):
        wire.connection.begin_answer(stream, 307, {"location": "/mcp"})
    assert len(wire.sent) == 6
    assert [end.how for end in wire.ends] == ["redirects to https://docs.example.com"]


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("http://docs.example.com/mcp", "http://docs.example.com"),
        ("https://user:pw@docs.example.com:8443/x?token=abc", "https://docs.example.com:8443"),
        ("//other.example/x", "https://other.example"),
        ("http://[::1]:80/", "http://[::1]"),
        ("http://[bad", "an address that cannot be read"),
    ],
)
def test_no_redirect_leads_to_another_origin(location: str, shown: str) -> None:
    """M-33: and nothing secret of the address shows."""
    wire = Wire(headers={"Authorization": "Bearer abcdef"})
    wire.connection.begin_answer(wire.say("initialize", 0, {}), 302, {"location": location})
    assert len(wire.sent) == 1
    assert [(end.how, end.follows) for end in wire.ends] == [(f"redirects to {shown}", "never")]


@pytest.mark.parametrize("said", ["soon", "-3", "", "9" * 40, "Sun, 22 Nov 2026 20:00:09 GMT"])
def test_another_retry_after_means_nothing(said: str) -> None:
    wire = Wire()
    wire.reply(wire.say("initialize", 0, {}), 503, {"retry-after": said})
    assert [end.pause for end in wire.ends] == [0.0]


def test_a_secret_in_a_long_refusal_is_masked_before_the_text_is_cut() -> None:
    wire = Wire(headers={"Authorization": "Bearer abcdef-0123456789"})
    body = b"x" * 150 + b" abcdef-0123456789"
    wire.reply(wire.say("initialize", 0, {}), 500, {}, body)
    assert wire.ends[0].how == "answered 500 Internal Server Error: " + "x" * 150 + " ***"


def test_a_request_shows_no_header() -> None:
    wire = opened(headers={"Authorization": "Bearer abc"})
    assert repr(wire.last) == f"Request({wire.last.stream}, GET)"


def test_the_event_stream_is_asked_for_less_and_less_often_if_it_ends_at_once() -> None:
    wire = introduced()
    listening = wire.last.stream
    pauses = []
    for _ in range(8):
        wire.connection.begin_answer(listening, 200, STREAM)
        wire.connection.end_answer(listening)
        pauses.append(wire.timers[listening])
        wire.wake_up(listening)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert wire.ends == []


def test_a_permanent_redirect_is_remembered() -> None:
    wire = Wire()
    first = wire.say("initialize", 0, {})
    wire.connection.begin_answer(first, 307, {"location": "/mcp/"})
    wire.result(first, 0)
    assert wire.say("notifications/initialized")
    assert wire.last.url == "https://docs.example.com/mcp/"


def test_a_server_without_an_event_stream_for_get_that_wants_a_login_there_is_used_on() -> None:
    """M-26."""
    wire = introduced()
    wire.reply(wire.last.stream, 401, {})
    assert wire.ends == []
    assert wire.say("tools/list", 1)


def test_nothing_is_sent_after_the_end_of_the_session() -> None:
    """M-29."""
    wire = opened()
    wire.say("tools/call", 1)
    assert wire.connection.leave()
    assert wire.last.method == "DELETE"
    assert wire.say("tools/call", 2) == 0
    before = wire.connection.is_leaving
    wire.reply(wire.last.stream, 405, {})
    assert (before, wire.connection.is_leaving) == (True, False)
    assert wire.ends == []


def test_what_a_request_repeats_in_its_headers_can_always_be_sent() -> None:
    wire = Wire()
    version = "io.modelcontextprotocol/protocolVersion"
    wire.say("a\nb", 1, {"_meta": {version: "größe"}})
    assert all(value.isascii() and value.isprintable() for value in wire.last.headers.values())


def test_a_user_agent_of_the_profile_replaces_ours() -> None:
    assert [name for name in opened(headers={"user-agent": "me"}).last.headers if name.lower() == "user-agent"] == [
        "user-agent"
    ]


# Hostile servers.


@pytest.mark.parametrize("is_listening", [False, True])
def test_a_server_that_wants_to_be_asked_again_without_a_pause_is_given_one(is_listening: bool) -> None:
    wire = opened()
    stream = wire.say("tools/call", 1)
    if is_listening:
        wire = introduced()
        stream = wire.last.stream
    for number in range(3):
        wire.connection.begin_answer(stream, 200, STREAM)
        said = b'id: %d\nretry: 0\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\n' % number
        wire.connection.receive_chunk(stream, said)
        wire.connection.end_answer(stream)
        assert wire.timers[stream] >= 0.25
        wire.wake_up(stream)


@pytest.mark.parametrize("status", [200, 307, 500])
def test_the_head_of_any_answer_is_a_sign_of_life(status: int) -> None:
    wire = opened()
    wire.say("tools/call", 1)
    wire.connection.check_health()
    first = wire.last.stream
    wire.connection.begin_answer(first, status, {"location": "https://elsewhere.example.com/"})
    assert first in wire.closed
    wire.connection.check_health()
    assert wire.last.stream != first
    assert not wire.ends


def test_redirects_are_counted_for_each_request_of_an_event_stream() -> None:
    wire = introduced()
    stream = wire.last.stream
    for _ in range(10):
        wire.connection.begin_answer(stream, 307, {"location": "/there"})
        assert wire.last.url == "https://docs.example.com/there"
        wire.connection.begin_answer(stream, 200, STREAM)
        wire.connection.end_answer(stream)
        wire.wake_up(stream)
        assert wire.last.url == URL


def test_a_stream_whose_rest_is_elsewhere_fails_its_request_with_an_unknown_outcome() -> None:
    wire, stream = streaming()
    wire.connection.receive_chunk(stream, b"id: 7\ndata:\n\n")
    wire.connection.end_answer(stream)
    wire.wake_up(stream)
    wire.connection.begin_answer(stream, 307, {"location": "https://elsewhere.example.com/"})
    assert "whose outcome is unknown" in wire.delivered[0]["error"]["message"]


def test_a_server_that_names_its_endpoint_again_and_again_is_noted_once() -> None:
    """Each verdict is a file that is read."""
    wire = Wire()
    wire.reply(wire.say("initialize", 0, {}), 405, {})
    stream = wire.last.stream
    wire.connection.begin_answer(stream, 200, STREAM)
    for number in range(100):
        wire.connection.receive_chunk(stream, b"event: endpoint\ndata: /messages/%d\n\n" % number)
    assert wire.eras == ["sse"]
    wire.say("tools/list", 1)
    assert wire.last.url == "https://docs.example.com/messages/99"


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (418, {"content-type": "text/plain"}, b'you said a/key"5-\xc3\xa4 \x1b[2J\x1b]0;gone\x07'),
        (418, JSON, json.dumps({"said": 'a/key"5-ä'}).encode()),
        (418, {"content-type": "text/plain"}, b"you said YS9rZXkiNS3DpA=="),
        (200, {"content-type": 'a/key"5-ä\x1b[2J'}, b"x"),
        (307, {"location": "https://Tok-1234567890.example.com/"}, b""),
    ],
)
def test_the_end_of_a_connection_quotes_neither_our_headers_in_any_form_nor_what_drives_a_terminal(
    status: int, headers: Mapping[str, str], body: bytes
) -> None:
    wire = Wire(headers={"X-Env-KEY": 'a/key"5-ä', "Authorization": "Bearer Tok-1234567890"})
    wire.reply(wire.say("initialize", 0, {}), status, headers, body)
    how = wire.ends[0].how
    assert "***" in how
    assert "key" not in how
    assert "1234567890" not in how
    assert how.isprintable()


def test_an_endpoint_elsewhere_that_holds_our_credentials_is_not_told() -> None:
    wire = Wire(type="sse", headers={"Authorization": "Bearer Tok-1234567890"})
    wire.connection.begin_answer(wire.last.stream, 200, STREAM)
    wire.connection.receive_chunk(wire.last.stream, b"event: endpoint\ndata: https://tok-1234567890.example.com/\n\n")
    (end,) = wire.ends
    assert (end.how, end.follows) == ("wants its messages to be sent elsewhere, to https://***.example.com", "never")
    assert len(wire.sent) == 1
