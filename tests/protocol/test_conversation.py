"""Ring 1. ACP v1 from the client's side; every line we could send is judged by the oracle (facts: C-1 … C-67)."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import Raw

from acp_launch.errors import AgentError, LocalProtocolError, RemoteProtocolError
from acp_launch.protocol.acp import Offers
from acp_launch.protocol.conversation import (
    EARLY_UPDATES,
    Completed,
    Conversation,
    Event,
    Opened,
    PermissionAsked,
    Reply,
    ServiceAsked,
    Updated,
    Withdrawn,
)
from acp_launch.protocol.jsonrpc import Answered, Call, Junk
from tests.oracle import check_client_message

EVERYTHING = {
    "loadSession": True,
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "additionalDirectories": {}},
}


class Talk:
    """A conversation and the agent's voice; collects and judges everything the client says."""

    def __init__(self, capabilities: object = None, *, offers: Offers | None = None, **more: object) -> None:
        self.client = Conversation()
        call = self.said(self.client.initialize(offers) if offers else self.client.initialize())
        told = EVERYTHING if capabilities is None else capabilities
        (event,) = self.hear({"id": call["id"], "result": {"protocolVersion": 1, "agentCapabilities": told, **more}})
        assert isinstance(event, Answered)
        self.negotiated = self.client.negotiated(event.result)

    def said(self, call: Call) -> dict[str, Any]:
        assert check_client_message(call.line) == []
        message: dict[str, Any] = json.loads(call.line)
        return message

    def hear(self, message: dict[str, Any]) -> Sequence[Event]:
        return self.client.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def session(self, id: str = "s1") -> None:
        call = self.said(self.client.open("new", "", cwd="/w", servers=[], directories=[]))
        self.hear({"id": call["id"], "result": {"sessionId": id}})

    def update(self, session: str, kind: str, **members: object) -> Sequence[Event]:
        params = {"sessionId": session, "update": {"sessionUpdate": kind, **members}}
        return self.hear({"method": "session/update", "params": params})

    def ask(self, id: object, session: str = "s1") -> Sequence[Event]:
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": session, "toolCall": {"toolCallId": "c"}, "options": options}
        return self.hear({"id": id, "method": "session/request_permission", "params": params})


def test_initialize_is_first_and_alone() -> None:
    """C-15, C-16, C-18, C-20, C-21."""
    client = Conversation()
    message = json.loads(client.initialize().line)
    assert message["params"]["protocolVersion"] == 1
    assert message["params"]["clientInfo"]["name"] == "acp-launch"
    assert message["params"]["clientCapabilities"]["terminal"] is False
    with pytest.raises(LocalProtocolError, match="before initialize is answered"):
        client.open("new", "", cwd="/w", servers=[], directories=[])
    with pytest.raises(LocalProtocolError, match="sent once"):
        client.initialize()


NAMELESS = "names no protocol version"


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        *(
            (f'{{"protocolVersion":{version}}}', f"the agent speaks ACP version {version}, acp-launch speaks version 1")
            for version in (0, 2, 99)
        ),
        *((result, NAMELESS) for result in ("{}", "null", "[]", '{"protocolVersion":"1"}', '{"protocolVersion":true}')),
    ],
)
def test_another_version_ends_it_and_both_are_named(result: str, fault: str) -> None:
    """C-17; an answer without a version is the agent's fault."""
    client = Conversation()
    client.initialize()
    with pytest.raises(RemoteProtocolError, match=fault):
        client.negotiated(Raw(result.encode()))


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"loadSession": None, "sessionCapabilities": None, "mcpCapabilities": None},
        {"loadSession": "yes", "sessionCapabilities": [], "mcpCapabilities": {"http": 1}},
        {"sessionCapabilities": {"list": None, "resume": True, "close": False, "delete": "x"}},
        "nonsense",
    ],
)
def test_what_is_omitted_null_or_malformed_is_unsupported(said: object) -> None:
    """C-19, C-22."""
    able = Talk(said).negotiated.capabilities
    assert not any(getattr(able, name) for name in able.__struct_fields__)


