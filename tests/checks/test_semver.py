"""Versions of Node.js against what packages ask for; the cases are npm's own grammar."""

import pytest

from acp_launch.checks.programs import parse_version as version
from acp_launch.checks.programs import satisfies


def test_a_version_is_within_a_range_or_the_range_cannot_be_read() -> None:
    for wanted, expected in [
        (">=18", True),
        (">=22.11.0", True),
        (">=22.11.1", False),
        (">22", False),
        (">22.10", True),
        ("<23", True),
        ("<22.11.0", False),
        ("<=22", True),
        ("<=22.10", False),
        ("^22.1.0", True),
        ("^20.19.0 || >=22.12", False),
        ("^20.19.0 || >=22.10", True),
        ("~22.11", True),
        ("~22.10.3", False),
        ("~22", True),
        ("22", True),
        ("22.x", True),
        ("=22.11.0", True),
        ("v22.11", True),
        ("21.x", False),
        ("*", True),
        ("", True),
        (">= 18 < 22", False),
        (">=18 <23", True),
        (">=20.0.0-rc.1", True),
        ("18 - 20", None),
        ("lts/iron", None),
        ("lts/iron || >=20", True),
        ("lts/iron || >=24", None),
        ("<*", False),
    ]:
        assert satisfies((22, 11, 0), wanted) is expected


@pytest.mark.parametrize(("wanted", "expected"), [("^0.2.3", True), ("^0.3", False), ("^0.0.3", False), ("^0", True)])
def test_a_caret_keeps_the_first_number_that_is_not_zero(wanted: str, expected: bool) -> None:
    assert satisfies((0, 2, 9), wanted) is expected


def test_a_version_is_read_as_node_prints_it() -> None:
    assert version("v22.11.0\n") == (22, 11, 0)
    assert version("22.11.0-nightly2024") == (22, 11, 0)
    assert version("node: not found") is None
    assert version("") is None


def test_a_long_untrusted_range_takes_no_time() -> None:
    assert satisfies((22, 0, 0), " ".join([">=1"] * 50_000)) is True
    assert satisfies((22, 0, 0), "9" * 100_000) is None
