"""Ring 3. Ends of a host and of what is around it, in any order (docs/up.md)."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.hosted import Host, up
from tests.cli.launcher import MARK, ROOT, Launcher, alive, command, kill_all
from tests.cli.test_reload import called, said, server
from tests.patience import PATIENCE, until

GONE = "acp-launch: the agent is gone with its host before it answered session/prompt"


def until_gone(host: Host) -> None:
    """Return once nothing of the host is left; its guards need a moment."""
    until(lambda: not host.alive())


def agent_of(host: Host) -> int:
    (found,) = [
        each.pid
        for each in psutil.Process(host.pid).children(recursive=True)
        if "tests/agents" in " ".join(each.cmdline())
    ]
    return int(found)


@pytest.mark.promise("kill")
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
        until(lambda: not host.status.sessions[0].fronts)
        (session,) = host.status.sessions
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


def test_without_its_guards_a_turn_goes_on_and_the_host_works_and_ends(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch) as host, launch.start("run", "p", "hi", "-s", "work") as running:
        running.complains("execute: Long work")
        guards = [
            each for each in psutil.Process(host.pid).children(recursive=True) if "guard" in " ".join(each.cmdline())
        ]
        assert len(guards) == 2
        for guard in guards:
            guard.kill()
        psutil.wait_procs(guards, PATIENCE)
        (session,) = host.status.sessions
        assert session.state == "works"
        running.kill(signal.SIGINT)
        assert (running.end().code, host.methods[-1]) == (130, "session/cancel")


def pid_of_server(host: Host) -> int:
    """Ask the server for it, in the session `work`; a call that finds no process waits for the next one."""
    done = host.run("call one pid", "-s", "work", "-o", "quiet")
    answer = json.loads(json.loads(done.out)["line"])
    return int(answer["result"]["content"][0]["text"]) if "result" in answer else pid_of_server(host)


@pytest.mark.parametrize("victim", ["host", "agent"])
def test_what_is_killed_while_it_comes_up_ends_up(launch: Launcher, victim: str) -> None:
    launch.scripted("script.expect('initialize')\nscript.hang()\n")
    with launch.start("up", "p", apart=True) as running:
        running.hears("initialize")
        (host,) = psutil.Process(running.process.pid).children()
        every = host.children(recursive=True)
        (agent,) = [each for each in every if str(launch.project / "agent.py") in each.cmdline()]
        (host if victim == "host" else agent).kill()
        assert running.process.wait(PATIENCE) == (137 if victim == "host" else 4)
        until(lambda: not alive(running.mark))
        done = running.end()
    if victim == "agent":
        assert "the agent was killed by SIGKILL" in done.err
    assert launch.forked("down", "--all").code == 0


def test_up_that_is_killed_leaves_no_host(launch: Launcher) -> None:
    """The host comes up only where a command hears of it."""
    launch.scripted("script.expect('initialize')\nscript.hang()\n")
    with launch.start("up", "p", apart=True) as running:
        running.hears("initialize")
        running.kill(signal.SIGKILL)
        running.process.wait(PATIENCE)
        until(lambda: not alive(running.mark))


def test_ctrl_c_ends_up_and_what_it_has_started(launch: Launcher) -> None:
    launch.scripted("script.expect('initialize')\nscript.hang()\n")
    with launch.start("up", "p", apart=True) as running:
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
        assert launch.forked("down", "p").code == 0
        assert alive("both") == []
    finally:
        kill_all("both")


def sockets(host: Host) -> list[str]:
    """The sockets of the host: for fronts, and for the shims of its agent."""
    return [path for each in psutil.Process(host.pid).net_connections("unix") if (path := str(each.laddr))[:1] == "/"]


def test_a_host_whose_socket_was_removed_makes_it_again(launch: Launcher) -> None:
    """The last logout does that, the end of a batch job, and what cleans /tmp; the servers of sessions are reached."""
    launch.profile("mcp_client", mcp_servers={"polite": server()})
    with up(launch) as host:
        for place in {Path(path).parent for path in sockets(host)}:
            shutil.rmtree(place)
        assert said(called(host, "polite", "state"))


def test_a_host_whose_socket_cannot_be_made_again_goes_on_until_it_can(launch: Launcher) -> None:
    launch.profile("polite")
    with up(launch) as host:
        place = Path(host.note["socket"]).parent
        shutil.rmtree(place)
        place.write_text("")
        done = launch.forked("run", "p", "hi", ACP_LAUNCH_TEST_PATIENCE="0.1")
        assert done.code == 3
        assert (
            f"cannot reach the host of p (pid {host.pid}), which goes on: {place / 'seat'} was removed\n"
            f"    fix: make {place.parent} again, as a login does with a runtime directory; "
        ) in done.err
        place.unlink()
        assert host.run("hi").out == b"You said: hi\n"


# Becomes another user, sends a greeting, and prints what the other side says to it until it closes the connection.
OTHER = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
line.sendall(sys.argv[2].encode() + b"\\n")
print(line.recv(100))
"""


CLOSED = (b"BrokenPipeError", b"ConnectionResetError")  # before it had said all


def test_other_users_cannot_reach_the_socket(launch: Launcher) -> None:
    """Nor are they served where they can: the kernel says who connects."""
    launch.profile("polite")
    with up(launch) as host:
        path, hello = Path(host.note["socket"]), "hello"
        assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
        if os.geteuid() != 0:
            return
        asking = [sys.executable, "-I", "-S", "-c", OTHER, str(path), hello]
        refused = subprocess.run(asking, capture_output=True, check=False)
        assert b"PermissionError" in refused.stderr
        for opened in (path, *path.parents):
            if Path("/tmp") in opened.parents:
                opened.chmod(0o777)
        refused = subprocess.run(asking, capture_output=True, check=False, timeout=PATIENCE)
        assert refused.stdout == b"b''\n" or any(word in refused.stderr for word in CLOSED), refused
        assert host.run("hi").out == b"You said: hi\n"


def test_a_stopped_host_is_said_to_be_silent(launch: Launcher) -> None:
    launch.profile("polite")
    with up(launch) as host:
        os.kill(host.pid, signal.SIGSTOP)
        done = launch.forked("run", "p", "hi", ACP_LAUNCH_TEST_PATIENCE="0.2")
        assert done.code == 3
        assert (
            f"the host of p (pid {host.pid}) does not answer\n    fix: it may be stopped: kill -CONT {host.pid}"
            in done.err
        )


def test_a_host_that_is_stopped_in_a_turn_is_named_and_the_agent_is_not_blamed(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch) as host:
        named = f"the host of p (pid {host.pid}) is stopped (SIGSTOP)"
        with launch.start("run", "p", "hi", ACP_LAUNCH_TEST_PATIENCE="0.2") as running:
            running.complains("execute: Long work")
            os.kill(host.pid, signal.SIGSTOP)
            running.complains(f"acp-launch: {named}: kill -CONT {host.pid}; or end it: acp-launch down p")
            running.kill(signal.SIGINT)
            done = running.end()
        os.kill(host.pid, signal.SIGCONT)
    assert done.code == 130
    assert f"acp-launch: cancelled; {named}\n" in done.err
    assert "the agent went on" not in done.err


def test_a_killed_server_comes_back_in_the_session_that_is_open(launch: Launcher) -> None:
    program = [sys.executable, "-I", "-S", str(ROOT / "tests" / "servers" / "polite.py")]
    launch.profile("mcp_client", mcp_servers={"one": {"command": program[0], "args": program[1:]}})
    with up(launch) as host:
        before = pid_of_server(host)
        os.kill(before, signal.SIGKILL)
        assert pid_of_server(host) != before
