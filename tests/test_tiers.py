"""Every test is in one of the two tiers, and of each promise one example in the first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.tiers import HERE, SLOW, tiers

TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.slow
def test_long(): pass

@pytest.mark.sample(2, 4)
@pytest.mark.parametrize("number", range(5))
def test_many(number): pass
"""

PLAIN = ("-p", "tests.tiers", "-c", os.devnull, "-W", "ignore::pytest.PytestUnknownMarkWarning", "--collect-only", "-q")


def collected(directory: Path, *options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PLAIN, f"--rootdir={directory}", *options, str(directory)],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


def test_no_test_is_in_both_tiers_and_none_in_neither(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    first, second = collected(tmp_path, "-m", "not slow"), collected(tmp_path, "-m", "slow")
    assert first == ["test_plain", "test_many[0]", "test_many[1]"]
    assert second == ["test_long", "test_many[2]", "test_many[3]", "test_many[4]"]
    assert sorted(first + second) == sorted(collected(tmp_path))
    assert collected(tmp_path, "-m", "exhaustive") == ["test_many[4]"]


def test_what_is_in_a_slow_directory_is_slow_but_for_its_samples() -> None:
    file = HERE / "matrix" / "test_matrix.py"
    assert file.is_file()
    assert tiers(file, None, 1) == ["slow"]
    assert tiers(file, pytest.mark.sample.mark, 7) == []
    assert [tiers(file, pytest.mark.sample(1).mark, number) for number in (1, 2)] == [[], ["slow"]]
    assert tiers(Path(__file__), None, 1) == []


@pytest.mark.parametrize("name", sorted(SLOW))
def test_a_slow_directory_has_samples(name: str) -> None:
    assert [file for file in (HERE / name).glob("test_*.py") if "@pytest.mark.sample" in file.read_text()]
