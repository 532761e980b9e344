"""Ring 3. An agent on another machine, by ssh: its servers and their secrets stay here, and it leaves nothing there."""

import json
import os
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_launch.process.records import RecordedLaunch, read_all
from tests.cli.hosted import up
from tests.cli.launcher import DEMO_SERVER, Json, Launcher, Running
from tests.cli.serving import serving
from tests.otherhost import OtherHost, having
from tests.patience import PATIENCE, until, until_ended

SECRET = "not-a-real-93be04d1c7"
SERVER = {**DEMO_SERVER, "env": {"TRACKER_TOKEN": "${secret:tracker}"}}
ADD = "call('sums', 'add', a=2, b=3)"
DEAF = "[script.ignore(1, 2, 15), __import__('atexit').register(script.hang), 'deaf'][-1]"
DAEMON = "[subprocess.Popen(['setsid', 'sleep', '3600']), 'left'][-1]"


@pytest.fixture(scope="module")
def other() -> Iterator[OtherHost]:
    with having() as found:
        yield found


Reached = Callable[..., None]


@pytest.fixture
def reached(launch: Launcher, other: OtherHost) -> Iterator[Reached]:
    """Write the profile of an agent there, with a server that has a secret. Nothing of it stays there."""
    launch.env |= {"PATH": f"{other.bin}:{launch.env['PATH']}", "ACP_LAUNCH_SECRET_TRACKER": SECRET}

    def reached(host: str = "there", directory: str = "", **sections: Json) -> None:
        runtime = {"ssh": {"host": host, "directory": directory or str(other.there)}}
        command = {"command": "python3", "args": ["-B", "-I", "-S", f"{other.lib}/tests/agents/spy.py"]}
        command |= sections.pop("agent", {})
        launch.write({"agent": command, "runtime": runtime, "mcp_servers": {"sums": SERVER}, **sections})

    yield reached
    until(lambda: not other.processes(), lambda: str(other.processes()))
    assert other.leftovers() == []


DEMO = {"command": "python3", "args": ["-m", "acp_launch.demo.agent"]}


def demo(other: OtherHost) -> Json:
    return {**DEMO, "env": {"PYTHONPATH": str(other.lib)}}


@contextmanager
def held(launch: Launcher, other: OtherHost, *lines: str) -> Iterator[tuple[Running, Callable[[], None]]]:
    """A run whose turn waits after these lines until it is called to go on."""
    begun, released = (other.there / name for name in ("begun", "released"))
    for pipe in (begun, released):
        os.mkfifo(pipe)
    hearing = os.open(begun, os.O_RDONLY | os.O_NONBLOCK)

    def go_on() -> None:
        with released.open("w"):
            pass

    prompt = "\n".join([*lines, f"write({str(begun)!r})", f"read({str(released)!r})"])
    try:
        with launch.start("run", "p", prompt, apart=True) as running:
            if not select.select([hearing], [], [], PATIENCE)[0]:
                running.kill(signal.SIGTERM)
                raise AssertionError(running.end())
            yield running, go_on
    finally:
        os.close(hearing)
        begun.unlink()
        released.unlink()


def record_of(launch: Launcher) -> RecordedLaunch:
    (found,) = read_all(launch.state)
    return found


def test_its_server_answers_and_no_secret_of_it_is_there(launch: Launcher, reached: Reached, other: OtherHost) -> None:
    reached(agent={"env": {"OWN": "of the agent"}})
    halves = f"{SECRET[:9]!r} + {SECRET[9:]!r}"
    search = f"run('grep', '-D', 'skip', '-rl', {halves}, '/run', '/tmp', '/dev/shm', '.')"  # what both do not share
    with held(launch, other, ADD, "processes()", "dict(os.environ)", search, "tree('/tmp')") as (running, go_on):
        shown = launch("ps").out.decode()
        modes = [(each.stat().st_mode & 0o777) for each in map(Path, seats(other))]
        go_on()
        done = running.end()
    assert done.code == 0, done.err
    summed, processes, environ, files, tree, *_ = (json.loads(line) for line in done.out.decode().splitlines())
    assert "'text': '5'" in summed
    assert files == "" and environ["OWN"] == "of the agent"
    for place in (json.dumps(processes), json.dumps(environ)):
        assert SECRET not in place and "ACP_LAUNCH_SECRET" not in place and "ACP_LAUNCH_ID" not in place
    assert sum(each.endswith("/seat") for each in tree) == 1
    assert modes == [0o700], "an account of a neighbour there could open the seat"
    assert "agent on there" in shown and "confined" not in shown


