"""An agent with a handshake on a server of MCP 2026-07-28, which has none."""

import json
from typing import Any

import pytest
from msgspec import Raw

from acp_launch.mcp import message as mcp
from acp_launch.mcp.message import ProtocolInfo, pinned_era, suggests_stateless
from tests.bridge.talker import answer, ask, tell
from tests.mcp.eras import (
    ABLE,
    ABOUT,
    CLIENT,
    DISCOVERED,
    HELLO,
    INITIALIZE,
    OFFERS,
    VERSION,
    Eras,
    Json,
    line,
    refuse,
    upgraded,
)

OFFERED: Json = {name: {} for name in OFFERS}  # without what needs a subscription
META = {mcp.VERSION: VERSION, mcp.CLIENT: CLIENT, mcp.CAPABILITIES: ABLE}
CALL = ask(1, "tools/call", name="t", arguments={"n": 1})
FORM: Json = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {}}}
SAMPLE: Json = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}


def required(id: Any, state: Any = "s1", **requests: Json) -> Json:
    result: Json = {"resultType": "input_required", "requestState": state} | (
        {"inputRequests": requests} if requests else {}
    )
    return answer(id, result)


# The opening.


@pytest.mark.parametrize(
    "refusal",
    [
        refuse("i", -32022, supported=[VERSION], requested="2025-06-18"),
        refuse("i", -32021),
        refuse("i", -32601),
        refuse("i", -32602),
        refuse("i", -32600),
    ],
)
def test_a_refused_handshake_is_answered_from_server_discover(refusal: Json) -> None:
    """M-13, M-1: the agent's own version, and what the server says of itself."""
    eras = Eras().refuses(refusal)
    (discover,) = eras.at_server()
    assert (discover["method"], discover["params"]["_meta"]) == ("server/discover", META)
    eras.hears(answer(discover["id"], DISCOVERED))
    assert eras.at_agent() == [
        answer(
            "i",
            {"protocolVersion": "2025-06-18", "capabilities": OFFERED, "serverInfo": ABOUT, "instructions": "Use it."},
        )
    ]
    assert eras.knowledge.server == "modern"


def test_other_errors_do_not_suggest_the_newer_era() -> None:
    """The agent gets them. M-16: versions that we do not know are shown as they are, too."""
    others = [refuse("i", code) for code in (-32000, -32603, -32700)]
    others.append(refuse("i", -32022, "too old", supported=["2027-01-01"], requested="2025-06-18"))
    assert [each for each in others if suggests_stateless(Raw(line(each["error"])))] == []


def test_a_server_that_knows_neither_opening_has_refused_the_handshake() -> None:
    eras = Eras().refuses(refuse("i", -32601, "first"))
    eras.hears(refuse(eras.asked()["id"], -32601, "second"))
    assert eras.at_agent() == [refuse("i", -32601, "first")]


def test_versions_in_server_discover_that_we_do_not_know_are_shown() -> None:
    eras = Eras(ProtocolInfo("modern")).says(INITIALIZE)
    eras.hears(answer(eras.asked()["id"], DISCOVERED | {"supportedVersions": ["2027-01-01"]}))
    (said,) = eras.at_agent()
    assert said["error"]["data"]["supported"] == ["2027-01-01"]
    assert said["error"]["message"] == 'MCP server "github" speaks only MCP 2027-01-01, which acp-launch does not'


def test_the_era_of_the_last_process_is_tried_first_and_given_up_when_it_is_wrong() -> None:
    """M-12."""
    eras = Eras(ProtocolInfo("modern")).says(INITIALIZE)
    assert eras.asked()["method"] == "server/discover"
    eras.hears(refuse(eras.asked()["id"], -32601))
    assert eras.at_server()[1] == INITIALIZE
    assert (eras.adapter.is_needed, eras.knowledge.server) == (False, None)
    eras.hears(answer("i", HELLO))
    assert eras.at_agent() == [answer("i", HELLO)]


def test_a_ping_before_the_handshake_asks_a_modern_server_what_it_knows() -> None:
    eras = Eras(ProtocolInfo("modern")).says(ask("p", "ping"))
    assert eras.asked()["method"] == "server/discover"
    eras.hears(refuse(eras.asked()["id"], -32601))
    assert eras.at_agent() == [answer("p", {})]


# Requests.


