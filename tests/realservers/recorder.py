"""A client of our own, of MCP or ACP, that keeps every line, byte for byte: what a transcript is made of."""

import json
import os
import select
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.cli import forkserver
from tests.patience import PATIENCE

CHUNK = 1 << 16
Json = dict[str, Any]
Responder = Callable[[Json], Json]  # the parameters of what a server asks → `{"result": …}` or `{"error": …}`


def result(value: Json) -> Responder:
    return lambda params: {"result": value}


def popen(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, stderr: "IO[bytes] | int"
) -> "subprocess.Popen[bytes]":
    """A process with pipes for its stdin and stdout."""
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=stderr, env=env, cwd=cwd, bufsize=0)


class Recorder:
    """A conversation with one process, which is a server or agent, or what stands in front of it.

    `answers` are given to what the server asks, by method; an unknown one is refused as MCP says. One thing happens
    at a time, and a request is sent when the one before it was answered, unless `start` is used.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        answers: Mapping[str, Responder] | None = None,
        stderr: "IO[bytes] | int" = subprocess.DEVNULL,
        begin: "Callable[..., subprocess.Popen[bytes] | forkserver.Process]" = popen,
    ) -> None:
        self._process = begin(argv, env=env, cwd=cwd, stderr=stderr)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._answers = dict(answers or {})
        self._numbers = 0
        self._unsent = bytearray()
        self._partial = bytearray()
        self._expected = 0
        self._withheld = ""
        self._unanswered: list[Json] = []
        self._asked: dict[object, int] = {}  # where among the lines each request was sent
        self.pid = self._process.pid
        self.lines: list[bytes] = []  # all it was sent, in order, without newlines
        self.sent: list[bytes] = []  # all it has sent

    def initialize(self, version: str = "2025-11-25", capabilities: Json | None = None) -> Json:
        about = {"name": "recorder", "version": "1.0"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": about}
        answer = self.request("initialize", params)
        if "result" in answer:
            self.notify("notifications/initialized")
        return answer

    def request(self, method: str, params: Json | None = None) -> Json:
        """The answer, whatever it is."""
        return self.answer(self.start(method, params))

    def call(self, tool: str, arguments: Json | None = None, **params: Json) -> Json:
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **params})

    def start(self, method: str, params: Json | None = None) -> int:
        """Its id, to wait with."""
        self._numbers += 1
        self.ask(self._numbers, method, params)
        return self._numbers

    def ask(self, id: int | str, method: str, params: Json | None = None) -> None:
        """Send a request with this id."""
        self._asked[id] = len(self.lines)
        body: Json = {"jsonrpc": "2.0", "id": id, "method": method}
        self._send(body if params is None else {**body, "params": params})

    def notify(self, method: str, params: Json | None = None) -> None:
        body: Json = {"jsonrpc": "2.0", "method": method}
        self._send(body if params is None else {**body, "params": params})

    def answer(self, id: int | str) -> Json:
        """The answer to the last request with this id, which may have come already."""
        wanted: Callable[[Json], bool] = lambda message: "method" not in message and message.get("id") == id  # noqa: E731
        return self._wait(wanted, f"the answer to {id!r}", since=self._asked[id])

    def expect(self, method: str) -> Json:
        """The next message with this method, later than those expected before."""
        while True:
            for line in self.lines[self._expected :]:
                self._expected += 1
                if (message := json.loads(line)).get("method") == method:
                    return dict(message)
            self._wait(lambda message: message.get("method") == method, method)

    def skip(self) -> None:
        """Whatever is expected must come after this."""
        self._expected = len(self.lines)

    def heard(self, method: str, since: int = 0) -> list[Json]:
        """All with this method so far, but for the first `since` lines."""
        return [message for line in self.lines[since:] if (message := json.loads(line)).get("method") == method]

    def withhold(self, method: str) -> None:
        """Leave unanswered what is asked with this method, until `release`."""
        self._withheld = method

    def release(self) -> None:
        self._withheld = ""
        for message in self._unanswered:
            self._reply(message)
        self._unanswered.clear()

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> int:
        """Close its stdin, and wait until it ends by itself; the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        """Close its stdin and see it end; a server that does not end by itself is killed."""
        assert self._process.stdin is not None
        with self._process:
            self._process.stdin.close()
            try:
                self._process.wait(2.0)
            except (subprocess.TimeoutExpired, TimeoutError):
                self._process.kill()
                self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, line: bytes) -> None:
        """Send exactly this line, given without its newline."""
        self._put(line)
        while self._unsent:
            self._step(f"room for {len(self._unsent)} bytes")

    def _send(self, message: Json) -> None:
        self.write(json.dumps(message, ensure_ascii=False).encode())

    def _put(self, line: bytes) -> None:
        self.sent.append(line)
        self._unsent += line + b"\n"

    def _wait(self, wanted: Callable[[Json], bool], what: str, since: int | None = None) -> Json:
        """The first line from here on, or after the first `since` lines, that is wanted."""
        seen = len(self.lines) if since is None else since
        while True:
            for line in self.lines[seen:]:
                seen += 1
                if wanted(message := json.loads(line)):
                    return dict(message)
            self._step(what)

    def _step(self, what: str) -> None:
        """Write or read what can be written or read."""
        readable, writable, _ = select.select([self._out], [self._in] if self._unsent else [], [], PATIENCE)
        assert readable or writable, f"{what} did not come within {PATIENCE:g} s; the last lines: {self.lines[-3:]!r}"
        if writable:
            del self._unsent[: os.write(self._in, self._unsent[:CHUNK])]
        if readable:
            self._read(what)

    def _read(self, what: str) -> None:
        piece = os.read(self._out, CHUNK)
        assert piece, f"the end instead of {what}; the last lines: {self.lines[-3:]!r}"
        *whole, rest = piece.split(b"\n")
        if whole:
            whole[0] = bytes(self._partial) + whole[0]
            self._partial.clear()
        self._partial += rest
        for line in whole:
            self._take(line)

    def _take(self, line: bytes) -> None:
        self.lines.append(line)
        message = json.loads(line)
        if "method" not in message or "id" not in message:
            return
        if message["method"] == self._withheld:
            self._unanswered.append(message)
        else:
            self._reply(message)

    def _reply(self, message: Json) -> None:
        responder = self._answers.get(message["method"])
        refusal = {"error": {"code": -32601, "message": f"no method {message['method']}"}}
        said = responder(message.get("params", {})) if responder else refusal
        reply = {"jsonrpc": "2.0", "id": message["id"], **said}
        self._put(json.dumps(reply, ensure_ascii=False).encode())
