"""Directories for servers that have nothing to do in the project (ours)."""

import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from acp_launch.errors import StateError
from acp_launch.process.workdir import BEGINNING, FOLDER, LOCK, sweep, workdirs

Told = list[tuple[str, Sequence[str]]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path / "state"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_each_server_has_an_empty_one_that_no_other_user_may_enter(state: Path, told: Told) -> None:
    mask = os.umask(0o277)
    try:
        with workdirs(state, ["a", "..", "a/b", "A"], lambda *each: told.append(each)) as made:
            assert list(made) == ["a", "..", "a/b", "A"]
            assert len(set(made.values())) == 4
            for directory in made.values():
                assert (mode(directory), list(directory.iterdir())) == (0o700, [])
                assert directory.parent.parent == state / FOLDER
                assert mode(directory.parent) == 0o700
    finally:
        os.umask(mask)
    assert (list((state / FOLDER).iterdir()), told) == ([], [])


def test_what_was_written_is_told_and_removed(state: Path, told: Told, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    with workdirs(state, ["a", "b"], lambda *each: told.append(each)) as made:
        (made["a"] / "deep" / "er").mkdir(parents=True)
        (made["a"] / "deep" / "er" / "file").touch()
        (made["a"] / "link").symlink_to(outside)
    assert told == [("a", ["deep", "link"])]
    assert (list((state / FOLDER).iterdir()), (outside / "kept").exists()) == ([], True)


def test_they_go_however_the_block_is_left(state: Path, told: Told) -> None:
    with pytest.raises(KeyboardInterrupt), workdirs(state, ["a"], lambda *each: told.append(each)) as made:
        (made["a"] / "file").touch()
        raise KeyboardInterrupt
    assert list((state / FOLDER).iterdir()) == []


def test_those_in_use_stay_and_those_of_a_launch_that_is_gone_do_not(state: Path, told: Told) -> None:
    gone = state / FOLDER / f"{BEGINNING}gone"
    (gone / "0").mkdir(parents=True)
    (gone / LOCK).touch()
    (gone / "0" / "left").touch()
    unlocked = state / FOLDER / f"{BEGINNING}unlocked"
    unlocked.mkdir()
    for directory in (gone, unlocked):
        directory.chmod(0o700)
    with workdirs(state, ["a"], lambda *each: told.append(each)) as made:
        assert (gone.exists(), unlocked.exists()) == (False, False)
        with workdirs(state, ["b"], lambda *each: told.append(each)) as others:
            sweep(state)
            assert made["a"].is_dir() and others["b"].is_dir()
        assert made["a"].is_dir() and not others["b"].exists()


def test_what_is_not_one_of_ours_is_left_alone(state: Path, tmp_path: Path, told: Told) -> None:
    root, outside = state / FOLDER, tmp_path / "outside"
    for directory in (root / "other", root / f"{BEGINNING}open", outside):
        directory.mkdir(parents=True)
        (directory / LOCK).touch()
        directory.chmod(0o755 if directory.name.endswith("open") else 0o700)
    (root / f"{BEGINNING}link").symlink_to(outside)
    (root / f"{BEGINNING}file").touch()
    pipe = root / f"{BEGINNING}pipe"
    pipe.mkdir()
    pipe.chmod(0o700)
    os.mkfifo(pipe / LOCK)
    before = sorted({*root.rglob("*"), *outside.rglob("*")} - {pipe, pipe / LOCK})
    sweep(state)
    assert sorted({*root.rglob("*"), *outside.rglob("*")}) == before


def test_one_that_is_removed_before_it_is_locked_is_made_anew(
    state: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another launch, which takes it for an old one."""
    lock, raced = fcntl.flock, list[Path]()

    def overtaken(descriptor: int, operation: int) -> None:
        lock(descriptor, operation)
        for directory in (state / FOLDER).iterdir():
            if not raced:
                raced.append(directory)
                (directory / LOCK).unlink()
                directory.rmdir()

    monkeypatch.setattr(fcntl, "flock", overtaken)
    with workdirs(state, ["a"], lambda *each: told.append(each)) as made:
        assert made["a"].is_dir() and made["a"].parent not in raced
    assert len(raced) == 1


def test_without_locks_they_are_made_and_none_is_taken_for_old(
    state: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    with workdirs(state, ["a"], lambda *each: told.append(each)) as made:
        sweep(state)
        assert made["a"].is_dir()
    assert list((state / FOLDER).iterdir()) == []


@pytest.mark.parametrize("taken", [".git", FOLDER])
def test_in_a_project_or_where_none_can_be_made_there_is_another_place(
    state: Path, told: Told, tmp_path: Path, taken: str
) -> None:
    """In a project npx, node and others would find what they look for in the directories above."""
    state.mkdir()
    (state / taken).touch()
    with workdirs(state, ["a"], lambda *each: told.append(each)) as made:
        assert made["a"].is_relative_to(tmp_path / "temporary")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_without_any_place_the_reasons_are_said(state: Path, told: Told, tmp_path: Path) -> None:
    (tmp_path / "temporary").rmdir()
    (tmp_path / "temporary").touch()
    state.mkdir()
    (state / ".git").mkdir()
    with pytest.raises(StateError) as caught, workdirs(state, ["a"], lambda *each: told.append(each)):
        raise AssertionError("there was a place")
    assert caught.value.message == "cannot create the directories that servers run in"
    assert list(caught.value.detail) == [
        f"{state / FOLDER}: it lies in a project, which could place files in it",
        f"{tmp_path / 'temporary'}: File exists",
    ]
    assert "or give each server a cwd" in caught.value.fix


def test_a_disk_that_is_full_is_said_and_nothing_is_left(
    state: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.mkdir

    def full(path: Path, mode: int = 0o777, *others: bool) -> None:
        if path.name == "1":
            raise OSError(28, "No space left on device")
        make(path, mode, *others)

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(StateError) as caught, workdirs(state, ["a", "b"], lambda *each: told.append(each)):
        raise AssertionError("there was room")
    assert caught.value.message.endswith(": No space left on device")
    assert list((state / FOLDER).iterdir()) == []
