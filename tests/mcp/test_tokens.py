"""What a remote connection makes of requests for which there is no token, whatever they were for."""

from typing import Any

import pytest

from acp_launch.mcp.http.wire import Failure

from .test_http import JSON, STREAM, Wire, opened

LOGIN = "acp-launch mcp login p docs"
REFUSED = Failure("answered 401 Unauthorized, even to a new token", LOGIN, is_final=True)
DENIED = Failure("is not logged in", LOGIN, was_sent=False, is_final=True, is_denied=True)
LATER = Failure("cannot be asked now", "try again", was_sent=False, is_denied=True)


def started(**settings: Any) -> Wire:
    return opened(login=LOGIN, refusal=REFUSED, **settings)


@pytest.mark.parametrize("failure", [DENIED, LATER])
def test_a_request_without_a_token_fails_alone(failure: Failure) -> None:
    wire = started()
    first, second = wire.say("tools/call", 1), wire.say("tools/call", 2)
    wire.connection.fail(first, failure)
    wire.result(second, 2)
    refused, answered = wire.delivered
    assert refused["error"]["message"] == f'MCP server "docs" {failure.how}; {failure.fix}'
    assert "result" in answered
    assert (wire.ends, wire.connection.unsent) == ([], [])


def test_a_notification_without_a_token_is_noted_once() -> None:
    wire = started()
    for _ in range(2):
        wire.connection.fail(wire.say("notifications/roots/list_changed"), DENIED)
    assert wire.notes == [f"is not logged in; {LOGIN}"]
    assert (wire.delivered, wire.ends) == ([], [])


def test_the_servers_own_messages_are_asked_for_again_later() -> None:
    wire = Wire(login=LOGIN, refusal=REFUSED)
    wire.result(wire.say("initialize", 0, {}), 0)
    wire.reply(wire.say("notifications/initialized"), 202, {})
    listening = wire.last.stream
    assert wire.last.method == "GET"
    wire.connection.fail(listening, DENIED)
    wire.wake_up(listening)
    wire.reply(listening, 401, {})
    wire.wake_up(listening)
    assert [request.method for request in wire.sent[-3:]] == ["GET"] * 3
    assert wire.ends == []


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_sign_of_life_without_a_token_does_not_end_the_connection(is_sent: bool) -> None:
    wire = started()
    wire.connection.check_health()
    sign = wire.last.stream
    if is_sent:
        wire.reply(sign, 401, {})
    else:
        wire.connection.fail(sign, DENIED)
    assert wire.ends == []
    wire.connection.check_health()
    assert wire.last.stream != sign, "the next one is asked for"


def test_a_stream_that_cannot_be_resumed_without_a_token_fails_its_requests() -> None:
    wire = started()
    call = wire.say("tools/call", 1)
    wire.connection.begin_answer(call, 200, STREAM)
    wire.connection.receive_chunk(call, b"id: 1\ndata:\n\n")
    wire.connection.end_answer(call)
    wire.wake_up(call)
    wire.connection.fail(call, DENIED)
    (failed,) = wire.delivered
    assert failed["error"]["message"].endswith(" during tools/call, whose outcome is unknown")
    assert wire.ends == []


def test_a_handshake_without_a_token_is_not_tried_again_unless_that_may_help() -> None:
    for failure, follows, fault in ((DENIED, "never", "credentials"), (LATER, "judged", "")):
        wire = Wire(login=LOGIN, refusal=REFUSED)
        wire.connection.fail(wire.say("initialize", 0, {}), failure)
        (end,) = wire.ends
        assert (end.how, end.reason, end.follows, end.fault) == (failure.how, failure.fix, follows, fault)
        assert len(wire.connection.unsent) == 1


def test_the_end_of_a_session_without_a_token_is_not_waited_for() -> None:
    wire = started()
    assert wire.connection.leave()
    wire.connection.fail(wire.last.stream, DENIED)
    assert not wire.connection.is_leaving


def test_an_error_of_the_server_itself_is_passed_on_unless_scopes_are_lacking() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"not yours"}}'
    lacking = {**JSON, "www-authenticate": 'Bearer error="insufficient_scope", scope="b"'}
    for headers, told in (
        (JSON, "not yours"),
        (lacking, 'MCP server "docs" answered 403 Forbidden: it wants the scopes b'),
    ):
        wire = started()
        wire.reply(wire.say("tools/call", 1), 403, headers, body)
        assert wire.delivered[0]["error"]["message"].startswith(told)
        assert wire.ends == []
