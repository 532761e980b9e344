"""Runs that died together with their guard: what they left is ended, and nothing else is touched."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from acp_launch.process import leftovers, prepare, table
from acp_launch.process.guard_process import LaunchProcesses, end
from acp_launch.process.leftovers import LeftProcess, clear, launch_state, launch_tree
from acp_launch.process.records import files, launcher, read_all
from tests.patience import PATIENCE

from .launches import bury, launched
from .liveness import Liveness, program

GONE = 2**22 + 1  # larger than any pid
# The id of a launch. Each test process has its own, since all that carry an id are ended.
MINE = f"aa{os.urandom(7).hex()}"
REAP = """
import sys
from pathlib import Path
from acp_launch.process.leftovers import clear
print(len(clear(Path(sys.argv[1]))))
"""


Others = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def other_process(alive: Liveness) -> Iterator[Others]:
    """Start a stubborn process, with these variables, which is none of ours."""
    begun = list["subprocess.Popen[bytes]"]()

    def start(**env: str) -> "subprocess.Popen[bytes]":
        argv = program("deaf", "stubborn")
        begun.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=alive.env | env, start_new_session=True))
        alive.hear("stubborn")
        return begun[-1]

    yield start
    for each in begun:
        each.kill()
        each.wait(PATIENCE)


def test_what_a_run_left_that_died_with_its_guard_is_ended_by_the_next(tmp_path: Path, alive: Liveness) -> None:
    argvs = [program("deaf", "stubborn"), program("forker", "daemon"), program("scrubber")]
    with launched(tmp_path, alive, *argvs) as running:
        alive.hear("stubborn", "forker", "daemon", "scrubber", "scrubbed")
        running.look()
        running.kill_with_guards()
        (launch,) = read_all(tmp_path)
        assert launch_state(launch) == "dead"
        (ended,) = clear(tmp_path)
    alive.assert_all_dead()
    assert (ended.profile, ended.verb, ended.survivors) == ("some profile", "run", ())
    assert LeftProcess("child0", running.children[0]) in ended.processes
    assert files(tmp_path) == []
    assert clear(tmp_path) == []


def test_a_running_launch_is_left_alone(tmp_path: Path, alive: Liveness) -> None:
    with launched(tmp_path, alive, program("deaf", "stubborn")):
        alive.hear("stubborn")
        (launch,) = read_all(tmp_path)
        assert launch_state(launch) == "running"
        assert clear(tmp_path) == []
        assert launch.path.exists()


def test_a_launch_whose_guard_is_at_work_is_left_to_it(tmp_path: Path, other_process: Others) -> None:
    guard, child = other_process(), other_process(ACP_LAUNCH_ID=f"{MINE}.1")
    file = written(tmp_path, f"guard\t{guard.pid}\t{started(guard.pid)}")
    (launch,) = read_all(tmp_path)
    assert launch_state(launch) == "ending"
    assert clear(tmp_path) == []
    assert child.poll() is None
    assert file.exists()


def test_a_guard_that_was_stopped_is_woken_to_do_its_work(tmp_path: Path, other_process: Others) -> None:
    """What it then leaves is ended here. This one has nothing to do and exits."""
    guard = subprocess.Popen(["/bin/sh", "-c", "kill -STOP $$"], start_new_session=True)
    child = other_process(ACP_LAUNCH_ID=f"{MINE}.1")
    until_stopped(guard.pid)
    written(tmp_path, f"guard\t{guard.pid}\t{started(guard.pid)}")
    (launch,) = read_all(tmp_path)
    assert launch_state(launch) == "dead"
    (ended,) = clear(tmp_path)
    assert (guard.wait(PATIENCE), child.wait(PATIENCE)) == (0, -signal.SIGKILL)
    assert [left.pid for left in ended.processes] == [child.pid]
    assert files(tmp_path) == []


def test_a_guard_that_was_stopped_and_does_not_come_to_itself_is_killed(
    tmp_path: Path, other_process: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child would stay, and would be told as one that was left behind for ever."""
    monkeypatch.setattr(leftovers, "GUARD_TIMEOUT", 0.05)
    guard, child = other_process(), other_process(ACP_LAUNCH_ID=f"{MINE}.1")
    os.kill(guard.pid, signal.SIGSTOP)
    until_stopped(guard.pid)
    written(tmp_path, f"guard\t{guard.pid}\t{started(guard.pid)}")
    (ended,) = clear(tmp_path)
    assert [each.wait(PATIENCE) for each in (guard, child)] == [-signal.SIGKILL] * 2
    assert [left.pid for left in ended.processes] == [child.pid]
    assert files(tmp_path) == []