def test_each_request_carries_what_the_handshake_has_said() -> None:
    """M-13, M-1: unknown members stay, and a token keeps its type."""
    eras = upgraded()
    eras.says(
        b'{"jsonrpc":"2.0","id":12345678901234567890123,"method":"x/y","params":{"n":1.0,"_meta":{"progressToken":7}}}'
    )
    meta = line(META).replace(b" ", b"")[1:-1]
    assert [each.replace(b" ", b"") for each in eras.server] == [
        b'{"jsonrpc":"2.0","id":12345678901234567890123,"method":"x/y","params":{"n":1.0,"_meta":{'
        + meta
        + b',"progressToken":7}}}'
    ]
    eras.at_server()
    eras.says({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    assert eras.at_server()[0]["params"] == {"_meta": META}


def test_a_result_has_no_members_of_the_newer_era() -> None:
    eras = upgraded().says(ask(2, "tools/list"))
    eras.hears(answer(2, {"resultType": "complete", "tools": [], "ttlMs": 5, "cacheScope": "private", "x": None}))
    assert eras.at_agent() == [answer(2, {"tools": [], "x": None})]


def test_a_result_of_an_unknown_type_is_an_error() -> None:
    eras = upgraded().says(CALL).hears(answer(1, {"resultType": "task", "taskId": "5"}))
    assert "does not know" in eras.at_agent()[0]["error"]["message"]


def test_a_ping_becomes_a_question_that_a_modern_server_knows() -> None:
    """M-42."""
    eras = upgraded().says(ask("p", "ping"))
    (asked,) = eras.at_server()
    assert asked["method"] == "server/discover"
    eras.hears(answer(asked["id"], DISCOVERED))
    assert eras.at_agent() == [answer("p", {})]


def test_the_log_level_is_part_of_each_later_request() -> None:
    eras = upgraded().says(ask(2, "logging/setLevel", level="warning"))
    assert eras.at_agent() == [answer(2, {})]
    eras.says(ask(3, "tools/list"))
    assert eras.at_server()[0]["params"]["_meta"][mcp.LEVEL] == "warning"


def test_notifications_without_a_meaning_now_are_kept_back() -> None:
    """M-49: the roots of a modern server never change."""
    eras = upgraded().says(tell("notifications/roots/list_changed"), tell("notifications/progress", progressToken=1))
    assert eras.at_server() == []
    eras.says(tell("notifications/x"))
    assert eras.at_server() == [tell("notifications/x")]


# Input.


def test_input_is_asked_of_the_agent_and_goes_back_with_the_exact_state() -> None:
    """M-13: sampling, elicitation and roots; a new id, the answers, and the state byte for byte."""
    eras = upgraded().says(CALL)
    eras.at_server()
    state = "\u00e9\u2028=="
    eras.hears(required(1, state, a=FORM, b=SAMPLE, c={"method": "roots/list"}))
    asked = {message["method"]: message for message in eras.at_agent()}
    assert asked["elicitation/create"]["params"] == FORM["params"]
    assert asked["sampling/createMessage"]["params"] == SAMPLE["params"]
    eras.says(answer(asked["elicitation/create"]["id"], {"action": "accept", "content": {"n": 1}}))
    eras.says(answer(asked["roots/list"]["id"], {"roots": []}))
    assert eras.at_server() == []
    eras.says(answer(asked["sampling/createMessage"]["id"], {"role": "assistant"}))
    (again,) = eras.at_server()
    assert again["id"] != 1
    assert again["params"] == {
        "name": "t",
        "arguments": {"n": 1},
        "requestState": state,
        "inputResponses": {
            "a": {"action": "accept", "content": {"n": 1}},
            "b": {"role": "assistant"},
            "c": {"roots": []},
        },
        "_meta": META,
    }
    eras.hears(answer(again["id"], {"resultType": "complete", "content": []}))
    assert eras.at_agent() == [answer(1, {"content": []})]


def test_several_rounds_each_begin_with_the_agents_own_request() -> None:
    eras = upgraded().says(CALL)
    for number in (1, 2):
        eras.hears(required(eras.at_server()[-1]["id"], f"s{number}", **{f"q{number}": FORM}))
        eras.says(answer(eras.at_agent()[0]["id"], {"action": "decline"}))
    (again,) = eras.at_server()
    assert (again["params"]["requestState"], list(again["params"]["inputResponses"])) == ("s2", ["q2"])


def test_rounds_have_an_end() -> None:
    eras = upgraded().says(CALL)
    for _ in range(20):
        if not eras.server:
            break
        eras.hears(required(eras.at_server()[-1]["id"]))
    (said,) = eras.at_agent()
    assert "more than 10 times" in said["error"]["message"]


def test_input_that_the_agent_does_not_offer_fails_the_call() -> None:
    """M-43."""
    eras = upgraded(able={"elicitation": {}}).says(CALL).hears(required(1, a=FORM, q=SAMPLE))
    said = 'MCP server "github" wants sampling/createMessage, which this agent does not offer'
    assert eras.at_agent() == [refuse(1, -32603, said)]


def test_a_page_to_open_has_the_id_that_older_agents_need() -> None:
    wanted = {"method": "elicitation/create", "params": {"mode": "url", "url": "https://x", "message": "m"}}
    eras = upgraded().says(CALL).hears(required(1, q=wanted))
    (asked,) = eras.at_agent()
    assert asked["params"]["elicitationId"]


def test_a_refused_question_fails_the_call_and_withdraws_the_others() -> None:
    eras = upgraded().says(CALL).hears(required(1, a=FORM, b=SAMPLE))
    first, second = eras.at_agent()
    eras.says(refuse(first["id"], -1, "User rejected sampling request"))
    withdrawn, said = eras.at_agent()
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", second["id"])
    assert said == refuse(1, -1, "User rejected sampling request")
    eras.says(answer(second["id"], {}))
    assert [message["method"] for message in eras.at_server()] == ["tools/call"]


def test_a_cancelled_call_takes_its_questions_along() -> None:
    """M-40."""
    eras = upgraded().says(CALL).hears(required(1, a=FORM))
    (asked,) = eras.at_agent()
    eras.at_server()
    eras.says(tell("notifications/cancelled", requestId=1))
    assert eras.at_server() == []
    assert eras.at_agent()[0]["params"]["requestId"] == asked["id"]


def test_a_cancel_follows_the_id_that_the_server_knows_now() -> None:
    """M-40: its late answer is dropped."""
    eras = upgraded().says(CALL).hears(required(1))
    again = eras.at_server()[-1]
    eras.says(tell("notifications/cancelled", requestId=1, reason="enough"))
    assert eras.at_server() == [tell("notifications/cancelled", requestId=again["id"], reason="enough")]


def test_progress_passes_through_all_rounds() -> None:
    """M-41."""
    eras = upgraded().says(ask(1, "tools/call", name="t", _meta={"progressToken": "p"})).hears(required(1))
    assert eras.at_server()[-1]["params"]["_meta"]["progressToken"] == "p"
    eras.hears(tell("notifications/progress", progressToken="p", progress=1))
    assert eras.at_agent() == [tell("notifications/progress", progressToken="p", progress=1)]


def test_a_server_of_the_other_era_than_the_pinned_one_is_refused() -> None:
    """M-12: what the profile says is not found out otherwise."""
    eras = Eras(pinned_era("modern")).says(INITIALIZE)
    asked = eras.asked()
    assert asked["method"] == "server/discover"
    eras.hears(refuse(asked["id"], -32601))
    (said,) = eras.at_agent()
    assert "does not speak MCP 2026-07-28, as `protocol` asks for" in said["error"]["message"]
    assert eras.at_server() == [asked], "nothing else is tried"


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
def test_a_subscription_is_refused_in_plain_words(method: str) -> None:
    """M-15."""
    eras = upgraded().says(ask(2, method, uri="test://a"))
    said = f'MCP server "github" speaks MCP {VERSION}: {method} is not translated'
    assert eras.at_agent() == [refuse(2, -32601, said)]
    assert eras.at_server() == []


def test_an_agent_that_does_without_a_handshake_needs_no_adapter() -> None:
    eras = Eras(ProtocolInfo("modern")).says(asked := ask(1, "server/discover", _meta=META))
    assert eras.at_server() == [asked]
    assert not eras.adapter.is_needed


# The end of a process.


def test_requests_that_never_left_are_given_back_as_the_agent_wrote_them() -> None:
    eras = upgraded().says(CALL, ask(2, "tools/list", _meta={"x": 1}))
    assert [eras_line(each) for each in eras.adapter.end(eras.server)] == [CALL, ask(2, "tools/list", _meta={"x": 1})]


def eras_line(written: bytes) -> Any:
    return json.loads(written)
