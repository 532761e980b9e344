"""A project to launch agents in."""

import os
from pathlib import Path

import pytest

from tests.cli.launcher import Launcher
from tests.secret.conftest import bus, desktop

__all__ = ["bus", "desktop"]  # fixtures


@pytest.fixture
def launch(tmp_path: Path) -> Launcher:
    """An empty project; profile `p` is the one a test writes."""
    project = tmp_path / "project"
    (project / ".acp-launch").mkdir(parents=True)
    return Launcher(project, dict(os.environ))
