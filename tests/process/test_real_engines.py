"""Podman and docker, where this machine can have them for a while: whatever is killed, no container stays."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from acp_launch.process.leftovers import clear
from acp_launch.process.records import files, read_all
from tests.patience import PATIENCE

from .launches import Running, gone, launched
from .liveness import CHILDREN, Liveness

# What a machine without an engine needs to have one for a while; it stands beside the checkout in some places.
ENGINE_ROOM = Path(__file__).resolve().parents[3] / "shared" / "tools" / "elsewhere" / "enginroom.py"
ROOM_TIMEOUT = 60  # seconds: packages are fetched the first time
DEAF = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
open(sys.argv[1], "w").write("up")
while True:
    signal.pause()
"""


class RealEngine(NamedTuple):
    program: str
    image: str

    def count(self, launch: str) -> int:
        words = [self.program, "ps", "-a", "-q", "--filter", f"label=acp-launch.launch={launch}"]
        return len(subprocess.check_output(words, timeout=PATIENCE).split())


@pytest.fixture(scope="module", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    if not ENGINE_ROOM.exists():
        pytest.skip(f"{request.param}: {ENGINE_ROOM.name} does not stand beside the checkout")
    with tempfile.TemporaryDirectory(prefix="er") as directory:
        argv = [sys.executable, str(CHILDREN / "room.py"), str(ENGINE_ROOM), request.param, f"{directory}/r"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as room:
            assert room.stdout is not None
            select.select([room.stdout], [], [], ROOM_TIMEOUT)
            said = json.loads(room.stdout.readline())
            if isinstance(said, str):
                pytest.skip(said)
            yield RealEngine(*said)
            room.communicate(timeout=ROOM_TIMEOUT)


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


@pytest.mark.parametrize(
    "victims",
    [
        ["launcher"],
        ["launcher", "lower"],
        ["upper", "launcher"],
        ["client", "launcher"],
        ["client"],
        ["lower", "upper", "launcher"],
    ],
    ids=" ".join,
)
def test_what_is_killed_leaves_no_container_in_a_real_engine(
    victims: list[str], running: Running, tmp_path: Path, engine: RealEngine
) -> None:
    """A client alone: the container goes with the end of the launch. All three: with the next start."""
    (launch,) = read_all(tmp_path)
    assert engine.count(launch.id) == 1
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
    assert engine.count(launch.id) == 0
    assert files(tmp_path) == []