@pytest.mark.parametrize(
    ("how", "session", "capabilities", "more"),
    [
        ("new", {}, EVERYTHING, {"additionalDirectories": ["/lib"]}),
        ("load", {"sessionId": "s9"}, EVERYTHING, {"additionalDirectories": ["/lib"]}),
        ("resume", {"sessionId": "s9"}, EVERYTHING, {"additionalDirectories": ["/lib"]}),
        ("new", {}, {}, {}),
    ],
)
def test_a_session_is_opened_with_everything_that_the_agent_knows(
    how: Any, session: dict[str, str], capabilities: object, more: object
) -> None:
    """C-37, C-38, C-39, C-41, C-42: always a list of servers, and directories only to an agent that knows them."""
    talk = Talk(capabilities)
    server = {"name": "fs", "command": "/bin/x", "args": [], "env": [{"name": "A", "value": "b"}]}
    call = talk.client.open(how, session.get("sessionId", ""), cwd="/w", servers=[server], directories=["/lib"])
    assert talk.said(call)["params"] == {"cwd": "/w", "mcpServers": [server], **session, **more}  # type: ignore[dict-item]


def test_nothing_is_called_that_is_not_advertised() -> None:
    """C-31, C-32, C-33, C-34, C-35."""
    client = Talk({}).client
    calls: dict[str, Callable[[], object]] = {
        "load": lambda: client.open("load", "s", cwd="/w", servers=[], directories=[]),
        "resume": lambda: client.open("resume", "s", cwd="/w", servers=[], directories=[]),
        "close": lambda: client.end("close", "s"),
        "delete": lambda: client.end("delete", "s"),
        "list": client.list_sessions,
    }
    for name, call in calls.items():
        with pytest.raises(LocalProtocolError, match=f"does not advertise session/{name}"):
            call()


def test_list_close_and_delete_are_valid_messages() -> None:
    talk = Talk()
    assert talk.said(talk.client.list_sessions())["params"] == {}
    assert talk.said(talk.client.list_sessions(cwd="/w", cursor="c"))["params"] == {"cwd": "/w", "cursor": "c"}
    assert talk.said(talk.client.end("close", "s"))["method"] == "session/close"
    assert talk.said(talk.client.end("delete", "s"))["method"] == "session/delete"


def test_updates_before_the_answer_to_session_new_are_kept_and_follow_the_opening() -> None:
    """C-43."""
    talk = Talk()
    call = talk.said(talk.client.open("new", "", cwd="/w", servers=[], directories=[]))
    assert talk.update("s1", "available_commands_update", availableCommands=[]) == ()
    assert talk.update("other", "plan", entries=[]) == ()
    events = talk.hear({"id": call["id"], "result": {"sessionId": "s1"}})
    assert [type(event) for event in events] == [Opened, Updated, Answered]
    assert isinstance(events[1], Updated)
    assert (events[1].kind, events[1].replay) == ("available_commands_update", False)


@pytest.mark.parametrize(("count", "text"), [(EARLY_UPDATES, ""), (0, "x" * (9 << 20))], ids=["number", "size"])
def test_what_is_kept_for_unknown_sessions_is_bounded(count: int, text: str) -> None:
    """C-43."""
    talk = Talk()
    for _ in range(count):
        assert talk.update("ghost", "plan", entries=[]) == ()
    (event,) = talk.update("ghost", "plan", entries=[text])
    assert isinstance(event, Junk)


def test_what_comes_while_no_turn_runs_is_outside() -> None:
    """C-59: before the session is known, before the first prompt, between two turns; not within one."""
    talk = Talk()
    call = talk.said(talk.client.open("new", "", cwd="/w", servers=[], directories=[]))
    talk.update("s1", "agent_message_chunk")
    heard = [*talk.hear({"id": call["id"], "result": {"sessionId": "s1"}}), *talk.update("s1", "agent_message_chunk")]
    for reason in ("end_turn", "cancelled"):
        prompt = talk.said(talk.client.prompt("s1", []))
        heard += talk.update("s1", "agent_message_chunk")
        heard += talk.hear({"id": prompt["id"], "result": {"stopReason": reason}})
        heard += talk.update("s1", "agent_message_chunk")
    told = [event for event in heard if isinstance(event, Updated)]
    assert [event.outside for event in told] == [True, True, False, True, False, True]
    assert not any(event.replay for event in told)


