"""Versions of Node.js against what packages ask for."""

import pytest

from acp_launch.checks.programs import parse_version as version
from acp_launch.checks.programs import satisfies


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (">=18", True),
        (">= v22.11.0", True),
        (">=22.11.1", False),
        ("^22.1.0", True),
        ("^20.19.0 || >=22.12", False),
        ("^20.19.0 || >=22.10", True),
        ("18 - 20", None),
        ("lts/iron || >=20", None),
        ("9" * 100_000, None),
    ],
)
def test_a_version_is_within_a_range_or_the_range_is_not_judged(wanted: str, expected: bool | None) -> None:
    assert satisfies((22, 11, 0), wanted) is expected


def test_a_version_is_read_as_node_prints_it() -> None:
    assert version("v22.11.0\n") == (22, 11, 0)
    assert version("22.11.0-nightly2024") == (22, 11, 0)
    assert version("node: not found") is None
    assert version("") is None
