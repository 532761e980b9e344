"""A user's file is replaced whole or not at all."""

import stat
from pathlib import Path

import pytest

from acp_launch.errors import UsageError
from acp_launch.interop.merge import replace_file


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("old")
    file.chmod(0o604)
    replace_file(file, "new", instead_of="old")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o604)
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("theirs")
    for before in ("what we read", None):
        with pytest.raises(UsageError) as error:
            replace_file(file, "ours", instead_of=before)
        assert error.value.message.endswith("a has changed meanwhile; it was not overwritten")
    assert file.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [file]


def test_a_new_file_comes_with_its_directories(tmp_path: Path) -> None:
    replace_file(tmp_path / "b" / "c" / "a", "new", instead_of=None)
    assert (tmp_path / "b" / "c" / "a").read_text() == "new"


def test_where_there_is_a_link_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    replace_file(tmp_path / "link", "new", instead_of="old")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "real").read_text()) == (True, "new")


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as error:
        replace_file(tmp_path / "file" / "a", "new", instead_of=None)
    assert error.value.fix == "check its directory"
    assert "cannot write" in error.value.message
