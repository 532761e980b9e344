"""Podman and docker, where this machine can have them for a while: whatever is killed, no container stays."""

import os
import select
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from acp_launch.process.leftovers import clear
from acp_launch.process.records import files, read_all
from tests.engines import KINDS, RealEngine, having
from tests.patience import PATIENCE

from .launches import Running, gone, launched
from .liveness import Liveness

DEAF = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
open(sys.argv[1], "w").write("up")
while True:
    signal.pause()
"""


@pytest.fixture(scope="module", params=KINDS)
def engine(request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    with having(request.param) as found:
        yield found


@pytest.fixture
def running(tmp_path: Path, alive: Liveness, engine: RealEngine) -> Iterator[Running]:
    """A launch whose agent is in a container and deaf to everything."""
    with tempfile.TemporaryDirectory(prefix="er") as shared:
        pipe = f"{shared}/up"
        os.mkfifo(pipe)
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        env = {"ENGINE": engine.program, "IMAGE": f"--init -v {shared}:{shared} {engine.image}"}
        with launched(tmp_path, alive, ["python3", "-c", DEAF, pipe], env=env) as found:
            ready, _, _ = select.select([reading], [], [], PATIENCE)
            os.close(reading)
            assert ready, "it is not up"
            yield found


@pytest.mark.parametrize("victims", [["upper", "launcher"], ["client"], ["lower", "upper", "launcher"]], ids=" ".join)
def test_what_is_killed_leaves_no_container_in_a_real_engine(
    victims: list[str], running: Running, tmp_path: Path, engine: RealEngine
) -> None:
    """A client alone: the container goes with the end of the launch. All three: with the next start."""
    (launch,) = read_all(tmp_path)
    assert len(engine.list(launch.id)) == 1
    pids = {"launcher": running.pid, "lower": running.lower, "upper": running.upper, "client": running.children[0]}
    if len(victims) == 3:
        running.kill_with_guards()
        assert len(clear(tmp_path)) == 1
    else:
        with ExitStack() as waits:
            for guard in {"lower", "upper"} - {*victims}:
                waits.enter_context(gone(pids[guard]))
            for name in victims:
                os.kill(pids[name], signal.SIGKILL)
            if "launcher" not in victims:
                running.tell("end")
            running.process.wait(PATIENCE)
    assert engine.list(launch.id) == []
    assert files(tmp_path) == []
