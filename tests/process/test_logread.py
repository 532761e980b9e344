"""Reading a log that grows, is renamed when it is full, and may be removed."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.process import logs
from acp_launch.process.logs import LogFile, LogReader, SharedLogReader, open_log

LAUNCH = "20200101T000000.000Z-1"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogFile]:
    """Files of four lines `1234`."""
    monkeypatch.setattr(logs, "MAX_LOG_BYTES", 20)
    made = LogFile(tmp_path, "p", launch=LAUNCH)
    yield made
    made.close()


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[LogReader]:
    made = LogReader(tmp_path / f"{LAUNCH}+p.log")
    yield made
    made.close()


def say(log: LogFile, *numbers: int) -> None:
    for number in numbers:
        log(b"%04d\n" % number)


def read(trail: LogReader) -> list[int]:
    return [int(line) for line in trail.lines()]


def test_what_is_not_there_yet_has_no_lines(log: LogFile, trail: LogReader) -> None:
    assert read(trail) == []
    say(log, 1)
    assert read(trail) == [1]
    assert read(trail) == []


@pytest.mark.parametrize(("end", "skipped"), [(10, range(0)), (18, range(4, 12))])
def test_two_full_files_between_two_looks_are_both_read_and_what_was_before_them_is_skipped(
    log: LogFile, trail: LogReader, end: int, skipped: range
) -> None:
    say(log, 0)
    assert read(trail) == [0]
    say(log, *range(1, end))
    assert read(trail) == [each for each in range(1, end) if each not in skipped]


def test_the_moment_between_two_files_is_no_end(log: LogFile, trail: LogReader, tmp_path: Path) -> None:
    file = tmp_path / f"{LAUNCH}+p.log"
    say(log, 1, 2)
    assert read(trail) == [1, 2]
    file.rename(f"{file}.1")
    assert read(trail) == []
    file.write_bytes(b"3\n")
    assert read(trail) == [3]


def test_the_older_file_alone_is_read_too(trail: LogReader, tmp_path: Path) -> None:
    (tmp_path / f"{LAUNCH}+p.log.1").write_bytes(b"1\n")
    assert read(trail) == [1]
    (tmp_path / f"{LAUNCH}+p.log").write_bytes(b"2\n")
    assert read(trail) == [2]


def test_a_file_that_is_removed_is_read_to_its_end(log: LogFile, trail: LogReader, tmp_path: Path) -> None:
    say(log, 1)
    assert read(trail) == [1]
    (tmp_path / f"{LAUNCH}+p.log").unlink()
    say(log, 2)
    assert read(trail) == [2]


def test_a_line_comes_when_it_is_whole_and_the_last_one_on_request(log: LogFile, trail: LogReader) -> None:
    log(b"ha")
    assert list(trail.lines()) == []
    assert trail.is_within_a_line
    log(b"lf\n\nend")
    assert list(trail.lines()) == [b"half", b""]
    assert (trail.rest(), trail.rest(), trail.is_within_a_line) == (b"end", b"", False)


@given(st.lists(st.tuples(st.text("ab\n", max_size=9), st.booleans()), max_size=8))
def test_lines_are_the_same_however_often_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[str, bool]]
) -> None:
    directory = tmp_path_factory.mktemp("log")
    trail = LogReader(directory / f"{LAUNCH}+p.log")
    found: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "MAX_LOG_BYTES", 40)  # two of them hold all there can be
        log = LogFile(directory, "p", launch=LAUNCH)
        for piece, looks in pieces:
            log(piece.encode())
            found += trail.lines() if looks else []
        log.close()
    found += trail.lines()
    whole = "".join(piece for piece, _ in pieces).encode()
    assert b"\n".join([*found, trail.rest()]) == whole
    trail.close()


def test_what_is_no_file_has_no_lines_and_is_not_waited_for(trail: LogReader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"{LAUNCH}+p.log")
    (tmp_path / f"{LAUNCH}+p.log.1").symlink_to("/dev/null")
    assert read(trail) == []


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LogFile]:
    """The log of a launch's server, whose process is shared."""
    made = LogFile(tmp_path, "p", "s", launch=LAUNCH)
    yield made
    made.close()


def share(own: LogFile, file: Path) -> None:
    own.share(file, file.stat().st_size if file.exists() else 0)


@contextmanager
def shared(directory: Path) -> Iterator[SharedLogReader]:
    (file,) = [file for file in logs.logs(directory) if file.name.endswith(logs.SHARED)]
    with closing(open_log(file)) as found:
        assert isinstance(found, SharedLogReader)
        yield found


@pytest.mark.parametrize("before", [0, 1, 3, 4, 5, 9])
@pytest.mark.parametrize("after", [0, 1, 4, 5])
def test_a_shared_log_is_seen_from_when_the_launch_joined(
    before: int, after: int, tmp_path: Path, log: LogFile, own: LogFile
) -> None:
    """Also if it was full before, or is afterwards."""
    say(log, *range(before))
    share(own, tmp_path / f"{LAUNCH}+p.log")
    say(log, *range(before, before + after))
    with shared(tmp_path) as found:
        assert [int(line) for line in found.lines()] == [*range(before, before + after)]
        say(log, 1000)
        assert [int(line) for line in found.lines()] == [1000]


def test_a_launch_that_joins_again_sees_both(tmp_path: Path, log: LogFile, own: LogFile) -> None:
    say(log, 1)
    share(own, tmp_path / f"{LAUNCH}+p.log")
    say(log, 2)
    with shared(tmp_path) as found, closing(LogFile(tmp_path, "q", launch=LAUNCH)) as other:
        assert list(found.lines()) == [b"0002"]
        share(own, tmp_path / f"{LAUNCH}+q.log")  # which is there with its first byte
        assert list(found.lines()) == []
        other(b"again\nincomplete")
        assert list(found.lines()) == [b"again"]
        assert found.is_within_a_line
        assert found.rest() == b"incomplete"


def test_a_place_is_for_the_user_alone_and_goes_with_its_launch(tmp_path: Path, log: LogFile, own: LogFile) -> None:
    share(own, tmp_path / f"{LAUNCH}+p.log")
    (place,) = tmp_path.glob("*.shared")
    assert place.stat().st_mode & 0o777 == 0o600
    for number in range(logs.MAX_LAUNCHES):
        with closing(LogFile(tmp_path, "p", launch=f"20210101T000000.{number:03}Z-1")) as newer:
            newer(b"x")
    assert list(tmp_path.glob("*.shared")) == []
