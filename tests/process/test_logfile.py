"""An agent's stderr on disk: private, bounded, made with the first byte."""

import os
import stat
from pathlib import Path

import pytest

from acp_launch.process import logfile
from acp_launch.process.logfile import LogFile


def test_a_silent_child_leaves_no_file(tmp_path: Path) -> None:
    LogFile(tmp_path / "log", "demo").close()
    assert not (tmp_path / "log").exists()


def test_what_it_says_is_kept_for_the_user_alone(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", "--agent gemini #1")
    log(b"one\n")
    log(b"two\n")
    log.close()
    (file,) = (tmp_path / "log").iterdir()
    assert file.read_bytes() == b"one\ntwo\n"
    assert file.name.endswith(f"---agent_gemini__1-{os.getpid()}.log")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_child_in_a_loop_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "LIMIT", 10)
    log = LogFile(tmp_path, "p")
    for _ in range(9):
        log(b"abcd")
    log.close()
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"abcdabcdab"


def test_the_oldest_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "KEPT", 3)
    for number in range(5):
        (tmp_path / f"2020010{number}-000000-p-1.log").write_bytes(b"")
    log = LogFile(tmp_path, "p")
    log(b"x")
    log.close()
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names[:2] == ["20200103-000000-p-1.log", "20200104-000000-p-1.log"]
    assert len(names) == 3


def test_a_directory_that_cannot_be_made_is_the_callers_to_know(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        LogFile(tmp_path / "file" / "log", "p")(b"x")
