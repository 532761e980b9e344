"""One server after another, with real processes: what is told and when, and that nothing is left whatever happens."""

import asyncio
import os
import shlex
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from acp_launch.document.scalars import Duration
from acp_launch.errors import Upgraded
from acp_launch.process import prepare
from acp_launch.process.child import Child
from acp_launch.process.lifecycle import Change
from acp_launch.process.program import LocalProgram
from acp_launch.process.table import Process
from acp_launch.process.tree import StopOutcome
from acp_launch.profile.model import Backoff, Restart

from .liveness import TREES, Liveness, program
from .supervising import HandClock, Watched, alive_of, already_set, kill, sh, supervised

CAT = ["/bin/cat"]
AT_ONCE = Backoff(initial=Duration(0.001), max=Duration(0.001))
NEVER = Restart(policy="never")


@supervised
async def test_a_killed_server_is_told_lost_and_started_again_after_its_backoff_in_this_order() -> None:
    clock = HandClock()
    watched = Watched(sh("echo first >&2; echo last words >&2; exec cat"), clock=clock)
    async with watched.running():
        await watched.until("started")
        first = watched.supervisor.pid
        clock.move(0.5)
        watched.supervisor.answered()
        watched.supervisor.ready()
        clock.move(2.5)
        kill(watched)
        await watched.until("lost: resting")
        assert watched.supervisor.pid is None
        clock.move(0.19)
        assert watched.state == "resting"
        clock.move(0.01)
        await watched.until("started", 2)
        second = watched.supervisor.pid
        assert second != first
        assert watched.supervisor.restarts == 1
        await watched.children[1].write(b"are you there\n")
        assert await watched.children[1].read() == b"are you there\n"
        assert not watched.children[1].hurry.is_set(), "the end of the backoff is no call to end the next process"
        await watched.supervisor.stop()
    assert watched.story == [
        "starting", "started", "ready",
        "resting", "lost: resting", "starting", "started",
        "stopping", "ending", "stopped", "lost: stopped",
    ]  # fmt: skip
    assert watched.changes[:4] == [
        Change(server="github", state="starting", pid=first, budget=2),
        Change(server="github", state="ready", pid=first, budget=5, after=0.5),
        Change(
            server="github",
            state="resting",
            restarts=1,
            budget=5,
            after=3,
            exit="was killed by SIGKILL",
            retry=0.2,
            detail=watched.changes[2].detail,
        ),
        Change(server="github", state="starting", pid=second, restarts=1, budget=5),
    ]
    assert watched.changes[4].pid == second


@supervised
async def test_the_last_ten_lines_of_stderr_go_with_an_end_and_the_log_has_everything() -> None:
    logged: list[bytes] = []
    watched = Watched(sh("for n in $(seq 12); do echo line $n >&2; done; exit 3"), restart=NEVER, log=logged.append)
    async with watched.running():
        pass
    assert watched.last == Change(
        server="github",
        state="failed",
        budget=2,
        after=watched.last.after,
        exit="exited with status 3",
        reason="its restart policy is never",
        detail=tuple(f"line {number}" for number in range(3, 13)),
    )
    assert b"".join(logged).splitlines() == [f"line {number}".encode() for number in range(1, 13)]


@supervised
async def test_what_a_dead_process_had_written_can_still_be_read_when_it_is_lost() -> None:
    watched = Watched(sh("echo the last answer; exit 1"), restart=NEVER)
    read: list[bytes] = []
    watched.on_lost = lambda change: read.append(os.read(watched.children[0].spawned.stdout, 100))
    async with watched.running():
        pass
    assert read == [b"the last answer\n"]


@supervised
async def test_a_program_that_cannot_be_started_is_tried_three_times_and_says_why(tmp_path: Path) -> None:
    clock = HandClock()
    command = tmp_path / "server"
    command.write_text("#!/no/such/interpreter\n")
    command.chmod(0o755)
    watched = Watched([str(command)], clock=clock, required=False)
    async with watched.running():
        for times, pause in enumerate([0.2, 0.4], start=1):
            await watched.until("lost: resting", times)
            assert watched.last.retry == pytest.approx(pause)
            clock.move(pause)
    assert watched.story == [*["resting", "lost: resting"] * 2, "failed", "lost: failed"]
    assert watched.last == Change(
        server="github",
        state="failed",
        required=False,
        restarts=2,
        budget=2,
        reason=f"{command} could not be started: its interpreter, or the loader it was built for, does not exist; "
        "install a build for this system",
    )


