"""Launch records: readable at any moment, without a secret, and never in the way."""

import os
import socket
import tracemalloc
from pathlib import Path

import pytest

from acp_launch.process import prepare, records, table
from acp_launch.process.records import LaunchRecord, files, launcher, read, read_all
from acp_launch.process.spawn import Spawned
from acp_launch.process.table import Process


def child(pid: int, name: str = "github", restarts: int = 0) -> Spawned:
    return Spawned(pid, -1, -1, -1, started=7.0, name=name, restarts=restarts)


def process(pid: int) -> Process:
    return Process(pid, 7.0, 1, pid, pid)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def record(tmp_path: Path, said: list[str]) -> LaunchRecord:
    return LaunchRecord(tmp_path, said.append)


def test_a_record_tells_who_launched_what_and_what_lives(record: LaunchRecord, tmp_path: Path) -> None:
    record.begin("run", "my profile\t\u00e9\n")
    record.guard(process(2))
    record.began(child(3, "agent"))
    record.began(child(4, "github"))
    record.ended(child(4))
    record.began(child(5, "github", restarts=1))
    record.guard(process(6))
    record.seen(process(8))
    record.cgroup(Path("/somewhere"))
    record.works_in(Path("/home/ada/some\tproject"))
    (launch,) = read_all(tmp_path)
    ours = launcher()
    assert launch.path == record.path == tmp_path / "launches" / prepare.launch_id()
    assert (launch.id, launch.launcher.identity) == (prepare.launch_id(), (ours.pid, ours.started))
    assert (launch.boot, launch.namespace) == (table.boot_id(), table.pid_namespace())
    assert (launch.verb, launch.profile) == ("run", "my profile\t\u00e9\n")
    assert [known.pid for known in launch.guards] == [2, 6]
    assert (launch.cgroup, launch.cwd) == ("/somewhere", "/home/ada/some\tproject")
    assert [(known.name, known.pid, known.restarts) for known in launch.children] == [("agent", 3, 0), ("github", 5, 1)]
    assert [known.pid for known in launch.seen] == [8]
    assert launch.ended == ()
    record.ended(child(5))
    (launch,) = read_all(tmp_path)
    assert [(known.name, known.pid, known.restarts) for known in launch.ended] == [("github", 5, 1)]
    for state in ("starting", "ready"):
        record.connected("docs", state, 2)
    record.connected("web", "failed", 0)
    (launch,) = read_all(tmp_path)
    assert [(each.name, each.state, each.restarts) for each in launch.connections] == [
        ("docs", "ready", 2),
        ("web", "failed", 0),
    ]
    record.remove()
    assert files(tmp_path) == []


def test_a_record_can_be_read_after_every_byte_of_it(record: LaunchRecord, tmp_path: Path) -> None:
    record.begin("run", "p")
    record.began(child(34))
    record.began(child(56))
    assert record.path is not None
    torn, whole = record.path, record.path.read_bytes()
    counts = []
    for length in range(len(whole) + 1):
        torn.write_bytes(whole[:length])
        launch = read(torn)
        counts.append(-1 if launch is None else len(launch.children))
        assert launch is None or {known.pid for known in launch.children} <= {34, 56}
    record.remove()
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (-1, 2)


NAME = "00112233445566aa"
DIGITS = b"9" * 5000


def line(*, launch: str = NAME, pid: bytes = b"3", started: bytes = b"7") -> bytes:
    return b"launch\t%s\t%s\t%s\tboot\tspace\trun\tp\n" % (launch.encode(), pid, started)


def there(state: Path) -> Path:
    file = state / "launches" / NAME
    file.parent.mkdir()
    return file


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"launch\n",
        line(pid=b"b"),
        line(launch="ffffffffffffffff"),
        line(pid=DIGITS),
        line()[:-1],
        b"\xff\x00\n",
        b"child\t3\t7\t0\tagent\n",
    ],
)
def test_what_is_no_record_is_none(content: bytes, tmp_path: Path) -> None:
    file = there(tmp_path)
    file.write_bytes(content)
    assert files(tmp_path) == [file]
    assert read_all(tmp_path) == []


