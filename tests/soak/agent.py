"""An agent at one shim or seat, that reads and writes when it is told to; nothing here blocks without a deadline."""

import json
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.patience import PATIENCE

STUCK = 500  # ms without any room
CHUNK = 1 << 18
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
Json = dict[str, Any]


class Agent:
    """`source` and `sink` may be one descriptor; `close` is told to let go of them, and of what is behind them."""

    def __init__(self, source: int, sink: int, close: Callable[[], None]) -> None:
        self.answers: dict[int, list[Json]] = {}  # by id, all there ever were
        self.notifications: list[bytes] = []
        self.has_ended = False  # the other side has hung up
        self.close = close
        self._source, self._sink = source, sink
        self._outbox: deque[memoryview] = deque()
        self._rest: list[bytes] = []
        self._next = 0
        for descriptor in {source, sink}:
            os.set_blocking(descriptor, False)

    # What it says.

    def introduce(self) -> "Agent":
        """The whole handshake."""
        answer = self.answer(self.ask("initialize", CLIENT))
        assert "result" in answer, answer
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def ask(self, method: str, params: Json) -> int:
        """Without waiting for the answer, nor for room."""
        self._next += 1
        self.say({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    def send(self, tool: str, **arguments: object) -> int:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool: str, **arguments: object) -> Any:
        """What the tool said, or the message of the error."""
        return said(self.answer(self.send(tool, **arguments)))

    def say(self, message: Json) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        self._outbox.append(memoryview(data))
        self._write()

    # What it does.

    def answer(self, id: int) -> Json:
        """The one answer to a request, when it has come."""
        self.until(lambda: id in self.answers)
        (only,) = self.answers[id]
        return only

    def until(self, done: Callable[[], object]) -> None:
        """Read and write until it is so."""
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert not self.has_ended, "the other side has hung up"
            assert self._turn(deadline), "it did not come in time"

    def until_hung_up(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.has_ended:
            assert self._turn(deadline), "it did not come in time"

    def write_until_stuck(self, more: Callable[[], object]) -> None:
        """Let `more` say things, reading nothing, until for half a second there is no room for them."""
        poll = select.poll()
        poll.register(self._sink, select.POLLOUT)
        deadline = time.monotonic() + PATIENCE
        while poll.poll(STUCK):
            assert time.monotonic() < deadline, "everything is taken"
            more()

    @property
    def unsaid(self) -> int:
        """Bytes nobody has taken yet."""
        return sum(map(len, self._outbox))

    # Private.

    def _turn(self, deadline: float) -> bool:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        if self._outbox:
            poll.register(self._sink, select.POLLOUT | (select.POLLIN if self._sink == self._source else 0))
        ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        self._write()
        self._read()
        return bool(ready)

    def _write(self) -> None:
        while self._outbox:
            try:
                taken = os.write(self._sink, self._outbox[0])
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                self._outbox.clear()
                return
            self._outbox[0] = self._outbox[0][taken:]
            if not self._outbox[0]:
                self._outbox.popleft()

    def _read(self) -> None:
        try:
            chunk = os.read(self._source, CHUNK)
        except BlockingIOError:
            return
        except ConnectionResetError:
            chunk = b""
        self.has_ended = not chunk
        first, *rest = chunk.split(b"\n")
        self._rest.append(first)
        for part in rest:
            self._take(b"".join(self._rest))
            self._rest = [part]

    def _take(self, line: bytes) -> None:
        if line.startswith(b'{"jsonrpc":"2.0","method"'):  # the flood: there is much of it
            self.notifications.append(line)
            return
        message = json.loads(line)
        assert "id" in message, message
        self.answers.setdefault(message["id"], []).append(message)


def said(answer: Json) -> Any:
    if "error" in answer:
        return answer["error"]["message"]
    (content,) = answer["result"]["content"]
    return content["text"]
