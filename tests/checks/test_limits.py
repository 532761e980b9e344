"""Room on the disk, descriptors, processes: where a number becomes a warning, and where a problem."""

import errno
import os
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

from acp_launch.checks import machine
from acp_launch.checks.machine import MIB, disk, open_files, room

CHOOSE = "make room there, or choose another directory: export ACP_LAUNCH_STATE_DIR=DIRECTORY"


@pytest.mark.parametrize(
    ("free", "verdict", "text", "code"),
    [
        (200 * MIB, "ok", "200 MiB free", 0),
        (99 * MIB, "warning", "99 MiB free", 0),
        (MIB, "problem", "1.0 MiB free", 3),
    ],
)
def test_a_disk_that_fills_up_is_told_before_it_is_full(free: int, verdict: str, text: str, code: int) -> None:
    check = room("state", free)
    assert (check.verdict, check.text, check.code) == (verdict, text, code)
    assert check.fix == ("" if verdict == "ok" else CHOOSE)


def test_the_disk_of_a_directory_that_is_not_there_yet_is_that_of_its_parent(tmp_path: Path) -> None:
    assert disk("cache", tmp_path / "a" / "b").facts["free"] > 0


def test_descriptors_are_short_only_when_the_limit_cannot_be_raised() -> None:
    assert open_files(64, None).verdict == "ok"
    few, none = open_files(64, 128), open_files(20, 20)
    assert (few.verdict, few.fix) == ("warning", "raise the hard limit to 256 or more")
    assert few.text == "64, up to 128 for acp-launch itself: room for about 10 MCP servers"
    assert (none.verdict, none.code, none.fix) == ("problem", 3, few.fix)


def test_a_full_disk_is_noticed_by_writing_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    tmp_path.chmod(0o700)
    check = machine.directory("state", tmp_path)
    assert (check.verdict, check.code) == ("problem", 3)
    assert check.text == f"{tmp_path} cannot be written: no space left on device"
    assert check.fix == "make room on its file system, or export ACP_LAUNCH_STATE_DIR=DIRECTORY"


@pytest.mark.parametrize(
    ("kind", "mode", "verdict", "fix"),
    [
        ("state", 0o700, "ok", ""),
        ("state", 0o755, "warning", "chmod 700 {}"),
        ("state", 0o770, "warning", "chmod go-w {}"),
        ("config", 0o755, "ok", ""),
        ("config", 0o777, "warning", "chmod go-w {}"),
        ("cache", 0o755, "ok", ""),
    ],
)
def test_what_others_may_do_to_a_directory_depends_on_what_is_in_it(
    tmp_path: Path, kind: machine.Kind, mode: int, verdict: str, fix: str
) -> None:
    tmp_path.chmod(mode)
    check = machine.directory(kind, tmp_path)
    assert (check.verdict, check.fix) == (verdict, fix.format(tmp_path))
    assert check.text.startswith(f"{tmp_path} ({mode:04o})")
    assert check.facts == {"path": str(tmp_path), "mode": f"{mode:04o}"}


def test_a_directory_of_another_user_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    check = machine.directory("state", tmp_path)
    assert (check.verdict, check.text) == ("problem", f"{tmp_path} belongs to another user")


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.touch()
    at, below = (machine.directory("state", path) for path in (file, file / "deeper"))
    assert (at.code, at.text) == (3, f"{file} is not a directory")
    assert (below.code, below.text) == (3, f"{file / 'deeper'} cannot be checked: not a directory")
