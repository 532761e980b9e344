"""A conversation whose server dies and comes back: docs/internals.md "Restart of a server"."""

import json
import re
from collections.abc import Callable
from typing import NoReturn

import pytest

from acp_launch.bridge import exchange
from acp_launch.bridge.exchange import ServerSide
from acp_launch.bridge.toolpolicy import ToolPolicy
from acp_launch.profile.model import Tools
from acp_launch.waits import FIRST_NOTICE
from tests.bridge.talker import (
    ANEW,
    DEAD,
    HELLO,
    INITIALIZE,
    INITIALIZED,
    Json,
    Talker,
    answer,
    ask,
    call,
    line,
    tell,
)

LOST = 'MCP server "github" was killed by SIGKILL'


def test_the_handshake_passes_and_makes_the_server_ready() -> None:
    talker = Talker().introducing()
    assert talker.server_heard == [line(INITIALIZE)]
    assert talker.events == []
    talker.server(answer(0, HELLO))
    assert talker.agent_heard == [line(answer(0, HELLO))]
    assert talker.events == ["alive", "ready"]


def test_what_the_agent_says_before_the_answer_to_its_handshake_waits_for_it() -> None:
    """M-9: in order, and `initialized` first."""
    talker = Talker().attached()
    early = [ask(2, "tools/list"), INITIALIZED, tell("notifications/x")]
    talker.agent(INITIALIZE, *early)
    assert talker.server_hears() == [INITIALIZE]
    talker.server(answer(0, HELLO))
    assert talker.server_hears() == [INITIALIZED, early[0], early[2]]


def test_a_refused_handshake_lets_the_rest_pass() -> None:
    talker = Talker().attached()
    talker.agent(INITIALIZE, ask(2, "tools/list"))
    talker.server({"jsonrpc": "2.0", "id": 0, "error": {"code": -32000, "message": "no"}})
    assert [each["id"] for each in talker.server_hears()] == [0, 2]


DISCOVER = ask("d", "server/discover", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"})


def refused_discovery(talker: Talker) -> bool:
    return [(each["id"], each["error"]["code"]) for each in talker.agent_hears()] == [("d", -32601)]


@pytest.mark.parametrize("is_running", [True, False])
def test_an_agent_that_asks_for_the_newer_era_does_not_wait_for_a_silent_server(is_running: bool) -> None:
    """M-10: nor for one that has not started. A late answer is dropped, and the next agent is refused at once."""
    talker = Talker()
    if is_running:
        talker.exchange.attached()
    talker.agent(DISCOVER)
    talker.exchange.tick()
    assert talker.agent_hears() == []
    talker.wait(2)
    assert refused_discovery(talker)
    if not is_running:
        talker.exchange.attached()
    assert [each["method"] for each in talker.server_hears()] == (["server/discover"] if is_running else [])
    talker.server(answer("d", {}))
    assert talker.agent_hears() == []
    talker.agent(DISCOVER)
    assert refused_discovery(talker) == is_running


def test_the_end_of_a_server_is_the_answer_to_a_question_for_its_era() -> None:
    """M-10: not an unknown outcome."""
    talker = Talker().attached()
    talker.agent(DISCOVER)
    assert talker.exchange.is_discovering
    talker.exchange.on_gone(DEAD, for_good=True)
    assert refused_discovery(talker)
    assert not talker.exchange.is_discovering


def test_questions_of_a_server_that_the_agent_does_not_answer_are_bounded() -> None:
    talker = Talker().introduced(sampling={})
    for number in range(1001):
        talker.server(ask(number, "sampling/createMessage"))
    assert [each["id"] for each in talker.agent_hears()] == list(range(1000))
    (refused,) = talker.server_hears()
    assert (refused["id"], refused["error"]["message"]) == (1000, "too many requests are already waiting for an answer")
    talker.agent(answer(7, {}))
    talker.server(ask(1001, "sampling/createMessage"))
    assert talker.agent_hears()[-1]["id"] == 1001


@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc": "2.0", "method":"x/unknown" , "zeta":[1,2], "params":{"b":1,"a":1e400,"n":1.0},"_meta":null}',
        b'{"id":123456789012345678901234567890,"jsonrpc":"2.0","method":"x/y","params":{"n":123456789012345678901}}',
        b' {"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"\\u2028 a\\n"}}\r',
        '{"jsonrpc":"2.0","method":"x","params":{"é":"\u2028"}}'.encode(),
    ],
)
def test_what_we_do_not_know_passes_byte_for_byte_both_ways(message: bytes) -> None:
    talker = Talker().introduced()
    talker.agent(message)
    talker.server(message)
    assert talker.server_heard == [message]
    assert talker.agent_heard == [message]


@pytest.mark.parametrize("result", ["null", "[]", "5", '"x"', '{"a":{"b":1e999}}'])
def test_a_result_of_any_shape_reaches_who_asked(result: str) -> None:
    talker = Talker().introduced()
    talker.agent(call(1))
    said = f'{{"jsonrpc":"2.0","id":1,"result":{result},"more":true}}'.encode()
    talker.server(said)
    assert talker.agent_heard == [said]


