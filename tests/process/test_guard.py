"""The launcher killed, the guard killed, both at work: whatever was started is dead, and nobody else is."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.process import prepare, spawn, vigil
from acp_launch.process.guard import PROGRAM, TRIES, Guard
from acp_launch.process.identity import Process
from acp_launch.process.kill import end_all_now, end_now
from acp_launch.process.pidfd import block_until_gone
from acp_launch.process.records import LaunchRecord, files, launcher
from acp_launch.process.tree import Tree, descendants

from .launches import bury, gone, launched
from .liveness import PATIENCE, Liveness, program

TREES = {
    "polite": (["polite"], ["polite"]),
    "deaf to the end of its input": (["deaf"], ["deaf"]),
    "deaf to TERM too": (["deaf", "stubborn"], ["stubborn"]),
    "stopped by SIGSTOP": (["deaf", "frozen"], ["frozen"]),
    "with a grandchild in a session of its own": (["forker", "setsid"], ["forker", "loner"]),
    "with a daemon": (["forker", "daemon"], ["forker", "daemon"]),
    "with a respawning daemon": (["forker", "respawn"], ["forker", "supervisor", "worker"]),
}


@pytest.mark.parametrize("temper", TREES)
def test_a_launcher_that_is_killed_leaves_nothing_behind(temper: str, tmp_path: Path, alive: Liveness) -> None:
    argv, heard = TREES[temper]
    with launched(tmp_path, alive, program(*argv)) as running:
        alive.hear(*heard)
        assert len(files(tmp_path)) == 1
        with gone(running.guard):
            running.kill()
        alive.assert_all_dead()
        assert files(tmp_path) == []


def test_a_daemon_that_scrubbed_its_environment_is_ended_because_it_was_seen(tmp_path: Path, alive: Liveness) -> None:
    with launched(tmp_path, alive, program("scrubber")) as running:
        alive.hear("scrubber", "scrubbed")
        running.look()
        with gone(running.guard):
            running.kill()
        alive.assert_all_dead()


def test_many_children_of_every_temper_are_ended_together(tmp_path: Path, alive: Liveness) -> None:
    argvs = [program(*argv) for argv, _ in TREES.values()]
    with launched(tmp_path, alive, *argvs, *argvs) as running:
        alive.hear(*[name for _, heard in TREES.values() for name in heard * 2])
        with gone(running.guard):
            running.kill()
        alive.assert_all_dead()


def test_a_guard_that_is_killed_is_replaced_by_one_that_knows_everything(tmp_path: Path, alive: Liveness) -> None:
    with launched(tmp_path, alive, program("scrubber"), program("forker", "daemon")) as running:
        alive.hear("scrubber", "scrubbed", "forker", "daemon")
        running.look()
        os.kill(running.guard, signal.SIGKILL)
        another = running.hears()
        with gone(another):
            running.kill()
        alive.assert_all_dead()
        assert files(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_that_end_programs_do_not_end_the_guard(number: int, tmp_path: Path, alive: Liveness) -> None:
    with launched(tmp_path, alive, program("deaf", "stubborn")) as running:
        alive.hear("stubborn")
        until_ready(running.guard)
        os.kill(running.guard, number)
        with gone(running.guard):
            running.kill()
        alive.assert_all_dead()


def until_ready(pid: int) -> None:
    """Until its program runs and ignores TERM."""
    for _ in range(2000):
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if int(status["SigIgn"], 16) >> (signal.SIGTERM - 1) & 1:
            return
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)  # some 10 ms of other work
    raise AssertionError("the guard never came to itself")


def test_an_orderly_end_takes_the_guard_and_the_record_along(tmp_path: Path, alive: Liveness) -> None:
    with launched(tmp_path, alive, program("polite")) as running:
        alive.hear("polite")
        with gone(running.guard):
            running.tell("end")
            assert running.process.wait(PATIENCE) == 0
        alive.assert_all_dead()
        assert files(tmp_path) == []
        assert not Path(f"/proc/{running.guard}").exists()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def guard(tmp_path: Path, said: list[str]) -> Guard:
    return Guard(LaunchRecord(tmp_path, said.append), said.append)


def test_the_guard_is_in_no_tree_and_no_sweep_ends_it(guard: Guard, alive: Liveness) -> None:
    guard.start()
    assert guard.spawned is not None
    child = spawn.spawn(program("deaf", "stubborn"), env=alive.env, cwd=Path("/"))
    alive.hear("stubborn")
    assert spawn.live() == [child]
    assert [process.pid for process in descendants(prepare.table())] == [child.pid]
    assert [process.pid for process in Tree(child).alive()] == [child.pid]
    end_all_now()
    alive.assert_all_dead()
    assert guard.spawned.poll() is None
    with gone(guard.spawned.pid):
        guard.dismiss()
    assert spawn.witnesses == []


def test_the_guard_gets_no_variable_and_no_word_of_what_it_guards(guard: Guard, alive: Liveness) -> None:
    guard.start()
    assert guard.spawned is not None
    until_ready(guard.spawned.pid)
    try:
        proc = Path(f"/proc/{guard.spawned.pid}")
        assert (proc / "cmdline").read_bytes().split(b"\0")[1:-1] == [b"-I", b"-S", str(PROGRAM).encode()]
        assert (proc / "environ").read_bytes() == b""
        assert os.getsid(guard.spawned.pid) == guard.spawned.pid
    finally:
        guard.dismiss()


def test_a_guard_that_does_not_read_blocks_nobody_and_is_killed_in_the_end(guard: Guard) -> None:
    guard.start()
    assert guard.spawned is not None
    os.kill(guard.spawned.pid, signal.SIGSTOP)
    pid = guard.spawned.pid
    for number in range(20_000):
        child = spawn.Spawned(2**22 + number, -1, -1, -1, started=number)
        guard.began(child)
    with gone(pid):
        guard.dismiss()


def test_a_guard_that_somebody_stops_is_woken_by_the_next_look(guard: Guard) -> None:
    guard.start()
    assert guard.spawned is not None
    pid = guard.spawned.pid
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    guard.look()
    assert os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOHANG) is not None
    guard.dismiss()


def test_a_guard_that_cannot_be_started_is_said_and_the_run_goes_on(
    guard: Guard, said: list[str], alive: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    guard.start()
    monkeypatch.undo()
    child = spawn.spawn(program("polite"), env=alive.env, cwd=Path("/"))
    alive.hear("polite")
    guard.look()
    end_now(child)
    guard.dismiss()
    reason = "/no/such/python could not be started: there is no such file"
    assert said == [f"this run has no guard ({reason}), so what it starts would outlive a kill -9 of acp-launch"]


def test_a_guard_that_dies_at_once_again_and_again_is_given_up(guard: Guard, said: list[str]) -> None:
    guard.start()
    for _ in range(TRIES):
        assert guard.spawned is not None
        os.kill(guard.spawned.pid, signal.SIGKILL)
        block_until_gone([guard.spawned.process], within=PATIENCE)
        guard.replace()
    guard.dismiss()
    assert guard.spawned is None
    reason = f"it has died {TRIES} times in a row"
    assert said == [f"this run has no guard ({reason}), so what it starts would outlive a kill -9 of acp-launch"]


class Told(Guard):
    """Says when it looks and when it is replaced."""

    def __init__(self, record: LaunchRecord, note: Callable[[str], None]) -> None:
        super().__init__(record, note)
        self.looks: asyncio.Queue[None] = asyncio.Queue()
        self.replaced = asyncio.Event()

    def look(self) -> None:
        super().look()
        self.looks.put_nowait(None)

    def replace(self) -> None:
        super().replace()
        self.replaced.set()


def test_the_vigil_looks_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vigil, "EVERY", 0.001)

    async def run(guard: Told) -> None:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            keeping = group.create_task(vigil.keep(guard))
            for _ in range(5):
                await guard.looks.get()
            keeping.cancel()

    guard = Told(LaunchRecord(tmp_path, print), print)
    guard.start()
    asyncio.run(run(guard))
    guard.dismiss()


@pytest.mark.parametrize("way", ["pidfd", "thread"])
def test_a_guard_is_replaced_as_soon_as_it_is_dead(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vigil, "EVERY", PATIENCE)  # it is not the next look that finds out
    if way == "thread":
        monkeypatch.delattr(os, "pidfd_open")

    async def run(guard: Told) -> None:
        async with asyncio.timeout(PATIENCE / 2), asyncio.TaskGroup() as group:
            keeping = group.create_task(vigil.keep(guard))
            await guard.looks.get()
            assert guard.spawned is not None
            first = guard.spawned
            os.kill(first.pid, signal.SIGKILL)
            await guard.replaced.wait()
            assert guard.spawned is not None
            assert (first.status, guard.spawned.status) == (signal.SIGKILL, None)
            keeping.cancel()
            os.kill(guard.spawned.pid, signal.SIGKILL)  # a thread that waits for it ends too

    guard = Told(LaunchRecord(tmp_path, print), print)
    guard.start()
    asyncio.run(run(guard))
    guard.dismiss()
    for thread in threading.enumerate():
        if thread.name.startswith("waitpid"):
            thread.join(PATIENCE)  # it has the status, and we are about to look for processes without one


@pytest.fixture
def alone(alive: Liveness) -> "subprocess.Popen[bytes]":
    """The guard's program itself, to be taught by hand."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(PROGRAM)], stdin=subprocess.PIPE, env={}, start_new_session=True
    )


