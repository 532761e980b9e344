"""Ring 1. Permission rules of profiles that another extends: they stay behind its own, through every level."""

from pathlib import Path
from typing import Any

import pytest

from acp_launch.document.yaml import parse
from acp_launch.problem import Problem
from acp_launch.profile.discover import find
from acp_launch.profile.layers import merge
from acp_launch.profile.load import inspect
from acp_launch.settings import load as settings

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
    "above",
    ["permissions: {rules: []}", "permissions: {default: allow}", "permissions: {rules: null}", "permissions: null"],
)
def test_nothing_else_removes_them(above: str) -> None:
    found, warnings = merged(BASE, above)
    assert commands(found) == ["a"]
    assert len(warnings) == ("null" in above)
    assert all(each.severity == "warning" and each.file == "1.yaml" for each in warnings)


ROOT = "version: 1\nagent: {command: cat}\npermissions: {rules: [{deny: {command: root}}]}\n"
OFF = "inherit: false"


@pytest.mark.parametrize(
    ("files", "expected", "warned"),
    [
        ({"work": f"extends: root\npermissions: {{{OFF}}}\n"}, [], ["work"]),
        ({"work": f"extends: root\npermissions: {{{OFF}, rules: [{{allow: {{command: own}}}}]}}\n"}, ["own"], ["work"]),
        (  # dropped on one level, they do not come back on the next
            {"mid": f"extends: root\npermissions: {{{OFF}}}\n", "work": "extends: mid\n"},
            [],
            ["mid"],
        ),
        (  # a sibling that extends nothing drops nothing of the others
            {"lone": f"permissions: {{{OFF}}}\n", "work": "extends: [root, lone]\n"},
            ["root"],
            [],
        ),
        (  # and what another parent keeps stays
            {
                "off": f"extends: root\npermissions: {{{OFF}}}\n",
                "on": "extends: root\n",
                "work": "extends: [off, on]\n",
            },
            ["root"],
            ["off"],
        ),
        (  # an overlay of one user lies above the profile and all that it extends
            {
                "work": "extends: root\npermissions: {rules: [{deny: {command: own}}]}\n",
                "work.local": f"permissions: {{{OFF}}}\n",
            },
            [],
            ["work.local"],
        ),
    ],
)
def test_a_file_drops_the_rules_of_what_it_extends_alone(
    files: dict[str, str], expected: list[str], warned: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "p" / ".acp-launch"
    folder.mkdir(parents=True)
    (tmp_path / "p" / ".git").mkdir()
    for name, text in {"root": ROOT, **files}.items():
        (folder / f"{name}.yaml").write_text(text)
    loaded, problems = inspect(find("work", start=tmp_path / "p", settings=settings.load()))
    assert loaded is not None, problems
    given = loaded.merged.get("permissions", {}).get("rules", [])
    assert [next(iter(rule.values()))["command"] for rule in given] == expected
    said = [Path(each.file).stem for each in problems if each.path == "permissions.inherit"]
    assert said == warned
