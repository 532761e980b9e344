"""A stage: an empty project, and a roll of those who live."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import launch
from tests.cli.launcher import Launcher
from tests.seat.roll import roll
from tests.seat.stage import Stage

__all__ = ["launch"]  # a fixture


@pytest.fixture
def stage(launch: Launcher, tmp_path: Path) -> Iterator[Stage]:
    with roll() as called:
        yield Stage(launch, called, tmp_path)
