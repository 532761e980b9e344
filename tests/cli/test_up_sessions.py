"""How long the sessions of a host stay open, and their servers with them (docs/up.md)."""

import signal
from contextlib import suppress

import psutil
import pytest

from tests.cli.hosted import Host, brought_up, up
from tests.cli.launcher import Json, Launcher
from tests.cli.test_mcp import server
from tests.cli.test_reload import called, said
from tests.patience import PATIENCE, until


def processes(host: Host) -> list[str]:
    """The command lines of the living processes below the host."""
    lines = []
    for process in psutil.Process(host.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # also a zombie, which its parent has not looked after
            lines.append(" ".join(process.cmdline()))
    return lines


def names(host: Host) -> list[str]:
    return [session.name for session in host.status.sessions]


PROMPTS = 3
AGENTS: dict[str, tuple[Json, str]] = {  # the profile, and a prompt that uses a server
    "closes": ({"extends": "demo"}, "add 2 3"),
    "cannot close": ({}, "call polite pid"),
}


@pytest.mark.sample(0, 2)
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("share", [False, True])
def test_prompts_without_a_name_leave_no_more_than_the_first_one(launch: Launcher, agent: str, share: bool) -> None:
    """Neither sessions nor processes: an agent that cannot close sessions keeps no shims and servers of theirs."""
    profile, prompt = AGENTS[agent]
    if profile:
        launch.write({**profile, "mcp_servers": {"notes": {"share": share}}})
        assert launch("trust", "p", "--yes").code == 0
    else:
        launch.profile("mcp_client", mcp_servers={"polite": server("polite", share=share)})
    with up(launch) as host:
        before = processes(host)
        for _ in range(PROMPTS):
            assert host.run(prompt, "-o", "quiet").code == 0
        # Each would leave one or two; a process that just begins or ends may be counted or not.
        is_as_before = lambda: not names(host) and len(processes(host)) < len(before) + PROMPTS  # noqa: E731
        until(is_as_before, lambda: (names(host), processes(host), before))


def test_a_session_that_was_closed_after_its_turn_is_loaded_to_continue_it_and_closed_again(launch: Launcher) -> None:
    launch.profile("replayer")
    with up(launch) as host:
        assert host.run("one").out == b"live 1\n"
        assert host.run("two", "--continue").out == b"live 2\n"
        until(lambda: host.methods.count("session/close") == 2, lambda: host.methods)
        asked = [method for method in host.methods if method.startswith("session/")]
        turn = ["session/prompt", "session/close"]
        assert asked == ["session/new", *turn, "session/load", *turn]
        assert host.run("three", "-s", "work").code == 0
        assert host.run("four", "--continue").code == 0
        assert names(host) == ["work"], "it has a name, so it stays"


def test_a_detached_turn_keeps_its_session_until_it_was_waited_for(launch: Launcher) -> None:
    launch.profile("replayer")
    with brought_up(launch, "run", "p", "hi", "--detach") as host:
        (name,) = names(host)
        for _ in range(2):
            waited = launch.forked("session", "wait", name, "-o", "quiet")
            assert (waited.code, waited.out) == (0, b"live 1\n"), waited.err
            until(lambda: not names(host), lambda: names(host))
        assert host.methods[-1] == "session/close"


@pytest.mark.parametrize("hangup", ["stop", "detach"])
def test_a_turn_that_lost_its_front_keeps_its_session_only_if_it_goes_on(launch: Launcher, hangup: str) -> None:
    launch.configure(f"hangup: {hangup}\n")
    launch.profile("cancellable")
    with up(launch) as host:
        with launch.start("run", "p", "hi") as running:
            running.complains("execute: Long work")
            (name,) = names(host)
            running.kill(signal.SIGKILL)
            running.process.wait(PATIENCE)
        if hangup == "stop":
            until(lambda: not names(host), lambda: names(host))
        else:
            until(lambda: not host.status.sessions[0].fronts, lambda: host.status)
            assert names(host) == [name]


def test_a_prompt_without_a_user_is_not_sent_before_the_required_servers_answer(launch: Launcher) -> None:
    launch.profile("polite", mcp_servers={"m": server("mute", timeouts={"start": "0.3s"}, restart={"policy": "never"})})
    with up(launch) as host:
        done = host.run("hi")
        assert (done.code, done.out) == (8, b""), done.err
        assert "the prompt waits for m (0.3 s), as timeouts.start says" in done.err
        assert host.run("hi", "--detach", "-s", "work").code == 0
        waited = launch.forked("session", "wait", "work")
        assert waited.code == 8, waited.err
        assert "session/prompt" not in host.methods


def test_ctrl_c_ends_the_wait_for_the_required_servers(launch: Launcher) -> None:
    launch.profile("polite", mcp_servers={"m": server("mute", timeouts={"start": "1h"})})
    with up(launch) as host:
        with launch.start("run", "p", "hi", "-o", "quiet") as running:
            running.complains("m has not answered within 3 s; the session opens meanwhile")
            running.complains("the prompt waits for m (60 min), as timeouts.start says")
            running.kill(signal.SIGINT)
            done = running.end()
        assert done.code == 130, done.err
        until(lambda: not names(host), lambda: names(host))
        assert "session/prompt" not in host.methods


def test_a_server_that_a_session_does_not_use_is_stopped_and_comes_back_in_it(launch: Launcher) -> None:
    """One that is not lazy: the conversation with it goes on with another process."""
    launch.profile("mcp_client", mcp_servers={"polite": server("polite", idle="30ms")})
    with up(launch) as host:
        pids = set()
        for _ in range(2):
            pids.add(said(called(host, "polite", "pid")))
            until(lambda: not any("polite.py" in line for line in processes(host)), lambda: processes(host))
        assert len(pids) == 2
        assert names(host) == ["work"]


def test_a_turn_of_a_host_is_ended_from_any_shell_and_its_session_goes_on(launch: Launcher) -> None:
    launch.profile("cancellable")
    with brought_up(launch, "run", "p", "hi", "--detach", "--session", "work") as host:
        assert launch("session", "cancel", "work").err == "work: cancelled\n"
        waited = launch("session", "wait", "work")
        assert (waited.code, b"".join(waited.out.split())) == (9, b"workingstopped")
        assert launch("session", "cancel", "work").err == "work: no turn is running\n"
        assert b"> hi\n- Long work\nworking stopped\n(cancelled)\n" in launch("session", "history", "work").out
        assert names(host) == ["work"]
