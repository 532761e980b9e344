"""The launcher killed, guards killed, in every order: whatever was started is dead, and nothing else is."""

import asyncio
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from acp_launch.engine import loop
from acp_launch.process import guard_client as guard_module
from acp_launch.process import prepare, spawn
from acp_launch.process.capture import capture
from acp_launch.process.child import attach
from acp_launch.process.guard_client import Guard, dismiss_guards, start_guards
from acp_launch.process.leftovers import clear
from acp_launch.process.program import stop
from acp_launch.process.records import LaunchRecord, files, read_all
from acp_launch.process.table import Process, block_until_gone
from acp_launch.process.tree import Exit, Tree, descendants, end_all_now, end_now
from tests.looped import looped
from tests.patience import PATIENCE, until

from .launches import Running, gone, launched
from .liveness import CHILDREN, TREES, Liveness, program

# Nothing shows whose these are, once launcher and guards are dead, but a control group.
UNTRACEABLE = {
    "scrubbed": (["scrubber"], ["scrubber", "scrubbed"]),
    "a pid every 0.15 s": (["hopper", "0.15"], ["hopper", "hopping"]),
    "a pid every 0.7 s": (["hopper", "0.7"], ["hopper", "hopping"]),
    "a fork bomb": (["bomb", "60"], ["bomb"]),
}
TRACEABLE = {name: tree for name, tree in TREES.items() if name not in ("hold", "follow")}
ALL_TREES = TRACEABLE | UNTRACEABLE
ARGVS = [program(*argv) for argv, _ in ALL_TREES.values()]
HEARD = [name for _, heard in ALL_TREES.values() for name in heard]


@pytest.mark.promise("kill")
@pytest.mark.sample(2, 2)
@pytest.mark.parametrize("temper", ALL_TREES)
def test_a_launcher_that_is_killed_leaves_nothing_behind(temper: str, tmp_path: Path, alive: Liveness) -> None:
    """All of them at once are below, with the guards."""
    argv, heard = ALL_TREES[temper]
    with launched(tmp_path, alive, program(*argv)) as running:
        alive.hear(*heard)
        assert len(files(tmp_path)) == 1
        with gone(running.upper):
            running.kill()
        alive.assert_all_dead()
        assert files(tmp_path) == []


@pytest.mark.promise("kill")
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "order", [["lower", "", "launcher"], ["upper", "", "launcher"], ["lower", "launcher"], ["launcher"]]
)
def test_a_launcher_and_a_guard_that_are_killed_leave_nothing_behind(
    order: list[str], tmp_path: Path, alive: Liveness
) -> None:
    """Every temper at once; an empty name waits until the launcher has noticed, and goes on working."""
    with launched(tmp_path, alive, *ARGVS) as running:
        alive.hear(*HEARD)
        (other, *_) = {running.lower, running.upper} - {getattr(running, name, 0) for name in order}
        with gone(other):
            for name in order:
                if not name:
                    running.start(program("forker", "daemon"))
                    alive.hear("forker", "daemon")
                elif name == "launcher":
                    running.process.kill()
                else:
                    os.kill(getattr(running, name), signal.SIGKILL)
            running.process.wait(PATIENCE)
        alive.assert_all_dead()
        until(lambda: not files(tmp_path))  # the other guard, or a new one, may still be at work


def test_guards_that_are_stopped_when_the_launcher_dies_do_not_save_what_they_guard(
    tmp_path: Path, alive: Liveness
) -> None:
    """The kernel continues the upper one, whose group is orphaned with its launcher; that one continues the other."""
    with launched(tmp_path, alive, *ARGVS[:4]) as running:
        alive.hear(*HEARD[:4])
        running.process.send_signal(signal.SIGSTOP)  # it would wake them
        for pid in (running.lower, running.upper):
            os.kill(pid, signal.SIGSTOP)
            until_stopped(pid)
        with gone(running.upper):
            running.kill()
        alive.assert_all_dead()