def test_a_number_and_a_text_that_look_alike_are_two_ids() -> None:
    talker = Talker().introduced()
    talker.agent(call(1), call("1"))
    talker.server(answer("1", "text"), answer(1, "number"))
    assert [(each["id"], each["result"]) for each in talker.agent_hears()] == [("1", "text"), (1, "number")]


def test_an_id_may_come_back_written_differently() -> None:
    talker = Talker().introduced()
    talker.agent(b'{"jsonrpc":"2.0","id":"caf\\u00e9","method":"tools/call","params":{}}')
    talker.server('{"jsonrpc":"2.0","id":"café","result":{}}'.encode())
    assert len(talker.agent_heard) == 1


@pytest.mark.parametrize("id", ['"\\ud83d"', '"caf\\u00e9 \\uDE00"'])
@pytest.mark.parametrize("echo", [str, str.lower, lambda id: id.replace("caf", "\\u0063af")])
def test_an_id_with_half_a_character_has_its_answer_too(id: str, echo: Callable[[str], str]) -> None:
    talker = Talker().introduced()
    talker.agent(f'{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}'.encode())
    said = f'{{"jsonrpc":"2.0","id":{echo(id)},"result":{{"tools":[]}}}}'.encode()
    talker.server(b'{"jsonrpc":"2.0","id":"\\udbff","result":{}}', said, said)
    assert talker.agent_heard == [said]
    assert not talker.exchange.is_waiting


def test_what_is_not_utf8_is_never_passed_on_beside_half_a_character() -> None:
    """Three bytes that Python's JSON would take for half a character, and others for the end of the conversation."""
    talker = Talker().introduced()
    talker.agent(b'{"jsonrpc":"2.0","id":1,"method":"x","params":["\\ud83d","\xed\xa0\x80"]}')
    assert talker.server_heard == []
    (refused,) = talker.agent_hears()
    assert refused["error"]["code"] == -32700


class BugError(Exception):
    """One of ours, which nobody foresaw."""


def bug(*args: object) -> NoReturn:
    raise BugError("its words may hold a secret")


BROKEN = {"code": -32603, "message": "this message was not passed on, by a bug in acp-launch"}


def test_an_answer_we_fail_to_handle_is_made_good_and_costs_nothing_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    talker = Talker(tools=Tools(deny=("x",))).introduced()
    talker.agent(ask(1, "tools/list"), ask(2, "y"), ask(3, "tools/list"))
    monkeypatch.setattr(ToolPolicy, "filtered", bug)
    talker.server(
        line([answer(1, {"tools": []}), answer(2, "here")]), answer(3, {"tools": []}), tell("notifications/z")
    )
    assert talker.agent_hears() == [
        {"jsonrpc": "2.0", "id": 1, "error": BROKEN},
        [answer(2, "here")],
        {"jsonrpc": "2.0", "id": 3, "error": BROKEN},
        tell("notifications/z"),
    ]
    assert not talker.exchange.is_waiting
    (note,) = [event for event in talker.events if event.startswith("note")]  # for both: they failed at one place
    place = r"\(BugError in bridge\.\w+:\d+\)"
    said = "note: a message of the MCP server github was skipped because of a bug in acp-launch; please report it "
    assert re.fullmatch(said + place, note)


def test_a_request_we_fail_to_handle_is_answered_and_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    talker = Talker(tools=Tools(deny=("x",))).introduced()
    with monkeypatch.context() as patch:
        patch.setattr(ToolPolicy, "refusal", bug)
        talker.agent(call(1), tell("notifications/z"))
    talker.agent(call(2))
    assert talker.agent_hears() == [{"jsonrpc": "2.0", "id": 1, "error": BROKEN}]
    assert talker.server_hears() == [call(2)]
    talker.server(answer(1, "late"), answer(2, "here"))
    assert talker.agent_hears() == [answer(2, "here")]


def test_a_question_of_the_server_we_fail_to_handle_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    talker = Talker().introduced(sampling={})
    with monkeypatch.context() as patch:
        patch.setattr(ServerSide, "_own_answer", bug)
        talker.server(ask(5, "sampling/createMessage"))
    assert talker.server_hears() == [{"jsonrpc": "2.0", "id": 5, "error": BROKEN}]
    assert talker.agent_hears() == []


def test_an_answer_of_the_agent_we_fail_to_handle_is_made_good(monkeypatch: pytest.MonkeyPatch) -> None:
    talker = Talker().introduced(sampling={})
    talker.server(ask(5, "sampling/createMessage"))
    with monkeypatch.context() as patch:
        patch.setattr(exchange, "key", bug)
        talker.agent(answer(5, "sampled"))
    assert talker.server_hears() == [{"jsonrpc": "2.0", "id": 5, "error": BROKEN}]


def test_every_request_has_one_answer_however_often_the_server_gives_it() -> None:
    talker = Talker().introduced()
    talker.agent(call(1))
    talker.server(answer(1, 1), answer(1, 2), answer(99, 3))
    assert [each["result"] for each in talker.agent_hears()] == [1]


