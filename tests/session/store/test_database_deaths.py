"""The session store: ten writers at once, sudden deaths, locks."""

import random
import sqlite3
from pathlib import Path

import pytest

from acp_launch.errors import SessionError
from acp_launch.session import store
from acp_launch.session.store import open_registry, transaction
from tests.patience import PATIENCE
from tests.session.programs import line, programs, tell
from tests.session.store_writer import record as written
from tests.session.stores import FIX, is_whole, raw, store_file

SEED = 20261121


def acknowledged(output: str) -> set[int]:
    return {int(number) for number in output.split()}


@pytest.mark.whole
@pytest.mark.parametrize("is_earlier", [False, True])
def test_ten_writers_at_once_lose_nothing_of_a_new_store_or_one_of_an_earlier_version(
    tmp_path: Path, is_earlier: bool
) -> None:
    """Each of them may be the one that makes it, or adds the columns."""
    state, names = tmp_path / "not" / "there" / "yet", {f"{w}-{n}" for w in range(10) for n in range(20)}
    if is_earlier:
        names.add(FIX.name)
        with open_registry(state) as registry:
            registry.save(FIX)
        with raw(state) as connection:
            connection.execute("ALTER TABLE session DROP COLUMN turns")
    with programs("store_writer", *((str(state), str(who), "20", "never") for who in range(10))) as writers:
        for writer in writers:
            tell(writer, "go")
        outputs = [writer.communicate(timeout=PATIENCE)[0] for writer in writers]
        assert [writer.returncode for writer in writers] == [0] * 10
    assert [acknowledged(output) for output in outputs] == [set(range(20))] * 10
    with open_registry(state) as registry:
        assert {record.name for record in registry.list()} == names
    assert is_whole(state)


def test_a_column_that_cannot_be_added_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All columns are added in one transaction."""
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
    with raw(tmp_path) as connection:
        connection.execute("ALTER TABLE session DROP COLUMN turns")
    with monkeypatch.context() as patched:
        patched.setattr(store, "ADDED", {**store.ADDED, "other": "TEXT NOT NULL"})  # without a default: refused
        with pytest.raises(SessionError):
            open_registry(tmp_path)
    with raw(tmp_path) as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(session)")]
    assert "turns" not in names and "other" not in names
    with open_registry(tmp_path) as registry:
        assert registry.list() == (FIX,)


def test_what_was_acknowledged_survives_writers_killed_at_any_instant(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    victims = chance.sample(range(10), 6)  # have more to write than they will live
    numbers = ["100000" if who in victims else "40" for who in range(10)]
    with programs("store_writer", *((str(tmp_path), str(who), numbers[who], "never") for who in range(10))) as writers:
        for writer in writers:
            tell(writer, "go")
        outputs = [""] * 10
        for victim in victims:
            for _ in range(chance.randrange(1, 12)):
                outputs[victim] += line(writers[victim]) + "\n"
            writers[victim].kill()
        for who, writer in enumerate(writers):
            outputs[who] += writer.communicate(timeout=PATIENCE)[0]
        assert sorted(writer.returncode for writer in writers) == [-9] * 6 + [0] * 4
    with open_registry(tmp_path) as registry:
        found = {record.name: record for record in registry.list()}
    expected = {f"{who}-{number}" for who in range(10) for number in acknowledged(outputs[who])}
    assert expected <= found.keys()
    assert all(record == written(*_split(name)) for name, record in found.items())
    assert is_whole(tmp_path)


def _split(name: str) -> tuple[str, int]:
    who, number = name.split("-")
    return who, int(number)


@pytest.mark.whole
def test_a_death_at_any_step_of_a_write_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    steps = random.Random(SEED).sample(range(160), 12)
    with programs("store_writer", *((str(tmp_path / str(step)), "w", "8", str(step)) for step in steps)) as writers:
        for writer in writers:
            tell(writer, "go")
        for step, writer in zip(steps, writers, strict=True):
            done = acknowledged(writer.communicate(timeout=PATIENCE)[0])
            assert writer.returncode == -9
            with open_registry(tmp_path / str(step)) as registry:
                names = {record.name for record in registry.list()}
            whole = {f"w-{number}" for number in done}
            assert names in (whole, whole | {f"w-{len(done)}"})
            assert is_whole(tmp_path / str(step))


@pytest.mark.parametrize("death", ["before-link", "after-link"])
def test_a_death_while_the_store_is_made_leaves_a_whole_one_or_none(tmp_path: Path, death: str) -> None:
    with programs("store_writer", (str(tmp_path), "w", "1", death)) as [writer]:
        tell(writer, "go")
        assert writer.communicate(timeout=PATIENCE)[0] == ""
        assert writer.returncode == -9
    assert store_file(tmp_path).exists() == (death == "after-link")
    with open_registry(tmp_path) as registry:
        assert registry.list() == ()
        registry.save(FIX)
        assert registry.find(*FIX.key) == FIX


def test_a_lock_held_too_long_is_said_and_the_wait_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LOCK_TIMEOUT", 0.05)
    open_registry(tmp_path).close()
    with raw(tmp_path) as other, open_registry(tmp_path) as registry:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionError) as caught:
            registry.save(FIX)
        assert registry.list() == (), "reading goes on"
        other.execute("ROLLBACK")
        registry.save(FIX)
    path = store_file(tmp_path)
    assert caught.value.message == f"the session store {path} has been locked by another process for more than 0.05 s"
    assert caught.value.fix == f"end the process that holds it (fuser {path} names it) and run again"


def test_what_a_change_has_read_no_other_changes_before_it_is_written(tmp_path: Path) -> None:
    open_registry(tmp_path).close()
    with raw(tmp_path) as ours, raw(tmp_path) as other:
        other.execute("PRAGMA busy_timeout = 0")
        with transaction(ours), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")
        assert other.in_transaction


def test_an_interrupted_change_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(store.Registry, "_write", interrupted)
            registry.rename(FIX.key, "half")
        assert registry.list() == (FIX,)


def test_a_store_without_a_write_ahead_log_works_and_stays_so(tmp_path: Path) -> None:
    """What a network file system gets: SQLite records the choice in the file."""
    open_registry(tmp_path).close()
    with raw(tmp_path) as connection:
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        assert registry.find(*FIX.key) == FIX
        assert [path.name for path in store_file(tmp_path).parent.iterdir()] == ["sessions.db"]
