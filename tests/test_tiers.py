"""Every test is in one of three tiers, and of each promise an example in the first."""

import ast
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.tiers import FIRST_TIER, HERE, PROMISES, QUICK, is_quick, lacks, names_tests, tier

EXAMPLE_COUNTS = range(60, 91)  # tests; each costs the first tier a third of a second
TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.whole
def test_long(): pass

@pytest.mark.sample(2, 4)
@pytest.mark.parametrize("number", range(5))
def test_many(number): pass

@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_like_another(number): pass
"""
OPTIONS = (
    "-p",
    "tests.tiers",
    "-c",
    os.devnull,
    "-W",
    "ignore::pytest.PytestUnknownMarkWarning",
    "--collect-only",
    "-q",
)


def collected(directory: Path, *options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, f"--rootdir={directory}", *options, str(directory)],
        cwd=HERE.parent,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # others take a while to import
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.whole
def test_no_test_is_in_two_tiers_and_none_in_no_tier(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    first, second, third = (collected(tmp_path, "-m", each) for each in (FIRST_TIER, "whole", "exhaustive"))
    assert first == ["test_plain", "test_many[0]", "test_many[1]", "test_like_another[1]"]
    assert second == ["test_long", "test_many[2]", "test_many[3]"]
    assert third == ["test_many[4]", "test_like_another[2]"]


def marked(*marks: pytest.MarkDecorator, file: str = "cli/test_up.py", number: int = 1) -> str:
    return tier(HERE / file, {each.mark.name: each.mark for each in marks}.get, number)


def test_pytest_alone_runs_the_first_tier() -> None:
    options = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert f"-m '{FIRST_TIER}'" in options


def test_a_new_file_that_starts_programs_is_whole_without_a_mark() -> None:
    for file in ("cli/test_new.py", "batch/test_new.py", "process/test_new.py", "new/test_new.py"):
        assert marked(file=file) == "whole"
        assert marked(pytest.mark.promise("kill"), file=file) == ""
    for file in ("session/store/test_new.py", "batch/test_model.py", "test_new.py"):
        assert marked(file=file) == ""
        assert marked(pytest.mark.whole, file=file) == "whole"


def test_a_sample_is_of_parameters() -> None:
    sample = pytest.mark.sample(1, 2)
    numbers = (1, 2, 3)
    assert [marked(sample, file="plan/test_new.py", number=each) for each in numbers] == ["", "whole", "exhaustive"]
    assert [marked(sample, number=each) for each in numbers] == ["whole", "whole", "exhaustive"]
    assert [marked(sample, pytest.mark.promise("kill"), number=each) for each in numbers] == ["", "whole", "exhaustive"]


def test_a_file_without_a_test_of_the_tier_is_not_even_imported() -> None:
    assert lacks(HERE / "cli/test_complete_shells.py", FIRST_TIER) and not lacks(HERE / "cli/test_up.py", FIRST_TIER)
    assert lacks(HERE / "plan/test_place.py", "whole") and not lacks(HERE / "secret/test_sealed.py", "whole")
    for expression in ("", "not exhaustive"):
        assert not lacks(HERE / "plan/test_place.py", expression)


def test_a_user_who_names_tests_runs_them_whatever_their_tier() -> None:
    assert names_tests(["tests/cli/test_up.py::test_some[1]"], HERE.parent)
    assert names_tests(["test_tiers.py", "cli"], HERE)
    for all_of_them in (["tests"], [str(HERE)], ["."], ["tests/cli", "tests"], ["tests/cli/.."]):
        assert not names_tests(all_of_them, HERE.parent)


def test_each_promise_has_an_example_and_they_are_not_many() -> None:
    examples = Counter(name for file in sorted(HERE.rglob("test_*.py")) for name in promised(file))
    assert {*examples} == {*PROMISES}
    assert examples.total() in EXAMPLE_COUNTS, "pytest takes two minutes; another example takes the place of one"


def promised(file: Path) -> Iterator[str]:
    """The promises that tests of a file are examples of."""
    text = file.read_text()
    if "mark.promise(" not in text:
        return
    for test in ast.walk(ast.parse(text)):
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in test.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.promise":
                    assert not is_quick(file), f"{file.name}: it is in the first tier without a mark"
                    yield ast.literal_eval(mark.args[0])


@pytest.mark.parametrize("name", sorted(QUICK))
def test_what_is_quick_is_there(name: str) -> None:
    assert (HERE / name).exists()