def test_lines_that_are_no_messages_are_skipped_and_said_once() -> None:
    talker = Talker().introduced()
    talker.server(b"Server started!", b"", b"[1,2", b"42", b'{"neither":1}', b"\xff\xfe")
    assert talker.agent_heard == []
    noted = "note: github writes lines to stdout that are not messages: 'Server started!'"
    assert [event for event in talker.events if event.startswith("note")] == [noted]


def test_what_an_agent_sends_and_is_no_message_is_answered_so() -> None:
    talker = Talker().introduced()
    talker.agent(b"hello?", b"   ", b"[]")
    assert [each["error"]["code"] for each in talker.agent_hears()] == [-32700, -32700]
    assert talker.server_heard == []


def test_a_batch_passes_as_the_line_it_is_and_each_of_it_is_answered() -> None:
    talker = Talker().introduced()
    batch = b'[ {"jsonrpc":"2.0","id":1,"method":"a"} ,{"jsonrpc":"2.0","method":"n"},{"id":2,"method":"b"}]'
    talker.agent(batch)
    assert talker.server_heard == [batch]
    answers = b'[{"jsonrpc":"2.0","id":2,"result":{}}, {"jsonrpc":"2.0","id":1,"result":{}}]'
    talker.server(answers)
    assert talker.agent_heard == [answers]


def test_an_answer_without_a_request_is_cut_out_of_a_batch() -> None:
    talker = Talker().introduced()
    talker.agent(call(1))
    talker.server(b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":7,"result":{}}]')
    assert talker.agent_heard == [b'[{"jsonrpc":"2.0","id":1,"result":{}}]']


# The server dies.


def test_calls_in_flight_are_answered_with_who_died_how_and_what_comes_next() -> None:
    talker = Talker().introduced()
    talker.agent(call(1), call("two"))
    talker.killed()
    words = f"{LOST} during tools/call, whose outcome is unknown; it is being started again"
    error = {"code": -32010, "message": words, "data": {"server": "github", "stderr": ["oh"]}}
    assert talker.agent_hears() == [
        {"jsonrpc": "2.0", "id": 1, "error": error},
        {"jsonrpc": "2.0", "id": "two", "error": error},
    ]


def test_the_agents_own_handshake_is_replayed_and_its_answer_kept_from_it() -> None:
    talker = Talker().introduced().killed()
    talker.exchange.attached()
    assert talker.server_heard == [line(INITIALIZE)], "and not a word more before it is answered"
    talker.server(answer(0, HELLO))
    assert talker.server_heard == [line(INITIALIZE), line(INITIALIZED)]
    assert talker.agent_heard == []
    assert talker.events == ["alive", "ready", "ready"]


def test_what_is_asked_meanwhile_waits_and_is_asked_in_order() -> None:
    talker = Talker().introduced().killed()
    talker.agent(call(1), tell("notifications/x"), call(2))
    talker.back()
    assert [each.get("id", each["method"]) for each in talker.server_hears()][2:] == [1, "notifications/x", 2]
    talker.server(answer(2, {}), answer(1, {}))
    assert [each["id"] for each in talker.agent_hears()] == [2, 1]


def test_a_call_that_the_dead_process_had_is_never_sent_again() -> None:
    talker = Talker().introduced()
    talker.agent(call(1))
    talker.server_hears()
    talker.restarted()
    assert [each["method"] for each in talker.server_hears()] == ["initialize", "notifications/initialized"]


def test_a_handshake_that_was_never_answered_is_answered_by_the_next_process() -> None:
    talker = Talker().introducing().killed()
    assert talker.agent_heard == [], "it is only late"
    talker.back()
    assert talker.agent_heard == [line(answer(0, HELLO))]
    talker.agent(INITIALIZED, call(1))
    assert [each["method"] for each in talker.server_hears()][-2:] == ["notifications/initialized", "tools/call"]


def test_a_handshake_before_there_is_a_process_waits_for_it() -> None:
    talker = Talker()
    talker.agent(INITIALIZE)
    assert talker.server_heard == []
    talker.back()
    assert talker.agent_heard == [line(answer(0, HELLO))]


def test_once_it_is_gone_for_good_everything_is_refused_at_once_with_its_last_words() -> None:
    talker = Talker().introduced().killed()
    talker.agent(call(1))
    talker.exchange.on_gone(DEAD, for_good=True)
    talker.agent(call(2), INITIALIZE, tell("notifications/x"))
    why = "exited with status 1; 5 restarts are used up; its last stderr lines: no token / bye"
    words = f'MCP server "github" failed: {why}'
    assert [(each["id"], each["error"]["message"]) for each in talker.agent_hears()] == [
        (1, words),
        (2, words),
        (0, words),
    ]


def test_the_level_and_the_subscriptions_are_restored() -> None:
    talker = Talker().introduced()
    talker.agent(ask(1, "logging/setLevel", level="debug"), ask(2, "resources/subscribe", uri="a:1"))
    talker.agent(ask(3, "resources/subscribe", uri="a:2"), ask(4, "resources/subscribe", uri="a:3"))
    talker.server(
        *(answer(id, {}) for id in (1, 2, 3)), {"jsonrpc": "2.0", "id": 4, "error": {"code": 1, "message": "n"}}
    )
    talker.agent(ask(5, "resources/unsubscribe", uri="a:1"))
    talker.server(answer(5, {}))
    talker.agent_hears(), talker.server_hears()
    talker.restarted()
    heard = talker.server_hears()[2:]
    assert [(each["method"], each["params"]) for each in heard] == [
        ("logging/setLevel", {"level": "debug"}),
        ("resources/subscribe", {"uri": "a:2"}),
    ]
    talker.server(*(answer(each["id"], {}) for each in heard))
    assert talker.agent_heard == [], "the answers are ours"


def shown(talker: Talker, method: str, member: str, *items: object) -> None:
    """The agent is shown a list."""
    talker.agent(ask(50, method))
    talker.server(answer(50, {member: list(items)}))
    talker.agent_hears(), talker.server_hears()


def listed_again(talker: Talker, *lists: Json) -> list[str]:
    """After a restart the server answers our list requests so; what the agent hears of it."""
    talker.restarted()
    asked = [each for each in talker.server_hears() if each["method"].endswith("/list")]
    assert len(asked) == len(lists)
    talker.server(*(answer(each["id"], result) for each, result in zip(asked, lists, strict=True)))
    return [each["method"] for each in talker.agent_hears()]


def test_list_changed_is_said_when_a_list_differs_and_only_then() -> None:
    talker = Talker().introduced()
    shown(talker, "tools/list", "tools", {"name": "a", "title": "A"}, {"name": "b"})
    shown(talker, "prompts/list", "prompts", {"name": "p"})
    same, other = {"tools": [{"title": "A", "name": "a"}, {"name": "b"}]}, {"tools": [{"name": "a"}]}
    assert listed_again(talker, same, {"prompts": [{"name": "p"}]}) == []
    assert listed_again(talker, other, {"prompts": []}) == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
    ]


