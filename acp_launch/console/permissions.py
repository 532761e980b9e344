"""
Verdicts, remembered answers and the permission log, for users and for scripts.

Titles and commands come from agents, so control characters are replaced; JSON is ASCII for the same reason.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from acp_launch.console.sessions import ago
from acp_launch.console.stderr import harmless_line
from acp_launch.console.stdout import columns, fit
from acp_launch.plan.model import RulePlan
from acp_launch.session.permission.policy import OVERRULED, Remembered, Verdict

Considered = Sequence[tuple[RulePlan, str]]  # the reason why it does not match; empty if it does
MAX_TITLE_CHARS = 100  # or of a command, in a line
ANSWERS = {"ran": "ran, not asked"}


def verdict(verdict: Verdict, considered: Considered, *, verbose: bool) -> str:
    """Return the lines for `permission test`; with `verbose`, the rules considered come first."""
    lines = [f"{verdict.answer}: {verdict.by}"]
    if verbose:
        rows = [(f"  {rule.answer}", str(rule), _match(why)) for rule, why in considered]
        lines += columns(rows) if rows else ["no rules"]
    return "\n".join(map(harmless_line, lines))


def _match(why: str) -> str:
    return (why if why.startswith(OVERRULED) else f"no match: {why}") if why else "matches"


def verdict_json(verdict: Verdict, considered: Considered) -> dict[str, Any]:
    origin = None if verdict.origin is None else str(verdict.origin)
    rules = [
        {
            "rule": rule.origin.path,
            "origin": str(rule.origin),
            "answer": rule.answer,
            "matches": not why,
            "why": why.removeprefix("no match: "),
        }
        for rule, why in considered
    ]
    return {"answer": verdict.answer, "by": verdict.by, "origin": origin, "rules": rules}


def answer_lines(answers: Sequence[Remembered], *, now: float) -> str:
    """Return the lines for `permission list`, with the numbers that `forget` takes; empty without answers."""
    rows = [
        (str(number), f"always {each.answer}", about(each), ago(each.since, now=now))
        for number, each in enumerate(answers, 1)
    ]
    return "\n".join(columns([("N", "ANSWER", "WHAT", "GIVEN"), *rows])) if rows else ""


def answers_json(answers: Sequence[Remembered]) -> dict[str, Any]:
    return {"remembered": [{"number": number, **to_builtins(each)} for number, each in enumerate(answers, 1)]}


def about(answer: Remembered) -> str:
    """Describe the calls that an answer applies to."""
    what = [*answer.commands, *answer.paths, *answer.addresses, *([answer.title] if answer.title else [])]
    where = [f"in {place}" for place in answer.directories]
    only = f" (this input only, sha256 {answer.input[:12]})" if answer.input else ""  # its digest, as it is stored
    return _short(" ".join([answer.tool or answer.kind or "other", *what, *where])) + only


def log_lines(entries: Sequence[dict[str, Any]], *, with_profile: bool) -> str:
    """Return the lines for `permission log`. The user may have edited the file, so members may have any type."""
    rows = [_entry(entry, with_profile) for entry in entries]
    return "\n".join(columns(rows)) if rows else ""


def _entry(entry: dict[str, Any], with_profile: bool) -> list[str]:
    said = {key: value if isinstance(value, str) else "" for key, value in entry.items()}
    what = _short(said.get("title") or said.get("command") or "a tool call")
    if chosen := said.get("chosen"):
        what = f"{what}: {_short(chosen)}"
    answer = said.get("answer", "")
    return [
        said.get("time", ""),
        *([said.get("profile", "")] if with_profile else []),
        ANSWERS.get(answer, answer),
        said.get("kind") or "-",
        what,
        said.get("by", ""),
    ]


def _short(text: str) -> str:
    return fit(" ".join(text.split()), MAX_TITLE_CHARS)