@supervised
async def test_a_program_that_cannot_be_started_since_an_upgrade_is_not_tried_again() -> None:
    class Old:
        name, may_fetch = "github", False

        def begin(self, *, restarts: int, log: Callable[[bytes], None] | None) -> AbstractAsyncContextManager[Child]:
            raise Upgraded("cannot be started: acp-launch was upgraded", fix="start the launch again")

    watched = Watched(Old())
    async with watched.running():
        await watched.until("lost: failed")
        assert watched.last == Change(
            server="github",
            state="failed",
            budget=2,
            after=watched.last.after,
            exit="cannot be started: acp-launch was upgraded",
            reason="start the launch again",
        )
    assert watched.story == ["failed", "lost: failed"]


@supervised
async def test_a_process_that_answers_its_handshake_too_late_is_killed_and_the_next_has_the_same_time(
    alive: Liveness,
) -> None:
    clock = HandClock()
    watched = Watched(program("deaf", "stubborn"), env=alive.env, clock=clock)
    async with watched.running():
        await watched.until("started")
        clock.move(100)
        assert watched.state == "starting", "it is not awaited"
        watched.supervisor.expect()
        clock.move(29.9)
        assert clock.rings_in == pytest.approx([0.1])
        clock.move(0.1)
        await watched.until("lost: resting")
        assert (watched.last.exit, watched.last.reason) == ("did not answer within 30 s", None)
        clock.move(0.2)
        await watched.until("started", 2)
        assert clock.rings_in == [30]
        watched.supervisor.unexpect()
        assert clock.rings_in == []
        watched.supervisor.expect()
        watched.supervisor.ready()
        assert clock.rings_in == []
        await watched.supervisor.stop(already_set())
    assert clock.rings_in == []


@supervised
async def test_a_condemned_process_is_killed_with_its_tree_and_started_again(alive: Liveness) -> None:
    watched = Watched(program("forker", "setsid"), env=alive.env, restart=Restart(backoff=AT_ONCE))
    async with watched.running():
        await asyncio.to_thread(alive.hear, "forker", "loner")
        watched.supervisor.ready()
        watched.supervisor.condemn("is wedged")
        watched.supervisor.condemn("is slow")
        assert not watched.supervisor.life.is_up
        await watched.until("started", 2)
        assert watched.changes[2].exit == "is wedged"
        await watched.supervisor.stop(already_set())
    alive.assert_all_dead()


@supervised
async def test_a_dead_wrapper_is_told_at_once_although_its_child_holds_the_pipes(alive: Liveness) -> None:
    script = shlex.join(program("deaf", "stubborn"))
    watched = Watched(sh(f"{script}; true"), env=alive.env, restart=NEVER)
    grandchildren: list[int] = []
    watched.on_lost = lambda change: grandchildren.extend(alive_of(alive))
    async with watched.running():
        await asyncio.to_thread(alive.hear, "stubborn")
        kill(watched)
    assert watched.last.exit == "was killed by SIGKILL"
    assert grandchildren == [1], "it was told while the grandchild lived"
    alive.assert_all_dead()


@pytest.mark.parametrize("temper", ["setsid", "daemon", "respawn"])
@supervised
async def test_the_next_process_is_started_when_the_tree_of_the_one_before_is_dead(
    temper: str, alive: Liveness
) -> None:
    _, heard = TREES[temper]
    watched = Watched(program("forker", temper), env=alive.env, restart=Restart(backoff=AT_ONCE))
    found: list[list[int]] = []
    watched.on_started = lambda child: found.append(alive_of(alive))
    async with watched.running():
        await asyncio.to_thread(alive.hear, *heard)
        kill(watched)
        await watched.until("started", 2)
        await watched.supervisor.stop(already_set())
    assert found == [[], [0] * len(heard)]
    alive.assert_all_dead()