def test_resources_and_their_templates_are_said_once() -> None:
    talker = Talker().introduced()
    shown(talker, "resources/list", "resources", {"uri": "a:1"})
    shown(talker, "resources/templates/list", "resourceTemplates", {"uriTemplate": "a:{x}"})
    changed = listed_again(talker, {"resources": []}, {"resourceTemplates": []})
    assert changed == ["notifications/resources/list_changed"]


def test_lists_of_several_pages_are_compared_whole() -> None:
    talker = Talker().introduced()
    talker.agent(ask(1, "tools/list"))
    talker.server(answer(1, {"tools": [{"name": "a"}], "nextCursor": "2"}))
    talker.agent(ask(2, "tools/list", cursor="2"))
    talker.server(answer(2, {"tools": [{"name": "b"}]}))
    assert talker.exchange.tools == 2
    talker.agent_hears()
    talker.restarted()
    first = talker.server_hears()[-1]
    talker.server(answer(first["id"], {"tools": [{"name": "a"}], "nextCursor": "x"}))
    second = talker.server_hears()[-1]
    assert second["params"] == {"cursor": "x"}
    talker.server(answer(second["id"], {"tools": [{"name": "b"}]}))
    assert talker.agent_heard == []


def test_questions_of_the_dead_server_are_cancelled_at_the_agent_and_late_answers_go_nowhere() -> None:
    talker = Talker().introduced(sampling={})
    talker.server(ask("s-1", "sampling/createMessage"))
    talker.agent_hears()
    talker.killed()
    assert talker.agent_hears() == [
        tell("notifications/cancelled", requestId="s-1", reason=LOST),
    ]
    talker.back()
    talker.server_hears()
    talker.agent(answer("s-1", {"late": True}))
    assert talker.server_heard == []


def test_the_same_question_of_the_next_process_is_told_from_the_dead_ones() -> None:
    talker = Talker().introduced(sampling={})
    talker.server(ask(0, "sampling/createMessage"))
    talker.restarted()
    talker.agent_hears(), talker.server_hears()
    talker.server(ask(0, "sampling/createMessage", n=2))
    (asked,) = talker.agent_hears()
    assert asked["id"] != 0
    assert asked["params"] == {"n": 2}
    talker.agent(answer(0, "late"))
    assert talker.server_heard == []
    talker.agent(answer(asked["id"], "right"))
    assert talker.server_hears() == [answer(0, "right")]


def test_a_server_that_refuses_the_replay_is_of_no_use() -> None:
    talker = Talker().introduced().killed()
    talker.exchange.attached()
    talker.server({"jsonrpc": "2.0", "id": 0, "error": {"code": -32602, "message": "Unsupported protocol version"}})
    assert talker.agent_heard == []
    said = "wedged: refused the agent's handshake after its restart: Unsupported protocol version"
    assert talker.events[-1] == said