def until_stopped(pid: int) -> None:
    """It is no child of ours, so that nothing tells."""
    while not (seen := prepare.table().read(pid)) or not seen.is_stopped:
        os.sched_yield()


def test_what_all_three_leave_is_found_by_its_record_and_by_its_mark(tmp_path: Path, alive: Liveness) -> None:
    with launched(tmp_path, alive, *(program(*argv) for argv, _ in TRACEABLE.values())) as running:
        alive.hear(*(name for _, heard in TRACEABLE.values() for name in heard))
        running.kill_with_guards()
        (ended,) = clear(tmp_path)
        assert ended.survivors == ()
    alive.assert_all_dead()


@pytest.fixture
def cgroups() -> None:
    """This machine lets us have control groups of our own."""
    code = "from acp_launch.process.cgroup import of_launch\n"
    code += "group = of_launch('0123456789abcdef')\n"
    code += "print(group is not None and group.enter()); group and (group.leave(), group.remove())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stderr == ""
    if done.stdout != "True\n":
        pytest.skip("this user may not make a control group here")


def test_with_a_control_group_nothing_that_all_three_leave_is_lost(
    cgroups: None, tmp_path: Path, alive: Liveness
) -> None:
    """Daemons younger than any look, pid hoppers and a fork bomb included."""
    with launched(tmp_path, alive, *ARGVS, cgroup=True) as running:
        alive.hear(*HEARD)
        running.kill_with_guards()
        assert running.cgroup.is_dir()
        (ended,) = clear(tmp_path)
        assert ended.survivors == ()
        alive.assert_all_dead()
        assert not running.cgroup.exists()


@pytest.mark.parametrize("first", ["", "upper"])
def test_the_control_group_goes_with_the_launch(first: str, cgroups: None, tmp_path: Path, alive: Liveness) -> None:
    with launched(tmp_path, alive, *ARGVS, cgroup=True) as running:
        alive.hear(*HEARD)
        if first:
            os.kill(getattr(running, first), signal.SIGKILL)
            running.look()
        with gone(running.lower if first else running.upper):
            running.kill()
        alive.assert_all_dead()
        assert not running.cgroup.exists()


def test_an_orderly_end_removes_the_control_group_with_what_programs_made_in_it(
    cgroups: None, tmp_path: Path, alive: Liveness
) -> None:
    with launched(tmp_path, alive, program("polite"), cgroup=True) as running:
        alive.hear("polite")
        running.cgroup.joinpath("deeper").mkdir()
        running.tell("end")
        assert running.process.wait(PATIENCE) == 0
        assert not running.cgroup.exists()


def test_a_process_that_holds_our_end_of_the_line_open_saves_nothing(tmp_path: Path, alive: Liveness) -> None:
    """pidfd_getfd(2), since a socket cannot be opened through /proc: the guards know our death from the kernel."""
    with launched(tmp_path, alive, program("deaf", "stubborn")) as running:
        alive.hear("stubborn")
        held = list(descriptors_of(running.process.pid))
        try:
            for pid in (running.lower, running.upper):
                with pytest.raises(OSError, match=r"No such device or address|Permission denied"):
                    for link in Path(f"/proc/{pid}/fd").iterdir():
                        if str(link.readlink()).startswith("socket:"):
                            link.open("r+b").close()
            with gone(running.upper):
                running.kill()
        finally:
            for descriptor in held:
                os.close(descriptor)
        alive.assert_all_dead()


def descriptors_of(pid: int) -> Iterator[int]:
    """Duplicates of the sockets another process has."""
    pidfd = os.pidfd_open(pid)
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if str(link.readlink()).startswith("socket:"):
                duplicate = ctypes.CDLL(None, use_errno=True).syscall(438, pidfd, int(link.name), 0)
                if duplicate >= 0:
                    yield duplicate
    finally:
        os.close(pidfd)


