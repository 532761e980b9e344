"""Ring 1. Permission rules of profiles that another extends: they stay behind its own, through every level."""

from typing import Any

import pytest

from acp_launch.document.yaml import parse
from acp_launch.problem import Problem
from acp_launch.profile.layers import merge

BASE = "permissions: {rules: [{deny: {command: a}}]}"


def merged(*texts: str) -> tuple[Any, tuple[Problem, ...]]:
    """The permissions of files, the lowest first, and the warnings."""
    nodes = []
    for number, text in enumerate(texts):
        document, problems = parse(text, f"{number}.yaml")
        assert document is not None, problems
        nodes.append(document.tree)
    tree, warnings = merge(nodes)
    return tree.value.get("permissions"), warnings


def commands(permissions: Any) -> list[str]:
    return [next(iter(rule.values()))["command"] for rule in permissions["rules"]]


def test_the_rules_below_stand_behind_those_above_through_every_level() -> None:
    found, warnings = merged(
        BASE,
        "permissions: {default: deny, rules: [{allow: {command: b}}]}",
        "description: says nothing of permissions",
        "permissions: {rules: [{ask: {command: c}}, {allow: {command: d}}]}",
    )
    assert commands(found) == ["c", "d", "b", "a"]
    assert (found["default"], warnings) == ("deny", ())


def test_each_rule_keeps_the_place_it_is_written_at() -> None:
    documents = [parse(text, name)[0] for name, text in (("low", BASE), ("high", BASE.replace(": a", ": b")))]
    tree, _ = merge([document.tree for document in documents if document is not None])
    rules = tree.entries["permissions"][1].entries["rules"][1]
    assert [item.place.file for item in rules.items] == ["high", "low"]


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ("permissions: {inherit: false}", []),
        ("permissions: {inherit: false, rules: [{allow: {command: b}}]}", ["b"]),
        ("permissions: {inherit: true, rules: [{allow: {command: b}}]}", ["b", "a"]),
        ("permissions: {rules: []}", ["a"]),
        ("permissions: {default: allow}", ["a"]),
        ("permissions: {rules: null}", ["a"]),
        ("permissions: null", ["a"]),
    ],
)
def test_only_inherit_false_drops_them(above: str, expected: list[str]) -> None:
    found, warnings = merged(BASE, above)
    assert commands(found) == expected
    assert len(warnings) == ("null" in above or "false" in above)
    assert all(each.severity == "warning" and each.file == "1.yaml" for each in warnings)


def test_dropped_rules_do_not_come_back_on_the_next_level() -> None:
    found, _ = merged(BASE, "permissions: {inherit: false}", "permissions: {rules: [{allow: {command: c}}]}")
    assert commands(found) == ["c"]
