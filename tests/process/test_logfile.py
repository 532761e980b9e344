"""A child's stderr on disk: private, bounded, made with the first byte."""

import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_launch.process import logs as logdir
from acp_launch.process import logs as logfile
from acp_launch.process import logs as logname
from acp_launch.process.logs import (
    LogFile,
    LogName,
    ServerLogs,
    began,
    launch_in,
    logs,
    shortened,
    this_launch,
    written,
)
from acp_launch.process.logs import read as logs_name
from tests.secret.canaries import knowing

LAUNCH = "20200101T000000.000Z-1"


def test_a_silent_child_leaves_no_file(tmp_path: Path) -> None:
    LogFile(tmp_path / "log", "demo").close()
    assert not (tmp_path / "log").exists()


def test_what_it_says_is_kept_for_the_user_alone(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", "--agent gemini #1")
    log(b"one\n")
    log(b"two\n")
    log.close()
    (file,) = (tmp_path / "log").iterdir()
    assert file.read_bytes() == b"one\ntwo\n"
    assert file.name == f"{this_launch()}+--agent%20gemini%20#1.log"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


# full files


def test_a_full_file_makes_room_for_what_is_new_and_only_one_old_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "MAX_LOG_BYTES", 10)
    log = LogFile(tmp_path, "p", launch=LAUNCH)
    for number in range(9):
        log(b"abc%d\n" % number)
    log.close()
    file = tmp_path / f"{LAUNCH}+p.log"
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {
        file.name: b"abc8\n",
        f"{file.name}.1": b"abc6\nabc7\n",
    }


@given(st.lists(st.binary(max_size=12), max_size=6))
def test_both_files_together_are_the_end_of_what_was_said(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes]
) -> None:
    directory = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logfile, "MAX_LOG_BYTES", 16)
        log = LogFile(directory, "p", launch=LAUNCH)
        for chunk in chunks:
            log(chunk)
        log.close()
    kept = [file.read_bytes() for file in sorted(directory.iterdir(), reverse=True)]  # .1 first
    assert all(len(each) <= 16 for each in kept)
    whole = b"".join(chunks)
    assert whole.endswith(b"".join(kept))
    assert (b"".join(kept) == whole) or len(kept) == 2