def taught(alone: "subprocess.Popen[bytes]", text: str) -> None:
    """To the end, which is that of a launcher that died."""
    alone.communicate(text.encode(), timeout=PATIENCE)
    assert alone.returncode == 0


def stranger(alive: Liveness, **env: str) -> "subprocess.Popen[bytes]":
    child = subprocess.Popen(
        program("deaf", "stubborn"), stdin=subprocess.DEVNULL, env=alive.env | env, start_new_session=True
    )
    alive.hear("stubborn")
    return child


def seen(pid: int) -> Process:
    process = prepare.table().read(pid)
    assert process is not None
    return process


def test_a_recycled_pid_and_whoever_carries_another_mark_are_not_touched(
    alone: "subprocess.Popen[bytes]", alive: Liveness
) -> None:
    recycled = stranger(alive)
    other = stranger(alive, ACP_LAUNCH_ID="another.1", OTHER="ACP_LAUNCH_ID=mine.1")
    longer = stranger(alive, ACP_LAUNCH_ID="mines.1")
    try:
        started = seen(recycled.pid).started
        earlier = launcher().started
        taught(
            alone,
            f"launch mine {earlier}\n+ {recycled.pid} {started - 1}\n+ {other.pid} {started}0\n+ 1 {seen(1).started}\n"
            f"+ {longer.pid} {seen(longer.pid).started}",  # half a line
        )
        assert [child.poll() for child in (recycled, other, longer)] == [None] * 3
    finally:
        for child in (recycled, other, longer):
            child.kill()
            child.wait(PATIENCE)


