"""An agent of MCP 2026-07-28 on a server with a handshake."""

import json
from typing import Any

import pytest

from acp_launch.mcp import era
from acp_launch.mcp.era import Knowledge
from acp_launch.mcp.translation.calls import PATIENCE
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
    answer,
    ask,
    line,
    modern,
    refuse,
    shaken,
    tell,
)

DISCOVER = modern("d", "server/discover")
CALL = modern(1, "tools/call", name="t", arguments={"n": 1})
FORM: Json = {"message": "Who?", "requestedSchema": {}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def hello(eras: Eras, result: Json = HELLO) -> Eras:
    """The server takes our handshake."""
    assert eras.asked()["method"] == "initialize"
    return eras.answers(result)


# The opening.


@pytest.mark.parametrize(
    "shown",
    [
        answer("d", DISCOVERED),
        refuse("d", -32022, supported=["2027-01-01"], requested=VERSION),
        refuse("d", -32021),
    ],
)
def test_a_server_without_a_handshake_is_not_touched(shown: Json) -> None:
    """M-16: also when it does not know our version."""
    eras = Eras().says(DISCOVER, CALL)
    assert eras.server == [line(DISCOVER)]
    eras.hears(shown)
    assert eras.agent == [line(shown)]
    assert eras.server == [line(DISCOVER), line(CALL)]
    assert not eras.adapter.is_needed
    assert eras.knowledge.seen == "modern"


@pytest.mark.parametrize(
    "shown",
    [
        refuse("d", -32601),
        refuse("d", -32602),
        refuse("d", -32600),
        refuse("d", -32000),
        refuse("d", -32022, supported=["2025-11-25"], requested=VERSION),
        answer("d", DISCOVERED | {"supportedVersions": ["2025-11-25"]}),
        answer("d", {}),
    ],
)
def test_server_discover_is_answered_from_a_handshake_of_ours(shown: Json) -> None:
    """M-14, M-10: the fallback does not hang on one code."""
    eras = Eras().says(DISCOVER).hears(shown)
    asked = eras.asked()
    assert asked["params"] == {"protocolVersion": "2025-11-25", "capabilities": ABLE, "clientInfo": CLIENT}
    hello(eras)
    assert eras.at_server()[2] == INITIALIZED
    assert eras.at_agent() == [
        answer(
            "d",
            {
                "resultType": "complete",
                "supportedVersions": [VERSION],
                "capabilities": OFFERS,
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {era.SERVER: ABOUT},
                "instructions": "Use it.",
            },
        )
    ]
    assert eras.knowledge.seen == "legacy"


def test_a_silent_server_gets_a_handshake_after_two_seconds() -> None:
    """M-10."""
    eras = Eras().says(DISCOVER).later(1.9)
    assert len(eras.server) == 1
    hello(eras.later(0.2))
    assert eras.at_agent()[0]["result"]["supportedVersions"] == [VERSION]


def test_a_server_that_has_shown_its_era_gets_no_second_handshake() -> None:
    eras = hello(Eras().says(DISCOVER).hears(refuse("d", -32601)))
    eras.at_server()
    assert eras.later(60).at_server() == []


def test_a_silent_remote_server_is_waited_for() -> None:
    eras = Eras(is_stdio=False).says(DISCOVER).later(60)
    assert len(eras.server) == 1


def test_a_server_that_was_only_slow_stays_what_it_is() -> None:
    """The probe that timed out has made it modern, and it refuses our handshake: its own late answer counts."""
    eras = Eras().says(DISCOVER).later(2.1)
    initialize = eras.asked()
    eras.hears(answer("d", DISCOVERED))
    assert eras.at_agent() == [answer("d", DISCOVERED)]
    assert not eras.adapter.is_needed
    eras = Eras().says(DISCOVER).later(2.1)
    eras.hears(refuse(initialize["id"], -32022, supported=[VERSION]), answer("d", DISCOVERED))
    assert eras.at_agent() == [answer("d", DISCOVERED)]
    assert eras.knowledge.seen == "modern"


def test_a_late_refusal_does_not_disturb_the_handshake_under_way() -> None:
    eras = Eras().says(DISCOVER).later(2.1)
    initialize = eras.asked()
    eras.hears(refuse("d", -32601))
    assert eras.at_agent() == []
    eras.hears(answer(initialize["id"], HELLO))
    assert eras.at_agent()[0]["result"]["supportedVersions"] == [VERSION]


def test_a_refused_call_does_not_show_the_era_so_the_server_is_asked() -> None:
    eras = Eras().says(CALL).hears(refuse(1, -32602, "unknown tool"))
    assert eras.asked()["method"] == "server/discover"
    eras.answers(DISCOVERED)
    assert eras.at_agent() == [refuse(1, -32602, "unknown tool")]
    eras = Eras().says(CALL).hears(refuse(1, -32600))
    eras.hears(refuse(eras.asked()["id"], -32601))
    hello(eras)
    assert eras.at_server()[-1] == ask(1, "tools/call", name="t", arguments={"n": 1}, _meta={})


def test_a_long_call_is_not_sent_again_to_a_server_that_answers_another_question() -> None:
    eras = Eras().says(CALL).later(1.1)
    assert eras.asked()["method"] == "server/discover"
    eras.answers(DISCOVERED)
    assert not eras.adapter.is_needed
    assert [message["method"] for message in eras.at_server()] == ["tools/call", "server/discover"]
    eras.hears(answer(1, {"resultType": "complete"}))
    assert eras.at_agent() == [answer(1, {"resultType": "complete"})]


def test_the_late_answer_to_a_call_before_the_handshake_is_not_that_of_the_call_after_it() -> None:
    eras = Eras().says(CALL).later(1.1).later(1.1)
    hello(eras)
    again = eras.at_server()[-1]
    assert again["id"] != 1
    eras.hears(refuse(1, -32602, "not initialized"), answer(again["id"], {"content": []}))
    assert eras.at_agent() == [answer(1, {"resultType": "complete", "content": []})]


def test_an_acknowledged_subscription_shows_a_modern_server() -> None:
    listen = modern("l", "subscriptions/listen", notifications={})
    eras = Eras().says(listen).hears(tell(era.ACKNOWLEDGED, notifications={}, _meta={era.SUBSCRIPTION: "l"}))
    assert not eras.adapter.is_needed


def test_an_older_server_that_answers_without_a_handshake_needs_none() -> None:
    listing = modern(1, "tools/list")
    eras = Eras().says(listing).hears(answer(1, {"tools": []}))
    assert eras.at_agent() == [answer(1, {"tools": []})]
    assert not eras.adapter.is_needed


def test_a_process_that_our_ping_made_choose_is_left_to_the_conversation() -> None:
    """It starts another one, which gets the agent's request first."""
    eras = Eras().says(ask("acp-launch:1", "ping")).hears(answer("acp-launch:1", {})).says(DISCOVER, CALL)
    eras.at_agent()
    eras.hears(refuse("d", -32600))
    assert eras.at_agent() == [refuse("d", -32600)]
    assert eras.adapter.ended() == [line(CALL)]


def test_a_process_that_ends_on_the_first_message_is_of_the_older_era() -> None:
    """M-10: its successor gets a handshake, and then the request."""
    eras = Eras().says(DISCOVER, CALL)
    assert eras.adapter.ended() == [line(DISCOVER), line(CALL)]
    assert eras.knowledge.server == "legacy"


def test_a_call_that_may_have_ended_the_process_is_not_made_twice() -> None:
    assert Eras().says(CALL).adapter.ended() == []


def test_the_era_of_the_last_process_is_tried_first_and_given_up_when_it_is_wrong() -> None:
    """M-12."""
    eras = Eras(Knowledge("legacy")).says(DISCOVER)
    eras.hears(refuse(eras.asked()["id"], -32022, supported=[VERSION]))
    assert eras.at_server()[1] == DISCOVER
    eras.hears(answer("d", DISCOVERED))
    assert eras.knowledge.seen == "modern"


def test_a_server_that_takes_neither_opening_has_refused() -> None:
    eras = Eras().says(DISCOVER).hears(refuse("d", -32601, "first"))
    eras.hears(refuse(eras.asked()["id"], -32603, "second"))
    assert eras.at_agent() == [refuse("d", -32601, "first")]
    eras.says(DISCOVER)
    assert eras.at_server()[-1] == DISCOVER


def test_a_pinned_server_is_met_in_that_era_and_version() -> None:
    eras = Eras(era.pinned("2025-03-26")).says(DISCOVER)
    assert eras.asked()["params"]["protocolVersion"] == "2025-03-26"
    eras = Eras(era.pinned("modern")).says(DISCOVER)
    assert not eras.adapter.is_needed
    assert era.pinned("auto") == Knowledge()


def test_a_server_of_both_eras_is_met_in_that_of_each_agent() -> None:
    """What one agent spoke with it says nothing about the next."""
    eras = Eras().says(DISCOVER).hears(answer("d", DISCOVERED))
    assert eras.knowledge == Knowledge(seen="modern")
    assert Eras(eras.knowledge).says(INITIALIZE).server == [line(INITIALIZE)]
    eras = Eras().says(INITIALIZE).hears(answer("i", HELLO))
    assert eras.knowledge == Knowledge(seen="legacy")
    assert Eras(eras.knowledge).says(DISCOVER).server == [line(DISCOVER)]


def test_an_agent_may_change_to_the_handshake() -> None:
    initialize = ask("i", "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=CLIENT)
    eras = Eras().says(DISCOVER, initialize)
    assert eras.at_agent()[0]["error"]["code"] == -32601
    assert eras.at_server()[-1] == initialize
    eras.hears(answer("i", HELLO))
    assert eras.at_agent() == [answer("i", HELLO)]
    assert not eras.adapter.is_needed


# Requests.


def test_a_request_loses_what_would_make_it_modern() -> None:
    """M-14, M-1."""
    eras = shaken().says(modern(2, "x/y", token=7, n=[1, None]))
    assert eras.at_server() == [ask(2, "x/y", n=[1, None], _meta={"progressToken": 7})]
    eras.hears(answer(2, {"x": 1}))
    assert eras.at_agent() == [answer(2, {"resultType": "complete", "x": 1})]


@pytest.mark.parametrize(
    "method",
    ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"],
)
def test_a_list_or_a_resource_says_that_it_may_not_be_kept(method: str) -> None:
    eras = shaken().says(modern(2, method)).hears(answer(2, {}))
    assert eras.at_agent() == [answer(2, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"})]


def test_a_missing_resource_has_the_code_of_the_newer_era() -> None:
    eras = shaken().says(modern(2, "resources/read", uri="x")).hears(refuse(2, -32002, uri="x"))
    assert eras.at_agent() == [refuse(2, -32602, uri="x")]


def test_another_version_is_refused_with_the_list_of_ours() -> None:
    request = modern(2, "tools/list")
    request["params"]["_meta"][era.VERSION] = "2027-01-01"
    eras = shaken().says(request)
    (said,) = eras.at_agent()
    assert (said["error"]["code"], said["error"]["data"]) == (
        -32022,
        {"supported": [VERSION], "requested": "2027-01-01"},
    )


def test_the_server_is_told_the_log_level_that_a_request_wants_and_only_that_hears() -> None:
    eras = shaken()
    said = tell("notifications/message", level="warning", data="x")
    eras.says(modern(2, "tools/call")).hears(said)
    assert eras.at_agent() == []
    eras.says(modern(3, "tools/call", level="info"))
    level, _ = eras.at_server()[-2:]
    assert (level["method"], level["params"]) == ("logging/setLevel", {"level": "info"})
    eras.hears(answer(level["id"], {}), said, tell("notifications/message", level="debug", data="y"))
    assert eras.at_agent()[-1] == said


def test_a_ping_of_the_server_is_answered_here() -> None:
    """M-42."""
    eras = shaken().hears(ask("p", "ping"))
    assert eras.at_server() == [answer("p", {})]


def test_what_only_the_older_era_has_is_kept_back() -> None:
    eras = shaken().hears(tell("notifications/elicitation/complete", elicitationId="1"))
    assert eras.at_agent() == []
    eras.hears(tell("notifications/x"))
    assert eras.at_agent() == [tell("notifications/x")]


# The server's requests.


def suspended(able: Json = ABLE) -> tuple[Eras, Json]:
    """A call whose server asks the user; and what the agent is told."""
    eras = shaken().says(modern(1, "tools/call", able=able, token="a", name="t"))
    eras.hears(ask(0, "elicitation/create", **FORM))
    (told,) = eras.at_agent()
    eras.at_server()
    return eras, told["result"]


def each(told: Json, response: Json) -> Json:
    """The same response to everything that was asked."""
    return dict.fromkeys(told["inputRequests"], response)


def retry(id: Any, told: Json, **responses: Any) -> Json:
    return modern(id, "tools/call", token="b", name="t", inputResponses=responses, requestState=told["requestState"])


def test_a_request_of_the_server_becomes_input_required_of_the_call_in_flight() -> None:
    """M-14."""
    eras, told = suspended()
    (name,) = told["inputRequests"]
    assert told["resultType"] == "input_required"
    assert told["inputRequests"][name] == {"method": "elicitation/create", "params": FORM}
    eras.says(retry(2, told, **{name: {"action": "accept", "content": {"x": 1}}}))
    assert eras.at_server() == [answer(0, {"action": "accept", "content": {"x": 1}})]
    eras.hears(answer(1, {"content": []}))
    assert eras.at_agent() == [answer(2, {"resultType": "complete", "content": []})]


def test_a_server_that_asks_without_end_during_a_call_is_refused_after_some_questions() -> None:
    eras, told = suspended()
    for number in range(1, 300):
        eras.hears(ask(number, "elicitation/create", **FORM))
    refused = eras.at_server()
    assert [each["id"] for each in refused] == list(range(100, 300))
    assert "more than 100 questions" in refused[0]["error"]["message"]
    eras.says(retry(2, told))
    (told,) = eras.at_agent()
    assert len(told["result"]["inputRequests"]) == 100


def test_progress_and_cancel_follow_the_latest_try() -> None:
    """M-40, M-41."""
    eras, told = suspended()
    eras.hears(tell("notifications/progress", progressToken="a", progress=1))
    assert eras.at_agent() == []
    eras.says(retry(2, told, **each(told, {})))
    eras.hears(tell("notifications/progress", progressToken="a", progress=2))
    assert eras.at_agent() == [tell("notifications/progress", progressToken="b", progress=2)]
    eras.at_server()
    eras.says(tell("notifications/cancelled", requestId=2))
    assert eras.at_server() == [tell("notifications/cancelled", requestId=1)]


def test_further_questions_wait_for_the_next_try() -> None:
    eras, told = suspended()
    eras.hears(ask("q", "sampling/createMessage", messages=[]))
    assert eras.at_agent() == []
    eras.says(retry(2, told, **each(told, {})))
    (more,) = eras.at_agent()
    assert [one["method"] for one in more["result"]["inputRequests"].values()] == ["sampling/createMessage"]
    eras.says(retry(3, more["result"], **each(more["result"], {"role": "assistant"})))
    assert eras.at_server() == [answer(0, {}), answer("q", {"role": "assistant"})]


def test_an_answer_that_comes_before_the_next_try_waits_for_it() -> None:
    eras, told = suspended()
    eras.hears(answer(1, {"content": []}))
    assert eras.at_agent() == []
    eras.says(retry(2, told))
    assert eras.at_agent() == [answer(2, {"resultType": "complete", "content": []})]


@pytest.mark.parametrize(
    ("request_", "able"),
    [
        (ask(0, "elicitation/create"), {}),
        (ask(0, "sampling/createMessage"), {"elicitation": {}}),
        (ask(0, "x/y"), ABLE),
    ],
)
def test_what_the_agent_does_not_offer_is_refused(request_: Json, able: Json) -> None:
    """M-43."""
    eras = shaken().says(modern(1, "tools/call", able=able))
    eras.at_server()
    eras.hears(request_)
    (said,) = eras.at_server()
    assert (said["id"], said["error"]["code"]) == (0, -32601)
    assert eras.at_agent() == []


def test_without_a_call_in_flight_the_server_is_refused() -> None:
    eras = shaken().says(modern(1, "tools/list")).hears(ask(0, "elicitation/create"))
    assert (
        eras.at_server()[-1]["error"]["message"] == "the client takes elicitation/create only during a call of its own"
    )


def test_roots_are_those_of_the_session_unless_the_agent_has_its_own() -> None:
    """M-47: what comes up is answered by the conversation."""
    for eras in (shaken(gives_roots=True), Eras(Knowledge("legacy"))):
        if not eras.adapter.gives_roots:
            eras.says(modern("d", "server/discover", able={})).answers(HELLO)
            eras.at_server(), eras.at_agent()
        eras.hears(ask("r", "roots/list"))
        assert eras.at_agent() == [ask("r", "roots/list")]
        eras.says(answer("r", {"roots": []}))
        assert eras.at_server() == [answer("r", {"roots": []})]


def test_a_suspended_call_is_given_up_after_a_while() -> None:
    eras, told = suspended()
    eras.later(PATIENCE + 1)
    refused, cancelled = eras.at_server()
    assert (refused["id"], refused["error"]["message"]) == (0, "the client did not answer in time")
    assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", 1)
    eras.says(retry(2, told))
    assert "unknown requestState" in eras.at_agent()[0]["error"]["message"]


def test_a_question_that_the_server_takes_back_is_not_answered() -> None:
    eras, told = suspended()
    eras.hears(tell("notifications/cancelled", requestId=0))
    eras.says(retry(2, told, **each(told, {})))
    assert eras.at_server() == []
    eras.hears(answer(1, {"content": []}))
    assert len(eras.at_agent()) == 1


def test_a_page_that_the_user_must_open_first_is_input_and_the_call_is_made_again() -> None:
    page = {"mode": "url", "url": "https://x", "message": "m", "elicitationId": "e"}
    eras = shaken().says(CALL).hears(refuse(1, -32042, elicitations=[page]))
    (told,) = eras.at_agent()
    ((name, wanted),) = told["result"]["inputRequests"].items()
    assert wanted == {"method": "elicitation/create", "params": page}
    eras.at_server()
    eras.says(retry(2, told["result"], **{name: {"action": "accept"}}))
    (again,) = eras.at_server()
    assert again["params"] == {"name": "t", "arguments": {"n": 1}, "_meta": {}}
    eras.hears(answer(again["id"], {"content": []}))
    assert eras.at_agent() == [answer(2, {"resultType": "complete", "content": []})]


# Subscriptions.


def listen(id: Any, **wanted: Any) -> Json:
    return modern(id, "subscriptions/listen", notifications=wanted)


def test_a_subscription_is_acknowledged_first_with_what_the_server_has() -> None:
    """M-15: prompts never change here, so they are not agreed to."""
    eras = shaken().says(listen("l", toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["a", "b"]))
    first, second = eras.at_server()
    assert [first["params"], second["params"]] == [{"uri": "a"}, {"uri": "b"}]
    eras.hears(tell("notifications/tools/list_changed"), answer(first["id"], {}), refuse(second["id"], -32602))
    agreed = {"toolsListChanged": True, "resourceSubscriptions": ["a"]}
    assert eras.at_agent() == [tell(era.ACKNOWLEDGED, _meta={era.SUBSCRIPTION: "l"}, notifications=agreed)]
    changes = [tell("notifications/tools/list_changed"), tell("notifications/resources/updated", uri="a")]
    eras.hears(*changes, tell("notifications/prompts/list_changed"))
    assert [(told["method"], told["params"]["_meta"]) for told in eras.at_agent()] == [
        ("notifications/tools/list_changed", {era.SUBSCRIPTION: "l"}),
        ("notifications/resources/updated", {era.SUBSCRIPTION: "l"}),
    ]


def test_a_cancelled_subscription_leaves_those_of_others() -> None:
    """M-15."""
    eras = shaken().says(listen(1, resourceSubscriptions=["a", "b"]))
    for asked in eras.at_server():
        eras.hears(answer(asked["id"], {}))
    eras.says(listen(2, resourceSubscriptions=["a"]))
    assert eras.at_server() == []
    eras.says(tell("notifications/cancelled", requestId=1))
    assert [(asked["method"], asked["params"]) for asked in eras.at_server()] == [
        ("resources/unsubscribe", {"uri": "b"})
    ]
    eras.at_agent()
    eras.hears(tell("notifications/resources/updated", uri="a"))
    assert [told["params"]["_meta"][era.SUBSCRIPTION] for told in eras.at_agent()] == [2]


def test_changes_go_to_nobody_who_has_not_asked() -> None:
    eras = shaken().hears(tell("notifications/tools/list_changed"))
    assert eras.at_agent() == []


# The end of a process.


def test_requests_that_never_left_are_given_back_as_the_agent_wrote_them() -> None:
    eras = shaken().says(CALL)
    assert [json.loads(one) for one in eras.adapter.ended(eras.server)] == [CALL]
