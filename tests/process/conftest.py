"""Whatever a test here forgets, or fails to end, is ended after it; descriptors are counted."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_launch.process import prepare
from acp_launch.process.tree import end_all_now

from .liveness import Liveness, liveness


@pytest.fixture
def alive() -> Iterator[Liveness]:
    with liveness() as heard:
        yield heard


@pytest.fixture(autouse=True)
def nothing_left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test leaves a child or a descriptor.

    A server of other tests that this process began before has no orphans: it does not count among those that may.
    """
    prepare.prepare()
    before, known = _descriptors(), {*_baseline_pids(), *_children()}
    monkeypatch.setattr(prepare, "_baseline", frozenset[object]())
    yield
    left = [child for child in _children() if child not in known]
    end_all_now()
    assert left == [], "this test left processes"
    assert _descriptors() - before == set(), "this test left descriptors open"


def _baseline_pids() -> set[int]:
    return {process.pid for process in prepare.baseline()}


def _children() -> list[int]:
    return prepare.table().children(os.getpid())


def _descriptors() -> set[str]:
    """By what they are, so that pytest's own comings and goings do not count."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue  # the descriptor of this very listing
        if target.startswith(("pipe:", "socket:", "anon_inode:[pidfd]")):
            found.add(f"{entry.name} {target}")
    return found
