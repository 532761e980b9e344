"""Launches of one user that share a server (docs/profiles.md "Shared servers")."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest

from acp_launch.served.connect import read_shared
from acp_launch.served.registry import HostNote, find_server_host
from tests.cli.launcher import scripted_server, upgrade
from tests.patience import until, until_ended
from tests.seat.stage import Json, Play, Stage, told
from tests.seat.test_restart import AT_ONCE

IDLE = "100ms"


def shared(stage: Stage, temper: str = "polite", **keys: Any) -> Json:
    return {temper: stage.server(temper, **{"share": "user", "idle": IDLE, **keys})}


def play(stage: Stage, temper: str = "polite", *options: str, **keys: Any) -> AbstractContextManager[Play]:
    """A launch; not of the fork server, which would hold the server host for a process that it leaves."""
    return stage.play(*options, servers=shared(stage, temper, **keys), apart=True)


def host(stage: Stage) -> HostNote:
    note = find_server_host(stage.launch.state)
    assert note is not None
    return note


@pytest.fixture(autouse=True)
def the_host_ends(stage: Stage) -> Iterator[None]:
    """Nothing is left once the last launch has ended."""
    yield
    note = find_server_host(stage.launch.state)
    if note is not None:
        until_ended(note.pid)
    stage.roll.all_die()


@pytest.mark.promise("share")
def test_two_launches_have_one_process_and_each_gets_its_own(stage: Stage) -> None:
    with play(stage) as first, play(stage) as second:
        one, two = first.agent, second.agent
        assert one.call("polite", "pid") == two.call("polite", "pid")
        one.ask("polite", "resources/subscribe", uri="test://one")
        assert two.call("polite", "touch", uri="test://one") == "touched"
        one.expect("polite", "notifications/resources/updated")
        assert two.do("heard", "polite") == []
        assert {use.label for each in read_shared(host(stage)) for use in each.uses} == {"run p"}
        assert second.end().code == 0
        assert one.call("polite", "add", a=1, b=2) == 3
        done = first.end()
    assert done.code == 0, done.err
    assert len(stage.roll.heard("polite")) == 1


def test_an_error_names_the_server_as_the_launch_calls_it(stage: Stage) -> None:
    """Also one for a call in flight, which another launch has crashed, and for good."""
    once: Json = {"restart": {**AT_ONCE, "max": 1}}
    with play(stage, "crasher", **once) as first:
        entry = stage.servers(**shared(stage, "crasher", **once))["crasher"]
        stage.launch.profile("mcp_client", mcp_servers={"mine.2": entry})
        words = "run", "p", "obey", "--output", "json"
        with (
            stage.launch.start(*words, apart=True, LIVENESS=stage.roll.port) as running,
            stage.enter(running) as second,
        ):
            one, two = first.agent, second.agent
            assert one.call("crasher", "pid") == two.call("mine.2", "pid")
            for _ in range(2):
                two.start("mine.2", "wait", path=stage.fifo("never"))
                stage.roll.hear("crasher").says("waiting")
                mine = one.refused("crasher", "crash")
                (its,) = [answer["error"] for answer in two.awaits()]
                for error, name, other in ((mine, "crasher", "mine.2"), (its, "mine.2", "crasher")):
                    assert error["message"].startswith(f'MCP server "{name}" ')
                    assert error["data"]["server"] == name
                    assert f'"{other}"' not in error["message"]
            ended = [first.end(), second.end()]
    assert [done.code for done in ended] == [0, 0]
    for file in (stage.launch.state / "log").rglob("*.log"):
        assert b"acp-launch-" not in file.read_bytes()


def test_a_crash_is_told_to_each_launch_and_the_sessions_go_on(stage: Stage) -> None:
    with play(stage, "crasher", restart=AT_ONCE) as first, play(stage, "crasher", restart=AT_ONCE) as second:
        one, two = first.agent, second.agent
        two.ask("crasher", "resources/subscribe", uri="test://two")
        one.start("crasher", "wait", path=stage.fifo("never"))
        stage.roll.hear("crasher").says("waiting")
        assert two.refused("crasher", "crash")["code"] == -32010
        assert [answer["error"]["code"] for answer in one.awaits()] == [-32010]
        assert one.call("crasher", "touch", uri="test://two") == "touched"
        two.expect("crasher", "notifications/resources/updated")
        assert (pid := one.call("crasher", "pid")) == two.call("crasher", "pid")
        ended = [first.end(), second.end()]
    for done in ended:
        assert done.code == 0
        notes = [event["text"] for event in done.events if event["type"] == "note"]
        assert notes == [f"crasher, which launches share, exited with status 3; it was started again (pid {pid})"]
    assert len(stage.roll.heard("crasher")) == 2


@pytest.mark.promise("share")
def test_a_killed_host_is_started_again_and_the_sessions_go_on(stage: Stage) -> None:
    with play(stage) as first, play(stage) as second:
        one, two = first.agent, second.agent
        one.ask("polite", "resources/subscribe", uri="test://one")
        before = one.call("polite", "pid")
        server = stage.roll.hear("polite")
        for agent in (one, two):  # each hears from its call that the host is gone
            agent.start("polite", "wait", path=stage.fifo(f"never for {agent is one}"))
            server.says("waiting")
        os.kill(host(stage).pid, signal.SIGKILL)
        server.dies()
        for agent in (one, two):
            assert [answer["error"]["code"] for answer in agent.awaits()] == [-32010]
        assert one.call("polite", "pid") == two.call("polite", "pid") != before
        assert two.call("polite", "touch", uri="test://one") == "touched"
        one.expect("polite", "notifications/resources/updated")
        assert (first.end().code, second.end().code) == (0, 0)


def test_a_stopped_host_is_named(stage: Stage) -> None:
    with play(stage) as play_on:
        assert play_on.agent.call("polite", "add", a=1, b=2) == 3
        os.kill(pid := host(stage).pid, signal.SIGSTOP)
        try:
            servers = stage.servers(**shared(stage, restart={"policy": "never"}))
            stage.launch.profile("mcp_client", mcp_servers=servers)
            done = stage.launch.apart("run", "--trust", "p", "obey", ACP_LAUNCH_TEST_PATIENCE="1")
            assert done.code == 8
            assert f"(pid {pid}) is stopped (SIGSTOP)" in done.err
            assert f"kill -CONT {pid}" in done.err
        finally:
            os.kill(pid, signal.SIGCONT)
        assert play_on.end().code == 0


def test_launches_with_the_same_secret_share_and_nothing_shows_it(stage: Stage) -> None:
    secret, other = f"canary-{os.urandom(8).hex()}", f"canary-{os.urandom(8).hex()}"
    keyed: Json = {"env": {"KEY": "${secret:key}"}}
    with ExitStack() as launches:
        plays = []
        for value in (secret, secret, other):
            stage.launch.env["ACP_LAUNCH_SECRET_KEY"] = value
            plays.append(launches.enter_context(play(stage, **keyed)))
        one, two, three = (each.agent for each in plays)
        assert one.call("polite", "env_digest", name="KEY") == two.call("polite", "env_digest", name="KEY")
        assert one.call("polite", "pid") == two.call("polite", "pid") != three.call("polite", "pid")
        servers = {str(each.pid) for each in stage.roll.heard("polite")}
        launchers = {str(each.running.process.pid) for each in plays}
        for value in (secret, other):
            shown = {pid for pid, said in told() if value.encode() in said}
            assert shown <= servers | launchers, "only who is given it by the user, and the server"
        ended = [each.end() for each in plays]
    for done in ended:
        assert secret not in done.err + done.out.decode()
    for file in (each for each in stage.launch.project.parent.rglob("*") if each.is_file()):
        assert secret.encode() not in file.read_bytes()
    for file in (each for each in stage.launch.state.parent.rglob("*") if each.is_file()):
        assert secret.encode() not in file.read_bytes()


def test_a_profile_that_is_not_trusted_joins_nothing(stage: Stage) -> None:
    with play(stage) as first:
        pid = first.agent.call("polite", "pid")
        words = [sys.executable, "-m", "acp_launch", "run", "p", "hello"]
        env = {**stage.launch.env, "ACP_LAUNCH_CONFIG_DIR": str(stage.scratch / "config")}
        refused = subprocess.run(words, cwd=stage.launch.project, env=env, capture_output=True, text=True, check=False)
        assert refused.returncode == 7
        assert str(pid) not in refused.stderr
        assert [len(each.uses) for each in read_shared(host(stage))] == [1]
        assert first.end().code == 0


def test_a_server_that_cannot_start_fails_each_launch_as_if_it_were_its_own(stage: Stage) -> None:
    for _ in range(2):
        stage.launch.profile("mcp_client", mcp_servers=stage.servers(**shared(stage, "absent")))
        done = stage.launch.apart("run", "--trust", "p", "obey")
        assert done.code == 8
        assert 'the MCP server "absent" failed' in done.err


def test_servers_that_the_user_has_ended_are_started_again_with_the_next_call(stage: Stage) -> None:
    with play(stage) as first:
        before = first.agent.call("polite", "pid")
        refused = stage.launch.apart("down", "--servers")
        assert (refused.code, "run p" in refused.err) == (3, True)
        assert stage.launch.apart("down", "--servers", "--force").code == 0
        stage.roll.hear("polite").dies()
        assert find_server_host(stage.launch.state) is None
        assert first.agent.call("polite", "pid") != before
        assert first.end().code == 0


def test_a_lazy_server_is_shared_once_it_is_needed(stage: Stage) -> None:
    lazy: Json = {"start": "lazy", "idle": "1m"}
    for starts in (1, 2):
        with play(stage, **lazy) as first, play(stage, **lazy) as second:
            one, two = first.agent, second.agent
            assert one.tools("polite") == two.tools("polite")
            assert one.call("polite", "pid") == two.call("polite", "pid")
            assert (first.end().code, second.end().code) == (0, 0)
        assert stage.launch.apart("down", "--servers").code == 0
        assert len(stage.roll.heard("polite")) == starts


def test_the_end_of_a_process_is_not_that_of_the_next_one_with_its_name(stage: Stage) -> None:
    with play(stage, "stubborn", env={"WORD": "other"}) as other:
        other.agent.call("stubborn", "pid")
        with play(stage, "stubborn") as first:
            before = first.agent.call("stubborn", "pid")
            assert first.end().code == 0
        until(lambda: before not in [each.pid for each in read_shared(host(stage))])
        with play(stage, "stubborn") as second:
            second.agent.start("stubborn", "wait", path=stage.fifo("one"))
            server = next(each for each in stage.roll.heard("stubborn") if each.pid == before)
            server.kill(signal.SIGKILL)
            server.dies()
            assert second.agent.call("stubborn", "add", a=1, b=2) == 3
            until(lambda: [each.state for each in read_shared(host(stage))] == ["ready", "ready"])
            stage.release("one", "done")
            assert [answer["result"]["content"][0]["text"] for answer in second.agent.awaits()] == ["done"]
            assert second.end().code == 0
        assert other.end().code == 0


def test_a_launch_logs_the_process_that_it_has_got(stage: Stage) -> None:
    with play(stage, roots="session") as first:
        first.agent.call("polite", "pid")  # an agent says hello before its launch has a log; the second's is the latest
        with play(stage) as second:
            pid = second.agent.call("polite", "pid")
            second.agent.call("polite", "complain", text="of the second")
            assert [each.end().code for each in (first, second)] == [0, 0]
    shown = stage.launch.apart("logs", "p", "polite").out.decode()
    assert "of the second" in shown
    assert f"polite ready (pid {pid})" in shown


def test_a_host_that_ends_takes_no_launch(stage: Stage) -> None:
    """The next call comes while its processes still end."""
    with play(stage, restart={"policy": "never"}) as first:
        first.agent.start("polite", "wait", path=stage.fifo("never"))
        server = stage.roll.hear("polite")
        server.says("waiting")
        os.kill(host(stage).pid, signal.SIGTERM)
        assert [answer["error"]["code"] for answer in first.agent.awaits()] == [-32010]
        assert first.agent.call("polite", "pid") != server.pid
        done = first.end()
    assert (done.code, "could not be started" in done.out.decode()) == (0, False)


def test_a_launch_goes_on_without_a_place_for_the_host(stage: Stage) -> None:
    stage.launch.state.mkdir(parents=True, exist_ok=True)
    (stage.launch.state / "shared").write_text("")
    stage.launch.profile("minimal", mcp_servers=stage.servers(**shared(stage, required=False)))
    done = stage.launch.apart("run", "--trust", "p", "hello")
    assert done.code == 0
    assert "there is no place for a host" in done.err


def test_a_process_with_old_code_takes_no_launch_and_ends_with_its_last_user(stage: Stage) -> None:
    """Also where it would go on for long without users."""
    server = scripted_server(stage.scratch, stage.server("polite", share="user", idle="1h"))
    with stage.play(servers={"polite": server}, apart=True) as first:
        old = first.agent.call("polite", "pid")
        upgrade(server)
        assert first.agent.call("polite", "pid") == old, "calls go on"
        with stage.play(servers={"polite": server}, apart=True) as second:
            new = second.agent.call("polite", "pid")
            assert new != old
            assert second.end().code == 0
        assert first.end().code == 0
    until_ended(int(old))
    with stage.play(servers={"polite": server}, apart=True) as third:
        assert third.agent.call("polite", "pid") == new
        assert third.end().code == 0
    stage.launch("down", "--servers", "--force")