def test_signals_that_end_or_stop_programs_do_nothing_to_a_guard(tmp_path: Path, alive: Liveness) -> None:
    """Of a terminal none comes: they are in our session, so that a login can have it, and in groups of their own."""
    with launched(tmp_path, alive, program("deaf", "stubborn")) as running:
        alive.hear("stubborn")
        for pid in (running.lower, running.upper):
            assert (os.getpgid(pid), os.getsid(pid)) == (pid, os.getsid(running.process.pid))
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
                os.kill(pid, number)
        with gone(running.upper):
            running.kill()
        alive.assert_all_dead()


def test_what_is_started_has_the_usual_signals(tmp_path: Path) -> None:
    """Neither those that a guard ignores nor those that Python does; those we were told to ignore stay ignored."""
    argv = ["/bin/sh", "-c", "grep SigIgn /proc/self/status"]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    start_guards()
    signal.signal(signal.SIGHUP, before)
    spawned = spawn.spawn(argv, env={}, cwd=Path("/"))
    assert spawned.is_fostered
    select.select([spawned.stdout], [], [], PATIENCE)
    ignored = int(os.read(spawned.stdout, 100).split()[1], 16)
    end_now(spawned)
    dismiss_guards()
    assert ignored & 0x7FFFFFFF == 1 << (signal.SIGHUP - 1)  # glibc's own, 32 and 33, are ignored by posix_spawn


def test_an_orderly_end_takes_the_guards_and_the_record_along(tmp_path: Path, alive: Liveness) -> None:
    with launched(tmp_path, alive, program("polite")) as running:
        alive.hear("polite")
        (launch,) = read_all(tmp_path)
        assert [known.pid for known in launch.guards] == [running.upper, running.lower]
        running.tell("end")
        assert running.process.wait(PATIENCE) == 0
        alive.assert_all_dead()
        assert files(tmp_path) == []
        for pid in (running.lower, running.upper):
            assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("first", ["lower", "upper"])
def test_an_orderly_end_leaves_nothing_though_both_guards_were_killed(
    first: str, tmp_path: Path, alive: Liveness
) -> None:
    """By the agent itself, for instance: they are its parents."""
    with launched(tmp_path, alive, program("scrubber"), program("hopper", "0.15")) as running:
        alive.hear("scrubber", "scrubbed", "hopper", "hopping")
        for name in (first, *({"lower", "upper"} - {first})):
            with gone(getattr(running, name)):
                os.kill(getattr(running, name), signal.SIGKILL)
        running.tell("end")
        assert running.process.wait(PATIENCE) == 0
        alive.assert_all_dead()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def guard(tmp_path: Path, said: list[str]) -> Iterator[Guard]:
    guard = Guard(LaunchRecord(tmp_path, said.append), said.append)
    yield guard
    guard.dismiss()


def processes(guard: Guard) -> list[Process]:
    """The lower one, the upper one."""
    assert guard.guards is not None
    return guard.guards.known()


def test_the_guards_are_in_no_tree_and_no_sweep_ends_them(guard: Guard, alive: Liveness) -> None:
    guard.start()
    guards = processes(guard)
    child = spawn.spawn(program("deaf", "stubborn"), env=alive.env, cwd=Path("/"))
    alive.hear("stubborn")
    assert spawn.live() == [child]
    assert [process.pid for process in descendants(prepare.table())] == [child.pid]
    assert [process.pid for process in Tree(child).alive()] == [child.pid]
    end_all_now()
    alive.assert_all_dead()
    assert processes(guard) == guards
    guard.dismiss()
    assert [prepare.table().read(each.pid) for each in guards] == [None, None]
    assert spawn.observers == []
    assert spawn.parent is None


