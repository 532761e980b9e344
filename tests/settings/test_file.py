"""`config.yaml` may name a program to run, so it is read only if no other user can change it (as ssh does)."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from acp_launch.document.nodes import MAX_SIZE
from acp_launch.settings.load import read

OTHER_UID = 65534


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir(mode=0o700)
    made = folder / "config.yaml"
    made.write_text("max_line: 8KiB")
    made.chmod(0o600)
    return made


def complaints(file: Path) -> list[str]:
    return [str(problem) for problem in read(file)[1]]


def test_only_a_file_that_its_owner_alone_can_write_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = grp.getgrgid(os.getegid())
    shared = grp.struct_group((ours.gr_name, ours.gr_passwd, ours.gr_gid, ["a-colleague"]))
    monkeypatch.setattr(grp, "getgrgid", lambda group: shared)
    for mode in (0o600, 0o400, 0o644):
        file.chmod(mode)
        assert read(file) == ("max_line: 8KiB", [])
    for mode in (0o666, 0o602, 0o660):
        file.chmod(mode)
        assert complaints(file) == [
            f"{file}: other users can write this file, and so change which commands run\n    fix: chmod go-w {file}"
        ]


def test_the_private_group_of_the_user_may_write(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With such groups a umask of 002 is usual, and every file is made like this."""
    user = pwd.struct_passwd(("me", "x", os.geteuid(), os.getegid(), "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    monkeypatch.setattr(grp, "getgrgid", lambda group: grp.struct_group(("me", "x", group, [])))
    file.chmod(0o664)
    file.parent.chmod(0o775)
    assert complaints(file) == []


def test_a_directory_that_others_can_write_is_refused(file: Path) -> None:
    """Not so one with the sticky bit, like /tmp."""
    file.parent.chmod(0o707)
    assert complaints(file) == [
        f"{file.parent}: other users can write the directory of your settings, and so change which commands run\n"
        f"    fix: chmod go-w {file.parent}"
    ]
    file.parent.chmod(0o1777)
    assert complaints(file) == []


def test_a_link_is_as_safe_as_what_it_leads_to(file: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles"
    elsewhere.mkdir(mode=0o700)
    target = file.rename(elsewhere / "acp.yaml")
    file.symlink_to(target)
    assert complaints(file) == []
    target.chmod(0o606)
    elsewhere.chmod(0o703)
    assert complaints(file) == [
        f"{target}: other users can write this file, and so change which commands run\n    fix: chmod go-w {target}",
        f"{elsewhere}: other users can write the directory of your settings, and so change which commands run\n"
        f"    fix: chmod go-w {elsewhere}",
    ]


def test_a_file_of_another_user_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(file, OTHER_UID, -1)
        expected, to = [file], 0
    else:
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)
        expected, to = [file, file.parent], other
    assert complaints(file) == [
        f"{path}: {'this file' if path == file else 'the directory of your settings'} "
        f"belongs to another user, who could change which commands run\n    fix: sudo chown {to} {path}"
        for path in expected
    ]


def test_a_directory_or_a_pipe_in_its_place_is_said_without_a_wait(tmp_path: Path) -> None:
    (tmp_path / "my config.yaml").touch()
    (tmp_path / "my config.yaml").chmod(0o606)
    assert complaints(tmp_path / "my config.yaml")[0].endswith(f"fix: chmod go-w '{tmp_path}/my config.yaml'")
    assert complaints(tmp_path) == [f"{tmp_path}: cannot be read: Is a directory"]
    os.mkfifo(tmp_path / "config.yaml")
    assert complaints(tmp_path / "config.yaml") == [
        f"{tmp_path / 'config.yaml'}: this file is not a regular file\n    fix: check that this is a settings file"
    ]


def test_a_link_to_nothing_or_to_itself_is_said(tmp_path: Path) -> None:
    link = tmp_path / "config.yaml"
    link.symlink_to(tmp_path / "gone")
    assert complaints(link) == [f"{link}: this link leads to a missing file\n    fix: rm {link}"]
    link.unlink()
    link.symlink_to(link)
    assert complaints(link) == [f"{link}: cannot be read: Too many levels of symbolic links"]


def test_a_file_too_large_is_not_read_whole(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(MAX_SIZE * 100)
    assert complaints(file) == [
        f"{file}: this file is larger than {MAX_SIZE} bytes\n    fix: check that this is a settings file"
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max_line: 8KiB".encode("utf-16"), ":1:1: this file is UTF-16, not UTF-8\n    fix: save it as UTF-8"),
        (b"a: b\nx: \xff", ":2:4: the byte 0xff is not UTF-8 text\n    fix: save the file as UTF-8"),
    ],
)
def test_bytes_that_are_no_text_are_told_with_their_place(file: Path, content: bytes, expected: str) -> None:
    file.write_bytes(content)
    assert complaints(file) == [f"{file}{expected}"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_we_may_not_read_is_said(file: Path) -> None:
    file.chmod(0)
    assert complaints(file) == [f"{file}: cannot be read: Permission denied\n    fix: chmod u+r {file}"]
