"""The session store: what is damaged, foreign or newer is refused and left as it is."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_launch.errors import SessionError
from acp_launch.session.store import Record, open_registry
from tests.session.stores import FIX, raw, store_file

SEED = 20261121


def files(state: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store_file(state).parent.iterdir() if path.is_file()}


def refusal(state: Path) -> SessionError:
    """What using the store ends in; nothing on disk may change by it."""
    before = files(state)
    with pytest.raises(SessionError) as caught, open_registry(state) as registry:
        registry.list()
    assert files(state) == before
    return caught.value


def place(state: Path, content: bytes) -> None:
    store_file(state).parent.mkdir(parents=True, exist_ok=True)
    store_file(state).write_bytes(content)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, tuple[Record, ...]]:
    """The bytes of a store of several pages, and what is in it."""
    state = tmp_path_factory.mktemp("good")
    records = tuple(replace(FIX, name=f"s{n}", title=f"{n} " * 100, last_used=1000.0 - n) for n in range(60))
    with open_registry(state) as registry:
        for record in records:
            registry.save(record)
        assert registry.list() == records
    content = store_file(state).read_bytes()
    assert len(content) >= 5 * 4096
    return content, records


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "it is empty"),
        (b"not a database, but a diary\n" * 300, "file is not a database"),
        (b"SQLite format 3\0", "it is cut short"),
        (b"x", "it is cut short"),
        (b"x" * 100, "file is not a database"),
    ],
)
def test_what_is_not_a_store_is_refused_and_left_alone(tmp_path: Path, content: bytes, what: str) -> None:
    place(tmp_path, content)
    error = refusal(tmp_path)
    folder = tmp_path / "sessions"
    assert error.message == f"the session store {folder}/sessions.db is damaged: {what}; it was not changed"
    assert error.fix.startswith(f"mv {folder} {folder}.damaged, then start again")
    assert error.exit_code == 3


def test_after_the_way_out_everything_works_again(tmp_path: Path) -> None:
    place(tmp_path, b"diary")
    refusal(tmp_path)
    (tmp_path / "sessions").rename(tmp_path / "sessions.damaged")
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
        assert registry.list() == (FIX,)
    assert (tmp_path / "sessions.damaged" / "sessions.db").read_bytes() == b"diary"


def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    with raw(tmp_path) as connection:
        connection.execute("CREATE TABLE session (name TEXT)")
    assert "is not a session store of acp-launch" in refusal(tmp_path).message


def test_a_newer_store_is_refused_untouched(tmp_path: Path) -> None:
    with open_registry(tmp_path) as registry:
        registry.save(FIX)
    with raw(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 7")
    error = refusal(tmp_path)
    assert error.message == (
        f"the session store {store_file(tmp_path)} was written by a newer acp-launch "
        "(store version 7, this one knows 1)"
    )
    assert error.fix.startswith("upgrade acp-launch, or set ACP_LAUNCH_STATE_DIR")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_directory_or_a_pipe_in_its_place_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "sessions").mkdir()
    make(store_file(tmp_path))
    assert "it is not a file" in refusal(tmp_path).message


def test_a_file_where_its_directory_should_be_is_explained(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("mine")
    with pytest.raises(SessionError) as caught:
        open_registry(tmp_path)
    assert caught.value.message == f"cannot use the session store {tmp_path}/sessions/sessions.db: File exists"
    assert (tmp_path / "sessions").read_text() == "mine"


def test_a_log_whose_store_is_gone_is_not_given_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    log = tmp_path / "sessions" / "sessions.db-wal"
    log.write_bytes(b"the last sessions")
    assert "its log sessions.db-wal exists, but the store does not" in refusal(tmp_path).message


def test_an_emptied_store_does_not_take_its_log_with_it(tmp_path: Path) -> None:
    """SQLite deletes the log of an empty database; the log may be all that is left."""
    place(tmp_path, b"")
    store_file(tmp_path).with_name("sessions.db-wal").write_bytes(b"the last sessions")
    assert "it is empty" in refusal(tmp_path).message


def test_a_destroyed_page_is_noticed_whichever_it_is(tmp_path: Path, good: tuple[bytes, tuple[Record, ...]]) -> None:
    chance = random.Random(SEED)
    content, _ = good
    for start in range(0, len(content), 4096):
        for name, junk in (("zero", bytes(4096)), ("noise", chance.randbytes(4096))):
            state = tmp_path / f"{start}-{name}"
            place(state, content[:start] + junk + content[start + 4096 :])
            assert "is damaged" in refusal(state).message


def test_sessions_that_a_page_no_longer_counts_are_missed(
    tmp_path: Path, good: tuple[bytes, tuple[Record, ...]]
) -> None:
    """Reading alone would not notice; and `find` answering "none" would start a session afresh."""
    content, records = good
    for page in range(4096, len(content), 4096):
        count = int.from_bytes(content[page + 3 : page + 5])
        place(tmp_path, content[: page + 3] + (count - 1).to_bytes(2) + content[page + 5 :])
        assert "is damaged" in refusal(tmp_path).message
        answers = [answer(tmp_path, record) for record in records]
        assert set(answers) <= {"truth", "is damaged"}
        assert "is damaged" in answers


def answer(state: Path, record: Record) -> str:
    try:
        with open_registry(state) as registry:
            return "truth" if registry.find(*record.key) == record else "lie"
    except SessionError as error:
        assert "is damaged" in error.message
        return "is damaged"


def test_a_schema_of_noise_cannot_touch_the_terminal(tmp_path: Path, good: tuple[bytes, tuple[Record, ...]]) -> None:
    for noise in (b"\x1b[31m", b"\xff\xfe"):
        place(tmp_path, good[0].replace(b"CREATE TABLE session", b"CREATE TABLE " + noise, 1))
        assert refusal(tmp_path).message.isprintable()


def spots(length: int) -> Iterator[tuple[int, int]]:
    """Start and size of damage: the head, the middle and the end of every page, and 250 places anywhere."""
    chance = random.Random(SEED)
    for page in range(0, length, 4096):
        yield from ((page, 8), (page + 8, 16), (page + 24, 100), (page + 2000, 64), (page + 4000, 96))
    for _ in range(250):
        size = chance.choice((1, 2, 8, 64))
        yield chance.randrange(length - size), size


def test_any_damage_ends_in_an_error_or_in_the_truth_and_changes_nothing(
    tmp_path: Path, good: tuple[bytes, tuple[Record, ...]]
) -> None:
    chance = random.Random(SEED + 1)
    content, records = good
    refused = lied = 0
    place(tmp_path, content)
    for start, size in spots(len(content)):
        hurt = content[:start] + chance.randbytes(size) + content[start + size :]
        store_file(tmp_path).write_bytes(hurt)
        lost = records[chance.randrange(len(records))]
        try:
            with open_registry(tmp_path) as registry:
                lied += registry.find(*lost.key) != lost
                lied += registry.list() != records
        except SessionError:
            refused += 1
        assert files(tmp_path) == {"sessions.db": hurt}
    assert lied == 0
    assert refused > 150, "most damage hits something"
