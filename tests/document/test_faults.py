"""Sentences that every format shares (ours)."""

import pytest

from acp_launch.document.faults import Fault, choose, misplaced, placed, unknown_key
from acp_launch.document.yaml import parse
from acp_launch.problem import Problem


@pytest.mark.parametrize(
    ("expected", "value", "message", "fix"),
    [
        ("text", 5, "expected text, found the number 5", 'quote it: "5"'),
        ("text", True, "expected text, found the truth value true", 'quote it: "true"'),
        ("text", [], "expected text, found a list", "write one text, in quotes if need be"),
        ("text", ["a"], "expected text, found a list", "write k: a"),
        ("text", ["a", "b"], "expected text, found a list", "write one text, in quotes if need be"),
        ("a list", "a b", 'expected a list, found the text "a b"', "write k: [a, b]"),
        ("a list", {}, "expected a list, found a mapping", "write each item on its own line after a dash: - ITEM"),
        ("a mapping", 1, "expected a mapping, found the number 1", "write k: {NAME: 1}"),
        ("a mapping", "A=b", 'expected a mapping, found the text "A=b"', "write k: {A: b}"),
        ("a mapping", ["A=b", "C: d"], "expected a mapping, found a list", "write k: {A: b, C: d}"),
        (
            "a mapping",
            [{"A": "b"}, {"name": "C", "x": 1}],
            "expected a mapping, found a list",
            "write k: {A: b, C: {x: 1}}",
        ),
        ("a mapping", ["a", "b"], "expected a mapping, found a list", "write k: {NAME: a, NAME_2: b}"),
        ("a mapping", None, "expected a mapping, found nothing", "write a value, or remove the key"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_the_likely_edit(
    expected: str, value: object, message: str, fix: str
) -> None:
    assert misplaced(("k",), expected, value) == Fault(("k",), message, fix)


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("alow", "write allow"),
        (["deny"], "write deny"),
        ("zzz", "write one of them: ask"),
        (7, "write one of them: ask"),
    ],
)
def test_a_value_outside_a_list_is_told_with_the_nearest(value: object, fix: str) -> None:
    assert choose(("k",), value, ("ask", "allow", "deny")).fix == fix
    assert choose(("k",), value, ("ask", "allow"), "allow").fix == "write allow", "what it meant is known better"


@pytest.mark.parametrize(
    ("key", "message", "fix"),
    [
        ("Key-File", 'unknown key "Key-File"; did you mean "key_file"?', "write key_file"),
        ("zzz", 'unknown key "zzz"', "use one of path, key_file"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest_or_with_all(key: str, message: str, fix: str) -> None:
    assert unknown_key(("file", key), ["path", "key_file"]) == Fault(("file", key), message, fix, at_key=True)


def test_a_fault_is_placed_at_its_key_its_value_or_a_character_of_it() -> None:
    document, _ = parse("a:\n  b: text\n", "f.yaml")
    assert document is not None
    faults = [
        Fault(("a", "b"), "wrong", at_key=True),
        Fault(("a", "b"), "wrong", "mend it", offset=2, severity="warning"),
        Fault(("a", "gone"), "missing"),
    ]
    assert list(placed(document, faults)) == [
        Problem("f.yaml", 2, 3, "a.b", "wrong"),
        Problem("f.yaml", 2, 8, "a.b", "wrong", "mend it", "warning"),
        Problem("f.yaml", 1, 1, "a.gone", "missing"),
    ]