def test_a_loaded_session_replays_until_its_first_prompt_and_a_resumed_one_never() -> None:
    """C-44; gemini sends most of the history after the answer."""
    talk = Talk()
    call = talk.said(talk.client.open("load", "s1", cwd="/w", servers=[], directories=[]))
    before = talk.update("s1", "user_message_chunk", content={"type": "text", "text": "hi"})
    opened = talk.hear({"id": call["id"], "result": None})
    after = talk.update("s1", "agent_message_chunk", content={"type": "text", "text": "ho"})
    talk.said(talk.client.prompt("s1", [{"type": "text", "text": "go on"}]))
    live = talk.update("s1", "agent_message_chunk", content={"type": "text", "text": "yes"})
    assert [event.replay for event in [*before, *after, *live] if isinstance(event, Updated)] == [True, True, False]
    assert [type(event) for event in opened] == [Opened, Answered]
    call = talk.said(talk.client.open("resume", "s2", cwd="/w", servers=[], directories=[]))
    (_, _), (told,) = talk.hear({"id": call["id"], "result": {}}), talk.update("s2", "agent_message_chunk")
    assert isinstance(told, Updated)
    assert (told.replay, told.outside) == (False, True)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":%b}}',
        b'\xef\xbb\xbf{ "method": "session/update" , "params" : {"update":%b, "sessionId":"s1"} }\r',
        b'{"params":{"sessionId":"s1","update":%b,"_meta":"' + b"x" * 200 + b'"},"method":"session/update"}',
        b'{"method":"other","method":"session\\/update","params":{"sessionId":"s1","update":%b}}',
    ],
)
def test_an_update_is_the_same_however_it_is_written(line: bytes) -> None:
    """And its bytes stay what they are."""
    talk = Talk()
    body = b'{ "zeta":1e400,"sessionUpdate" : "x_new","big":123456789012345678901234567890,"_meta":{"a":null} }'
    talk.session()
    (event,) = talk.client.receive(line % body)
    assert isinstance(event, Updated)
    assert (event.session_id, event.kind, bytes(event.update)) == ("s1", "x_new", body)


UPDATE = b'{"method":"session/update","params":{"sessionId":"s1","update":%b}}'


@pytest.mark.parametrize(
    "line",
    [
        UPDATE % b'{"sessionUpdate":"\xff"}',
        UPDATE[:-1] % b'{"sessionUpdate":"plan"}',
        UPDATE % b'{"sessionUpdate":"x","y":%b}' % (b"[" * 500_000 + b"]" * 500_000),
        UPDATE % b"{}",
        UPDATE.replace(b'"s1"', b"1") % b'{"sessionUpdate":"x"}',
        *(
            b'{"method":"session/update","params":%b}' % params
            for params in (b"null", b"{}", b"[]", b'{"sessionId":1}')
        ),
    ],
    ids=["bytes", "half", "deep", "no kind", "no session", "null", "empty", "a list", "no update"],
)
def test_a_malformed_update_is_junk_and_ends_nothing(line: bytes) -> None:
    """C-58."""
    talk = Talk()
    talk.session()
    (event,) = talk.client.receive(line)
    assert isinstance(event, Junk)
    assert talk.update("s1", "plan", entries=[])


def test_a_request_that_looks_like_an_update_is_answered() -> None:
    (event,) = Talk().client.receive(UPDATE[:-1] % b'{"sessionUpdate":"plan"}' + b',"id":1}')
    assert isinstance(event, Reply)


def test_our_own_initialize_coming_back_is_no_agent() -> None:
    client = Conversation()
    with pytest.raises(AgentError) as caught:
        client.receive(client.initialize().line)
    assert caught.value.message == "this is not an ACP agent: it echoes its input"


@pytest.mark.parametrize(
    "method",
    ["initialize", "craft/drainMidTurnQueue", "_x/y", "fs/read_text_file", "terminal/create", "elicitation/create"],
)
def test_a_request_we_do_not_serve_is_answered_method_not_found(method: str) -> None:
    """C-8, C-68."""
    talk = Talk()
    (event,) = talk.hear({"id": "u-1", "method": method, "params": {"sessionId": "s1"}})
    assert isinstance(event, Reply)
    error = {"code": -32601, "message": "method not found"}
    assert json.loads(event.line) == {"jsonrpc": "2.0", "id": "u-1", "error": error}
    known = method in ("fs/read_text_file", "terminal/create")
    assert check_client_message(event.line, answers=method if known else "_x/y") == []


@pytest.mark.parametrize("method", ["_auth/status_update", "$/unknown", "elicitation/complete", "whatever"])
def test_a_notification_we_do_not_know_is_ignored(method: str) -> None:
    """C-7, C-9."""
    assert Talk().hear({"method": method, "params": {}}) == ()


@pytest.mark.parametrize("id", [0, "uuid-1", None])
def test_a_permission_question_is_answered_with_the_option_chosen(id: object) -> None:
    """C-6, C-60."""
    talk = Talk()
    talk.session()
    (event,) = talk.ask(id)
    assert isinstance(event, PermissionAsked)
    line = talk.client.permit("s1", event.id, "y")
    assert check_client_message(line, answers="session/request_permission") == []
    assert json.loads(line)["id"] == id
    assert json.loads(line)["result"] == {"outcome": {"outcome": "selected", "optionId": "y"}}
    assert talk.client.permit("s1", event.id, "y") == b""


