"""Containers of a launch: whatever is killed, the engine has none of them, or the user is told which may be left."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from acp_launch.checks.machine import leftovers
from acp_launch.process import containers, prepare
from acp_launch.process.containers import (
    ContainerEngine,
    LaunchContainers,
    describe_left,
    label_arguments,
    list_containers,
    may_be_left,
    remove_containers,
)
from acp_launch.process.guard_client import Guard
from acp_launch.process.leftovers import clear, launch_state, launch_tree
from acp_launch.process.records import LaunchRecord, files, read_all
from acp_launch.process.spawn import STATUS_LOST, spawn
from acp_launch.process.table import boot_id, pid_namespace
from acp_launch.process.tree import end_now
from tests.patience import PATIENCE

from .engines import SmallEngine, small_engine
from .launches import Running, gone, launched
from .liveness import Liveness, program
from .test_guard import wait_for_status
from .test_leftovers import MINE, written

STUBBORN = program("deaf", "stubborn")
FAILURE = "Error: cannot connect to the engine"
OTHER = ("--label", "acp-launch.launch=another")


@pytest.fixture
def engine(tmp_path: Path, alive: Liveness, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallEngine]:
    with small_engine(tmp_path / "engine", alive) as found:
        monkeypatch.setenv("ENGINE_STATE", str(found.state))  # as a user's variables for his engine
        yield found


def test_a_container_carries_its_launch_the_launcher_and_the_start_of_the_machine() -> None:
    assert label_arguments() == (
        *("--label", f"acp-launch.launch={prepare.launch_id()}"),
        *("--label", f"acp-launch.pid={os.getpid()}"),
        *("--label", f"acp-launch.boot={boot_id()}"),
    )


@pytest.mark.parametrize(
    ("status", "may"),
    [(0, False), (7 << 8, False), (125 << 8, True), (signal.SIGKILL, True), (STATUS_LOST, True), (None, True)],
)
def test_only_a_client_that_exits_by_itself_has_removed_its_container(status: int | None, may: bool) -> None:
    assert may_be_left(status) is may
    assert may_be_left(status, awaited=True) is (may and status != 125 << 8)


def test_the_variables_of_an_engine_are_not_printed() -> None:
    assert repr(ContainerEngine("/bin/podman", {"TOKEN": "hunter2"})) == "ContainerEngine('/bin/podman')"


def test_what_is_left_is_said_with_a_command_that_removes_it() -> None:
    ids = ("0123456789abcdef", "fedcba9876543210")
    assert describe_left(LaunchContainers(left=ids, why="it is slow"), "/bin/podman", MINE) == (
        "left in /bin/podman: 0123456789ab, fedcba987654; to remove it: acp-launch reap, or"
        " /bin/podman rm -f 0123456789ab fedcba987654"
    )
    assert describe_left(LaunchContainers(why="it is down"), "/bin/podman", "ab12") == (
        "a container may be left, as /bin/podman fails (it is down); to remove it: acp-launch reap, or"
        " /bin/podman rm -f $(/bin/podman ps -aq --filter label=acp-launch.launch=ab12)"
    )


def test_all_containers_of_the_launch_are_removed_and_no_other(engine: SmallEngine, alive: Liveness) -> None:
    clients = [engine.run(*STUBBORN), engine.run(*STUBBORN)]
    alive.hear("stubborn", "stubborn")
    other = engine.run(*program("polite"), label=OTHER)
    alive.hear("polite")
    ids = engine.containers()
    assert len(ids) == 2
    assert list_containers(engine.engine, prepare.launch_id()) == LaunchContainers(left=tuple(ids))
    assert remove_containers(engine.engine, prepare.launch_id()) == LaunchContainers(removed=tuple(ids))
    for client in clients:
        client.communicate(timeout=PATIENCE)
        assert client.returncode == 128 + signal.SIGKILL
    assert other.poll() is None
    other.communicate(timeout=PATIENCE)


def test_a_container_that_was_only_created_is_removed(engine: SmallEngine) -> None:
    engine.answers("created")
    client = engine.run(*STUBBORN)
    while not engine.containers():
        os.sched_yield()
    client.kill()
    client.communicate(timeout=PATIENCE)
    assert len(remove_containers(engine.engine, prepare.launch_id()).removed) == 1
    assert engine.containers() == []


@pytest.mark.parametrize(("mode", "why"), [("down", FAILURE), ("deaf", "it did not answer within 0.3 s")])
def test_an_engine_that_does_not_answer_is_given_up_and_says_why(
    mode: str, why: str, engine: SmallEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "deaf":
        monkeypatch.setattr(containers, "REMOVE_TIMEOUT", 0.3)
    engine.answers(mode)
    for ask in (list_containers, remove_containers):
        assert ask(engine.engine, "x") == LaunchContainers(why=why)


def test_an_engine_that_is_not_there_any_more_says_so(tmp_path: Path) -> None:
    found = remove_containers(ContainerEngine(str(tmp_path / "podman"), {}), "x")
    assert found == LaunchContainers(why="it could not be started: No such file or directory")


@pytest.fixture
def running(tmp_path: Path, alive: Liveness, engine: SmallEngine) -> Iterator[Running]:
    """A launch whose agent is in a container and deaf to everything."""
    with launched(tmp_path, alive, STUBBORN, env={"ENGINE": str(engine.program), **engine.env}) as found:
        alive.hear("stubborn")
        yield found


def count(engine: SmallEngine, launch: str) -> int:
    return len(engine.call("ps", "-a", "--filter", f"label=acp-launch.launch={launch}").split())


ORDERS = {
    "the launcher": ["launcher"],
    "the lower guard, later the launcher": ["lower", "", "launcher"],
    "the upper guard, later the launcher": ["upper", "", "launcher"],
    "both guards, later the launcher": ["lower", "upper", "", "launcher"],
    "the lower guard and the launcher": ["lower", "launcher"],
    "the upper guard and the launcher": ["upper", "launcher"],
    "the launcher and the lower guard": ["launcher", "lower"],
    "the launcher and the upper guard": ["launcher", "upper"],
    "the client and the launcher": ["client", "launcher"],
    "the launcher and the client": ["launcher", "client"],
    "the client, a guard and the launcher": ["client", "upper", "launcher"],
}


@pytest.mark.sample(0, 6)
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_killed_leaves_no_container(
    order: str, running: Running, tmp_path: Path, alive: Liveness, engine: SmallEngine
) -> None:
    """An empty name waits until the launcher has noticed."""
    (launch,) = read_all(tmp_path)
    assert (launch.engine, [each.pid for each in launch.clients]) == (str(engine.program), running.children)
    assert count(engine, launch.id) == 1
    pids = {"launcher": running.pid, "lower": running.lower, "upper": running.upper, "client": running.children[0]}
    *before, last = ORDERS[order][: ORDERS[order].index("launcher") + 1]
    for name in before:
        if name:
            with gone(pids[name]):
                os.kill(pids[name], signal.SIGKILL)
        else:
            running.look()
    after = ORDERS[order][len(before) + 1 :]
    with ExitStack() as waits:
        for guard in (
            running.guards() if "" in before else {running.lower, running.upper} - {pids[name] for name in before}
        ):
            waits.enter_context(gone(guard))
        for name in (last, *after):
            os.kill(pids[name], signal.SIGKILL)
        running.process.wait(PATIENCE)
    alive.assert_all_dead()
    assert count(engine, launch.id) == 0
    assert files(tmp_path) == []


def test_the_next_start_removes_what_all_three_leave(running: Running, tmp_path: Path, alive: Liveness) -> None:
    running.kill_with_guards()
    (launch,) = read_all(tmp_path)
    assert launch_state(launch) == "dead"
    tree = launch_tree(launch)
    assert tree is not None
    (left,) = tree.containers.left
    (ended,) = clear(tmp_path)
    assert ended.containers == LaunchContainers(removed=(left,))
    alive.assert_all_dead()
    assert files(tmp_path) == []


@pytest.mark.parametrize("boot", ["this", "an earlier"])
def test_the_record_stays_while_the_engine_does_not_answer(
    boot: str, tmp_path: Path, engine: SmallEngine, alive: Liveness
) -> None:
    """Of an earlier start of the machine, too: engines keep containers."""
    where = None if boot == "this" else f"another\t{pid_namespace()}"
    file = written(tmp_path, f"engine\t{engine.program}", where=where)
    client = engine.run(*STUBBORN, label=("--label", f"acp-launch.launch={MINE}"))
    alive.hear("stubborn")
    engine.answers("down")
    failed = LaunchContainers(why=FAILURE)
    (launch,) = read_all(tmp_path)
    for _ in range(2):
        tree = launch_tree(launch)
        assert tree is not None
        assert tree.containers == failed
        assert [(each.engine, each.containers) for each in clear(tmp_path)] == [(str(engine.program), failed)]
        assert file.exists()
        (check,) = leftovers(tmp_path)
        assert check.text == f"after a run of p: {describe_left(failed, str(engine.program), MINE)}"
    engine.answers()
    (check,) = leftovers(tmp_path)
    assert re.fullmatch(r"a run of p left behind container [0-9a-f]{12}", check.text)
    (ended,) = clear(tmp_path)
    assert len(ended.containers.removed) == 1
    assert (files(tmp_path), launch_tree(launch)) == ([], None)
    client.communicate(timeout=PATIENCE)


def test_an_engine_that_fails_is_asked_once_for_all_records(tmp_path: Path, engine: SmallEngine) -> None:
    engine.answers("down")
    for number in range(3):
        written(tmp_path, f"engine\t{engine.program}", launch=f"{number}" * 16)
    assert len(clear(tmp_path)) == 3
    assert engine.calls() == ["ps"]


@pytest.mark.parametrize("program", ["podman", "./podman", ""])
def test_a_record_whose_engine_has_no_absolute_path_starts_nothing(program: str, tmp_path: Path) -> None:
    written(tmp_path, f"engine\t{program}")
    assert clear(tmp_path) == []
    assert files(tmp_path) == []


def test_a_client_that_exits_by_itself_costs_no_call_of_the_engine(tmp_path: Path, engine: SmallEngine) -> None:
    said: list[str] = []
    guard = Guard(LaunchRecord(tmp_path, said.append), said.append)
    guard.start()
    guard.use_engine(engine.engine)
    argv = [str(engine.program), "run", "--rm", *label_arguments(), "image", "/bin/sh", "-c", "exit 3"]
    client = spawn(argv, env=engine.env, cwd=Path("/"), is_client=True)
    wait_for_status(client)
    end_now(client)
    guard.dismiss()
    assert (client.status, engine.calls(), said) == (3 << 8, ["run"], [])


@pytest.mark.parametrize("mode", ["", "down"])
def test_the_container_of_a_client_that_was_killed_is_removed_at_the_end_or_told(
    mode: str, running: Running, tmp_path: Path, alive: Liveness, engine: SmallEngine
) -> None:
    (launch,) = read_all(tmp_path)
    engine.answers(mode)
    running.tell("end")
    said = running.hears() if mode else ""
    assert running.process.wait(PATIENCE) == 0
    engine.answers()
    assert count(engine, launch.id) == len(files(tmp_path)) == (1 if mode else 0)
    if mode:
        assert said == describe_left(LaunchContainers(why=FAILURE), str(engine.program), launch.id)
        assert launch_state(launch) == "dead"
        clear(tmp_path)
    alive.assert_all_dead()
