"""
tests/servers/http_tempers.py and tests/servers/http_cutter.py, started for a test:

    with tempered(era="modern", faults=[{"on": "tools/call", "do": "drop", "after": 10}]) as server:
        ... server.url ...
        server.event("drop")

The first is a server with the temper that its keywords say (`DEFAULTS` and `FAULTS` there), the second a TCP proxy in
front of any server. Both end with the block; `kill` and `again` end and start them on the same port.
"""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.cli import forkserver
from tests.patience import PATIENCE

PROGRAMS = Path(__file__).parents[1] / "servers"
Json = dict[str, Any]


class Child:
    """A program that tells its port, then events, and does what it is told in lines of JSON."""

    def __init__(self, program: str, settings: Json) -> None:
        self._program, self.settings = program, settings
        self.url, self.port = "", 0
        self._begin()

    def _begin(self) -> None:
        self.process = forkserver.begin(PROGRAMS / self._program, json.dumps(self.settings))
        self._events: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._listening = threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True)
        self._listening.start()
        told = self._replies.get(timeout=PATIENCE)
        assert "port" in told, f"{self._program} did not begin"
        self.port, self.url = told["port"], told.get("url", f"http://127.0.0.1:{told['port']}/mcp")

    def _listen(self, stdout: "IO[bytes] | None") -> None:
        assert stdout is not None
        for line in stdout:
            said = json.loads(line)
            (self._events if "event" in said else self._replies).put(said)
        self._events.put({"event": "dead"})
        self._replies.put({})

    def do(self, command: str, **arguments: Any) -> Any:
        """What the program says to it; see `COMMANDS` there."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": command, **arguments}).encode() + b"\n")
        self.process.stdin.flush()
        reply = self._replies.get(timeout=PATIENCE)
        assert "done" in reply, f"{self._program} has died"
        return reply["done"]

    def event(self, name: str) -> Json:
        """The next event of this name, whatever happens meanwhile."""
        while (event := self._events.get(timeout=PATIENCE))["event"] != name:
            assert event["event"] != "dead", f"{self._program} died without {name}"
        return event

    def kill(self) -> None:
        """As SIGKILL ends it; the port is free afterwards."""
        self.process.kill()
        self._reap()

    def again(self) -> None:
        """Start it on the port it had."""
        self.settings = {**self.settings, "port": self.port}
        self._begin()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self._reap()

    def _reap(self) -> None:
        with self.process:
            self.process.wait(PATIENCE)
            self._listening.join(PATIENCE)


class Tempered(Child):
    @property
    def requests(self) -> list[Json]:
        """All so far: `verb`, `path`, `headers` as pairs, `message`."""
        return list(self.do("requests"))

    @property
    def state(self) -> Json:
        """`calls`, `initialized`, `sessions`, `connections` so far; `open` and `known` of them now."""
        return dict(self.do("state"))

    def methods(self) -> list[str]:
        """What was asked, in order: JSON-RPC methods, `response`, and the verbs of requests without a body."""
        return [
            each["message"].get("method", "response") if each["message"] else each["verb"] for each in self.requests
        ]


@contextmanager
def tempered(**settings: Any) -> Iterator[Tempered]:
    server = Tempered("http_tempers.py", settings)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def cutter(to: int) -> Iterator[Child]:
    """A proxy in front of the server at this port of 127.0.0.1."""
    proxy = Child("http_cutter.py", {"to": to})
    try:
        yield proxy
    finally:
        proxy.close()
