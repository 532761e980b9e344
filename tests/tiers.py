"""
Two tiers: `pytest` runs what is to hold at every change, `pytest -m slow` what takes long and changes rarely.

A test is slow when it is marked so or when its directory is. `sample` makes an exception, so that of each promise
something is run at every change: `sample` of a whole test, `sample(N)` of the first N of its parameters, the others
being slow. What is marked in neither way is not slow.
"""

from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLOW = {"conformance", "matrix", "peers", "realservers"}  # directories


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m` selects: mark what is slow without saying so itself."""
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        if is_slow(item.path, item.get_closest_marker("sample"), seen[test]):
            item.add_marker("slow")


def is_slow(path: Path, sample: pytest.Mark | None, number: int) -> bool:
    """Whether the parameters with this number, from 1, of a test in this file are."""
    if sample is None:
        return path.is_relative_to(HERE) and path.relative_to(HERE).parts[0] in SLOW
    return bool(sample.args) and number > sample.args[0]