@supervised
async def test_one_start_serves_all_who_wait_for_it() -> None:
    watched = Watched(CAT)
    early = [asyncio.create_task(watched.supervisor.up()) for _ in range(5)]
    async with watched.running():
        await watched.until("started")
        assert not any(wait.done() for wait in early)
        watched.supervisor.answered()
        watched.supervisor.answered()
        assert await asyncio.gather(*early) == [True] * 5
        assert await watched.supervisor.up()
        assert watched.supervisor.has_answered
        kill(watched)
        await watched.until("lost: resting")
        assert watched.supervisor.has_answered
        late = asyncio.create_task(watched.supervisor.up())
        await watched.until("started", 2)
        assert not late.done(), "the new process has said nothing yet"
        watched.supervisor.ready()
        assert await late
        await watched.supervisor.stop()
    assert not await watched.supervisor.up()


@supervised
async def test_an_answer_just_before_the_end_does_not_count_for_who_waits() -> None:
    watched = Watched(CAT, restart=Restart(backoff=AT_ONCE))
    wait = asyncio.create_task(watched.supervisor.up())
    async with watched.running():
        await watched.until("started")
        watched.supervisor.answered()
        watched.supervisor.condemn("is wedged")
        await watched.until("started", 2)
        assert not wait.done()
        watched.supervisor.answered()
        assert await wait
        await watched.supervisor.stop()


@pytest.mark.parametrize("status", [0, 1])
@supervised
async def test_who_waits_for_a_server_that_ends_for_good_is_told_so(status: int) -> None:
    watched = Watched(sh(f"exit {status}"), restart=NEVER)
    waits = [asyncio.create_task(watched.supervisor.up()) for _ in range(2)]
    async with watched.running():
        assert await asyncio.gather(*waits) == [False, False]
    assert not watched.supervisor.has_answered


@supervised
async def test_no_process_is_started_beside_one_that_cannot_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uninterruptible sleep, which no test can order: here the ladder only says that something survived."""

    async def stop_in_vain(child: Child, *, grace: float) -> StopOutcome:
        return StopOutcome(child.exit, (), (Process(7, 1.0, 1, 7, 7), Process(8, 1.0, 1, 7, 7)))

    monkeypatch.setattr(Child, "stop", stop_in_vain)
    watched = Watched(CAT)
    async with watched.running():
        await watched.until("started")
        watched.supervisor.condemn("is wedged")
    assert watched.story == ["starting", "started", "ending", "resting", "lost: resting", "failed", "lost: failed"]
    assert (watched.last.exit, watched.last.reason, watched.last.retry) == (
        "is wedged",
        "cannot kill processes that it left behind: 7, 8",
        None,
    )


@supervised
async def test_a_watcher_that_breaks_its_promise_ends_the_run_and_leaves_nothing(alive: Liveness) -> None:
    watched = Watched(program("deaf", "stubborn"), env=alive.env)

    def broken(child: Child) -> None:
        raise RuntimeError("a bug")

    watched.on_started = broken
    with pytest.raises(RuntimeError, match=r"^a bug$"):
        await watched.supervisor.run()
    assert watched.story == ["starting", "started", "stopped", "lost: stopped"]
    alive.assert_all_dead()


@supervised
async def test_a_hundred_restarts_leave_no_process_and_no_descriptor() -> None:
    before = prepare.table().children(os.getpid())  # others' tests may have left some that are dead
    watched = Watched(sh("exit 1"), restart=Restart(max=100, backoff=AT_ONCE))
    watched.on_started = lambda child: watched.supervisor.answered()
    async with watched.running():
        pass
    assert watched.supervisor.restarts == 100
    assert prepare.table().children(os.getpid()) == before


def test_a_program_shows_nothing_but_its_name() -> None:
    secretive = LocalProgram("github", ("/bin/server", "--token", "hunter2"), {"TOKEN": "hunter2"}, Path("/hunter2"))
    assert repr(secretive) == str(secretive) == "LocalProgram('github')"
    assert "hunter2" not in pretty_repr(secretive)