def seats(other: OtherHost) -> list[str]:
    """The directories of seats there, as they are seen from here."""
    (pid, *_) = other.processes()
    return [str(each) for each in Path(f"/proc/{pid}/root/tmp").glob("acp-launch-*") if each.is_dir()]


@pytest.mark.parametrize("lines", [(), (DAEMON,), (DEAF,), (DAEMON, DEAF)], ids=["polite", "daemon", "deaf", "both"])
def test_an_orderly_end_leaves_nothing(launch: Launcher, reached: Reached, lines: Sequence[str]) -> None:
    reached()
    done = launch("run", "p", "\n".join([ADD, *lines]))
    assert done.code == 0 and b"'text': '5'" in done.out, done.err


def test_two_interrupts_leave_nothing(launch: Launcher, reached: Reached, other: OtherHost) -> None:
    reached()
    with held(launch, other, DAEMON, DEAF) as (running, _):
        running.kill(signal.SIGINT)
        running.complains("Ctrl-C stops at once")
        running.kill(signal.SIGINT)
        assert running.end().code == 130


@pytest.mark.parametrize("victims", ["launcher", "guards", "launcher guards", "client"])
def test_what_is_killed_leaves_nothing(launch: Launcher, reached: Reached, other: OtherHost, victims: str) -> None:
    """Where no guard is left, the half there ends all at the end of the line."""
    reached()
    with held(launch, other, DEAF, DAEMON) as (running, go_on):
        record = record_of(launch)
        client = next(each.pid for each in record.children if each.name == "agent on there")
        pids = {"launcher": [running.process.pid], "guards": [each.pid for each in record.guards], "client": [client]}
        killed = [pid for name in victims.split() for pid in pids[name]]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in killed:
                os.kill(pid, number)
        if victims == "guards":
            go_on()
        running.process.wait(PATIENCE)
        until_ended(client)


def test_a_line_that_is_cut_in_a_turn_is_told(launch: Launcher, reached: Reached, other: OtherHost) -> None:
    reached(host="slow")
    with held(launch, other, DEAF, DAEMON) as (running, _):
        other.ask("cut")
        done = running.end()
    assert done.code == 4, done.err
    assert "there is no connection to slow, or it was lost" in done.err


def test_a_session_is_remembered_with_its_host(launch: Launcher, reached: Reached, other: OtherHost) -> None:
    reached(agent=demo(other), session={"name": "mine"})
    for text in ("echo one", "history"):
        done = launch("run", "p", text)
        assert done.code == 0, done.err
    assert b"1 turn" in done.out and f"there:{other.there}" in launch("session", "show", "mine").out.decode()
    reached(host="slow", agent=demo(other), session={"name": "mine"})
    refused = launch("run", "p", "history")
    assert f"fix: write runtime: {{ssh: {{host: there, directory: {other.there}}}}}, or --new" in refused.err


def test_a_host_an_editor_and_a_restarted_agent_have_it(launch: Launcher, reached: Reached, other: OtherHost) -> None:
    """An agent whose half is killed is started again, and its session reopened."""
    reached(agent=demo(other))
    with up(launch) as host:
        assert host.run("add 2 3", "--session", "s").out == b"5\n"
        half = next(pid for pid, words in other.processes().items() if words.startswith("python3 -I -S -c"))
        os.kill(half, signal.SIGKILL)
        until_ended(half)
        assert b"1 turn" in host.run("history", "--session", "s").out
        assert host.run("add 4 4", "--session", "s").out == b"8\n"
    with serving(launch, apart=True) as editor:
        editor.begin()
        assert editor.prompt(editor.open(), "add 2 3")["result"]["stopReason"] == "end_turn"
        assert "5" in editor.said()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"host": "away"}, "there is no connection to away"),
        ({"host": "stranger"}, "the host key of stranger is not the one known here"),
        ({"host": "closed"}, "set AllowStreamLocalForwarding yes in sshd_config there"),
        ({"directory": "/nowhere"}, 'the directory "/nowhere" cannot be used: No such file or directory, on there'),
        ({"agent": {"command": "no-agent"}}, '"no-agent" is not on PATH on there'),
    ],
    ids=str,
)
def test_run_and_doctor_say_what_is_missing_there(launch: Launcher, reached: Reached, change: Json, said: str) -> None:
    reached(**change)
    assert said in launch("run", "p", "x").err
    assert said in launch("doctor", "p").out.decode()


def test_doctor_has_the_shim_opened_there(launch: Launcher, reached: Reached, other: OtherHost) -> None:
    reached(agent=demo(other))
    shown = launch("doctor", "p").out.decode()
    assert "on there: it answered in its place" in shown and "shims on there" in shown, shown
