"""Batches whose items name their profile, and attempts of them, for tests of what carries them out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp_launch.batch.model import Account, Backoff, FrozenProfile, Item, Limits, Outcome, Retry
from acp_launch.batch.store import BatchDirectory
from acp_launch.document.scalars import Duration
from tests.batch import directories

RETRY = Retry(attempts=3, backoff=Backoff(initial=Duration(30), max=Duration(100)))


def make_directory(
    place: Path, ids: Sequence[str], limits: Limits | None = None, retry: Retry | None = None, **given: Any
) -> BatchDirectory:
    """Make the directory of a batch of items `TASK.PROFILE`, with at most 2 at once if `limits` are not given."""
    items = [
        Item(id=id, index=index, task=id.partition(".")[0], profile=id.partition(".")[2] or "demo", repo=str(place))
        for index, id in enumerate(ids)
    ]
    profiles = {each.profile: FrozenProfile(called=each.profile, file="p.yaml", digest="0" * 32) for each in items}
    known = {"items": tuple(items), "profiles": profiles, "limits": limits or Limits(jobs=2), "retry": retry}
    return directories.make_batch(place, ids, **{**known, **given})


def account(*profiles: str, jobs: int | None = None, start_every: float | None = None) -> Account:
    return Account(profiles=profiles, jobs=jobs, start_every=Duration(start_every) if start_every else None)


def record(directory: BatchDirectory, id: str, attempt: int, outcome: Outcome, **more: Any) -> None:
    """Make an attempt that has such a record."""
    directories.add_record(directory, directories.make_record(id, attempt, outcome, **more))


def begin_without_end(directory: BatchDirectory, id: str, attempt: int) -> None:
    with directory.lock(id, 0):
        directory.begin(id, attempt)