def test_a_guard_holds_nothing_of_ours_and_is_not_taken_for_us(guard: Guard) -> None:
    """A reader of our stdout waits for its end, a lock for its release, and `pkill -f` for its name."""
    guard.start()
    for process in processes(guard):
        proc = Path(f"/proc/{process.pid}")
        assert b"pytest" not in (proc / "cmdline").read_bytes()
        assert (proc / "cmdline").read_bytes().startswith(b"acp_launch-guard")
        assert (proc / "comm").read_text() == "acp_launch-guar\n"
        assert {str((proc / "fd" / str(stream)).readlink()) for stream in range(3)} == {"/dev/null"}
        held = [str(link.readlink()) for link in (proc / "fd").iterdir() if int(link.name) > 2]
        kinds = [each.split(":")[0] for each in held if "cgroup" not in each]  # which it is just about to enter
        assert set(kinds) <= {"socket", "pipe", "anon_inode"}
        assert kinds.count("socket") == 1


def test_a_guard_cannot_be_looked_into_by_others_of_the_user(guard: Guard) -> None:
    """It was forked from us, whose environment may hold secrets: what is not dumpable belongs to root in /proc."""
    guard.start()
    for process in processes(guard):
        status = Path(f"/proc/{process.pid}/environ").stat()
        assert (status.st_uid, status.st_mode & 0o777) == (0, 0o400)
    if os.getuid() == 0:  # root may look, and finds nothing
        for process in processes(guard):
            assert Path(f"/proc/{process.pid}/environ").read_bytes().strip(b"\0") == b""
        code = "import os, sys; os.setgid(65534); os.setuid(65534)\n"
        code += "try: open(sys.argv[1])\nexcept PermissionError: print('denied')"
        argv = [sys.executable, "-c", code, f"/proc/{processes(guard)[0].pid}/environ"]
        assert subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE).stdout == "denied\n"


def test_a_guard_that_is_stopped_is_woken_by_the_next_look(guard: Guard) -> None:
    guard.start()
    _, upper = processes(guard)
    os.kill(upper.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, upper.pid, os.WSTOPPED)
    guard.look()
    assert os.waitid(os.P_PID, upper.pid, os.WCONTINUED | os.WNOHANG) is not None


def test_a_guard_that_is_stopped_is_woken_when_it_is_to_start_something(guard: Guard, alive: Liveness) -> None:
    guard.start()
    lower, _ = processes(guard)
    os.kill(lower.pid, signal.SIGSTOP)
    child = spawn.spawn(program("polite"), env=alive.env, cwd=Path("/"))
    alive.hear("polite")
    end_now(child)
    assert child.is_fostered


def test_a_guard_that_does_not_answer_is_killed_and_the_other_one_starts_it(
    guard: Guard, alive: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "START_TIMEOUT", 0.1)
    monkeypatch.setattr(guard_module, "NUDGE_SECONDS", 0.05)
    guard.start()
    lower, upper = processes(guard)
    assert guard.guards is not None
    monkeypatch.setattr(guard.guards, "wake", lambda: None)
    os.kill(lower.pid, signal.SIGSTOP)
    child = spawn.spawn(program("polite"), env=alive.env, cwd=Path("/"))
    alive.hear("polite")
    assert prepare.table().read(child.pid) is not None
    assert [process.pid for process in processes(guard)] == [upper.pid]
    end_now(child)


@pytest.mark.parametrize("victims", [["lower"], ["upper", "lower"]])
@looped
async def test_a_status_is_known_whichever_guards_die(victims: list[str], guard: Guard, alive: Liveness) -> None:
    """Of children before and after; and the wait for one that lives goes on."""
    guard.start()
    async with asyncio.timeout(PATIENCE), loop.guard_informed(guard):
        before = spawn.spawn(["/bin/sh", "-c", "read _; exit 7"], env={}, cwd=Path("/"))
        async with attach(before) as child:
            by_name = dict(zip(("lower", "upper"), processes(guard), strict=True))
            for name in victims:
                os.kill(by_name[name].pid, signal.SIGKILL)
                block_until_gone([by_name[name]], within=PATIENCE)
            after = spawn.spawn(["/bin/sh", "-c", "exit 8"], env={}, cwd=Path("/"))
            async with attach(after) as other:
                assert await other.wait() == Exit(8, None)
            await child.write(b"go\n")
            assert await child.wait() == Exit(7, None)
            await stop(child)