def until_stopped(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def written(state: Path, *lines: str, launch: str = MINE, where: str | None = None) -> Path:
    """The record of a launch that died."""
    place = where if where is not None else f"{table.boot_id()}\t{table.pid_namespace()}"
    file = state / "launches" / launch
    file.parent.mkdir(exist_ok=True)
    first = f"launch\t{launch}\t{GONE}\t{launcher().started}\t{place}\trun\tp"
    file.write_text("".join(f"{line}\n" for line in (first, *lines)))
    return file


def started(pid: int) -> float:
    seen = prepare.table().read(pid)
    assert seen is not None
    return seen.started


def test_a_recycled_pid_and_a_process_without_the_mark_are_not_touched(tmp_path: Path, other_process: Others) -> None:
    recycled, other = other_process(), other_process(ACP_LAUNCH_ID="another.1")
    when = started(recycled.pid) + 1
    written(tmp_path, f"child\t{recycled.pid}\t{when}\t0\tgithub", f"seen\t{recycled.pid}\t{when}")
    assert clear(tmp_path) == []
    assert [child.poll() for child in (recycled, other)] == [None, None]
    assert files(tmp_path) == []


def test_a_recorded_pid_with_its_start_and_an_unknown_one_with_the_mark_are_ended(
    tmp_path: Path, other_process: Others
) -> None:
    known, marked = other_process(), other_process(ACP_LAUNCH_ID=f"{MINE}.3")
    written(tmp_path, f"child\t{known.pid}\t{started(known.pid)}\t0\tgithub")
    (ended,) = clear(tmp_path)
    assert [child.wait(PATIENCE) for child in (known, marked)] == [-signal.SIGKILL] * 2
    assert LeftProcess("github", known.pid) in ended.processes
    assert {left.pid for left in ended.processes} == {known.pid, marked.pid}
    assert files(tmp_path) == []


def test_a_child_that_ended_in_its_time_is_not_looked_for(tmp_path: Path, other_process: Others) -> None:
    child = other_process()
    identity = f"{child.pid}\t{started(child.pid)}"
    written(tmp_path, f"child\t{identity}\t0\tgithub", f"ended\t{identity}\t1.0")
    assert clear(tmp_path) == []
    assert child.poll() is None


def test_a_record_of_an_earlier_start_of_the_machine_is_only_removed(tmp_path: Path, other_process: Others) -> None:
    child = other_process()
    line = f"child\t{child.pid}\t{started(child.pid)}\t0\tgithub"
    written(tmp_path, line, where=f"another\t{table.pid_namespace()}")
    (launch,) = read_all(tmp_path)
    assert (launch_state(launch), launch_tree(launch)) == ("over", None)
    assert clear(tmp_path) == []
    assert child.poll() is None
    assert files(tmp_path) == []


def test_a_record_of_another_container_is_left_to_it(tmp_path: Path) -> None:
    file = written(tmp_path, where=f"{table.boot_id()}\tpid:[1]")
    (launch,) = read_all(tmp_path)
    assert (launch_state(launch), launch_tree(launch)) == ("foreign", None)
    assert clear(tmp_path) == []
    assert file.exists()


def test_what_is_no_record_of_ours_is_never_removed(tmp_path: Path) -> None:
    directory = tmp_path / "launches"
    directory.mkdir()
    (tmp_path / "precious").write_bytes(b"")
    (directory / "notes.txt").write_bytes(b"")
    (directory / MINE.upper()).write_bytes(b"")
    (directory / "1111111111111111").write_bytes(b"notes of mine\n")
    (directory / "2222222222222222").symlink_to(tmp_path / "precious")
    (directory / "3333333333333333").mkdir()
    os.mkfifo(directory / "4444444444444444")
    there = set(directory.iterdir())
    assert clear(tmp_path) == []
    assert set(directory.iterdir()) == there
    assert (tmp_path / "precious").exists()


def test_four_clean_up_at_once_and_one_of_them_does_it(tmp_path: Path, other_process: Others) -> None:
    child = other_process(ACP_LAUNCH_ID=f"{MINE}.1")
    written(tmp_path)

    def reap(_: int) -> str:
        argv = [sys.executable, "-c", REAP, str(tmp_path)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE)
        return done.stdout.strip() + done.stderr

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(reap, range(4)))
    assert sorted(answers) == ["0"] * 3 + ["1"]
    assert child.wait(PATIENCE) == -signal.SIGKILL
    assert files(tmp_path) == []


def test_who_cleans_up_is_spared_although_it_carries_the_mark_itself(tmp_path: Path, other_process: Others) -> None:
    """An agent that was left behind runs `acp-launch reap`."""
    child = other_process(ACP_LAUNCH_ID=f"{MINE}.1")
    written(tmp_path)
    argv = [sys.executable, "-c", REAP, str(tmp_path)]
    env = {**os.environ, "ACP_LAUNCH_ID": f"{MINE}.1"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, env=env, start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    assert child.wait(PATIENCE) == -signal.SIGKILL


def test_without_proc_known_processes_and_their_descendants_are_found(
    alive: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, where psutil tells starts in seconds since 1970."""
    monkeypatch.setattr(prepare, "IS_LINUX", False)
    monkeypatch.setattr(table, "IS_LINUX", False)
    monkeypatch.delattr(os, "pidfd_open")
    child = subprocess.Popen(program("forker", "setsid"), stdin=subprocess.PIPE, env=alive.env, start_new_session=True)
    other = old_process(alive)
    assert child.stdin is not None
    with child.stdin:
        left = LaunchProcesses({(child.pid, started(child.pid)), (other.pid, started(child.pid) - 10)}, "mine", 0)
        ended, survivors = end(left)
    assert other.poll() is None
    other.kill()
    for each in (child, other):
        each.wait(PATIENCE)
    monkeypatch.undo()
    bury()
    alive.assert_all_dead()
    assert (len(ended), survivors) == (2, [])


def old_process(alive: Liveness) -> "subprocess.Popen[bytes]":
    child = subprocess.Popen(
        program("deaf", "stubborn"), stdin=subprocess.DEVNULL, env=alive.env, start_new_session=True
    )
    alive.hear("forker", "loner", "stubborn")
    return child
