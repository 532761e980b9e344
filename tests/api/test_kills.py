"""Ring 3. A program that is killed leaves nothing (docs/api.md)."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.cli.launcher import MARK, Launcher, alive, kill_all
from tests.patience import PATIENCE, until

MOMENTS = ("started", "half", "up", "opening", "working", "left")
PROGRAM = """
import asyncio, sys
import acp_launch
wanted = sys.argv[1]
def at(moment):
    if moment == wanted:
        print(moment, flush=True)
        sys.stdin.read()
def hear(event):
    if isinstance(event, acp_launch.events.ServerEvent):
        at("half")
async def main():
    launching = acp_launch.launch("p", trust=True, on_event=hear)
    task = asyncio.create_task(launching.__aenter__())
    await asyncio.sleep(0)
    at("started")
    agent = await task
    at("up")
    opening = agent.session("work")
    task = asyncio.create_task(opening.__aenter__())
    await asyncio.sleep(0)
    at("opening")
    session = await task
    found = session.prompt("hi")
    await anext(found)
    at("working")
    await found.aclose()
    at("left")
asyncio.run(main())
"""


@pytest.mark.promise("kill")
@pytest.mark.sample(2)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_program_that_is_killed_leaves_nothing(launch: Launcher, moment: str) -> None:
    launch.profile(
        "cancellable", mcp_servers={"notes": {"command": "${python}", "args": ["-m", "acp_launch.demo.server"]}}
    )
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, moment],
        cwd=launch.project,
        env={**os.environ, MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline().decode().strip() == moment
            program.kill()
            assert program.wait(PATIENCE) == -signal.SIGKILL
            until_gone(mark)
        finally:
            kill_all(mark)
    assert not list(Path(launch.state).glob("locks/*"))


def until_gone(mark: str, left: int = 0) -> None:
    """Return once only so many are alive: the private host ends by itself, and so do its guards."""
    until(lambda: len(alive(mark)) <= left, lambda: alive(mark))


def test_a_program_without_streams_launches_as_others(launch: Launcher) -> None:
    program = "import acp_launch, sys; sys.exit(acp_launch.run('demo', 'add 2 3').answer != '5')"
    closed = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, program]
    assert subprocess.run(closed, cwd=launch.project, timeout=PATIENCE, check=False).returncode == 0


def test_a_program_that_forks_does_not_keep_its_agents_alive(launch: Launcher) -> None:
    mark = uuid.uuid4().hex
    program = """
import asyncio, os, signal, sys
import acp_launch
async def main():
    async with acp_launch.launch("demo") as agent:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.read(reading, 1)
            os._exit(0)
        print(child, flush=True)
        sys.stdin.read()
asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=launch.project,
        env={**os.environ, MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        try:
            assert running.stdout is not None
            child = int(running.stdout.readline())
            running.kill()
            running.wait(PATIENCE)
            until_gone(mark, left=1)
        finally:
            os.kill(child, signal.SIGKILL)
            kill_all(mark)
