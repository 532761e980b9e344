"""Ring 1. Files for the user alone."""

import os
from pathlib import Path

import pytest

from acp_launch.private import Unfit, create, make_private, read_bounded, replace


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_what_is_read_comes_with_its_mode_and_nothing_is_none(tmp_path: Path) -> None:
    create(tmp_path / "a", b"12345")
    assert read_bounded(tmp_path / "a", 5) == (b"12345", 0o600)
    assert read_bounded(tmp_path / "b", 5) is None


def test_what_is_no_file_of_a_bounded_size_is_refused_and_nothing_stays_open(tmp_path: Path) -> None:
    create(tmp_path / "long", b"123456")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    before = descriptors()
    with pytest.raises(Unfit, match="is larger than 5 bytes"):
        read_bounded(tmp_path / "long", 5)
    with pytest.raises(Unfit, match="is not a regular file"):
        read_bounded(tmp_path / "pipe", 5)
    with pytest.raises(Unfit, match="is not a regular file"):
        read_bounded(tmp_path / "link", 5)
    with pytest.raises(IsADirectoryError):
        read_bounded(tmp_path, 5)
    assert descriptors() == before


def test_a_file_is_replaced_where_a_link_leads_to_and_its_directories_are_private(tmp_path: Path) -> None:
    make_private(tmp_path / "x" / "y")
    create(tmp_path / "x" / "y" / "file", b"old")
    (tmp_path / "link").symlink_to("x/y/file")
    replace(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert read_bounded(tmp_path / "x" / "y" / "file", 5) == (b"new", 0o600)
    assert [(tmp_path / each).stat().st_mode & 0o777 for each in ("x", "x/y")] == [0o700, 0o700]


def test_what_cannot_be_replaced_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        replace(tmp_path / "folder", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]
