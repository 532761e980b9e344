"""The session store on a machine that does not let it: modes, full disks, odd file systems."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_launch.errors import SessionError
from acp_launch.session.store import open_registry
from tests.session.stores import FIX, is_whole, store_file


@pytest.fixture
def unprivileged(tmp_path: Path) -> Iterator[Path]:
    """A directory, for a user whom modes can keep out."""
    if os.geteuid() != 0:
        yield tmp_path
        return
    for parent in (tmp_path, *(each for each in tmp_path.parents if each.name.startswith(("pytest-", "popen-")))):
        parent.chmod(0o755)
    os.chown(tmp_path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield tmp_path
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("mode_of_file", "mode_of_directory", "why"),
    [
        (0o000, 0o700, "for writing: unable to open database file"),
        (0o400, 0o700, "for writing: attempt to write a readonly database"),
        (0o600, 0o500, "for writing: attempt to write a readonly database"),
        (0o600, 0o000, "Permission denied"),
    ],
)
def test_a_store_we_may_not_use_says_what_to_do(
    unprivileged: Path, mode_of_file: int, mode_of_directory: int, why: str
) -> None:
    with open_registry(unprivileged) as registry:
        registry.save(FIX)
    folder = unprivileged / "sessions"
    store_file(unprivileged).chmod(mode_of_file)
    folder.chmod(mode_of_directory)
    try:
        with pytest.raises(SessionError) as caught, open_registry(unprivileged) as registry:
            registry.save(replace(FIX, title="changed"))
    finally:
        folder.chmod(0o700)
        store_file(unprivileged).chmod(0o600)
    assert str(store_file(unprivileged)) in caught.value.message
    assert caught.value.message.endswith(why)
    assert str(folder) in caught.value.fix
    assert "ACP_LAUNCH_STATE_DIR" in caught.value.fix
    with open_registry(unprivileged) as registry:
        assert registry.list() == (FIX,)


def test_a_directory_in_which_nothing_can_be_made_is_explained(unprivileged: Path) -> None:
    unprivileged.chmod(0o500)
    try:
        with pytest.raises(SessionError) as caught:
            open_registry(unprivileged / "state")
    finally:
        unprivileged.chmod(0o700)
    path = store_file(unprivileged / "state")
    assert caught.value.message == f"cannot use the session store {path}: Permission denied"


def test_a_file_system_without_hard_links_is_explained_and_left_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(SessionError, match=r"sessions\.db: Operation not permitted") as caught:
        open_registry(tmp_path)
    assert "local disk" in caught.value.fix
    assert list((tmp_path / "sessions").iterdir()) == []


def test_no_room_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        registry._connection.execute("PRAGMA max_page_count = 3")
        with pytest.raises(SessionError) as caught:
            registry.save(replace(FIX, name="big", title="x" * 100_000))
        assert registry.list() == (FIX,)
    path = store_file(tmp_path)
    assert caught.value.message == f"no room to write the session store {path}: database or disk is full"
    assert is_whole(tmp_path)


def test_a_disk_that_refuses_a_write_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
        try:
            with pytest.raises(SessionError) as caught:
                registry.save(replace(FIX, name="big", title="x" * 100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert registry.list() == (FIX,)
    assert str(store_file(tmp_path)) in caught.value.message
    assert is_whole(tmp_path)
