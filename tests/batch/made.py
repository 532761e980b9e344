"""Batches and records, made without a file, for tests of what carries them out."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp_launch.batch.model import (
    Account,
    Backoff,
    Batch,
    FrozenProfile,
    Isolation,
    Item,
    Limits,
    Outcome,
    Record,
    Retry,
)
from acp_launch.batch.store import BATCH, BatchDirectory, encode
from acp_launch.document.scalars import Duration
from acp_launch.private import make_private

TIME = "2026-11-27T08:00:00.000Z"
RETRY = Retry(attempts=3, backoff=Backoff(initial=Duration(30), max=Duration(100)))


def make_batch(
    ids: Sequence[str], limits: Limits | None = None, retry: Retry | None = None, directory: Path = Path("/nowhere")
) -> Batch:
    """Make a batch of these items, each `TASK.PROFILE`, with at most 2 at once if `limits` are not given."""
    items = tuple(
        Item(id=id, index=index, task=id.partition(".")[0], profile=id.partition(".")[2] or "demo", repo=str(directory))
        for index, id in enumerate(ids)
    )
    profiles = {
        name: FrozenProfile(called=name, file=f"{name}.yaml", digest="0") for name in {each.profile for each in items}
    }
    return Batch(
        name="made",
        created=TIME,
        acp_launch="0",
        file=str(directory / "batch.yaml"),
        directory=str(directory),
        profiles=profiles,
        items=items,
        isolation=Isolation(),
        check=None,
        approve="all",
        limits=limits or Limits(jobs=2),
        retry=retry,
    )


def make_directory(place: Path, batch: Batch) -> BatchDirectory:
    make_private(place)
    (place / BATCH).write_bytes(encode(batch))
    return BatchDirectory(place, batch)


def account(*profiles: str, jobs: int | None = None, start_every: float | None = None) -> Account:
    return Account(profiles=profiles, jobs=jobs, start_every=Duration(start_every) if start_every else None)


def make_record(item: Item, attempt: int, outcome: Outcome, **more: Any) -> Record:
    members: dict[str, Any] = {
        "item": item.id,
        "attempt": attempt,
        "outcome": outcome,
        "exit_code": 0,
        "started": TIME,
        "ended": TIME,
        "seconds": 1.0,
        "batch": "made",
        "task": item.task,
        "profile": item.profile,
        "profile_digest": "0",
        "matrix": {},
        "sample": 1,
        "acp_launch": "0",
        "host": "here",
        "repo": item.repo,
    }
    return Record(**{**members, **more})


def record(directory: BatchDirectory, id: str, attempt: int, outcome: Outcome, **more: Any) -> None:
    """Carry out an attempt as `batch item` does, as far as its records show."""
    with directory.lock(id, 0):
        directory.begin(id, attempt)
        directory.write_record(make_record(directory.find_item(id), attempt, outcome, **more))


def begin_without_end(directory: BatchDirectory, id: str, attempt: int) -> None:
    with directory.lock(id, 0):
        directory.begin(id, attempt)
    assert (directory.directory_of(id, attempt) / "started.json").stat().st_uid == os.geteuid()
