"""
The outcome of a run: what its events, its exit code and the earlier records of its item say.

The shapes of limits are in `limits.json`, with the agent and version that each was seen at; the first one that fits
counts. The words of an error count only with data that says of which kind it is.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from acp_launch.batch.model import AgentFacts, Cost, ErrorFacts, Outcome, Record, ServerFacts
from acp_launch.process.lifecycle import Change
from acp_launch.protocol import acp
from acp_launch.regex import regex
from acp_launch.session import events
from acp_launch.session.options import match as find_option
from acp_launch.session.state import SessionState, tokens

ENDS: Mapping[int, Outcome] = {
    10: "denied",
    124: "timed_out",
    **dict.fromkeys((129, 130, 143), "cancelled"),
    **dict.fromkeys((2, 3, 6, 7, 8), "setup_failed"),
}
ANSWER = DATA = 64 * 1024  # bytes of an answer, and of an error's data, that are in a record
MILLISECONDS = 1e11  # a later time is not in seconds


class _Said(Struct, frozen=True):
    """The parts of an update that are read; most of a long file are texts."""

    kind: str = msgspec.field(default="", name="sessionUpdate")
    meta: Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")


_read_said = msgspec.json.Decoder(_Said).decode
_TELLING = ("tool_call", "usage_update", "current_mode_update", "config_option_update")


def read_events(lines: Iterable[bytes]) -> dict[str, Any]:
    """Read the events of a run; return the members of its record that they tell. `answer` is not shortened yet."""
    reader = _EventReader()
    for line in lines:
        reader.on_event(events.decode(line))
    return reader.list_members()


class _EventReader:
    """Keeps little of each event: a file may hold 100 MB."""

    def __init__(self) -> None:
        self._members: dict[str, Any] = {}
        self._state = SessionState()
        self._calls: set[str] = set()
        self._restarts: dict[str, int] = {}
        self._used: dict[str, int] = {}  # tokens of the answers of a model, as qwen tells them in `_meta`

    def on_event(self, event: events.AnyEvent | None) -> None:
        match event:
            case events.UpdateEvent():
                self._take_update(event)
            case events.InitializedEvent():
                about = acp.mapping(acp.mapping(acp.decoded(event.result)).get("agentInfo"))
                facts = AgentFacts(name=acp.text(about.get("name")), version=acp.text(about.get("version")))
                self._members["agent"] = facts
            case events.SessionEvent():  # an error before it was of a run that could not continue its own
                self._members |= {"session": {"name": event.name, "id": event.session_id}, "error": None}
                self._state.opened(acp.decoded(event.result))
            case Change():
                self._restarts[event.server] = event.restarts
            case events.ServersEvent():
                self._restarts |= {each.server: each.restarts for each in event.servers}
            case events.ResultEvent():
                meta = acp.mapping(acp.mapping(acp.decoded(event.result)).get("_meta"))
                quota = acp.mapping(acp.mapping(meta.get("quota")).get("token_count"))  # of gemini
                theirs = {"inputTokens": quota.get("input_tokens"), "outputTokens": quota.get("output_tokens")}
                self._members |= {
                    "stop_reason": event.stop_reason,
                    "answer": event.text,
                    "denied": event.denied or None,
                    "usage": _read_usage(event.usage) or _read_usage(theirs) or self._used or None,
                }
            case events.ErrorEvent():
                self._members["error"] = summarize_error(event)

    def list_members(self) -> dict[str, Any]:
        mode, model = (find_option(self._state.options, category) for category in ("mode", "model"))
        cost = self._state.usage.cost
        is_known = cost is not None and cost.amount >= 0 and cost.currency  # a negative one would raise the limits
        return self._members | {
            "mode": str(mode.current) if mode else self._state.mode or None,
            "model": str(model.current) if model else None,
            "tools": len(self._calls),
            "servers": tuple(ServerFacts(name=name, restarts=count) for name, count in self._restarts.items()),
            "session_cost": Cost(amount=cost.amount, currency=cost.currency) if cost and is_known else None,
        }

    def _take_update(self, event: events.UpdateEvent) -> None:
        try:
            said = _read_said(event.update)
        except msgspec.DecodeError:
            return
        if said.meta is not msgspec.UNSET:
            for name, used in _read_usage(acp.mapping(acp.decoded(said.meta)).get("usage")).items():
                self._used[name] = self._used.get(name, 0) + used
        if said.kind in _TELLING:
            update = acp.mapping(acp.decoded(event.update))
            self._state.apply(said.kind, update)
            if said.kind == "tool_call":
                self._calls.add(acp.text(update.get("toolCallId")))


def summarize_error(event: events.ErrorEvent) -> ErrorFacts:
    """Return what a record keeps of an error."""
    first = next((each for each in event.problems if each.severity == "error"), None)
    message, more = f"{first.file}: {first.message}" if first else event.message, len(event.problems)
    return ErrorFacts(
        exit_code=event.exit_code,
        message=f"{message} (one of {more} problems)" if more > 1 else message,
        fix=(first or event).fix,
        code=event.code,
        data=event.data if len(msgspec.json.encode(event.data)) <= DATA else None,
    )


def _read_usage(said: object) -> dict[str, int]:
    told = {name: tokens(count) for name, count in acp.mapping(said).items()}
    return {name: count for name, count in told.items() if count is not None}


class _Limit(Struct, frozen=True, forbid_unknown_fields=True):
    """A shape of `limits.json`. What it has must fit: `data` by path, in which `*` is any member; `words` are a pattern
    of the message and of texts in the data. With `agent`, a pattern of its name, it is about a turn without usage."""

    outcome: Outcome
    seen: str
    code: tuple[int, ...] = ()
    data: Mapping[str, tuple[str | int, ...]] = {}
    words: str = ""
    agent: str = ""


@cache
def _limits() -> list[_Limit]:
    return msgspec.json.decode(Path(__file__).with_name("limits.json").read_bytes(), type=list[_Limit])


def _fits(limit: _Limit, error: ErrorFacts) -> bool:
    if limit.agent or (limit.code and error.code not in limit.code):
        return False
    data = acp.mapping(error.data)
    for path, values in limit.data.items():
        if not any(found in values for found in _members(data, path.split(".")) if isinstance(found, str | int)):
            return False
    texts = [error.message, *(text for text in data.values() if isinstance(text, str))]
    return not limit.words or any(regex(f"(?i){limit.words}").search(text) for text in texts)


def _members(value: object, path: list[str]) -> Iterator[object]:
    if not path:
        yield value
        return
    said = acp.mapping(value)
    for name in said if path[0] == "*" else path[:1]:
        yield from _members(said.get(name), path[1:])


def find_limit(error: ErrorFacts) -> Outcome | None:
    """Find the limit that an error of the agent tells, by its data."""
    return next((limit.outcome for limit in _limits() if _fits(limit, error)), None)


def judge_answer(record: Record) -> Outcome:
    """Judge a turn that has ended well and has no check, by its answer."""
    if not record.answer.strip():
        return "empty"
    named = (limit for limit in _limits() if limit.agent and regex(f"(?i){limit.agent}").search(record.agent.name))
    return "passed" if record.usage else next((limit.outcome for limit in named), "passed")


def classify(exit_code: int, stop_reason: str | None = None, error: ErrorFacts | None = None) -> Outcome | None:
    """Classify a run; None after a turn that has ended well: its check decides, or its answer."""
    if exit_code == 0:
        return None
    if exit_code == 9:
        return "refused" if stop_reason == "refusal" else "limited"
    outcome = ENDS.get(exit_code, "agent_died")
    is_failure = outcome in ("agent_died", "setup_failed")
    return (is_failure and error and find_limit(error)) or outcome


def find_reset(error: ErrorFacts | None, now: float) -> float | None:
    """Find when a rate limit ends, in Unix seconds; the error came `now`."""
    data = acp.mapping(error.data if error else None)
    for name in ("retryAfter", "retry_after"):
        if (seconds := _read_number(data.get(name))) is not None:
            return now + seconds
    moments = (_read_moment(data.get(name)) for name in ("resetsAt", "resets_at"))
    return next((moment for moment in moments if moment is not None), None)


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

    try:
        moment = datetime.fromisoformat(acp.text(value))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def subtract_earlier(record: Record, earlier: Iterable[Record]) -> Cost | None:
    """Return what this attempt added to the cost of its session, which `earlier` attempts may have begun."""
    cost, before = record.session_cost, 0.0
    if cost is None or record.session is None:
        return cost
    for each in earlier:
        if each.session and each.session["id"] == record.session["id"] and each.session_cost:
            before = each.session_cost.amount if each.session_cost.currency == cost.currency else before
    if before > cost.amount:  # the agent counts anew
        return cost
    return Cost(amount=round(cost.amount - before, 9), currency=cost.currency)


def shorten_answer(text: str) -> str:
    """Return the beginning of an answer, for a record."""
    return text.encode(errors="replace")[:ANSWER].decode(errors="ignore")
