"""An agent in a container, or on another machine, for tests: its profile, a turn that waits, and what is there."""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from acp_launch.process.records import RecordedLaunch, read_all
from tests.cli.launcher import AGENTS, DEMO_SERVER, ROOT, Json, Launcher, Running
from tests.engines import RealEngine
from tests.otherhost import OtherHost
from tests.patience import PATIENCE

SECRET = "not-a-real-5c2e8d1f70"
MOUNTS = [f"{ROOT}/tests/__init__.py:ro", f"{AGENTS}:ro"]
SERVER = {**DEMO_SERVER, "env": {"TRACKER_TOKEN": "${secret:tracker}"}}
ADD = "call('sums', 'add', a=2, b=3)"
DEAF = "[script.ignore(1, 2, 15), __import__('atexit').register(script.hang), 'deaf'][-1]"
# A program with a session of its own, which outlives the agent and the end of its input.
DAEMON = "[subprocess.Popen(['setsid', 'sleep', '3600']), 'left'][-1]"
Write = Callable[..., None]


class Away(NamedTuple):
    """A place elsewhere. `client` is the name of what leads there, in `ps`; `shared` is a directory of both."""

    write: Write
    client: str
    words: str
    shared: Path
    left: Callable[[], list[str]]
    processes: Callable[[], dict[int, str]]  # below the half, which is the first, by their pids here


def contain(launch: Launcher, engine: RealEngine) -> Write:
    """Return what writes the profile of an agent in a container, with a server that has a secret."""
    launch.env |= {"PATH": f"{Path(engine.program).parent}:{launch.env['PATH']}", "ACP_LAUNCH_SECRET_TRACKER": SECRET}

    def write(container: Json | None = None, **sections: Json) -> None:
        runtime = {"container": {"image": engine.image, "engine": engine.name, "mounts": MOUNTS}}
        runtime["container"] |= container or {}
        command = {"command": "python3", "args": ["-B", "-I", "-S", f"{AGENTS}/spy.py"], **sections.pop("agent", {})}
        launch.write({"agent": command, "runtime": runtime, "mcp_servers": {"sums": SERVER}, **sections})

    return write


def reach(launch: Launcher, other: OtherHost) -> Write:
    """Return what writes the profile of an agent on another machine, likewise."""
    launch.env |= {"PATH": f"{other.bin}:{launch.env['PATH']}", "ACP_LAUNCH_SECRET_TRACKER": SECRET}

    def write(host: str = "there", directory: str = "", **sections: Json) -> None:
        runtime = {"ssh": {"host": host, "directory": directory or str(other.there)}}
        spy = ["-B", "-I", "-S", f"{other.lib}/tests/agents/spy.py"]
        command = {"command": "python3", "args": spy, **sections.pop("agent", {})}
        launch.write({"agent": command, "runtime": runtime, "mcp_servers": {"sums": SERVER}, **sections})

    return write


def away(launch: Launcher, room: RealEngine | OtherHost) -> Away:
    if isinstance(room, OtherHost):
        other = room

        def is_left() -> list[str]:
            return [*other.processes().values(), *other.leftovers()]

        def on_there() -> dict[int, str]:
            return {pid: words for pid, words in sorted(other.processes().items()) if words.startswith("python3 ")}

        return Away(reach(launch, other), "agent on there", "on there", other.there, is_left, on_there)
    engine = room

    def in_it() -> dict[int, str]:
        init = int(engine.ask("inspect", "-f", "{{.State.Pid}}", *engine.list()))
        below = psutil.Process(init).children(recursive=True)
        return {each.pid: " ".join(each.cmdline()) for each in below}

    words = "in the container"
    return Away(contain(launch, engine), f"agent {words}", words, launch.project, engine.list, in_it)


@contextmanager
def held(launch: Launcher, shared: Path, *lines: str) -> Iterator[tuple[Running, Callable[[], None]]]:
    """A run whose turn waits after these lines until it is called to go on. The agent sees the directory `shared`."""
    begun, released = (shared / name for name in ("begun", "released"))
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
