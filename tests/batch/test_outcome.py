"""What the events of a run mean."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from acp_launch.batch.model import Cost, ErrorFacts, Outcome, Record
from acp_launch.batch.outcome import (
    ANSWER,
    DATA,
    classify,
    find_reset,
    is_rate_limit,
    read_events,
    shorten_answer,
    subtract_earlier,
)
from tests.batch.directories import make_record

TIME = "2026-11-27T08:30:00.250Z"
MOMENT = 1795768200.25
SESSION = {"name": "s", "id": "s1"}


def told(*events: dict[str, Any], rest: Sequence[bytes] = ()) -> Record:
    """The record of a run with these events."""
    lines = ({"type": event.pop("type"), "time": TIME, **event} for event in events)
    texts = (json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    return replace(make_record(), **read_events([*texts, *rest]))


def update(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "update", "sessionId": "s1", "update": {"sessionUpdate": kind, **members}}


def failed(code: int | None = None, data: object = None, **members: Any) -> Record:
    error = {"type": "error", "exitCode": 4, "message": "it failed", "fix": "", "detail": [], "problems": []}
    return told({**error, "code": code, "data": data, **members})


def refusal(code: int | None = None, data: object = None) -> ErrorFacts:
    return ErrorFacts(exit_code=4, message="it failed", code=code, data=data)


# Outcomes


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (0, None),
        *((code, "setup_failed") for code in (2, 3, 6, 7, 8)),
        *((code, "agent_died") for code in (1, 4, 5, 141, -9, -15)),
        *((code, "cancelled") for code in (129, 130, 143)),
        (9, "limited"),
        (10, "denied"),
        (124, "timed_out"),
    ],
)
def test_an_exit_code_is_an_outcome(code: int, outcome: Outcome | None) -> None:
    assert classify(code) == outcome


@pytest.mark.parametrize(
    ("reason", "outcome"), [("refusal", "refused"), ("max_tokens", "limited"), ("its own", "limited")]
)
def test_a_turn_that_ended_short_is_refused_or_limited(reason: str, outcome: Outcome) -> None:
    facts = told({"type": "result", "stopReason": reason, "text": "no"})
    assert classify(9, facts.stop_reason, facts.error) == outcome


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (429, None),
        (529, None),
        (-32603, {"errorKind": "rate_limit"}),
        (-32603, {"error_kind": "rate_limit"}),
        (-32603, {"status": 429}),
        (-32603, {"code": "529"}),
        (-32603, {"statusCode": 429}),
    ],
)
def test_data_of_an_error_says_a_rate_limit(code: int, data: object) -> None:
    assert classify(4, None, failed(code, data).error) == "rate_limited"


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (-32603, None),
        (-32603, "429 rate_limit"),
        (-32603, {"message": "You have hit your rate_limit: 429"}),
        (-32603, {"errorKind": "billing", "status": 402}),
        (-32603, {"code": [429]}),
        (-32603, {"a": {"status": 429}}),
    ],
)
def test_words_and_other_data_do_not(code: int, data: object) -> None:
    assert not is_rate_limit(refusal(code, data))
    assert classify(4, None, failed(code, data).error) == "agent_died"


def test_what_was_cancelled_is_no_rate_limit() -> None:
    assert classify(130, None, failed(429).error) == "cancelled"


@pytest.mark.parametrize(
    ("data", "resets"),
    [
        ({"retryAfter": 30}, MOMENT + 30),
        ({"retry_after": "1.5"}, MOMENT + 1.5),
        ({"resetsAt": 1795768300}, 1795768300),
        ({"resets_at": 1795768300500}, 1795768300.5),
        ({"resetsAt": "2026-11-27T09:30:00+01:00"}, MOMENT - 0.25),
        ({"resetsAt": "2026-11-27T08:30:00"}, MOMENT - 0.25),
        ({"retryAfter": "soon", "resetsAt": "3:20am"}, None),
        ({"retryAfter": -1}, None),
        ({"retryAfter": "inf", "resetsAt": True}, None),
        (None, None),
    ],
)
def test_an_error_says_when_its_limit_ends(data: object, resets: float | None) -> None:
    assert find_reset(refusal(429, data), MOMENT) == resets


# Facts


def test_the_events_of_a_run_become_facts() -> None:
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
    models = {"currentModelId": "big", "availableModels": [{"modelId": "big", "name": "Big"}]}
    facts = told(
        {"type": "initialized", "result": {"agentInfo": {"name": "test-agent", "version": "1.0.0"}}},
        {"type": "session", "sessionId": "s1", "name": "s", "how": "new", "result": {"modes": modes, "models": models}},
        {"type": "server", "name": "files", "state": "ready", "restarts": 0},
        {"type": "server", "name": "files", "state": "resting", "restarts": 1},
        update("tool_call", toolCallId="a", title="usage_update"),
        update("tool_call_update", toolCallId="a", status="completed"),
        update("tool_call", toolCallId="b", title="again"),
        update("current_mode_update", currentModeId="code"),
        update("usage_update", used=1, size=2, cost={"amount": 0.5, "currency": "USD"}),
        update("usage_update", used=3, size=4),
        {
            "type": "servers",
            "when": "turn",
            "servers": [{"name": "files", "restarts": 2}, {"name": "web", "restarts": 0}],
        },
        {
            "type": "result",
            "stopReason": "end_turn",
            "text": "done",
            "usage": {"inputTokens": 3, "outputTokens": 1, "note": "x", "known": True, "less": -1, "more": 2**70},
            "denied": "Change a file",
        },
    )
    assert (facts.agent.name, facts.agent.version, facts.session) == ("test-agent", "1.0.0", SESSION)
    assert (facts.mode, facts.model, facts.tools) == ("code", "big", 2)
    assert facts.session_cost == Cost(amount=0.5, currency="USD")
    assert (facts.stop_reason, facts.answer, facts.denied) == ("end_turn", "done", "Change a file")
    assert facts.usage == {"inputTokens": 3, "outputTokens": 1}
    assert [(each.name, each.restarts) for each in facts.servers] == [("files", 2), ("web", 0)]
    assert facts.error is None


def test_a_run_that_says_nothing_has_no_facts() -> None:
    facts = told()
    assert (facts.session, facts.stop_reason, facts.usage, facts.session_cost, facts.model, facts.mode) == (None,) * 6
    assert (facts.tools, facts.answer, facts.servers) == (0, "", ())


def test_a_line_that_was_cut_and_members_of_other_types_are_left_out() -> None:
    odd = {"type": "session", "result": [], "sessionId": 7}, {"type": "servers", "servers": {"name": 1}}
    facts = told(*odd, rest=[b'{"type":"result","stopRea', b"not JSON\n", b""])
    assert (facts.session, facts.stop_reason, facts.servers) == ({"name": "", "id": ""}, "", ())


def test_an_error_of_problems_tells_the_first() -> None:
    problem = {"file": "p.yaml", "message": "no such program", "fix": "install it", "severity": "error"}
    warning = {"file": "p.yaml", "message": "odd", "fix": "", "severity": "warning"}
    error = failed(problems=[warning, problem], exitCode=3, message="2 problems; nothing was started").error
    assert error == ErrorFacts(
        exit_code=3, message="p.yaml: no such program (one of 2 problems)", fix="install it", code=None, data=None
    )


def test_an_error_keeps_its_data_unless_it_is_long() -> None:
    short = failed(-32603, {"a": [1]}).error
    long = failed(-32603, {"a": "x" * DATA}).error
    assert short and long
    assert (short.code, short.data, long.code, long.data) == (-32603, {"a": [1]}, -32603, None)


# Costs


def paid(amount: float, id: str = "s1", currency: str = "USD") -> Any:
    return make_record(session={"name": "s", "id": id}, session_cost=Cost(amount=amount, currency=currency))


def test_an_error_before_the_session_is_not_that_of_the_run() -> None:
    """It could not continue its session, and began a new one."""
    error = {"type": "error", "exitCode": 3, "message": "forgotten", "fix": "", "detail": [], "problems": []}
    assert told(error, {"type": "session", "sessionId": "s2", "name": "s"}).error is None


def test_the_cost_of_a_continued_session_is_the_difference() -> None:
    assert subtract_earlier(paid(0.7), [paid(0.1), make_record(), paid(0.4)]) == Cost(amount=0.3, currency="USD")


@pytest.mark.parametrize("earlier", [[], [paid(0.1, id="other")], [paid(0.1, currency="EUR")], [paid(5.0)]])
def test_any_other_cost_is_of_this_attempt_alone(earlier: list[Any]) -> None:
    """The last one: an agent that counts anew."""
    assert subtract_earlier(paid(0.7), earlier) == Cost(amount=0.7, currency="USD")


@pytest.mark.parametrize(
    "cost",
    [
        {"amount": -5, "currency": "USD"},
        {"amount": "5", "currency": "USD"},
        {"amount": 1e300, "currency": "USD"},
        {"amount": 5, "currency": 5},
        {"amount": 5},
    ],
)
def test_a_cost_that_cannot_be_added_up_is_unknown(cost: dict[str, object]) -> None:
    assert told(update("usage_update", used=1, size=2, cost=cost)).cost is None


def test_an_unknown_cost_stays_unknown() -> None:
    assert subtract_earlier(make_record(session=SESSION), [paid(0.1)]) is None


def test_an_answer_is_cut_between_characters() -> None:
    assert shorten_answer("ä" * ANSWER) == "ä" * (ANSWER // 2)
    assert shorten_answer("short") == "short"