def test_a_server_of_the_era_without_handshake_is_ready_with_its_first_answer() -> None:
    talker = Talker().attached()
    talker.agent(ask(1, "server/discover"))
    talker.server(answer(1, {"supportedVersions": ["2026-07-28"]}))
    assert talker.events == ["alive", "ready"]
    talker.killed()
    talker.agent(call(2))
    talker.exchange.attached()
    assert [each["method"] for each in talker.server_hears()] == ["server/discover", "tools/call"]


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
def test_a_server_without_tools_is_not_one_whose_tools_the_agent_has_not_read(method: str) -> None:
    for able, count in (({"tools": {}}, None), ({"prompts": {}}, 0)):
        talker = Talker().attached()
        talker.agent(INITIALIZE if method == "initialize" else ask(0, method))
        assert talker.exchange.tools is None
        talker.server(answer(0, {**HELLO, "capabilities": able}))
        assert (talker.exchange.tools, talker.exchange.is_unread) == (count, count is None)


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_an_agent_that_lists_or_calls_tools_knows_them(method: str) -> None:
    talker = Talker().introducing()
    talker.server(answer(0, {**HELLO, "capabilities": {"tools": {}}}))
    assert talker.exchange.is_unread
    talker.agent(ask(1, method))
    talker.server(answer(1, {"tools": []}))
    assert not talker.exchange.is_unread


# A person has it started anew.


def test_what_was_gone_for_good_and_is_started_anew_gets_the_handshake_and_what_waited() -> None:
    talker = Talker().introduced()
    talker.exchange.on_gone(DEAD, for_good=True)
    talker.agent(call(1))
    assert [each["id"] for each in talker.agent_hears()] == [1]
    talker.exchange.on_gone(ANEW, for_good=False)
    assert talker.exchange.state.phase == "absent"
    talker.agent(call(2))
    assert talker.agent_heard == []
    talker.back()
    assert [each["method"] for each in talker.server_hears()] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    talker.server(answer(2, "done"))
    assert talker.agent_hears() == [answer(2, "done")]


def test_a_call_in_flight_at_a_server_that_is_restarted_by_hand_is_told_who_did_it() -> None:
    talker = Talker().introduced()
    talker.agent(call(1))
    talker.server_hears()
    talker.exchange.detached()
    talker.agent(call(2))
    assert talker.agent_heard == [], "its process is still being ended"
    talker.exchange.on_gone(ANEW, for_good=False)
    said = (
        'MCP server "github" was restarted by the user during tools/call, whose outcome is unknown; '
        "it is being started again"
    )
    assert [(each["id"], each["error"]["message"]) for each in talker.agent_hears()] == [(1, said)]
    talker.back()
    assert [each["id"] for each in talker.server_hears() if each.get("method") == "tools/call"] == [2]


def test_a_handshake_that_was_refused_for_good_is_not_replayed_when_it_is_started_anew() -> None:
    talker = Talker().introducing()
    introduced = [talker.exchange.is_introduced]
    talker.server_hears()
    talker.exchange.on_gone(DEAD, for_good=True)
    assert [each["error"]["code"] for each in talker.agent_hears()] == [-32010]
    introduced.append(talker.exchange.is_introduced)
    talker.exchange.on_gone(ANEW, for_good=False)
    talker.exchange.attached()
    assert talker.server_heard == []
    talker.agent({**INITIALIZE, "id": 5})
    talker.server(answer(5, HELLO))
    assert talker.agent_hears() == [answer(5, HELLO)]
    assert [*introduced, talker.exchange.is_introduced] == [True, False, True]


# Cancelling, progress, pings, time-outs.


def test_a_cancelled_call_that_waits_is_never_sent_and_never_answered() -> None:
    talker = Talker().introduced().killed()
    talker.agent(call(1), call(2), tell("notifications/cancelled", requestId=1))
    talker.back()
    assert [each["id"] for each in talker.server_hears() if each["method"] == "tools/call"] == [2]
    assert talker.agent_heard == []


def test_a_cancelled_call_is_not_missed_when_its_server_dies() -> None:
    talker = Talker().introduced()
    talker.agent(call(1), tell("notifications/cancelled", requestId=1))
    assert talker.server_hears()[-1]["method"] == "notifications/cancelled"
    talker.killed()
    assert talker.agent_heard == []


def test_an_agents_ping_is_answered_for_a_busy_or_absent_server_and_passed_to_an_idle_one() -> None:
    talker = Talker().introduced()
    talker.agent(ask("p", "ping"))
    assert [each["method"] for each in talker.server_hears()] == ["ping"]
    talker.server(answer("p", {}))
    talker.agent_hears()
    talker.agent(call(1), ask("q", "ping"))
    assert talker.agent_hears() == [answer("q", {})]
    talker.server(answer(1, {}))
    talker.agent_hears()
    talker.killed()
    talker.agent(ask("r", "ping"))
    assert talker.agent_hears() == [answer("r", {})]