def test_a_malformed_permission_question_is_refused_not_ignored() -> None:
    """C-60: an unanswered question would hang the agent."""
    talk = Talk()
    (event,) = talk.hear({"id": 1, "method": "session/request_permission", "params": {"sessionId": "s1"}})
    assert isinstance(event, Reply)
    assert json.loads(event.line)["error"]["code"] == -32602


def test_cancelling_answers_every_open_question_and_every_late_one() -> None:
    """C-61."""
    talk = Talk()
    talk.session()
    talk.said(talk.client.prompt("s1", []))
    talk.ask(0)
    talk.ask("b")
    lines = talk.client.cancel("s1")
    messages = [json.loads(line) for line in lines]
    assert messages[0] == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}
    assert [(message["id"], message["result"]["outcome"]) for message in messages[1:]] == [
        (0, {"outcome": "cancelled"}),
        ("b", {"outcome": "cancelled"}),
    ]
    (late,) = talk.ask(7)
    assert isinstance(late, Reply)
    assert json.loads(late.line)["result"] == {"outcome": {"outcome": "cancelled"}}
    assert check_client_message(lines[0]) == []


def test_the_next_turn_after_a_cancelled_one_may_ask_again() -> None:
    talk = Talk()
    talk.session()
    first = talk.said(talk.client.prompt("s1", []))
    talk.client.cancel("s1")
    talk.hear({"id": first["id"], "result": {"stopReason": "cancelled"}})
    talk.said(talk.client.prompt("s1", []))
    assert isinstance(talk.ask(1)[0], PermissionAsked)


def test_one_turn_at_a_time() -> None:
    """C-67."""
    talk = Talk()
    talk.session()
    call = talk.said(talk.client.prompt("s1", []))
    with pytest.raises(LocalProtocolError, match="a turn is running"):
        talk.client.prompt("s1", [])
    talk.hear({"id": call["id"], "error": {"code": -32603, "message": "model"}})
    talk.said(talk.client.prompt("s1", []))


def test_a_withdrawn_request_is_still_answered_once_and_others_are_left_alone() -> None:
    """C-65."""
    talk = Talk()
    talk.session()
    talk.ask(0)
    (event,) = talk.hear({"method": "$/cancel_request", "params": {"requestId": 0}})
    assert isinstance(event, Withdrawn)
    line = talk.client.withdraw("s1", event.id)
    assert json.loads(line)["error"]["code"] == -32800
    assert check_client_message(line, answers="session/request_permission") == []
    assert talk.client.withdraw("s1", event.id) == b""
    others: list[object] = [{"requestId": "0"}, {"requestId": 99}, {}, [], None]
    for params in others:
        assert talk.hear({"method": "$/cancel_request", "params": params}) == ()
    deep = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":' + b"[" * 5000 + b"]" * 5000 + b"}}"
    assert talk.client.receive(deep) == ()


def test_the_three_session_methods_wait_for_their_own_answers() -> None:
    """Two ids in flight, answered in the other order."""
    talk = Talk()
    first = talk.said(talk.client.open("new", "", cwd="/w", servers=[], directories=[]))
    second = talk.said(talk.client.open("new", "", cwd="/w", servers=[], directories=[]))
    later = talk.hear({"id": second["id"], "result": {"sessionId": "b"}})
    earlier = talk.hear({"id": first["id"], "result": {"sessionId": "a"}})
    assert [event.session_id for event in [*later, *earlier] if isinstance(event, Opened)] == ["b", "a"]


@pytest.mark.parametrize("result", ["{}", "null", '{"sessionId":""}', '{"sessionId":7}'])
def test_a_new_session_without_an_id_is_the_agents_fault(result: str) -> None:
    talk = Talk()
    call = talk.said(talk.client.open("new", "", cwd="/w", servers=[], directories=[]))
    with pytest.raises(RemoteProtocolError, match="without a sessionId"):
        talk.hear({"id": call["id"], "result": json.loads(result)})


SERVING = Offers(read_files=True, write_files=True, terminals=True, forms=True, urls=True)
LOGINS = [
    {"id": "browser", "name": "In the browser"},
    {"id": "tty", "name": "On the terminal", "type": "terminal", "args": ["--login"]},
]


def serving() -> Talk:
    """A conversation in which everything is offered, and the agent has two ways to log in."""
    return Talk({**EVERYTHING, "auth": {"logout": {}}}, offers=SERVING, authMethods=LOGINS)


