"""Ring 1. What is accepted says everything, and says it in one way only."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.document.nodes import Plain
from acp_launch.profile.trust import changes, content, digest

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
KEYS = st.sampled_from(["a", "b", "a.b", "a[0]", "", '"', "ä", "A"]) | st.text(max_size=4)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
ROOTS = st.dictionaries(KEYS, VALUES, max_size=4)


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return list(map(shuffled, value)) if isinstance(value, list) else value


@given(ROOTS)
def test_the_order_of_keys_makes_no_difference(root: dict[str, Plain]) -> None:
    assert content(root) == content(shuffled(root))


@pytest.mark.whole
@given(ROOTS, ROOTS)
def test_two_profiles_have_the_same_content_only_if_they_say_the_same(
    one: dict[str, Plain], other: dict[str, Plain]
) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (content(one) == content(other)) == same


def test_a_value_is_one_line_with_its_path() -> None:
    root: dict[str, Plain] = {
        "version": 1,
        "agent": {"command": "a", "args": ["-x", "a\nb"], "env": {}},
        "mcp_servers": {"my server": {"required": False}},
    }
    assert content(root) == (
        'agent.args[0]: "-x"',
        'agent.args[1]: "a\\nb"',
        'agent.command: "a"',
        "agent.env: {}",
        'mcp_servers."my server".required: false',
        "version: 1",
    )


def test_the_project_is_part_of_what_is_accepted() -> None:
    lines = content({"version": 1})
    assert digest("/a", lines) != digest("/b", lines)
    assert digest("/a", lines) == digest("/a", list(lines))
    assert all("\0" not in line for line in content({"a\0b": "c\0d"})), "what stands between two lines is in none"


def test_what_changed_is_told_line_by_line() -> None:
    before, now = ("a: 1", "b: 2", "d: 4"), ("a: 1", "b: 3", "c: 5", "d: 4")
    assert list(changes(before, now)) == ["- b: 2", "+ b: 3", "+ c: 5"]
    assert list(changes(now, now)) == []
