"""What the store of named sessions answers."""

import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_launch.errors import SessionError
from acp_launch.session.store import open_registry
from tests.session.stores import FIX, raw, store_file


def test_what_was_saved_is_found_by_project_profile_and_name(tmp_path: Path) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
    with open_registry(tmp_path) as registry:
        assert registry.find("/p", "work", "fix-42") == FIX
        assert registry.find("/p", "work", "fix-43") is None
        assert registry.find("/p", "other", "fix-42") is None
        assert registry.find("/q", "work", "fix-42") is None


def test_saving_again_replaces(tmp_path: Path) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        registry.save(replace(FIX, session_id="new", cwd="/elsewhere"))
        assert registry.list() == (replace(FIX, session_id="new", cwd="/elsewhere"),)


def test_lists_are_newest_first_and_can_be_narrowed(tmp_path: Path) -> None:
    a, b, c = (replace(FIX, name=name, last_used=used) for name, used in (("a", 1.0), ("b", 3.0), ("c", 2.0)))
    other, elsewhere = replace(FIX, profile="other", last_used=9.0), replace(FIX, project="/q", last_used=8.0)
    with open_registry(tmp_path) as registry:
        assert registry.list() == ()
        for record in (a, b, c, other, elsewhere):
            registry.save(record)
        assert registry.list() == (other, elsewhere, b, c, a)
        assert registry.list(project="/p") == (other, b, c, a)
        assert registry.list(profile="work") == (elsewhere, b, c, a)
        assert registry.list("/p", "work") == (b, c, a)
        assert registry.latest("/p", "work") == b
        assert registry.latest("/q", "other") is None


def test_touching_counts_a_turn_and_changes_the_time_and_a_new_title(tmp_path: Path) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        assert registry.touch(FIX.key, 300.0) == replace(FIX, last_used=300.0, turns=1)
        better = replace(FIX, last_used=400.0, title="Better", turns=2)
        assert registry.touch(FIX.key, 400.0, "Better") == better
        assert registry.list() == (better,)


def test_a_store_of_an_earlier_version_gets_the_column_of_turns_and_that_version_can_still_use_it(
    tmp_path: Path,
) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
    with raw(tmp_path) as earlier:
        earlier.execute("ALTER TABLE session DROP COLUMN turns")
        columns = "project, profile, name, session_id, agent_name, agent_version, agent_command, cwd, title, created"
        row = earlier.execute(f"SELECT {columns}, last_used, seal FROM session").fetchone()
        with open_registry(tmp_path) as registry:
            assert registry.list() == (FIX,)
            assert registry.touch(FIX.key, 300.0).turns == 1
        marks = ", ".join("?" * len(row))
        earlier.execute(f"INSERT OR REPLACE INTO session ({columns}, last_used, seal) VALUES ({marks})", row)
    with open_registry(tmp_path) as registry:
        assert registry.list() == (FIX,)


def test_renaming_keeps_everything_else(tmp_path: Path) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        assert registry.rename(FIX.key, "fix-43") == replace(FIX, name="fix-43")
        assert registry.list() == (replace(FIX, name="fix-43"),)


@pytest.mark.parametrize("new", ["taken", "fix-42"])
def test_renaming_to_a_name_that_is_taken_is_refused(tmp_path: Path, new: str) -> None:
    taken = replace(FIX, name="taken", last_used=1.0)
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        registry.save(taken)
        with pytest.raises(SessionError) as caught:
            registry.rename(FIX.key, new)
        assert caught.value.message == f'there is already a session "{new}" of profile "work"'
        assert caught.value.fix == "choose another name"
        assert registry.list() == (FIX, taken)


def test_what_does_not_exist_cannot_be_touched_or_renamed(tmp_path: Path) -> None:
    missing = '^there is no session "fix-42" of profile "work"$'
    with open_registry(tmp_path) as registry:
        with pytest.raises(SessionError, match=missing):
            registry.touch(FIX.key, 1.0)
        with pytest.raises(SessionError, match=missing):
            registry.rename(FIX.key, "x")
        assert registry.list() == ()


def test_removing_says_whether_there_was_one(tmp_path: Path) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        assert registry.remove(FIX.key) is True
        assert registry.remove(FIX.key) is False
        assert registry.find(*FIX.key) is None


@pytest.mark.parametrize("title", ["", "'; DROP TABLE session; --", "a\0b\n\x1b[31m", "日本語 🎉", "x" * 100_000])
def test_any_title_comes_back_as_it_was(tmp_path: Path, title: str) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(replace(FIX, title=title))
        assert registry.list() == (replace(FIX, title=title),)


def test_a_title_that_is_not_unicode_does_not_stop_a_session_and_a_path_that_is_not_is_refused(tmp_path: Path) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(replace(FIX, title="half \ud83d"))
        assert registry.list()[0].title == "half ?"
        with pytest.raises(SessionError, match="not valid Unicode"):
            registry.save(replace(FIX, cwd="/p/\udcff"))
        assert registry.list()[0].cwd == "/p/src"


def test_the_store_and_all_beside_it_are_for_the_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    for number, umask in enumerate((0o000, 0o777)):
        state = tmp_path / str(number) / "deeper"
        before = os.umask(umask)
        try:
            with open_registry(state) as registry:
                registry.save(FIX)
                modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store_file(state).parent.iterdir()}
        finally:
            os.umask(before)
        assert modes == {"sessions.db": 0o600, "sessions.db-wal": 0o600, "sessions.db-shm": 0o600}
        assert stat.S_IMODE(store_file(state).parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_names_of_directories_may_hold_anything(tmp_path: Path) -> None:
    state = tmp_path / "a b?mode=ro#c%20'é"
    with open_registry(state) as registry:
        registry.save(FIX)
    assert [path.name for path in store_file(state).parent.iterdir()] == ["sessions.db"]


def test_a_closed_registry_is_our_bug_and_not_damage(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    registry.close()
    with pytest.raises(SessionError, match="Cannot operate on a closed database") as caught:
        registry.list()
    assert caught.value.fix == "this is a bug, please report it"