def test_a_directory_that_cannot_be_made_is_the_callers_to_know(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        LogFile(tmp_path / "file" / "log", "p")(b"x")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_the_callers_to_know(tmp_path: Path) -> None:
    (tmp_path / f"{LAUNCH}+p.log").symlink_to("/dev/full")
    log = LogFile(tmp_path, "p", launch=LAUNCH)
    with pytest.raises(OSError, match="No space left on device"):
        log(b"x")
    log.close()


# names


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


@given(NAMES, NAMES | st.just(""))
@example("a-1.b", "github#2")
@example("p+q", "agent")
@example("--agent sh #00ff", "x.log.1")
def test_a_files_name_tells_whose_it_is(profile: str, server: str) -> None:
    name = LogName(LAUNCH, profile, server)
    file = written(name)
    assert re.fullmatch(r"[\w.~#%+-]+", file, re.ASCII)
    assert logname.read(file) == name
    assert len(file) < 255


def test_a_name_that_no_file_could_have_is_cut_and_is_still_unique() -> None:
    long, other = "x" * 300 + "1", "x" * 300 + "2"
    file = written(LogName(LAUNCH, long, long))
    assert len(file) < 255
    assert shortened(long) != shortened(other)
    assert logname.read(file) == LogName(LAUNCH, shortened(long), shortened(long))
    assert shortened(shortened(long)) == shortened(long)


@pytest.mark.parametrize(
    "file",
    ["20200101-000000-p-1.log", "x.log", f"{LAUNCH}+p.log.1", f"{LAUNCH}+p+q+r.log", "99999999T999999.000Z-1+p.log"],
)
def test_other_files_are_not_ours(file: str) -> None:
    assert logname.read(file) is None


def test_a_launch_tells_its_project() -> None:
    here, there = Path("/srv/here"), Path("/srv/there")
    of = {place: LogName(launch_in(place), "p") for place in (here, there)}
    assert [of[here].is_of(here), of[here].is_of(there), of[there].is_of(there)] == [True, False, True]
    assert logs_name(written(of[here])) == of[here]
    assert began(of[here].launch) == began(this_launch())


def test_a_log_can_be_begun_before_there_is_anything_to_write(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", "demo")
    log.begin()
    assert [file.stat().st_size for file in (tmp_path / "log").iterdir()] == [0]
    log.close()
    (tmp_path / "file").touch()
    LogFile(tmp_path / "file" / "log", "demo").begin()


def test_a_launch_tells_when_it_began() -> None:
    assert began("20200101T000001.250Z-99") == 1577836801.25
    assert began("20200231T235960.000Z-1") == began("20200303T000000.000Z-1") == 1583193600
    assert re.fullmatch(rf"\d{{8}}T\d{{6}}\.\d{{3}}Z-{os.getpid()}", this_launch())


# which are kept


def test_the_oldest_launches_go_with_all_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logdir, "MAX_LAUNCHES", 3)
    for day in range(1, 6):
        for name in ("p.log", "p.log.1", "p+github.log"):
            (tmp_path / f"2020010{day}T000000.000Z-1+{name}").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    for file in ("0-mine.log", "2019-notes.log", "20190101T000000.000Z-1.log"):  # not ours
        (tmp_path / file).write_bytes(b"")
    (tmp_path / "20190101T000000.000Z-1+p.log").mkdir()
    own = LogFile(tmp_path, "p", launch="20200106T000000.000Z-1")
    own(b"x")
    server = LogFile(tmp_path, "p", "github", launch="20200106T000000.000Z-1")
    server(b"x")
    own.close()
    server.close()
    kept = sorted(file.name for file in tmp_path.iterdir())
    assert kept[:4] == ["0-mine.log", "2019-notes.log", "20190101T000000.000Z-1+p.log", "20190101T000000.000Z-1.log"]
    launches = [name[:8] for name in kept[4:]]
    assert launches == ["20200104"] * 3 + ["20200105"] * 3 + ["20200106"] * 2 + ["notes.tx"]


def test_logs_are_listed_by_launch_the_agent_before_its_servers(tmp_path: Path) -> None:
    for file in ("2+p+b.log", "2+p.log.1", "2+p+a.log", "2+p+a.log.1", "1+q+z.log"):
        day, _, rest = file.partition("+")
        (tmp_path / f"2020010{day}T000000.000Z-1+{rest}").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    assert [(name.launch[7:8], name.profile, name.server) for name in logs(tmp_path).values()] == [
        ("1", "q", "z"),
        ("2", "p", ""),
        ("2", "p", "a"),
        ("2", "p", "b"),
    ]
    assert [file.suffix for file in logs(tmp_path)] == [".log"] * 4
    assert logs(tmp_path / "nowhere") == {}


# servers


def test_each_server_has_a_file_and_each_process_a_line_in_it(tmp_path: Path) -> None:
    servers = ServerLogs(tmp_path, "p", launch=LAUNCH)
    servers.mark("github", "started (pid 12)")
    servers.of("github")(b"one\nno end")
    servers.mark("github", "exited with\nstatus 1")
    servers.of("github#2")(b"second\n")
    servers.close()
    stamp = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    found = {name.server: file.read_bytes() for file, name in logs(tmp_path).items()}
    assert found["github#2"] == b"second\n"
    expected = rb"--- %s github started \(pid 12\) ---\none\nno end\n--- %s github exited with status 1 ---\n"
    assert re.fullmatch(expected % (stamp, stamp), found["github"])


def test_a_note_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "ghp_a1B2c3D4e5F6"
    monkeypatch.setattr(logfile, "redactor", knowing(token))
    servers = ServerLogs(tmp_path, "p")
    servers.mark("github", f"could not be started: no {token}")
    servers.close()
    (file,) = tmp_path.iterdir()
    assert b"could not be started: no *** ---\n" in file.read_bytes()


def test_a_note_that_cannot_be_written_is_left_to_the_next_bytes_to_tell(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    servers = ServerLogs(tmp_path / "file", "p")
    servers.mark("github", "started (pid 12)")
    with pytest.raises(FileExistsError):
        servers.of("github")(b"x")


def test_after_the_end_nothing_is_noted_and_bytes_are_refused(tmp_path: Path) -> None:
    servers = ServerLogs(tmp_path, "p")
    log = servers.of("github")
    servers.close()
    servers.mark("github", "ended")
    with pytest.raises(ValueError, match=r"^the log is closed$"):
        log(b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_will_not_come_back_holds_no_descriptor(tmp_path: Path) -> None:
    servers = ServerLogs(tmp_path, "p")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    for number in range(2, 30):
        servers.of(f"github#{number}")(b"x")
        servers.end(f"github#{number}")
    after = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    assert after == before
    servers.mark("github#2", "started again")
    servers.close()
    (again,) = [file for file, name in logs(tmp_path).items() if name.server == "github#2"]
    first, second = again.read_bytes().splitlines()
    assert first == b"x"
    assert second.endswith(b" github#2 started again ---")
