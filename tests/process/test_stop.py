"""The ladder, over trees of every temper: nothing survives, every wait is bounded."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from acp_launch.process import prepare
from acp_launch.process.child import Child, attach
from acp_launch.process.program import stop
from acp_launch.process.spawn import spawn
from acp_launch.process.table import Process
from acp_launch.process.tree import Exit, StopOutcome, end_all_now, end_now, send
from tests.looped import looped
from tests.patience import PATIENCE

from .liveness import CHILDREN, TREES, Liveness, program
from .test_child import attached

SHORT = 0.05  # seconds of grace, where the grace has to pass
LONG = 10.0  # where it must not


RUNGS = ["stdin closed", "SIGTERM", "SIGKILL"]
WRAPPER = ["/bin/sh", "-c", f"sh -c {shlex.quote(shlex.join(program('polite')) + '; true')}; true"]
STEPS = {"polite": 1, "follow": 1, "deaf": 2, "frozen": 2}  # of the ladder; all for any other temper


def stopping(
    argv: list[str], alive: Liveness, heard: list[str], use: Callable[[Child], Awaitable[StopOutcome]]
) -> tuple[StopOutcome, Child]:
    """Start, wait for the hellos, `use`, and see everybody dead before the context is left."""

    async def run() -> tuple[StopOutcome, Child]:
        async with attached(argv, env=alive.env) as child:
            alive.hear(*heard)
            outcome = await use(child)
            alive.assert_all_dead()
        return outcome, child

    return asyncio.run(run())


def names(outcome: StopOutcome) -> list[str]:
    return [*outcome.steps]


@pytest.mark.promise("kill")
@pytest.mark.sample(3)
@pytest.mark.parametrize("temper", TREES)
def test_no_tree_survives_and_no_rung_is_taken_that_is_not_needed(temper: str, alive: Liveness) -> None:
    """C-13."""
    argv, heard = TREES[temper]
    steps = RUNGS[: STEPS.get(temper, 3)]
    grace = LONG if steps == ["stdin closed"] else SHORT
    outcome, _ = stopping(program(*argv), alive, heard, lambda child: stop(child, grace=grace))
    assert outcome.survivors == ()
    assert outcome.exit is not None
    assert names(outcome) == steps


def test_wrappers_end_with_what_they_wrap(alive: Liveness) -> None:
    outcome, _ = stopping(WRAPPER, alive, ["polite"], lambda child: stop(child, grace=LONG))
    assert (outcome.survivors, names(outcome)) == ((), ["stdin closed"])


@pytest.mark.parametrize("temper", ["stubborn", "frozen", "respawn"])
def test_in_a_hurry_every_tree_is_killed_at_once(temper: str, alive: Liveness) -> None:
    argv, heard = TREES[temper]

    async def use(child: Child) -> StopOutcome:
        child.hurry.set()
        return await stop(child, grace=LONG)

    outcome, _ = stopping(program(*argv), alive, heard, use)
    assert outcome.survivors == ()
    assert "SIGTERM" not in names(outcome)


def test_a_hurry_that_comes_later_cuts_the_grace_short(alive: Liveness) -> None:
    async def use(child: Child) -> StopOutcome:
        hurry = asyncio.Event()
        stopping = asyncio.create_task(stop(child, grace=LONG, hurry=hurry))
        with pytest.raises(BrokenPipeError):  # the first rung has been taken
            await child.write(bytes(1_000_000))
        hurry.set()
        return await stopping

    outcome, _ = stopping(program("deaf", "stubborn"), alive, ["stubborn"], use)
    assert names(outcome) == ["stdin closed", "SIGKILL"]
    assert outcome.exit == Exit(None, signal.SIGKILL)


def test_stopping_twice_at_once_or_later_is_stopping_once(alive: Liveness) -> None:
    async def use(child: Child) -> StopOutcome:
        first, second = await asyncio.gather(stop(child, grace=LONG), stop(child, grace=LONG))
        assert first is second is await stop(child)
        return first

    outcome, _ = stopping(program("polite"), alive, ["polite"], use)
    assert names(outcome) == ["stdin closed"]


@looped
async def test_stopping_after_the_context_has_ended_it_says_how_it_ended(alive: Liveness) -> None:
    async with attached(program("deaf"), env=alive.env) as child:
        alive.hear("deaf")
    assert await stop(child) == StopOutcome(Exit(None, signal.SIGKILL), (), ())


def test_a_child_that_is_dead_already_is_stopped_without_any_wait(alive: Liveness) -> None:
    async def use(child: Child) -> StopOutcome:
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
        return await stop(child, grace=LONG)

    outcome, _ = stopping(program("deaf"), alive, ["deaf"], use)
    assert (names(outcome), outcome.exit) == (["stdin closed"], Exit(None, signal.SIGKILL))


def test_a_writer_stuck_in_a_full_pipe_does_not_hold_up_the_ladder(alive: Liveness) -> None:
    """C-13: bounded even if the agent never reads."""

    async def use(child: Child) -> StopOutcome:
        writing = asyncio.create_task(child.write(bytes(1_000_000)))
        await asyncio.sleep(0)
        outcome = await stop(child, grace=SHORT)
        with pytest.raises(BrokenPipeError):
            await writing
        return outcome

    outcome, _ = stopping(program("deaf", "stubborn"), alive, ["stubborn"], use)
    assert outcome.survivors == ()


@looped
async def test_a_child_stuck_in_its_own_full_output_can_still_end_politely() -> None:
    argv = ["/bin/sh", "-c", "head -c 1000000 /dev/zero; exit 7"]
    async with attached(argv, env={"PATH": os.environ["PATH"]}) as child:
        outcome = await stop(child, grace=LONG)
    assert (names(outcome), outcome.exit) == (["stdin closed"], Exit(7, None))


@looped
async def test_a_reader_gets_the_last_output_while_it_is_being_stopped() -> None:
    argv = ["/bin/sh", "-c", "cat >/dev/null; echo goodbye"]
    async with attached(argv, env={"PATH": os.environ["PATH"]}) as child:
        reading = asyncio.create_task(child.read())
        await asyncio.sleep(0)
        await stop(child, grace=LONG)
        assert await reading == b"goodbye\n"


@looped
async def test_cancelling_the_caller_does_not_leave_the_ladder_half_climbed(alive: Liveness) -> None:
    async with attached(program("deaf", "stubborn"), env=alive.env) as child:
        alive.hear("stubborn")
        stopping = asyncio.create_task(stop(child, grace=LONG))
        with pytest.raises(BrokenPipeError):
            await child.write(bytes(1_000_000))
        stopping.cancel()
    alive.assert_all_dead()
    assert child.ending is not None
    assert names(child.ending.result()) == ["stdin closed", "SIGKILL"]


@looped
async def test_each_of_a_group_gets_one_term_because_many_take_the_second_as_now(alive: Liveness) -> None:
    counting = (
        "trap 'echo TERM' TERM; echo ready; while read line; do :; done; while kill -0 $$; do sleep 0.01 & wait; done"
    )
    async with attached(["/bin/sh", "-c", counting], env=alive.env) as child:
        output = await child.read()
        stopping = asyncio.create_task(stop(child, grace=0.3))
        while chunk := await child.read():
            output += chunk
        await stopping
    assert output == b"ready\nTERM\n"


@looped
async def test_stopping_one_leaves_another_ones_tree_alone_and_the_last_takes_the_orphans(alive: Liveness) -> None:
    async with asyncio.timeout(PATIENCE):
        first = spawn(program("forker", "daemon"), env=alive.env, cwd=Path("/"))
        alive.hear("forker", "daemon")
        second = spawn(program("polite"), env=alive.env, cwd=Path("/"))
        async with attach(first) as forker, attach(second) as polite:
            alive.hear("polite")
            assert names(await stop(polite, grace=LONG)) == ["stdin closed"]
            assert forker.exit is None
            assert names(await stop(forker, grace=SHORT)) == ["stdin closed", "SIGTERM", "SIGKILL"]
            alive.assert_all_dead()


@pytest.mark.parametrize("temper", ["frozen", "setsid", "respawn", "hold"])
def test_without_an_event_loop_the_whole_tree_is_killed_reaped_and_closed(temper: str, alive: Liveness) -> None:
    argv, heard = TREES[temper]
    spawned = spawn(program(*argv), env=alive.env, cwd=Path("/"))
    alive.hear(*heard)
    assert end_now(spawned) == []
    alive.assert_all_dead()
    assert (spawned.stdin, spawned.stdout, spawned.stderr) == (-1, -1, -1)
    assert spawned.status is not None
    assert end_now(spawned) == []


def test_everything_that_was_spawned_can_be_ended_in_one_go(alive: Liveness) -> None:
    for _ in range(3):
        spawn(program("deaf", "stubborn"), env=alive.env, cwd=Path("/"))
    alive.hear(*["stubborn"] * 3)
    end_all_now()
    alive.assert_all_dead()


@pytest.mark.parametrize(
    ("how", "temper"), [("now", "respawn"), ("stop", "daemon"), ("cancel", "setsid"), ("now", "hold")]
)
def test_a_launcher_of_its_own_is_left_without_children_or_descriptors(how: str, temper: str, alive: Liveness) -> None:
    """In a process of its own, where we are the only subreaper and the only parent."""
    with subprocess.Popen(
        [sys.executable, str(CHILDREN / "driver.py"), how, *program("forker", temper)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **alive.env},
    ) as driver:
        alive.hear(*TREES[temper][1])
        output, _ = driver.communicate("go\ngo\n", timeout=PATIENCE)
    alive.assert_all_dead()
    left = json.loads(output)
    assert left["children"] == []
    assert left["psutil"] is False
    assert left["asyncio"] is (how != "now")
    assert left["descriptors_leaked"] == 0


def test_ctrl_c_in_the_middle_leaves_nothing(alive: Liveness) -> None:
    with subprocess.Popen(
        [sys.executable, str(CHILDREN / "driver.py"), "now", *program("forker", "respawn")],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **alive.env},
    ) as driver:
        alive.hear("forker", "supervisor", "worker")
        driver.send_signal(signal.SIGINT)
        _, errors = driver.communicate(timeout=PATIENCE)
    assert errors.strip().endswith(b"KeyboardInterrupt")
    alive.assert_all_dead()


def test_a_recycled_pid_is_never_signalled(alive: Liveness) -> None:
    spawned = spawn(program("polite"), env=alive.env, cwd=Path("/"))
    alive.hear("polite")
    now = prepare.table().read(spawned.pid)
    assert now is not None
    earlier = Process(now.pid, now.started - 1, now.parent, now.group, now.session)
    assert earlier != now
    assert not send(earlier, signal.SIGKILL)
    assert spawned.poll() is None
    assert send(now, signal.SIGKILL)
    alive.assert_all_dead()
    end_now(spawned)
    assert spawned.status == signal.SIGKILL
