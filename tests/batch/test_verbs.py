"""Which batch `batch status` and `batch report` are about without its directory (ours)."""

import os
from pathlib import Path

import pytest

from acp_launch.batch.verbs import find_latest
from acp_launch.errors import UsageError


def test_without_a_directory_it_is_the_latest_batch_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACP_LAUNCH_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(UsageError) as refused:
        find_latest()
    assert (refused.value.message, refused.value.fix) == (
        "this project has no batch",
        "name its directory, or acp-launch batch run FILE",
    )
    for number, place in enumerate((".acp-launch/batches/b", ".acp-launch/batches/a", "state/batches/c")):
        (tmp_path / place).mkdir(parents=True)
        file = tmp_path / place / "batch.json"
        file.touch()
        os.utime(file, (number, number))
        (below := tmp_path / place / "below").mkdir()
        assert find_latest() == tmp_path / place, below
    assert capsys.readouterr().err.splitlines()[-1] == f"acp-launch: the latest batch: {tmp_path}/state/batches/c"
