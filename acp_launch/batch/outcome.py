"""
The outcome of a run: what its events, its exit code and the earlier records of its item say. Pure.

Only data of an agent's error counts as a rate limit, never its words.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from acp_launch.batch.model import AgentFacts, Cost, ErrorFacts, Outcome, Record, ServerFacts
from acp_launch.protocol import acp
from acp_launch.regex import regex
from acp_launch.session.options import match
from acp_launch.session.state import SessionState, tokens

ENDS: Mapping[int, Outcome] = {
    10: "denied",
    124: "timed_out",
    **dict.fromkeys((129, 130, 143), "cancelled"),
    **dict.fromkeys((2, 3, 6, 7, 8), "setup_failed"),
}
LIMITED = (429, 529, "429", "529")
STATUSES = ("code", "status", "statusCode", "status_code")
ANSWER = 64 * 1024  # bytes of an answer that are in a record
DATA = 64 * 1024  # bytes of an error's data that are
DEPTH = 4  # of objects within data
MILLISECONDS = 1e11  # a later time is not in seconds
_TYPE = regex(rb'\{"type":"([a-z]+)"')
# Updates that are decoded; most of a long file are others.
_UPDATE = regex(rb'"sessionUpdate"\s*:\s*"(tool_call|usage_update|current_mode_update|config_option_update)"')


class RunFacts:
    """What the events of a run say. `take` takes a line of them, and keeps little: a file may hold 100 MB."""

    def __init__(self) -> None:
        self.agent = AgentFacts()
        self.session: dict[str, str] | None = None
        self.stop_reason: str | None = None
        self.answer = ""
        self.denied: str | None = None
        self.usage: dict[str, int] | None = None
        self.error: ErrorFacts | None = None
        self.error_time = ""
        self._state = SessionState()
        self._calls: set[str] = set()
        self._restarts: dict[str, int] = {}
        self._takes: Mapping[bytes, Callable[[dict[str, Any]], None]] = {
            b"initialized": self._take_agent,
            b"session": self._take_session,
            b"update": self._take_update,
            b"server": self._take_server,
            b"servers": self._take_servers,
            b"result": self._take_result,
            b"error": self._take_error,
        }

    @property
    def cost(self) -> Cost | None:
        """What the session has cost until now, as far as the agent says; a negative amount would raise limits."""
        told = self._state.usage.cost
        return Cost(amount=told.amount, currency=told.currency) if told and told.amount >= 0 and told.currency else None

    @property
    def mode(self) -> str | None:
        return self._current("mode") or self._state.mode or None

    @property
    def model(self) -> str | None:
        return self._current("model") or None

    @property
    def tools(self) -> int:
        return len(self._calls)

    @property
    def servers(self) -> tuple[ServerFacts, ...]:
        return tuple(ServerFacts(name=name, restarts=count) for name, count in self._restarts.items())

    def _current(self, category: str) -> str:
        option = match(self._state.options, category)
        return str(option.current) if option else ""

    def take(self, line: bytes) -> None:
        kind = found[1] if (found := _TYPE.match(line)) else b""
        if kind in self._takes and (kind != b"update" or _UPDATE.search(line)):
            self._takes[kind](acp.mapping(acp.decoded(line)))

    def _take_agent(self, event: dict[str, Any]) -> None:
        told = acp.mapping(acp.mapping(event.get("result")).get("agentInfo"))
        self.agent = AgentFacts(name=acp.text(told.get("name")), version=acp.text(told.get("version")))

    def _take_session(self, event: dict[str, Any]) -> None:
        self.session = {"name": acp.text(event.get("name")), "id": acp.text(event.get("sessionId"))}
        self._state.opened(event.get("result"))

    def _take_update(self, event: dict[str, Any]) -> None:
        update = acp.mapping(event.get("update"))
        kind = acp.text(update.get("sessionUpdate"))
        if kind == "tool_call":
            self._calls.add(acp.text(update.get("toolCallId")))
        self._state.apply(kind, update)

    def _take_server(self, event: dict[str, Any]) -> None:
        if isinstance(restarts := event.get("restarts"), int):
            self._restarts[acp.text(event.get("name"))] = restarts

    def _take_servers(self, event: dict[str, Any]) -> None:
        for each in acp.sequence(event.get("servers")):
            self._take_server(acp.mapping(each))

    def _take_result(self, event: dict[str, Any]) -> None:
        self.stop_reason = acp.text(event.get("stopReason"))
        self.answer = acp.text(event.get("text"))
        self.denied = acp.text(event.get("denied")) or None
        told = {name: tokens(count) for name, count in acp.mapping(event.get("usage")).items()}
        self.usage = {name: count for name, count in told.items() if count is not None} or None

    def _take_error(self, event: dict[str, Any]) -> None:
        code, data = event.get("code"), event.get("data")
        problems = [acp.mapping(each) for each in acp.sequence(event.get("problems"))]
        first = next((each for each in problems if each.get("severity") == "error"), {})
        message = f"{first.get('file')}: {first.get('message')}" if first else acp.text(event.get("message"))
        self.error_time = acp.text(event.get("time"))
        self.error = ErrorFacts(
            exit_code=int(event.get("exitCode") or 1),
            message=f"{message} (one of {len(problems)} problems)" if len(problems) > 1 else message,
            fix=acp.text((first or event).get("fix")),
            code=code if isinstance(code, int) else None,
            data=data if len(msgspec.json.encode(data)) <= DATA else None,
        )


def classify(exit_code: int, facts: RunFacts) -> Outcome | None:
    """Classify a run; None after a turn that has ended well: its check decides, or its answer."""
    if exit_code == 0:
        return None
    if exit_code == 9:
        return "refused" if facts.stop_reason == "refusal" else "limited"
    outcome = ENDS.get(exit_code, "agent_died")
    is_failure = outcome in ("agent_died", "setup_failed")
    return "rate_limited" if is_failure and facts.error and is_rate_limit(facts.error) else outcome


def is_rate_limit(error: ErrorFacts) -> bool:
    """Whether the agent's error says by its data that a rate limit is reached, or that its model is overloaded."""
    if error.code in LIMITED:
        return True
    return any(
        "rate_limit" in (each.get("errorKind"), each.get("error_kind"))
        or any(each.get(name) in LIMITED for name in STATUSES)
        for each in _objects(error.data)
    )


