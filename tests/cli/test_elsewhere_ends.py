"""Ring 3. However a launch ends whose agent is elsewhere, nothing of it is left there: one table for all places."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence

import pytest

from tests.cli.elsewhere import ADD, DAEMON, DEAF, SERVER, Away, away, held, record_of
from tests.cli.launcher import ROOT, Launcher, Running
from tests.engines import KINDS, RealEngine
from tests.engines import having as having_engine
from tests.otherhost import OtherHost
from tests.otherhost import having as having_host
from tests.patience import PATIENCE, until

Room = RealEngine | OtherHost


@pytest.fixture(scope="module", params=[*KINDS, "ssh"])
def room(request: pytest.FixtureRequest) -> Iterator[Room]:
    with having_host() if request.param == "ssh" else having_engine(request.param) as found:
        yield found


@pytest.fixture
def there(launch: Launcher, room: Room) -> Iterator[Away]:
    """A place where nothing stays."""
    found = away(launch, room)
    yield found
    until(lambda: not found.left(), lambda: str(found.left()))


@pytest.mark.sample(0, 2)
@pytest.mark.parametrize("lines", [(DAEMON, DEAF), ()], ids=["deaf", "polite"])
def test_an_orderly_end_leaves_nothing(launch: Launcher, there: Away, lines: Sequence[str]) -> None:
    there.write()
    done = launch("run", "p", "\n".join([ADD, *lines]))
    assert done.code == 0 and b"'text': '5'" in done.out, done.err
    assert there.left() == []


SIGNALS = {
    "Ctrl-C twice": ([signal.SIGINT, signal.SIGINT], 130),
    "SIGTERM": ([signal.SIGTERM], 143),
    "SIGHUP": ([signal.SIGHUP], 129),
}


@pytest.mark.sample(0, 3)
@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_leaves_nothing(launch: Launcher, there: Away, name: str) -> None:
    numbers, code = SIGNALS[name]
    there.write()
    with held(launch, there.shared, DAEMON, DEAF) as (running, _):
        running.kill(numbers[0])
        for number in numbers[1:]:
            running.complains("Ctrl-C stops at once")
            running.kill(number)
        done = running.end()
    assert done.code == code, done
    if there.words == "in the container":  # by ssh, what is deaf has its time to end there
        assert there.left() == []


KILLS = ("launcher", "guard", "guards", "launcher guards", "client launcher", "half launcher")


@pytest.mark.sample(0, 6)
@pytest.mark.parametrize("victims", KILLS)
def test_what_is_killed_leaves_nothing(launch: Launcher, there: Away, victims: str) -> None:
    """Where no guard is left, the half there ends all at the end of the line."""
    there.write()
    with held(launch, there.shared, DEAF, DAEMON) as (running, go_on):
        pids = find(launch, there, running)
        killed = [pid for name in victims.split() for pid in pids[name]]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in killed:
                os.kill(pid, number)
        if victims in ("guard", "guards"):
            go_on()
        running.process.wait(PATIENCE)


@pytest.mark.sample(0, 2)
@pytest.mark.parametrize("victim", ["client", "agent"])
def test_what_was_killed_there_is_named_at_once(launch: Launcher, there: Away, victim: str) -> None:
    there.write()
    with held(launch, there.shared, DEAF, DAEMON) as (running, _):
        (pid, *_) = find(launch, there, running)[victim]
        os.kill(pid, signal.SIGKILL)
        done = running.end()
    said = {
        "client": "leads to the agent on there, was killed by SIGKILL",
        "agent": "the agent was killed by SIGKILL before it answered session/prompt (on there)",
    }
    assert done.code == 4 and said[victim].replace("on there", there.words) in done.err, done.err


def find(launch: Launcher, there: Away, running: Running) -> dict[str, list[int]]:
    """The processes of a launch, by their pids here."""
    record, inside = record_of(launch), there.processes()
    guards = [each.pid for each in record.guards]
    return {
        "launcher": [running.process.pid],
        "guard": guards[:1],
        "guards": guards,
        "client": [each.pid for each in record.children if each.name == there.client],
        "half": [*inside][:1],
        "agent": [pid for pid, words in inside.items() if words.startswith("python3") and "spy.py" in words],
    }


@pytest.mark.sample(0, 1)
def test_it_shares_a_server_with_an_agent_that_is_here(launch: Launcher, there: Away) -> None:
    polite = {"command": sys.executable, "args": ["-I", "-S", str(ROOT / "tests" / "servers" / "polite.py")]}
    shared = {"polite": {**polite, "env": SERVER["env"], "share": "user", "idle": "1h", "cwd": "/usr"}}
    try:
        launch.profile("spy", mcp_servers=shared)
        here = launch.apart("run", "p", "call('polite', 'pid')")
        there.write(mcp_servers=shared)
        inside = launch.apart("run", "p", "call('polite', 'pid')")
        assert (here.code, inside.code, inside.out) == (0, 0, here.out), inside.err
        assert b"'text'" in here.out
    finally:
        launch("down", "--servers", "--force")
