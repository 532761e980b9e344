"""A project to run batches in, and a repository."""

from pathlib import Path

import pytest

from tests.batch.repositories import make_repository
from tests.cli.conftest import launch

__all__ = ["launch"]  # a fixture


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")
