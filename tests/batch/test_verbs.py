"""Which batch `batch status` and `batch report` are about without its directory (ours)."""

import os
import shutil
from pathlib import Path

import pytest

from acp_launch.batch.freeze import find_latest
from acp_launch.batch.store import BATCH
from acp_launch.errors import UsageError
from tests.batch.directories import make_batch


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project := tmp_path / "shop").mkdir()
    (project / ".git").mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("ACP_LAUNCH_STATE_DIR", str(tmp_path / "state"))
    return project


def make(directory: Path, project: Path, at: int) -> Path:
    make_batch(directory, directory=str(project))
    os.utime(directory / BATCH, (at, at))
    return directory


def test_without_a_directory_it_is_the_latest_batch_of_the_project(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = project / ".acp-launch" / "batches"
    kept = project.parent / "state" / "batches" / "kept"
    for at, directory in enumerate((batches / "b", batches / "a", kept), 1):
        make(directory, project, at)
        assert find_latest() == directory
    assert capsys.readouterr().err.splitlines()[-1] == f"acp-launch: the latest batch: {kept}"


def test_it_is_one_that_was_made_for_this_user_in_this_project(project: Path) -> None:
    """A repository brings a directory, also by a link; another project's batch is in the state directory, too."""
    batches = project / ".acp-launch" / "batches"
    mine = make(batches / "mine", project, 1)
    other = make(project.parent / "state" / "batches" / "other", project.parent / "other", 5)
    brought = make(project.parent / "brought", project, 6)
    shutil.copytree(brought, batches / "copied")
    (batches / "linked").symlink_to(other)
    (batches / "damaged").mkdir()
    (batches / "damaged" / BATCH).write_text("{")
    (batches / "changed").mkdir()
    text = (mine / BATCH).read_text().replace("nightly", "hourly")
    (batches / "changed" / BATCH).write_text(text)
    assert find_latest() == mine


def test_a_project_without_a_batch_says_how_to_name_one(project: Path) -> None:
    with pytest.raises(UsageError) as refused:
        find_latest()
    assert refused.value.message == "this project has no batch that was made for you"
    assert refused.value.fix == "name its directory, or acp-launch batch run FILE"
