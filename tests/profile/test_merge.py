"""Layers merge as docs/profiles.md says, and every value of the result keeps the file and line it was written in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.document.nodes import Node, Place, Plain
from acp_launch.document.yaml import Document, parse
from acp_launch.profile.layers import merge

KEYS = ["a", "b", "c", "d"]
LEAVES = st.one_of(
    st.integers(0, 9), st.sampled_from(["x", "y"]), st.booleans(), st.lists(st.integers(0, 3), max_size=2)
)
Tree = dict[str, Any]


def trees(*, nulls: bool) -> st.SearchStrategy[Tree]:
    leaf = st.one_of(LEAVES, st.none()) if nulls else LEAVES
    return st.dictionaries(
        st.sampled_from(KEYS),
        st.recursive(leaf, lambda inner: st.dictionaries(st.sampled_from(KEYS), inner, max_size=4), max_leaves=8),
        max_size=4,
    )


def shaped(depth: int = 0) -> st.SearchStrategy[Tree]:
    """Trees in which a key is always a map or never one, as in every format: `a` and `b` are maps."""
    if depth == 3:
        return st.dictionaries(st.sampled_from(["c", "d"]), LEAVES)
    inner = st.deferred(lambda: shaped(depth + 1))
    return st.fixed_dictionaries({}, optional={"a": inner, "b": inner, "c": LEAVES, "d": LEAVES})


def node(value: Plain, place: Place) -> Node:
    """As the parser makes it; each node has a place of its own."""
    if isinstance(value, dict):
        made = Node(place, {})
        for index, (key, entry) in enumerate(value.items()):
            made.put(key, Place(place.line + index, place.column + 1, place.file), below(entry, place, index))
        return made
    if isinstance(value, list):
        made = Node(place, [])
        for index, item in enumerate(value):
            made.append(below(item, place, index))
        return made
    return Node(place, value)


def below(value: Plain, place: Place, index: int) -> Node:
    return node(value, Place(place.line * 10 + index, place.column + 2, place.file))


def layers(*values: Tree) -> list[Node]:
    return [node(value, Place(1, 1, f"{index}.yaml")) for index, value in enumerate(values)]


def naive(under: Plain, over: Plain) -> Plain:
    """The rule as a person would put it."""
    if not isinstance(over, dict):
        return over
    merged = dict(under) if isinstance(under, dict) else {}
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = naive(merged.get(key), value)
    return merged


def writer(path: tuple[str, ...], values: list[Tree]) -> int:
    """Which layer the value at `path` of the merged tree is from: the last one that says anything there, and the first
    one for a null."""
    found = 0
    for index, value in enumerate(values):
        part: Plain = value
        for step in path:
            part = part.get(step) if isinstance(part, dict) else None
        found = index if part is not None else found
    return found


@given(st.lists(trees(nulls=True), min_size=1, max_size=5))
def test_merging_is_what_a_person_would_do(values: list[Tree]) -> None:
    expected: Plain = values[0]
    for value in values[1:]:
        expected = naive(expected, value)
    assert merge(layers(*values))[0].value == expected


@given(shaped(), shaped(), shaped())
def test_maps_merge_in_any_grouping(first: Tree, second: Tree, third: Tree) -> None:
    one, two, three = layers(first, second, third)
    left = merge([merge([one, two])[0], three])[0]
    right = merge([one, merge([two, three])[0]])[0]
    assert left.value == right.value == merge([one, two, three])[0].value
    assert Document("", left).positions == Document("", right).positions


@given(trees(nulls=False))
def test_a_layer_over_itself_or_over_nothing_changes_nothing(value: Tree) -> None:
    assert merge(layers(value, value))[0].value == value
    assert merge(layers({}, value))[0].value == value
    assert merge(layers(value, {}))[0].value == value
    assert merge(layers(value, value))[1] == ()


@given(st.lists(trees(nulls=True), min_size=1, max_size=5))
def test_every_leaf_is_where_it_was_written(values: list[Tree]) -> None:
    """And so is each item of a list, and each key."""
    written = layers(*values)
    document = Document("", merge(written)[0])
    for path in document.positions.table:
        steps = tuple(step for step in path if isinstance(step, str))
        if not steps or isinstance(value_at(document.root, path), dict):
            continue
        source = Document("", written[writer(steps, values)])
        assert document.where(path) == source.where(path), path
        assert document.where(path, key=True) == source.where(path, key=True), path


def value_at(root: Plain, path: tuple[str | int, ...]) -> Plain:
    for step in path:
        root = root[step]
    return root


@given(shaped(), st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
def test_null_removes_what_is_there_and_warns_of_what_is_not(value: Tree, path: list[str]) -> None:
    over: Plain = None
    for step in reversed(path):
        over = {step: over}
    tree, warnings = merge(layers(value, over))
    above: Plain = value
    for step in path[:-1]:
        above = above.get(step) if isinstance(above, dict) else None
    was_there = isinstance(above, dict) and path[-1] in above
    assert len(warnings) == (0 if was_there else 1)
    assert all(warning.severity == "warning" and warning.file == "1.yaml" for warning in warnings)
    found: Plain = tree.value
    for step in path[:-1]:
        found = found[step]
    assert path[-1] not in found


@pytest.mark.parametrize(
    ("over", "warning"),
    [
        (
            "mcp_servers: {gihtub: null}",
            'o.yaml:1:15: mcp_servers.gihtub: warning: null removes nothing here: no layer below has the key "gihtub"; '
            'did you mean "github"?\n    fix: write github: null',
        ),
        (
            "agent:\n  env: {X: }",
            'o.yaml:2:9: agent.env.X: warning: null removes nothing here: no layer below has the key "X"\n'
            "    fix: remove this line",
        ),
    ],
)
def test_a_null_that_removes_nothing_says_where_and_what_is_near(over: str, warning: str) -> None:
    below, _ = parse("mcp_servers: {github: {command: x}}\nagent: {command: x}", "u.yaml")
    above, _ = parse(over, "o.yaml")
    assert below and above
    assert [str(problem) for problem in merge([below.tree, above.tree])[1]] == [warning]


def test_a_null_that_is_a_value_is_no_mistake() -> None:
    value: Tree = {"workspace": {"cwd": None}, "mcp_servers": {"a": {"cwd": None, "timeouts": {"call": None}}}}
    tree, warnings = merge(layers({}, value))
    assert (tree.value, warnings) == (value, ())
    both = merge(layers({"workspace": {"cwd": "x"}}, value))[0].value
    assert both["workspace"] == {}


def test_the_first_layer_keeps_its_nulls_for_there_is_nothing_below() -> None:
    tree, warnings = merge(layers({"a": None, "b": {"c": None}}, {"d": 1}))
    assert (tree.value, warnings) == ({"a": None, "b": {"c": None}, "d": 1}, ())


def test_a_hundred_nulls_that_remove_nothing_are_enough() -> None:
    assert len(merge(layers({}, {f"k{index}": None for index in range(1000)}))[1]) == 100
