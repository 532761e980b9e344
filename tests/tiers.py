"""
Two tiers: `pytest` runs what is to hold at every change, `pytest -m slow` what takes long and changes rarely.

A test is slow when it is marked so or when its directory is. `sample` makes an exception, so that of each promise
something is run at every change: `sample` of a whole test, `sample(N)` of the first N of its parameters, the others
being slow. What is marked in neither way is not slow. Of the slow ones those are exhaustive too, and left out by
`.ci/run`, which are marked so or are beyond the first M parameters of `sample(N, M)`.
"""

from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLOW = {"conformance", "matrix", "peers", "realservers"}  # directories


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m` selects: mark what is slow or exhaustive without saying so itself."""
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        for tier in tiers(item.path, item.get_closest_marker("sample"), seen[test]):
            item.add_marker(tier)


def tiers(path: Path, sample: pytest.Mark | None, number: int) -> list[str]:
    """The marks of the parameters with this number, from 1, of a test in this file."""
    if sample is None:
        slow = path.is_relative_to(HERE) and path.relative_to(HERE).parts[0] in SLOW
        return ["slow"] if slow else []
    if not sample.args:
        return []
    return [tier for tier, first in zip(("slow", "exhaustive"), sample.args, strict=False) if number > first]
