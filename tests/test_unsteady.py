"""What fails once is run again, alone; a second failure, and whatever is not a failure of a test, fails the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.tiers import HERE
from tests.unsteady import MOST

pytestmark = pytest.mark.whole  # each case is a run of pytest by a worker
ONE_PLUGIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}  # others take a while to import

TESTS = """
import os, pathlib, pytest

def first_time(name):
    there = pathlib.Path(__file__).with_name(name)
    known = there.exists()
    there.touch()
    return not known

def test_steady(): pass
"""
UNSTEADY = """
@pytest.mark.parametrize("case", ["a[b]", "c::d"])
def test_unsteady(case):
    assert not first_time(case.replace(":", "")), "only once"
"""
IN_SETUP = """
@pytest.fixture
def late():
    assert not first_time("late")

def test_late(late): pass
"""
BROKEN = """
def test_broken(): assert False, "always"
"""
CRASHING = """
def test_crash():
    if first_time("crash"): os._exit(3)
"""
ALWAYS_CRASHING = """
def test_crash(): os._exit(3)
"""


def run(directory: Path, tests: str, *options: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a run of these tests by a worker."""
    (directory / "pytest.ini").write_text("[pytest]\naddopts = -q -m 'not whole'\nmarkers = whole\n")
    (directory / "test_some.py").write_text(TESTS + tests)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.unsteady", "-n", "1", *options, str(directory)],
        cwd=HERE.parent,
        env=os.environ | ONE_PLUGIN,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def named(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("unsteady: ")]


def test_what_passes_alone_is_named_and_does_not_fail_the_run(tmp_path: Path) -> None:
    """Whatever it failed in, and although the configuration leaves it out."""
    whole = "pytestmark = pytest.mark.whole\n"
    code, lines = run(tmp_path, whole + UNSTEADY + IN_SETUP + CRASHING, "-m", "whole")
    cases = ("test_crash", "test_late", "test_unsteady[a[b]]", "test_unsteady[c::d]")
    assert (code, named(lines)) == (0, [f"unsteady: test_some.py::{case}" for case in cases])
    assert "1 passed, 4 unsteady in " in lines[-1]
    assert "E       AssertionError: only once" in lines, "the report of the first failure"


def test_a_second_failure_fails_the_run_though_others_pass(tmp_path: Path) -> None:
    code, lines = run(tmp_path, IN_SETUP + BROKEN + ALWAYS_CRASHING)
    assert (code, len(named(lines))) == (1, 1)
    assert "FAILED test_some.py::test_broken - AssertionError: always" in lines
    assert "2 failed, 1 passed, 1 unsteady in " in lines[-1]


def test_many_failures_are_believed(tmp_path: Path) -> None:
    many = f"\n@pytest.mark.parametrize('n', range({MOST + 1}))\ndef test_many(n): assert not first_time(str(n))\n"
    code, lines = run(tmp_path, many)
    assert (code, named(lines)) == (1, [])
    assert f"{MOST + 1} failed, 1 passed in " in lines[-1]


@pytest.mark.parametrize(
    ("tests", "options", "code"),
    [
        ("import nothing_of_this_name", (), pytest.ExitCode.TESTS_FAILED),
        (UNSTEADY, ("-x",), pytest.ExitCode.INTERRUPTED),
    ],
)
def test_what_is_not_a_failed_test_fails_the_run(
    tmp_path: Path, tests: str, options: tuple[str, ...], code: int
) -> None:
    ended, lines = run(tmp_path, tests, *options)
    assert (ended, named(lines)) == (code, [])