def test_a_call_over_its_limit_is_answered_cancelled_and_its_late_answer_dropped() -> None:
    limit = 4 * FIRST_NOTICE
    talker = Talker(call=limit).introduced()
    talker.agent(call(1))
    talker.server_hears()
    for _ in range(3):
        talker.wait(FIRST_NOTICE)
    assert talker.agent_heard == []
    waiting = "waiting: answer to tools/call from the MCP server github"
    words = [event for event in talker.events if event.startswith("waiting")]
    assert words == [f"{waiting} for {word:g} of {limit:g} s" for word in (FIRST_NOTICE, 3 * FIRST_NOTICE)]
    talker.wait(FIRST_NOTICE)
    (told,) = talker.agent_hears()
    assert (
        told["error"]["message"] == f'MCP server "github" did not answer tools/call within {limit:g} s (timeouts.call)'
    )
    assert f"note: mcp server github did not answer tools/call within {limit:g} s (timeouts.call)" in talker.events
    assert talker.server_hears()[0] == tell("notifications/cancelled", requestId=1, reason="timed out")
    talker.server(answer(1, {}))
    assert talker.agent_heard == []


def test_progress_is_a_sign_of_life_of_the_call_that_owns_the_token() -> None:
    talker = Talker(call=10).introduced()
    talker.agent(ask(1, "tools/call", _meta={"progressToken": "t"}), ask(2, "tools/call"))
    talker.clock += 8
    talker.server(tell("notifications/progress", progressToken="t", progress=1))
    talker.clock += 8
    talker.agent_hears()
    talker.exchange.tick()
    assert [each["id"] for each in talker.agent_hears()] == [2]


def knowing_ping(call: float | None = None) -> Talker:
    """A server that answered our probe."""
    talker = Talker(call=call)
    talker.exchange.attached(probe=True)
    (probe,) = talker.server_hears()
    talker.server(answer(probe["id"], {}))
    assert talker.agent_heard == [], "the probe is ours"
    talker.agent(INITIALIZE)
    talker.server(answer(0, HELLO))
    talker.agent(INITIALIZED)
    talker.agent_hears(), talker.server_hears()
    return talker


def test_after_a_time_out_a_server_that_answers_no_ping_is_wedged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.bridge.ledger.MIN_PING_TIMEOUT", 5)
    talker = knowing_ping(call=10)
    talker.agent(call(1))
    talker.wait(10)
    assert [each["method"] for each in talker.server_hears()] == ["tools/call", "notifications/cancelled", "ping"]
    talker.wait(10)
    assert "wedged: no longer answers, not even a ping" not in talker.events
    talker.wait(1)
    assert talker.events[-1] == "wedged: no longer answers, not even a ping"


def test_after_a_time_out_a_server_that_answers_the_ping_was_only_slow() -> None:
    talker = knowing_ping(call=10)
    talker.agent(call(1))
    talker.wait(10)
    talker.server(answer(talker.server_hears()[-1]["id"], {}))
    talker.wait(25)
    assert not any(event.startswith("wedged") for event in talker.events)


def test_a_stopped_process_is_wedged_as_soon_as_a_call_is_over_its_limit() -> None:
    talker = Talker(call=10).introduced()
    talker.agent(call(1))
    talker.clock += 10
    talker.exchange.tick(is_stopped=True)
    assert talker.events[-1] == "wedged: is stopped (SIGSTOP)"


def test_an_idle_server_that_misses_three_pings_is_wedged() -> None:
    talker = knowing_ping()
    for _ in range(3):
        talker.wait(31)
        assert talker.server_hears()[-1]["method"] == "ping"
        assert not any(event.startswith("wedged") for event in talker.events)
    talker.wait(31)
    assert talker.events[-1].startswith("wedged")


def test_a_busy_server_is_never_asked_whether_it_lives() -> None:
    talker = knowing_ping()
    talker.agent(call(1))
    talker.server_hears()
    for _ in range(20):
        talker.wait(31)
    assert talker.server_heard == []
    assert not any(event.startswith("wedged") for event in talker.events)


def test_a_request_that_waits_longer_than_a_start_may_take_is_answered() -> None:
    talker = Talker(start=30).introduced().killed()
    talker.agent(call(1))
    talker.wait(30)
    (told,) = talker.agent_hears()
    assert told["error"]["message"] == f"{LOST}, and did not come back within 30 s"
    talker.back()
    assert not any(each["method"] == "tools/call" for each in talker.server_hears())


def test_more_than_may_wait_is_refused() -> None:
    talker = Talker().introduced().killed()
    talker.agent(*(call(number) for number in range(1001)))
    (told,) = talker.agent_hears()
    assert told["id"] == 1000
    assert told["error"]["message"] == f"{LOST}; it is being started again"


# Roots and tools.


def test_roots_are_answered_by_us_when_the_agent_declared_none() -> None:
    talker = Talker().introduced()
    talker.server(ask("roots-request-1", "roots/list"))
    roots = [{"uri": "file:///project/a%20b", "name": "a b"}, {"uri": "file:///lib/%C3%A9%25", "name": "é%"}]
    assert talker.server_hears() == [answer("roots-request-1", {"roots": roots})]
    assert talker.agent_heard == []


