"""A host of servers in a process of its own, the agents at its seat, and what the kernel says of it."""

import json
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acp_launch.bridge import shim
from tests.cli.terminal import Process
from tests.patience import PATIENCE
from tests.realservers import seated

from .agent import Agent

SERVER = Path(__file__).with_name("server.py")
MIB = 1024 * 1024
Json = dict[str, Any]
NOTHING: Json = {"type": "left", "tasks": [], "processes": [], "descriptors": []}


def wished(*args: str, file: Path = SERVER, **keys: Any) -> Json:
    """A server, as tests.realservers.host takes it."""
    argv = [sys.executable, "-I", "-S", str(file), *args]
    return {"argv": argv, "env": {}, "cwd": "/", "restarts": 5, "pause": 0.001, **keys}


class Stage:
    """`events` are those that were waited for and those before them."""

    def __init__(self, process: Process) -> None:
        self.pid = process.pid
        self.events: list[Json] = []
        self._process = process
        self._coming: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()
        self._agents: list[Agent] = []
        self._seat: Json = self.next("entries")["seat"]

    # What the host tells.

    def until(self, matches: Callable[[Json], bool]) -> Json:
        """The next event of that kind."""
        while True:
            event = self._coming.get(timeout=PATIENCE)
            self.events.append(event)
            if matches(event):
                return event

    def next(self, type: str) -> Json:
        return self.until(lambda event: event["type"] == type)

    def becomes(self, server: str, state: str) -> Json:
        """The next change of this server to this state."""
        return self.until(lambda event: event.get("state") == state and event["server"] == server)

    def complains(self, server: str, text: str) -> str:
        """The next words of this server that hold `text`."""
        said = self.until(
            lambda event: event["type"] == "stderr" and event["server"] == server and text in event["text"]
        )
        return str(said["text"])

    def heard(self, type: str) -> list[Json]:
        """All of this type there have been so far."""
        while not self._coming.empty():
            self.events.append(self._coming.get())
        return [event for event in self.events if event["type"] == type]

    def changes(self, server: str) -> list[Json]:
        return [change for change in self.heard("change") if change["server"] == server]

    def once(self, server: str, state: str) -> Json:
        """Its last change when that led to this state, else the next that does."""
        changes = self.changes(server)
        return changes[-1] if changes and changes[-1]["state"] == state else self.becomes(server, state)

    def process_of(self, server: str) -> int:
        """The pid of the process that is READY, now or as soon as there is one."""
        return int(self.once(server, "ready")["pid"])

    # What the kernel tells.

    def memory(self) -> int:
        """Bytes it has in memory now."""
        return self._status("VmRSS")

    def peak(self) -> int:
        return self._status("VmHWM")

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def children(self) -> int:
        return len(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024

    # Who comes to it.

    def shim(self, server: str) -> tuple[Agent, "subprocess.Popen[bytes]"]:
        """An agent behind a shim, and that shim."""
        argv = [sys.executable, "-I", "-S", str(shim.__file__), self._seat["path"], server]
        env = {"ACP_LAUNCH_SEAT": self._seat["token"]}
        started = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert started.stdin and started.stdout
        stdin, stdout = started.stdin, started.stdout

        def close() -> None:
            stdin.close()
            started.wait(PATIENCE)
            stdout.close()

        return self._known(Agent(stdout.fileno(), stdin.fileno(), close)), started

    def agent(self, server: str) -> Agent:
        return self.shim(server)[0]

    def guest(self, server: str) -> Agent:
        """An agent without a shim in between."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(self._seat["path"])
        connection.sendall(f"acp-launch 2 {self._seat['token']} {server}\n".encode())
        assert connection.recv(1) == b"+"
        connection.sendall(b"=")
        return self._known(Agent(connection.fileno(), connection.fileno(), connection.close))

    def _known(self, agent: Agent) -> Agent:
        self._agents.append(agent)
        return agent

    # Its end.

    def end(self) -> Json:
        """What it left."""
        assert self._process.stdin
        self._process.stdin.close()
        left = self.next("left")
        assert self._process.wait(PATIENCE) == 0
        return left

    def clear(self) -> None:
        for agent in self._agents:
            agent.close()
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._coming.put(json.loads(line))


@contextmanager
def hosting(servers: Mapping[str, Json] | None = None, *, max_line: int = 1 << 26, **named: Json) -> Iterator[Stage]:
    """Run these servers; when nothing failed within, nothing may be left of them."""
    wanted = {
        "directories": ["/"],
        "servers": {**(servers or {}), **named},
        "max_line": max_line,
        "tells": True,
        "front": False,
    }
    with seated.hosting(wanted) as process:
        stage = Stage(process)
        try:
            yield stage
            assert stage.end() == NOTHING
        finally:
            stage.clear()
