"""One MCP server as mcp_client.py has it open: its process, the handshake, and what came of each request."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, cast

from tests.agents.script import Message

PATIENCE = 30.0  # seconds a command waits
options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])  # of mcp_client.py
news = threading.Condition()


def until(holds: Callable[[], bool], what: str) -> None:
    with news:
        if not news.wait_for(holds, PATIENCE):
            raise TimeoutError(f"{what} took longer than {PATIENCE:g} s")


def capabilities() -> Message:
    return {name: {} for name in ("sampling", "elicitation", "roots") if name in options}


def held(request: Message) -> bool:
    return bool(request["method"] == options.get("hold"))


def reply(request: Message) -> Message:
    """To what a server asks."""
    method = request["method"]
    if method == "ping":
        return {"result": {}}
    if method == "roots/list" and "roots" in options:
        return {"result": {"roots": [{"uri": f"file://{path}"} for path in options["roots"].split(",")]}}
    if method == "sampling/createMessage" and "sampling" in options:
        return {"result": {"role": "assistant", "content": {"type": "text", "text": "sampled"}, "model": "none"}}
    if method == "elicitation/create" and "elicitation" in options:
        return {"result": {"action": "accept", "content": {"name": "elicited"}}}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


class Server:
    """One connection: a shim, or the server itself when nobody is in between."""

    def __init__(self, entry: Message) -> None:
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env |= {pair["name"]: pair["value"] for pair in entry["env"]}
        argv = [entry["command"], *entry["args"]]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0)
        self._numbers = 0
        self._writing = threading.Lock()
        self._answers: dict[str, bytes] = {}
        self._heard: list[tuple[str, bytes]] = []
        self._expected = 0
        self._is_open = True
        self.opened: str | None = None  # the id of `initialize`
        self.pid = self._process.pid
        threading.Thread(target=self._listen, daemon=True).start()

    def write(self, line: bytes) -> None:
        """A connection that has ended takes nothing, which `gone` and the answers tell."""
        with self._writing:
            left = memoryview(line + b"\n")
            try:
                while left:
                    left = left[self._stdin.write(left) :]
            except BrokenPipeError:
                until(lambda: not self._is_open, "the end of a connection whose input is closed")

    def notify(self, method: str, params: Message) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def request(self, method: str, params: Message) -> str:
        """The key to wait with."""
        self._numbers += 1
        body = {"jsonrpc": "2.0", "id": self._numbers, "method": method, "params": params}
        self.write(json.dumps(body, ensure_ascii=False).encode())
        return json.dumps(self._numbers)

    def answer(self, key: str) -> bytes | None:
        """The line; None when the connection ended without it."""
        until(lambda: key in self._answers or not self._is_open, f"the answer {key}")
        return self._answers.pop(key, None)

    def begin(self) -> None:
        about = {"name": "test-agent", "version": "1.0.0"}
        version = options.get("version", "2025-06-18")
        params = {"protocolVersion": version, "capabilities": capabilities(), "clientInfo": about}
        self.opened = self.request("initialize", params)

    def finish(self) -> None:
        """The second half of the handshake; a server that refused is left alone."""
        assert self.opened is not None
        line = self.answer(self.opened)
        if line is not None:
            self._answers[self.opened] = line
            if "result" in json.loads(line):
                self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def introduced(self) -> "Server":
        if self.opened is None and options.get("handshake") == "lazy":
            self.begin()
            self.finish()
        return self

    def introduction(self) -> bytes | None:
        return self._answers.get(self.opened or "")

    def expect(self, method: str) -> bytes | None:
        """The next message with this method; those before it are passed over."""
        found: list[bytes] = []

        def look() -> bool:
            while not found and self._expected < len(self._heard):
                said, line = self._heard[self._expected]
                self._expected += 1
                if said == method:
                    found.append(line)
            return bool(found) or not self._is_open

        until(look, method)
        return found[0] if found else None

    def heard(self) -> list[bytes]:
        return [line for _, line in self._heard]

    def close(self) -> None:
        with self._writing:
            self._stdin.close()

    def status(self) -> int:
        until(lambda: not self._is_open, "the end of the connection")
        return self._process.wait(PATIENCE)

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in io.BufferedReader(cast("io.RawIOBase", self._process.stdout)):
            self._take(line.rstrip(b"\n"))
        with news:
            self._is_open = False
            news.notify_all()

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        if isinstance(message, dict) and "method" in message and "id" in message and not held(message):
            self.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply(message)}).encode())
        with news:
            if isinstance(message, dict) and "method" not in message:
                self._answers[json.dumps(message.get("id"))] = line
            else:
                self._heard.append((message["method"] if isinstance(message, dict) else "batch", line))
            news.notify_all()