def test_roots_are_the_agents_when_it_declared_them() -> None:
    talker = Talker().introduced(roots={"listChanged": True})
    talker.server(ask(5, "roots/list"))
    assert [each["method"] for each in talker.agent_hears()] == ["roots/list"]
    talker.agent(answer(5, {"roots": []}))
    assert talker.server_hears() == [answer(5, {"roots": []})]


def test_a_server_that_asks_before_the_handshake_gets_an_error() -> None:
    talker = Talker()
    talker.exchange.attached(probe=True)
    talker.server_hears()
    talker.server(ask(1, "ping"), ask(2, "roots/list"), ask(3, "sampling/createMessage"))
    ping, roots, sampling = talker.server_hears()
    assert ping == answer(1, {})
    assert len(roots["result"]["roots"]) == 2
    assert sampling["error"]["message"] == "no client has introduced itself yet"
    assert talker.agent_heard == []


def test_denied_tools_are_neither_listed_nor_called_and_not_counted() -> None:
    talker = Talker(tools=Tools(deny=("delete_*",))).introduced()
    talker.agent(ask(1, "tools/list"))
    talker.server(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}, {"name":"delete_x"}],"k" : 1}}')
    assert talker.agent_heard == [b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}],"k" : 1}}']
    assert talker.exchange.tools == 1
    talker.agent_hears(), talker.server_hears()
    talker.agent(call(2, "delete_x"), call(3, "a"))
    (refused,) = talker.agent_hears()
    assert refused["id"] == 2
    said = 'the tool "delete_x" of "github" is not allowed by the profile (tools.deny: delete_*)'
    assert refused["error"] == {"code": -32602, "message": said}
    assert [each["id"] for each in talker.server_hears()] == [3]


def test_a_denied_call_is_cut_out_of_a_batch() -> None:
    talker = Talker(tools=Tools(allow=("a",))).introduced()
    talker.agent(line([call(1, "a"), call(2, "b")]))
    assert talker.server_hears() == [[call(1, "a")]]
    assert [each["id"] for each in talker.agent_hears()] == [2]


def test_denied_tools_are_no_difference_after_a_restart() -> None:
    talker = Talker(tools=Tools(deny=("x",))).introduced()
    shown(talker, "tools/list", "tools", {"name": "a"}, {"name": "x", "v": 1})
    assert listed_again(talker, {"tools": [{"name": "a"}, {"name": "x", "v": 2}]}) == []


def test_the_whole_of_a_replay_is_what_the_agent_once_said() -> None:
    said = b'{"id":"i-9","jsonrpc":"2.0","method":"initialize","params":{"x":1.0,"capabilities":{},"_meta":1e400}}'
    talker = Talker().attached()
    talker.agent(said)
    talker.server(answer("i-9", HELLO))
    talker.killed()
    talker.exchange.attached()
    assert talker.server_heard == [said, said]
    assert json.loads(said)["id"] == "i-9"


# What an adversary found.


def test_a_second_handshake_while_the_first_is_replayed_takes_its_place() -> None:
    talker = Talker().introduced().killed()
    talker.exchange.attached()
    again = {**INITIALIZE, "id": 77}
    talker.agent(again)
    assert [each["id"] for each in talker.server_hears()] == [0, 77]
    talker.server(answer(0, HELLO))
    assert talker.agent_heard == []
    talker.server(answer(77, HELLO))
    assert talker.agent_hears() == [answer(77, HELLO)]
    assert talker.exchange.state.phase == "open"


def test_a_carriage_return_hides_no_second_message_from_the_policy() -> None:
    talker = Talker(tools=Tools(deny=("delete_*",))).introduced()
    hidden = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"y":\r' + line(call(2, "delete_it")) + b"\r}}"
    talker.agent(hidden)
    assert talker.server_heard == []
    (refused,) = talker.agent_hears()
    assert refused["error"]["message"] == (
        "a message with a carriage return in it may be read as two, and this server's tools are restricted"
    )
    talker.agent(line(call(3, "a")) + b"\r")
    assert len(talker.server_heard) == 1, "at the end of a line it is one"


def test_a_person_who_thinks_is_no_silence_of_the_server() -> None:
    talker = Talker(call=10).introduced(elicitation={})
    talker.agent(call(1))
    talker.server(ask("q", "elicitation/create"))
    talker.agent_hears()
    for _ in range(5):
        talker.wait(9)
    assert talker.agent_heard == []
    talker.agent(answer("q", {"action": "accept"}))
    talker.wait(10)
    assert talker.agent_hears()[0]["error"]["code"] == -32011


@pytest.mark.parametrize("method", ["ping", "roots/list"])
def test_a_question_that_the_agent_leaves_open_does_not_stop_the_clock_of_a_call(method: str) -> None:
    talker = Talker(call=10).introduced(roots={})
    talker.server(ask("q", method))
    talker.agent_hears()
    talker.agent(call(1))
    talker.wait(10)
    assert talker.agent_hears()[0]["error"]["code"] == -32011
    talker.wait(31)
    assert not any(event.startswith("wedged") for event in talker.events)