def test_a_process_with_numbers_that_none_can_have_is_passed_over(tmp_path: Path) -> None:
    absurd = (b"child\t%s\t7\t0\tx\n" + b"seen\t3\tx\n" + b"guard\t%s\t7\n") % (DIGITS, DIGITS)
    there(tmp_path).write_bytes(line() + absurd + b"child\t4\t7\t0\ty\n")
    (launch,) = read_all(tmp_path)
    assert [(known.pid, known.name, known.restarts) for known in launch.children] == [(4, "y", 0)]
    assert (launch.guards, launch.seen, launch.cgroup) == ((), (), "")


@pytest.mark.parametrize("kind", ["pipe", "link", "directory", "socket"])
def test_what_is_no_file_is_none_and_no_wait_expected_for_it(kind: str, tmp_path: Path) -> None:
    file = there(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        match kind:
            case "pipe":
                os.mkfifo(file)
            case "link":
                file.symlink_to("/dev/zero")
            case "directory":
                file.mkdir()
            case "socket":
                listener.bind(str(file))
        assert read(file) is None


def test_of_a_file_without_end_no_more_is_read_than_a_record_can_have(tmp_path: Path) -> None:
    file = there(tmp_path)
    file.write_bytes(line() + b"child\t4\t7\t0\tx\n")
    os.truncate(file, 2**40)
    tracemalloc.start()
    launch = read(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert launch is not None
    assert [known.pid for known in launch.children] == [4]
    assert peak < 8 * records.MAX_RECORD_BYTES


def test_what_has_another_name_is_no_record(tmp_path: Path) -> None:
    there(tmp_path).with_name("notes").write_bytes(line(launch="notes"))
    assert files(tmp_path) == []


@pytest.mark.parametrize("name", ["a\\q", "a\\", "tab\there", "\u00e9\U0001f600", "\udcff", "\\x41", "line\n"])
def test_every_name_comes_back_as_it_was(name: str, record: LaunchRecord, tmp_path: Path) -> None:
    record.begin("run", name)
    (launch,) = read_all(tmp_path)
    record.remove()
    assert launch.profile == name


def test_lines_that_mean_nothing_are_passed_over(record: LaunchRecord, tmp_path: Path) -> None:
    record.begin("run", "p")
    assert record.path is not None
    with record.path.open("ab") as file:
        file.write(b"future\t1\t2\nchild\tnan\tx\t\t\nchild\t3\t7\t0\tagent\nseen\t\\x\t1\nchild\t5\t7\t0\ta\\q\n\n")
    (launch,) = read_all(tmp_path)
    record.remove()
    assert [(known.pid, known.name) for known in launch.children] == [(3, "agent"), (5, "a\\q")]
    assert launch.seen == ()


def test_the_record_and_its_directory_are_for_the_user_alone(record: LaunchRecord, tmp_path: Path) -> None:
    record.begin("run", "p")
    assert record.path is not None
    assert record.path.stat().st_mode & 0o777 == 0o600
    assert record.path.parent.stat().st_mode & 0o777 == 0o700
    record.remove()


def test_what_is_seen_fills_no_disk_and_leaves_room_for_children(
    record: LaunchRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "OUTPUT_ROOM_BYTES", 100)
    record = LaunchRecord(tmp_path, print)
    record.begin("run", "p")
    for pid in range(100, 1100):
        record.seen(process(pid))
    record.began(child(3))
    (launch,) = read_all(tmp_path)
    record.remove()
    assert 5 <= len(launch.seen) <= 10
    assert [known.pid for known in launch.children] == [3]


def test_a_directory_that_cannot_be_written_is_said_once_and_the_run_goes_on(
    record: LaunchRecord, tmp_path: Path, said: list[str]
) -> None:
    (tmp_path / "launches").write_bytes(b"")
    record.begin("run", "p")
    record.began(child(3))
    record.seen(process(4))
    record.remove()
    assert record.path is None
    assert said == [f"cannot write {tmp_path}/launches (file exists), so `acp-launch ps` will not show this run"]


def test_without_any_directory_there_are_no_records(tmp_path: Path) -> None:
    assert files(tmp_path / "nothing") == []
