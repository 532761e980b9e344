"""What the events of a run mean."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from acp_launch.batch import outcome
from acp_launch.batch.model import AgentFacts, Cost, ErrorFacts, Outcome, Record
from acp_launch.batch.outcome import (
    ANSWER,
    DATA,
    classify,
    find_limit,
    find_reset,
    judge_answer,
    read_events,
    shorten_answer,
    subtract_earlier,
)
from tests.batch.directories import make_record

TIME = "2026-11-27T08:30:00.250Z"
MOMENT = 1795768200.25
SESSION = {"name": "s", "id": "s1"}
STATE = {"state": "ready", "required": True, "seconds": None, "restarts": 0, "reason": None}
MEMBERS: dict[str, dict[str, Any]] = {  # that a test leaves out
    "session": {"how": "new", "replayed": 0, "result": {}},
    "server": {**STATE, "pid": None, "exit": None, "retry": None, "detail": []},
    "result": {"usage": None, "denied": None, "deniedBy": None, "result": {}},
}


def told(*events: dict[str, Any], rest: Sequence[bytes] = ()) -> Record:
    """The record of a run with these events."""
    lines = ({"time": TIME, **MEMBERS.get(event["type"], {}), **event} for event in events)
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
    assert find_limit(refusal(code, data)) is None
    assert classify(4, None, failed(code, data).error) == "agent_died"


GEMINI = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
CODEX = "the agent ended its turn with an error: "
LISTED = "codex's list of errors, not met in ACP yet"
SYSTEM = {"codex": {"threadStatus": {"type": "systemError"}}}
# As the agents said them, each with the shape of limits.json that it is to fit: agent, code, message, data, outcome.
RECORDED: list[tuple[str, int | None, str, object, Outcome]] = [
    ("claude-agent-acp 0.101.0: a quota", -32603, "limit", {"errorKind": "rate_limit"}, "rate_limited"),
    ("claude-agent-acp 0.101.0: HTTP 529", -32603, "Overloaded", {"errorKind": "server_error"}, "rate_limited"),
    ("gemini-cli 0.61.0: a quota", 429, "Rate limit exceeded. Try again later.", None, "rate_limited"),
    (
        "codex-acp 2.6.0: a plan used up",
        -32603,
        "Internal error",
        {"message": "try again at Nov 29th, 2026 4:52 AM.", "codexErrorInfo": "usageLimitExceeded"},
        "rate_limited",
    ),
    (
        LISTED,
        -32603,
        "Internal error",
        {"codexErrorInfo": {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}},
        "rate_limited",
    ),
    (
        "codex-acp 2.6.0: a turn that ends well with the error as its text",
        -32603,
        f"{CODEX}exceeded retry limit, last status: 429 Too Many Requests",
        SYSTEM,
        "rate_limited",
    ),
    (
        "@zed-industries/codex-acp 0.16.0: a plan used up",
        -32603,
        "Internal error",
        {"codex_error_info": "usage_limit_exceeded"},
        "rate_limited",
    ),
    (
        "@zed-industries/codex-acp 0.16.0: HTTP 429",
        -32603,
        "Internal error",
        {"codex_error_info": {"response_too_many_failed_attempts": {"http_status_code": 429}}},
        "rate_limited",
    ),
    ("claude-agent-acp 0.101.0: the longest answer", -32603, "stop", {"errorKind": "max_output_tokens"}, "limited"),
    (
        "claude-agent-acp 0.101.0: the context",
        -32603,
        "Prompt is too long",
        {"errorKind": "invalid_request"},
        "limited",
    ),
    ("opencode-ai 1.18.33: the context", -32603, "no", {"errorName": "ContextOverflowError"}, "limited"),
    ("gemini-cli 0.61.0: the context", 400, GEMINI, None, "limited"),
    (
        "qwen-code 0.24.4: the context",
        -32603,
        "Internal error (-32603)",
        {"details": "400 This model's maximum context length is 131072 tokens"},
        "limited",
    ),
    (LISTED, -32603, "no", {"codexErrorInfo": "contextWindowExceeded"}, "limited"),
    (LISTED, -32603, "no", {"codexErrorInfo": "serverOverloaded"}, "rate_limited"),
    (LISTED, -32603, "no", {"codex_error_info": "server_overloaded"}, "rate_limited"),
    (LISTED, -32603, "no", {"codex_error_info": "context_window_exceeded"}, "limited"),
    (
        "codex-acp 2.6.0: a turn that ends well with the error as its text",
        -32603,
        f"{CODEX}Codex ran out of room in the model's context window.",
        SYSTEM,
        "limited",
    ),
]


@pytest.mark.parametrize(("seen", "code", "message", "data", "outcome"), RECORDED)
def test_what_agents_say_of_a_limit_is_read(
    seen: str, code: int | None, message: str, data: object, outcome: Outcome
) -> None:
    assert classify(4, None, failed(code, data, message=message).error) == outcome


def test_each_shape_of_the_table_was_recorded_or_is_a_status_of_http() -> None:
    shapes = json.loads(Path(outcome.__file__).with_name("limits.json").read_text())
    recorded = {(seen, outcome) for seen, _, _, _, outcome in RECORDED}
    generic = ("the status of HTTP", "the same in snake case", "@github/copilot")
    told = {(each["seen"], each["outcome"]) for each in shapes if not each["seen"].startswith(generic)}
    assert told == recorded
    assert all(seen == LISTED or re.search(r" \d+\.\d+\.\d+: ", seen) for seen, _ in told)


@pytest.mark.parametrize(
    ("code", "message", "data"),
    [
        (-32603, "it is overloaded, says the page", {"errorKind": "billing"}),
        (-32603, "no", {"errorKind": "server_error"}),
        (-32603, "no such model", {"errorKind": "invalid_request"}),
        (-32602, "the context window is full", None),
        (400, "no such model", None),
        (-32603, f"{CODEX}last status: 503 Service Unavailable", SYSTEM),
        (-32603, "last status: 429", {"codex": {"threadStatus": {"type": "active"}}}),
        (-32603, "no", {"codex_error_info": {"response_too_many_failed_attempts": {"http_status_code": 503}}}),
        (-32603, "no", {"codex_error_info": {"http_status_code": 429}}),
    ],
)
def test_what_fits_no_shape_whole_is_no_limit(code: int, message: str, data: object) -> None:
    assert classify(4, None, failed(code, data, message=message).error) == "agent_died"


@pytest.mark.parametrize(
    ("agent", "answer", "usage", "outcome"),
    [
        ("Copilot", "Error: 429", None, "unknown"),
        ("Copilot", "done", {"totalTokens": 1}, "passed"),
        ("Copilot", " ", None, "empty"),
        ("test-agent", "done", None, "passed"),
    ],
)
def test_a_turn_of_an_agent_that_hides_failures_is_unknown_without_usage(
    agent: str, answer: str, usage: dict[str, int] | None, outcome: Outcome
) -> None:
    record = make_record(agent=AgentFacts(name=agent, version="1"), answer=answer, usage=usage)
    assert judge_answer(record) == outcome


def test_tokens_may_stand_in_the_meta_of_a_result() -> None:
    quota = {"token_count": {"input_tokens": 12, "output_tokens": 3}, "model_usage": []}
    result = {"stopReason": "end_turn", "_meta": {"quota": quota}}
    facts = told({"type": "result", "stopReason": "end_turn", "text": "done", "usage": None, "result": result})
    assert facts.usage == {"inputTokens": 12, "outputTokens": 3}


def test_tokens_may_stand_in_the_meta_of_empty_chunks_one_for_each_answer_of_a_model() -> None:
    empty = {"content": {"type": "text", "text": ""}}
    chunks = [
        update("agent_message_chunk", **empty, _meta={"usage": {"inputTokens": 10, "outputTokens": 2}}),
        update("agent_message_chunk", content={"type": "text", "text": '"usage": {'}),
        update("agent_message_chunk", **empty, _meta={"usage": {"inputTokens": 14, "outputTokens": 1, "x": "y"}}),
    ]
    facts = told(*chunks, {"type": "result", "stopReason": "end_turn", "text": "done", "usage": None})
    assert facts.usage == {"inputTokens": 24, "outputTokens": 3}


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
    opened = {**STATE, "opened": True, "unread": False, "tools": 1}
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
            "servers": [{**opened, "name": "files", "restarts": 2}, {**opened, "name": "web"}],
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
    assert (facts.session, facts.stop_reason, facts.servers) == (None, None, ())


def test_an_error_of_problems_tells_the_first() -> None:
    place = {"file": "p.yaml", "line": 1, "column": 1, "path": ""}
    problem = {**place, "message": "no such program", "fix": "install it", "severity": "error"}
    warning = {**place, "message": "odd", "fix": "", "severity": "warning"}
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
