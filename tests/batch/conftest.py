"""A project to run batches in, and a repository."""

from pathlib import Path

import pytest

from tests.batch.repositories import copy_repository, made_repository
from tests.cli.conftest import launch

__all__ = ["launch"]  # a fixture


@pytest.fixture
def repo(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_repository(made_repository(tmp_path_factory.getbasetemp()), tmp_path)
