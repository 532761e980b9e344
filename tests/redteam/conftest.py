"""A hostile repository for each test."""

from pathlib import Path

import pytest

from tests.redteam.clone import Clone


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone.made(tmp_path / "clone", tmp_path / "ran")