def test_what_was_offered_is_handed_on_and_answered_once() -> None:
    talk = serving()
    talk.session()
    params = {"sessionId": "s1", "path": "/w/a"}
    (event,) = talk.hear({"id": "r", "method": "fs/read_text_file", "params": params})
    assert isinstance(event, ServiceAsked)
    assert (event.method, event.session_id, event.params) == ("fs/read_text_file", "s1", params)
    line = talk.client.serve(event.id, {"content": "x"})
    assert check_client_message(line, answers="fs/read_text_file") == []
    assert talk.client.serve(event.id, {}) == b""
    assert talk.client.refuse(event.id, -1, "no") == b""


def test_a_file_of_no_session_is_refused_and_a_form_of_no_session_is_not() -> None:
    """A form may belong to a login, before any session (ACP v1 "elicitation", scope)."""
    talk = serving()
    (event,) = talk.hear({"id": 1, "method": "fs/read_text_file", "params": {"sessionId": "nobody", "path": "/a"}})
    assert isinstance(event, Reply)
    assert json.loads(event.line)["error"] == {"code": -32602, "message": "no such session is open"}
    (event,) = talk.hear({"id": 2, "method": "elicitation/create", "params": {"requestId": 0, "mode": "form"}})
    assert isinstance(event, ServiceAsked)
    assert event.session_id == ""
    (event,) = talk.hear({"id": 3, "method": "terminal/create", "params": ["no", "object"]})
    assert isinstance(event, Reply)
    assert json.loads(event.line)["error"]["code"] == -32602


def test_a_form_of_a_cancelled_turn_is_cancelled_at_once() -> None:
    talk = serving()
    talk.session()
    talk.said(talk.client.prompt("s1", []))
    talk.client.cancel("s1")
    (event,) = talk.hear({"id": 1, "method": "elicitation/create", "params": {"sessionId": "s1", "mode": "form"}})
    assert isinstance(event, Reply)
    assert check_client_message(event.line, answers="elicitation/create") == []
    assert json.loads(event.line)["result"] == {"action": "cancel"}


def test_the_end_of_an_elicitation_is_heard_and_nonsense_is_not() -> None:
    """C-75."""
    talk = serving()
    assert talk.hear({"method": "elicitation/complete", "params": {"elicitationId": "e1"}}) == (Completed("e1"),)
    nonsense: list[object] = [{}, [], {"elicitationId": 3}, None]
    for params in nonsense:
        assert list(talk.hear({"method": "elicitation/complete", "params": params})) == []


def test_only_an_advertised_login_of_the_agents_own_and_logout_are_asked_for() -> None:
    """C-23, C-24, C-29."""
    talk = serving()
    assert talk.said(talk.client.authenticate("browser"))["params"] == {"methodId": "browser"}
    for wrong in ("tty", "nothing"):
        with pytest.raises(LocalProtocolError, match="does not advertise the login"):
            talk.client.authenticate(wrong)
    assert talk.client.logout().method == "logout"
    with pytest.raises(LocalProtocolError, match="does not advertise logout"):
        Talk().client.logout()


def test_a_boolean_option_says_that_it_is_one() -> None:
    """C-51, C-53."""
    talk = Talk()
    talk.session()
    chosen = talk.said(talk.client.set_option("s1", "model", "m2"))
    assert chosen["params"] == {"sessionId": "s1", "configId": "model", "value": "m2"}
    switched = talk.said(talk.client.set_option("s1", "fast", True))
    assert switched["params"] == {"sessionId": "s1", "configId": "fast", "value": True, "type": "boolean"}
    assert talk.said(talk.client.set_mode("s1", "plan"))["params"] == {"sessionId": "s1", "modeId": "plan"}
    legacy = json.loads(talk.client.set_model("s1", "m1").line)
    assert (legacy["method"], legacy["params"]) == ("session/set_model", {"sessionId": "s1", "modelId": "m1"})


@pytest.mark.parametrize("kind", ["agent_message_chunk", "tool_call_update"])
def test_half_a_character_anywhere_in_an_update_loses_nothing(kind: str) -> None:
    """What an agent in JavaScript makes of an emoji that it cuts."""
    talk = Talk()
    talk.session()
    (event,) = talk.update("s1", kind, content={"type": "text", "text": "cut \ud83d"}, status="completed")
    assert isinstance(event, Updated)
    assert (event.session_id, event.kind) == ("s1", kind)
    assert json.loads(bytes(event.update))["content"]["text"] == "cut \ud83d"
    early = talk.client.receive(
        rb'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1\ud83d","update":{"sessionUpdate":"x"}}}'
    )
    assert early == ()