SUCCESSION = """
import os, socket
from acp_launch.process import prepare
from acp_launch.process.guard_process import Guardian, GuardLine, Launcher
from acp_launch.process.table import NO_PIDFD

lower, orphan = (os.fork() or os._exit(code) for code in (0, 9))
for pid in (lower, orphan):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
prepare.prepare()
launcher, upper = map(GuardLine, socket.socketpair())
successor, end = socket.socketpair()
GuardLine(successor).send(("done",))
upper.descriptors.append(end.detach())
about = Launcher(pidfd=NO_PIDFD, launch="", since=0.0, cgroup=None)
guard = Guardian(upper, about, defaults=[], lower=prepare.table().read(lower))
guard._do(("fork",))
os.waitid(os.P_PID, guard._lower.pid, os.WEXITED | os.WNOWAIT)
guard._reap()
print(("ended", orphan, 9 << 8) in list(launcher.receive()))
"""


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs waitid(2)")
def test_a_status_is_known_though_the_dead_guard_was_replaced_before_it_was_reaped() -> None:
    done = subprocess.run([sys.executable, "-c", SUCCESSION], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == (b"True\n", b"")


def test_the_status_of_what_died_in_the_moment_of_its_start_is_known(guard: Guard) -> None:
    guard.start()
    for _ in range(50):
        spawned = spawn.spawn(["/bin/sh", "-c", "exit 3"], env={}, cwd=Path("/"))
        block_until_gone([spawned.process], within=PATIENCE)
        wait_for_status(spawned)
        assert os.waitstatus_to_exitcode(spawned.status or 0) == 3
        end_now(spawned)


def test_a_status_that_is_still_to_be_told_is_waited_for_at_the_end(guard: Guard) -> None:
    guard.start()
    lower, _ = processes(guard)
    spawned = spawn.spawn(["/bin/sh", "-c", "read _; exit 3"], env={}, cwd=Path("/"))
    os.kill(lower.pid, signal.SIGSTOP)
    until_stopped(lower.pid)
    spawned.close("stdin")
    until_dead(spawned.pid)
    end_now(spawned)
    assert os.waitstatus_to_exitcode(spawned.status or 0) == 3
    for _ in range(50):
        assert capture(["true"], PATIENCE, env={"PATH": os.environ["PATH"]}, cwd=Path("/")).ending == Exit(0, None)


def until_dead(pid: int) -> None:
    while not (seen := prepare.table().read(pid)) or not seen.is_dead:
        os.sched_yield()


def wait_for_status(spawned: spawn.Spawned) -> None:
    (lower, *_) = spawn.parent.living if isinstance(spawn.parent, guard_module.Guards) else []
    while spawned.poll() is None:
        assert lower.line.wait(PATIENCE)


def test_a_status_that_a_guard_took_along_is_given_up(guard: Guard) -> None:
    guard.start()
    spawned = spawn.spawn(["/bin/true"], env={}, cwd=Path("/"))
    block_until_gone([spawned.process], within=PATIENCE)
    wait_for_status(spawned)
    end_now(spawned)
    lost = spawn.register(spawned.pid, spawned.started, is_fostered=True)
    statuses = []
    for _ in range(2):
        guard.look()
        statuses.append(lost.status)
    assert statuses == [None, spawn.STATUS_LOST]
    end_now(lost)


ALL = "both of its guards were killed; two others guard this run now"
ONE = "one of its guards was killed; another one has taken its place"


def test_guards_that_were_killed_are_started_again_which_is_said_once(
    guard: Guard, said: list[str], alive: Liveness
) -> None:
    guard.start()
    children = []
    for _ in range(2):
        kill(*processes(guard))
        for fostered in (False, True):  # before and after the look that starts them again
            children.append(spawn.spawn(program("polite"), env=alive.env, cwd=Path("/")))
            alive.hear("polite")
            assert children[-1].is_fostered is fostered
            guard.look()
    for child in children:
        end_now(child)
        assert child.poll() == signal.SIGKILL
    assert said == [ALL]


def kill(*guards: Process) -> None:
    for process in guards:
        os.kill(process.pid, signal.SIGKILL)
        block_until_gone([process], within=PATIENCE)


@pytest.mark.parametrize("number", [0, 1], ids=["lower", "upper"])
def test_one_guard_that_was_killed_is_started_again_below_the_other(
    number: int, guard: Guard, said: list[str], alive: Liveness, tmp_path: Path
) -> None:
    """Whatever was started before, between and after is told of, and ended; also by those that take their places."""
    guard._record.begin("run", "p")
    guard.start()
    children = []
    for _ in range(3):
        children.append(spawn.spawn(program("polite"), env=alive.env, cwd=Path("/")))
        alive.hear("polite")
        before = processes(guard)
        kill(before[number])
        guard.look()
        lower, upper = processes(guard)
        assert upper == before[1 - number]
        assert lower not in before
        seen = prepare.table().read(lower.pid)
        assert seen is not None
        assert seen.parent == upper.pid
        children.append(spawn.spawn(program("polite"), env=alive.env, cwd=Path("/")))
        alive.hear("polite")
        assert children[-1].is_fostered
    (launch,) = read_all(tmp_path)
    assert [known.pid for known in launch.guards][-1] == lower.pid
    for child in children[::2]:
        os.kill(child.pid, signal.SIGTERM)  # the status is told by the guard that is its parent now, or by us
        block_until_gone([child.process], within=PATIENCE)
        guard.look()
    for child in children:
        end_now(child)
    assert [child.status is None for child in children] == [False] * 6
    assert said == [ONE]
    guard._record.remove()


KILLS = [["lower", "look", "upper"], ["upper", "look", "both", "look", "lower"]]
SEEN = [tree for name, tree in ALL_TREES.items() if not name.startswith("a pid every")]


@pytest.mark.parametrize("kills", KILLS, ids=" ".join)
def test_whatever_was_seen_ends_with_the_launcher_whichever_guards_came_and_went(
    kills: list[str], tmp_path: Path, alive: Liveness
) -> None:
    """Also a daemon without a mark that none of the present guards has ever had below itself."""
    with launched(tmp_path, alive, *(program(*argv) for argv, _ in SEEN)) as running:
        alive.hear(*(name for _, heard in SEEN for name in heard))
        running.look()
        for killed in kills:
            if killed == "look":
                running.look()
                running.start(program("scrubber"))
                alive.hear("scrubber", "scrubbed")
                running.look()
            else:
                lower, upper = running.guards()
                for pid in {"lower": [lower], "upper": [upper], "both": [lower, upper]}[killed]:
                    with gone(pid):
                        os.kill(pid, signal.SIGKILL)
        with ExitStack() as guards:
            for pid in running.guards():
                guards.enter_context(gone(pid))
            running.kill()
        alive.assert_all_dead()
        assert files(tmp_path) == []


@pytest.mark.parametrize("survivor", ["", "lower"])
def test_what_guards_that_came_later_leave_is_found_by_the_record(
    survivor: str, tmp_path: Path, alive: Liveness
) -> None:
    with launched(tmp_path, alive, program("scrubber")) as running:
        alive.hear("scrubber", "scrubbed")
        os.kill(running.pid, signal.SIGSTOP)  # or it replaces the first of two before the second is killed
        for pid in {running.lower, running.upper} - {getattr(running, survivor, 0)}:
            with gone(pid):
                os.kill(pid, signal.SIGKILL)
        os.kill(running.pid, signal.SIGCONT)
        assert running.look() == [ONE if survivor else ALL]
        running.kill_with_guards()
        (ended,) = clear(tmp_path)
        assert ended.survivors == ()
        alive.assert_all_dead()
        assert files(tmp_path) == []


def test_a_machine_on_which_no_guard_can_be_forked_is_said_and_the_run_goes_on(
    guard: Guard, said: list[str], alive: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    guard.start()
    monkeypatch.undo()
    child = spawn.spawn(program("polite"), env=alive.env, cwd=Path("/"))
    alive.hear("polite")
    guard.look()
    end_now(child)
    reason = "cannot fork a process"
    assert said == [f"this run is unprotected ({reason}): its processes would survive a kill -9 of acp-launch"]


def test_a_bug_in_a_guard_is_told(guard: Guard, said: list[str]) -> None:
    guard.start()
    assert guard.guards is not None
    for _ in range(2):
        (post, *_) = guard.guards.living
        assert post.process is not None
        post.line.send(("start", [], {}, b"/", True, 3))  # no descriptors came along
        block_until_gone([post.process], within=PATIENCE)
        guard.look()
    assert said == ["a guard failed: IndexError: pop from an empty deque; another one has taken its place"]


def test_an_environment_of_megabytes_arrives_whole(guard: Guard, tmp_path: Path) -> None:
    guard.start()
    env = {f"V{number}": "é" * 50_000 for number in range(15)}
    spawned = spawn.spawn(["/bin/sh", "-c", 'printf %s "$V3$V14" | wc -c'], env=env, cwd=tmp_path)
    select.select([spawned.stdout], [], [], PATIENCE)
    assert os.read(spawned.stdout, 100).strip() == b"200000"
    end_now(spawned)


def test_the_record_is_kept_up_again_and_again(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "EVERY", 0.001)
    looks: asyncio.Queue[None]

    async def run() -> None:
        nonlocal looks
        looks = asyncio.Queue()
        monkeypatch.setattr(guard, "look", lambda: looks.put_nowait(None))
        async with asyncio.timeout(PATIENCE), loop.guard_informed(guard):
            for _ in range(5):
                await looks.get()

    guard.start()
    asyncio.run(run())


@pytest.mark.skipif(shutil.which("unshare") is None or os.getuid() != 0, reason="needs a pid namespace of its own")
def test_nothing_outlives_a_launcher_below_the_first_process_of_a_container(tmp_path: Path, alive: Liveness) -> None:
    """Whose first process reaps nothing, as `sleep infinity` does."""
    container = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "/bin/sh",
        "-c",
        'exec 3<&0; "$@" <&3 & wait; cat',
        "sh",
    ]
    with launched(tmp_path, alive, *ARGVS, wrapper=container) as running:
        alive.hear(*HEARD)
        os.kill(outer_pid(running), signal.SIGKILL)
        alive.assert_all_dead()


def outer_pid(running: Running) -> int:
    """The launcher's, as this namespace counts."""
    (launcher,) = [
        int(each.parent.name)
        for each in Path("/proc").glob("[0-9]*/cmdline")
        if str(CHILDREN / "launch.py").encode() in read(each).split(b"\0")
        and read(each).split(b"\0")[0] == sys.executable.encode()
        and pid_inside(each.parent) == running.pid
        and str(running.process.pid) in ancestors(int(each.parent.name))
    ]
    return launcher


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def pid_inside(proc: Path) -> int:
    line = next((line for line in read(proc / "status").splitlines() if line.startswith(b"NSpid")), b"NSpid 0")
    return int(line.split()[-1])


def ancestors(pid: int) -> Iterator[str]:
    while (seen := prepare.table().read(pid)) is not None:
        yield str(pid)
        pid = seen.parent
