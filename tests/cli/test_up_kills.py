"""Ring 3. Ends of a host and of what is around it, in any order (docs/up.md)."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.hosted import Host, up
from tests.cli.launcher import MARK, PATIENCE, Launcher, alive, command, kill_all

GONE = "acp-launch: the agent is gone with its host before it answered session/prompt"


def until_gone(host: Host) -> None:
    """Return once nothing of the host is left; its guards need a moment."""
    deadline = time.monotonic() + PATIENCE
    while host.alive():
        assert time.monotonic() < deadline, host.alive()
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)  # some 10 ms of other work


def agent_of(host: Host) -> int:
    (found,) = [
        each.pid
        for each in psutil.Process(host.pid).children(recursive=True)
        if "tests/agents" in " ".join(each.cmdline())
    ]
    return int(found)


def test_a_killed_host_leaves_nothing_and_its_session_goes_on_without_it(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch, is_killed=True) as host:
        with launch.start("run", "p", "hi", "-s", "work") as running:
            running.complains("execute: Long work")
            os.kill(host.pid, signal.SIGKILL)
            done = running.end()
        assert (done.code, done.err.splitlines()[-1:]) == (4, [GONE])
        until_gone(host)
    launch.profile("replayer")
    again = launch("run", "p", "hi", "-s", "work")
    assert (again.code, "session/load" in again.methods) == (0, True)


def test_a_killed_front_does_not_end_its_turn(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch) as host:
        with launch.start("run", "p", "hi", "-s", "work") as running:
            running.complains("execute: Long work")
            running.kill(signal.SIGKILL)
            running.process.wait(PATIENCE)
        while (session := host.status.sessions[0]).fronts:
            subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
        assert (session.name, session.state, host.methods[-1]) == ("work", "works", "session/prompt")


def test_a_killed_agent_ends_its_turn_and_is_started_again(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch) as host:
        with launch.start("run", "p", "hi") as running:
            running.complains("execute: Long work")
            os.kill(agent_of(host), signal.SIGKILL)
            done = running.end()
        assert done.code == 4
        assert "the agent was killed by SIGKILL" in done.err
        launch_again = launch.start("run", "p", "hi")
        with launch_again as running:
            running.complains("execute: Long work")
            running.kill(signal.SIGINT)
            assert running.end().code == 130


def test_without_its_guards_a_host_still_works_and_ends(launch: Launcher) -> None:
    launch.profile("polite")
    with up(launch) as host:
        guards = [
            each for each in psutil.Process(host.pid).children(recursive=True) if "guard" in " ".join(each.cmdline())
        ]
        for guard in guards:
            guard.kill()
        psutil.wait_procs(guards, PATIENCE)
        assert host.run("hi").out == b"You said: hi\n"


def test_up_that_is_killed_leaves_no_host(launch: Launcher) -> None:
    """The host comes up only where a command hears of it."""
    launch.scripted("script.expect('initialize')\nscript.hang()\n")
    with launch.start("up", "p") as running:
        running.hears("initialize")
        running.kill(signal.SIGKILL)
        running.process.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while alive(running.mark):
            assert time.monotonic() < deadline
            subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)


def test_ctrl_c_ends_up_and_what_it_has_started(launch: Launcher) -> None:
    launch.scripted("script.expect('initialize')\nscript.hang()\n")
    with launch.start("up", "p") as running:
        running.hears("initialize")
        running.kill(signal.SIGINT)
        assert running.end().code == 130


def test_of_two_that_come_up_at_once_one_does(launch: Launcher) -> None:
    launch.profile("polite")
    env = {**launch.env, MARK: "both"}
    both = [
        subprocess.Popen(
            command("up", "p"), env=env, cwd=launch.project, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    try:
        said = [each.communicate(timeout=PATIENCE)[1].decode() for each in both]
        assert sorted(each.returncode for each in both) == [0, 2], said
        assert launch.apart("down", "p").code == 0
        assert alive("both") == []
    finally:
        kill_all("both")


def test_a_host_whose_socket_is_gone_can_be_ended(launch: Launcher) -> None:
    launch.profile("polite")
    with up(launch) as host:
        Path(host.note["socket"]).unlink()
        done = launch.apart("run", "p", "hi")
        assert done.code == 3
        assert f"cannot reach the host of p (pid {host.pid})" in done.err


def test_other_users_cannot_reach_the_socket(launch: Launcher) -> None:
    launch.profile("polite")
    with up(launch) as host:
        path = Path(host.note["socket"])
        assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
        if os.geteuid() == 0:
            other = "os.setgid(65534); os.setuid(65534)"
            code = f"import os, socket, sys; {other}; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
            refused = subprocess.run(
                [sys.executable, "-I", "-S", "-c", code, str(path)], stderr=subprocess.PIPE, check=False
            )
            assert b"PermissionError" in refused.stderr


@pytest.mark.slow
def test_a_stopped_host_is_said_to_be_silent(launch: Launcher) -> None:
    launch.profile("polite")
    with up(launch) as host:
        os.kill(host.pid, signal.SIGSTOP)
        done = launch.apart("run", "p", "hi")
        assert done.code == 3
        assert (
            f"the host of p (pid {host.pid}) does not answer\n    fix: it may be stopped: kill -CONT {host.pid}"
            in done.err
        )


@pytest.mark.slow
def test_two_hundred_fronts_are_served(launch: Launcher) -> None:
    from acp_launch.host.door import OWN
    from acp_launch.host.wire import GREETING

    launch.profile("polite")
    with up(launch) as host:
        lines = [socket.socket(socket.AF_UNIX) for _ in range(200)]
        for line in lines:
            line.settimeout(PATIENCE)
            line.connect(host.note["socket"])
            line.sendall(GREETING + OWN + b'\n{"jsonrpc":"2.0","id":1,"method":"_acp-launch/status"}\n')
        for line in lines:
            with line, line.makefile("rb") as answers:
                assert answers.readline() == b"+\n"
                assert b'"result"' in answers.readline()
        assert host.run("hi").out == b"You said: hi\n"
