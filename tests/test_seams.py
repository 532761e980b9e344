"""The table of seams is whole: each pair of capabilities has a test that exists, or a reason."""

import ast
import re
from functools import cache
from itertools import combinations

import pytest

from tests.seams import CAPABILITIES, SEAMS, CannotMeet, Held
from tests.test_readme import ROOT

WORDS = 8  # of a reason, at least


@cache
def list_tests(file: str) -> dict[str, list[ast.expr]]:
    """The decorators of each test of a file, also in classes."""
    tree = ast.parse((ROOT / file).read_text())
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return {each.name: each.decorator_list for each in functions if each.name.startswith("test_")}


def test_each_pair_has_one_entry() -> None:
    assert len(CAPABILITIES) == 15
    assert list(SEAMS) == list(combinations(CAPABILITIES, 2)), "105 pairs, in the order of the capabilities"


@pytest.mark.parametrize("test", sorted({seam.test for seam in SEAMS.values() if isinstance(seam, Held)}))
def test_a_test_that_is_named_exists_and_runs(test: str) -> None:
    file, _, name = test.partition("::")
    found = list_tests(file)
    assert name in found
    marks = {each.attr for mark in found[name] for each in ast.walk(mark) if isinstance(each, ast.Attribute)}
    assert "skip" not in marks


def test_a_reason_is_a_sentence() -> None:
    for seam in SEAMS.values():
        if isinstance(seam, CannotMeet):
            assert seam.reason[0].isupper() and seam.reason.endswith(".")
            assert len(seam.reason.split()) >= WORDS


def test_each_module_that_the_page_of_threats_names_is_there() -> None:
    text = (ROOT / "docs" / "threats.md").read_text()
    named = set(re.findall(r"`((?:[a-z]+/)+(?:[a-z]+\.py)?|[a-z]+\.py)`", text))
    assert len(named) > 25
    assert sorted(name for name in named if not (ROOT / "acp_launch" / name).exists()) == []