def find_reset(error: ErrorFacts, time: str) -> float | None:
    """Find when a rate limit ends, in Unix seconds; `time` is that of the event of this error."""
    told = _read_moment(time)
    for each in _objects(error.data):
        for name, value in each.items():
            if name in ("retryAfter", "retry_after") and (seconds := _read_number(value)) is not None:
                return None if told is None else told + seconds
            if name in ("resetsAt", "resets_at") and (moment := _read_moment(value)) is not None:
                return moment
    return None


def _objects(data: object, depth: int = DEPTH) -> Iterator[dict[str, Any]]:
    """Yield the objects in an error's data, the outer ones first."""
    if depth and isinstance(data, dict):
        yield data
        for each in data.values():
            yield from _objects(each, depth - 1)


def _read_number(value: object) -> float | None:
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float | str) else float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number < 1e15 else None


def _read_moment(value: object) -> float | None:
    """Read Unix seconds, or milliseconds, or a time of ISO 8601, which is UTC unless it says otherwise."""
    if (number := _read_number(value)) is not None:
        return number / 1000 if number > MILLISECONDS else number
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(acp.text(value))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def subtract_earlier(cost: Cost | None, session: Mapping[str, str] | None, earlier: Iterable[Record]) -> Cost | None:
    """Return what this attempt added to the cost of its session, which `earlier` attempts may have begun."""
    if cost is None or session is None:
        return cost
    told = [
        each.session_cost.amount
        for each in earlier
        if each.session_cost and each.session and each.session.get("id") == session.get("id")
        if each.session_cost.currency == cost.currency
    ]
    before = told[-1] if told and told[-1] <= cost.amount else 0.0  # less than before: the agent counts anew
    return Cost(amount=round(cost.amount - before, 9), currency=cost.currency)


def shorten_answer(text: str) -> str:
    """Return the beginning of an answer, for a record."""
    return text.encode(errors="replace")[:ANSWER].decode(errors="ignore")