def test_a_cancelled_call_does_not_make_a_server_busy() -> None:
    talker = knowing_ping()
    talker.agent(call(1), tell("notifications/cancelled", requestId=1))
    for _ in range(4):
        talker.wait(31)
    assert talker.events[-1].startswith("wedged")


def test_a_handshake_waits_no_longer_than_a_start_may_take() -> None:
    talker = Talker(start=30).introducing().killed()
    talker.wait(30)
    (told,) = talker.agent_hears()
    assert told["error"]["message"] == f"{LOST}, and did not come back within 30 s"


def test_an_answer_that_is_no_utf8_is_repaired() -> None:
    talker = Talker().introduced()
    talker.agent(call(1))
    talker.server('{"jsonrpc":"2.0","id":1,"result":{"text":"café"}}'.encode("latin-1"))
    assert talker.agent_hears() == [answer(1, {"text": "caf\N{REPLACEMENT CHARACTER}"})]


def test_deeply_nested_messages_pass_and_disturb_nothing() -> None:
    deep = b"[" * 1500 + b"]" * 1500
    talker = Talker(call=10).introduced()
    talker.agent(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":' + deep + b"}}")
    talker.agent(ask(2, "tools/list"))
    said = b'{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a","inputSchema":' + deep + b"}]}}"
    talker.server(said)
    assert len(talker.server_heard) == 2
    assert talker.agent_heard == [said]
    assert talker.exchange.tools == 1


def test_tools_that_few_can_read_count_too() -> None:
    talker = Talker().introduced()
    talker.agent(ask(1, "tools/list"))
    talker.server(
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","n":1e400},{"name":"\\ud800"},{"name":"b"}]}}'
    )
    assert talker.exchange.tools == 3


def test_a_list_the_agent_looks_at_again_by_itself_is_not_compared() -> None:
    talker = Talker().introduced()
    shown(talker, "tools/list", "tools", {"name": "a"})
    talker.restarted()
    ours = talker.server_hears()[-1]
    talker.agent(ask(60, "tools/list"))
    talker.server(answer(60, {"tools": [{"name": "b"}]}))
    talker.agent_hears()
    talker.server(answer(ours["id"], {"tools": [{"name": "b"}]}))
    assert talker.agent_heard == []


def test_a_list_that_is_refused_after_a_restart_is_no_difference() -> None:
    talker = Talker().introduced()
    shown(talker, "tools/list", "tools", {"name": "a"})
    talker.restarted()
    ours = talker.server_hears()[-1]
    talker.server({"jsonrpc": "2.0", "id": ours["id"], "error": {"code": -32603, "message": "not now"}})
    assert talker.agent_heard == []


def test_questions_that_a_server_takes_back_are_forgotten() -> None:
    talker = Talker().introduced(sampling={})
    for number in range(3):
        talker.server(ask(number, "sampling/createMessage"))
        talker.server(tell("notifications/cancelled", requestId=number))
    talker.agent_hears()
    talker.agent(*(answer(number, "late") for number in range(3)))
    assert [each for each in talker.server_hears() if "result" in each] == []


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("{}", '{"roots":{"listChanged":true}}'),
        ('{ "sampling" : {} }', '{"roots":{"listChanged":true}, "sampling" : {} }'),
        ('{"x":1e400,"roots":{}}', '{"roots":{"listChanged":true},"x":1e400}'),
    ],
)
def test_roots_of_the_session_are_declared_to_the_server_and_nothing_else_is_changed(declared: str, told: str) -> None:
    talker = Talker(gives_roots=True).attached()
    said = '{"id":1,"jsonrpc":"2.0","method":"initialize","params":{"capabilities":%s,"z":1.0}}'
    talker.agent((said % declared).encode())
    assert talker.server_heard == [(said % told).encode()]
    talker.server(answer(1, HELLO))
    talker.agent(INITIALIZED)
    talker.agent_hears(), talker.server_hears()
    talker.server(ask("r", "roots/list"))
    assert len(talker.server_hears()[0]["result"]["roots"]) == 2
    assert talker.agent_heard == []


@pytest.mark.parametrize("params", ["[]", "{}", '{"capabilities":5}'])
def test_a_handshake_without_a_place_for_roots_passes_as_it_is(params: str) -> None:
    talker = Talker(gives_roots=True).attached()
    said = b'{"id":1,"jsonrpc":"2.0","method":"initialize","params":%b}' % params.encode()
    talker.agent(said)
    assert talker.server_heard == [said]


def test_a_handshake_of_a_process_that_was_slow_to_die_still_waits_for_the_next() -> None:
    talker = Talker(start=30).introducing()
    talker.clock += 40
    talker.exchange.detached()
    talker.exchange.tick()
    talker.killed()
    talker.exchange.tick()
    assert talker.agent_heard == []
    talker.back()
    assert talker.agent_hears() == [answer(0, HELLO)]


def test_a_subscription_is_not_a_call_that_takes_too_long() -> None:
    talker = Talker(call=5).introduced()
    talker.exchange.from_agent(line(ask(7, "subscriptions/listen", notifications={})))
    talker.wait(60)
    assert not [heard for heard in talker.agent_heard if b"timeouts.call" in heard]
