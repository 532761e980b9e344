"""A project whose agents a program launches, and whether it leaves anything."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.launcher import MARK, Launcher, alive, kill_all


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launcher]:
    """An empty project; after the test nothing that it has started is alive."""
    project, mark = tmp_path / "project", uuid.uuid4().hex
    (project / ".acp-launch").mkdir(parents=True)
    try:
        with monkeypatch.context() as marked:
            marked.setenv(MARK, mark)
            yield Launcher(project, dict(os.environ))
        left = [each for each in alive(mark) if "pytest" not in each]
    finally:
        kill_all(mark)
    assert left == []