def test_a_process_with_the_mark_is_ended_whoever_started_it(alone: "subprocess.Popen[bytes]", alive: Liveness) -> None:
    marked = stranger(alive, ACP_LAUNCH_ID="mine.1")
    taught(alone, f"launch mine {launcher().started}\n")
    assert marked.wait(PATIENCE) == -signal.SIGKILL


def test_done_means_that_nothing_is_to_be_ended(alone: "subprocess.Popen[bytes]", alive: Liveness) -> None:
    marked = stranger(alive, ACP_LAUNCH_ID="mine.1")
    try:
        taught(alone, f"launch mine {launcher().started}\n+ {marked.pid} {seen(marked.pid).started}\ndone\n")
        assert marked.poll() is None
    finally:
        marked.kill()
        marked.wait(PATIENCE)


def test_what_is_forgotten_is_not_touched_any_more(alone: "subprocess.Popen[bytes]", alive: Liveness) -> None:
    child = stranger(alive)
    try:
        who = f"{child.pid} {seen(child.pid).started}\n"
        taught(alone, f"launch mine {launcher().started}\n+ {who}- {who}")
        assert child.poll() is None
    finally:
        child.kill()
        child.wait(PATIENCE)


def test_the_session_of_a_known_leader_goes_with_it(alone: "subprocess.Popen[bytes]", alive: Liveness) -> None:
    """An orphan nobody has seen, without the mark, that stayed in the session."""
    argv = ["/bin/sh", "-c", f"{shlex.join(program('deaf', 'stubborn'))} </dev/null & read _"]
    child = subprocess.Popen(argv, env=alive.env, start_new_session=True, stdin=subprocess.PIPE)
    assert child.stdin is not None
    try:
        alive.hear("stubborn")
        taught(alone, f"launch mine {launcher().started}\n+ {child.pid} {seen(child.pid).started}\n")
        alive.assert_all_dead()
        assert child.wait(PATIENCE) == -signal.SIGTERM
    finally:
        child.stdin.close()
        child.kill()
        child.wait(PATIENCE)
        bury()


def test_the_guard_imports_next_to_nothing() -> None:
    """DESIGN §9 has no row for it: it is to cost what the interpreter does."""
    argv = [sys.executable, "-X", "importtime", "-I", "-S", str(PROGRAM)]
    done = subprocess.run(argv, input="done\n", capture_output=True, text=True, timeout=PATIENCE)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"os", "select", "time", "remains"} <= imported
    assert not imported & {"signal", "enum", "re", "subprocess", "typing", "collections", "threading", "psutil"}
