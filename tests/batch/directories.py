"""Directories of batches for tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp_launch.app.spec import load_settings
from acp_launch.batch.model import Batch, FrozenProfile, Isolation, Item, Limits, Outcome, Record, Retry
from acp_launch.batch.store import BATCH, BatchDirectory, encode, open_batch
from acp_launch.batch.trust import keep_directory


def make_batch(directory: Path, /, ids: Sequence[str] = ("a.demo",), **given: Any) -> BatchDirectory:
    """Write the frozen batch of these items into a directory, as one that was made for this user."""
    items = [
        Item(id=id, index=index, task=id.partition(".")[0], profile="demo", prompt="hello", repo=str(directory))
        for index, id in enumerate(ids)
    ]
    known: dict[str, Any] = {
        "name": "nightly",
        "created": "2026-11-27T08:30:00.250Z",
        "acp_launch": "0.1.0",
        "file": str(directory / "batch.yaml"),
        "directory": str(directory),
        "profiles": {"demo": FrozenProfile(called="demo", file="demo.yaml", digest="0" * 32)},
        "items": tuple(items),
        "isolation": Isolation(),
        "check": None,
        "approve": None,
        "limits": Limits(),
        "retry": None,
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / BATCH).write_bytes(encode(Batch(**{**known, **given})))
    made = open_batch(directory)
    assert keep_directory(made, load_settings())
    return made


def make_record(item: str = "a.demo", attempt: int = 1, outcome: Outcome = "passed", **given: Any) -> Record:
    """Make the record of an attempt."""
    known: dict[str, Any] = {
        "batch": "nightly",
        "task": item.partition(".")[0],
        "profile": "demo",
        "profile_digest": "0" * 32,
        "matrix": {},
        "sample": 1,
        "acp_launch": "0.1.0",
        "host": "here",
        "started": "2026-11-27T08:30:00.250Z",
        "ended": "2026-11-27T08:30:01.250Z",
        "seconds": 1.0,
        "exit_code": 0 if outcome in ("passed", "failed", "empty") else 4,
        "repo": "/project",
    }
    return Record(**{**known, "item": item, "attempt": attempt, "outcome": outcome, **given})


def add_record(batch: BatchDirectory, record: Record) -> None:
    """Make an attempt that has this record."""
    with batch.lock(record.item):
        batch.begin(record.item, record.attempt)
    batch.write_record(record)


RETRY = Retry(attempts=2, on=("agent_died", "rate_limited"))
