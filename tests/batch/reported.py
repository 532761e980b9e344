"""Directories of batches that have ended, with records of every outcome."""

from pathlib import Path
from typing import Any, get_args

from acp_launch.batch.model import (
    AgentFacts,
    Batch,
    CheckResult,
    Cost,
    ErrorFacts,
    FrozenProfile,
    Isolation,
    Item,
    Limits,
    Outcome,
    Patch,
    Record,
    Retry,
)
from acp_launch.batch.store import BATCH, BatchDirectory, encode
from acp_launch.waits import format_time
from tests.batch.directories import make_record

CREATED = 1_795_000_000.25
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def make_item(index: int, task: str, profile: str = "demo", **rest: Any) -> Item:
    """Make an item with the id that a frozen batch gives it."""
    matrix, sample = rest.get("matrix", {}), rest.get("sample", 1)
    id = ".".join([task, profile, *matrix.values(), *([str(sample)] if "sample" in rest else [])])
    return Item(id=id, index=index, task=task, profile=profile, repo="/src/shop", **{"prompt": "Do it", **rest})


def make_batch(at: Path, items: tuple[Item, ...], name: str = "nightly") -> BatchDirectory:
    at.mkdir(parents=True)
    profiles = {item.profile: FrozenProfile(called=item.profile, file="/p.yaml", digest="d" * 64) for item in items}
    batch = Batch(
        name=name,
        created=format_time(CREATED),
        acp_launch="0.1.0",
        file="/src/shop/batch.yaml",
        directory="/src/shop",
        profiles=profiles,
        items=items,
        isolation=Isolation(),
        check=None,
        approve="all",
        limits=Limits(),
        retry=Retry(),
    )
    (at / BATCH).write_bytes(encode(batch))
    return BatchDirectory(at, batch)


def add_record(directory: BatchDirectory, item: Item, outcome: Outcome, attempt: int = 1, **rest: Any) -> Record:
    """Write the record of an attempt that took as many seconds as `seconds` says, one if it says nothing."""
    taken = rest.get("seconds", 1.0)
    began = CREATED + 60 * item.index + 10 * attempt
    given: dict[str, Any] = {
        "started": format_time(began),
        "ended": format_time(began + taken),
        "seconds": taken,
        "agent": AgentFacts(name="demo-agent", version="1.2"),
        "stop_reason": "end_turn" if outcome in ("passed", "failed", "empty") else None,
        "session": {"name": "s", "id": "session-1"},
        "repo": item.repo,
        "batch": directory.batch.name,
        "task": item.task,
        "profile": item.profile,
        "matrix": item.matrix,
        "sample": item.sample,
    }
    record = make_record(item.id, attempt, outcome, **{**given, **rest})
    directory.begin(item.id, attempt)
    directory.write_record(record)
    return record


def write_text(directory: BatchDirectory, item: Item, attempt: int, name: str, text: str) -> None:
    (directory.directory_of(item.id, attempt) / name).write_text(text)


FACTS: dict[str, dict[str, Any]] = {
    "passed": {"usage": {"inputTokens": 1000, "outputTokens": 200}, "cost": Cost(amount=0.25, currency="USD")},
    "failed": {"check": CheckResult(command=("pytest", "-q"), exit_code=1, seconds=2.0), "usage": {"totalTokens": 70}},
    "refused": {"stop_reason": "refusal", "exit_code": 9},
    "limited": {"stop_reason": "max_tokens", "exit_code": 9},
    "denied": {"denied": "Run git push", "exit_code": 10},
    "rate_limited": {"error": ErrorFacts(exit_code=4, message="429 Too Many Requests", data={"retryAfter": 3})},
    "agent_died": {"error": ErrorFacts(exit_code=4, message="the agent died\nits last words", fix="look at its log")},
    "timed_out": {"error": ErrorFacts(exit_code=124, message="--timeout 30m is over"), "exit_code": 124},
    "cancelled": {"error": ErrorFacts(exit_code=130, message="cancelled"), "exit_code": 130},
    "setup_failed": {"error": ErrorFacts(exit_code=3, message="the command claude is missing"), "exit_code": 3},
}


def make_every_outcome(at: Path) -> BatchDirectory:
    """Make a batch with an item of every outcome, one that passed after a retry, and one without a record."""
    items = tuple(make_item(index, name) for index, name in enumerate((*OUTCOMES, "again", "never")))
    directory = make_batch(at, items)
    for item in items[: len(OUTCOMES)]:
        outcome = next(each for each in OUTCOMES if each == item.task)
        add_record(directory, item, outcome, seconds=float(item.index + 1), **FACTS.get(outcome, {}))
    again = items[-2]
    add_record(directory, again, "agent_died", 1, **FACTS["agent_died"])
    patch = Patch(files=1, insertions=1, deletions=1, sha256="0" * 64)
    add_record(directory, again, "passed", 2, answer="42", patch=patch, **FACTS["passed"])
    write_text(directory, again, 2, "patch.diff", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n")
    write_text(directory, again, 2, "answer.md", "42")
    write_text(directory, items[1], 1, "check.txt", "1 failed, 3 passed\n")
    return directory
