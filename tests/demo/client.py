"""A small synchronous client: starts a program, talks JSON-RPC with it, bounds every wait, judges every line."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.oracle import Dialogue
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
Message = dict[str, Any]
Chooser = Callable[[Message], Message]


def command(module: str) -> list[str]:
    """As `python -I -m MODULE`, from the checkout instead of an installation."""
    start = f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); runpy.run_module({module!r}, None, '__main__')"
    return [sys.executable, "-I", "-c", start]


# The agent with the replies that only tests want.
FULL = [sys.executable, "-I", str(ROOT / "tests" / "agents" / "demo.py")]


def server_entry(name: str = "notes", module: str = "acp_launch.demo.server") -> Message:
    program, *args = command(module)
    return {"name": name, "command": program, "args": args, "env": []}


def script_entry(name: str, *args: str) -> Message:
    """An MCP server of tests/servers."""
    path = ROOT / "tests" / "servers" / f"{name}.py"
    return {"name": name, "command": sys.executable, "args": ["-I", "-S", str(path), *args], "env": []}


def choose(option: str) -> Chooser:
    return lambda params: {"outcome": {"outcome": "selected", "optionId": option}}


class Refused(Exception):  # noqa: N818 - it reads as what happened
    """Raised by a service of the client to answer with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client:
    """`judge` is off for programs that do not speak ACP."""

    def __init__(self, argv: list[str], *, home: Path, judge: bool = True, env: dict[str, str] | None = None) -> None:
        self.capabilities: Message = {}
        self.services: dict[str, Chooser] = {}
        self.served: list[Message] = []
        self.permission: Chooser | None = choose("allow-once")
        self.updates: list[Message] = []
        self.asked: list[Message] = []
        self.violations: list[str] = []
        self._dialogue = Dialogue() if judge else None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._next = 0
        environment = {**os.environ, "ACP_DEMO_HOME": str(home), "DEMO_SECRET": "hunter2", **(env or {})}
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        self._reader = threading.Thread(target=self._pump, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()
        if error is None:
            assert self.violations == []

    def finish(self) -> int:
        """Close the input and wait for the end."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            status = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self._reader.join(PATIENCE)
            for pipe in (self.process.stdout, self.process.stderr):
                assert pipe is not None
                pipe.close()
        return status

    def raw(self, line: bytes) -> None:
        """Write bytes that nobody judges."""
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def send(self, message: Message) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        if self._dialogue is not None:
            self._dialogue.expect(line, "client")
        self.raw(line)

    def begin(self, method: str, params: object) -> int:
        """Send a request without waiting for its answer."""
        self._next += 1
        self.send({"id": self._next, "method": method, "params": params})
        return self._next

    def notify(self, method: str, params: object) -> None:
        self.send({"method": method, "params": params})

    def request(self, method: str, params: object) -> Message:
        """The response; updates and questions before it are collected and answered."""
        return self.answer_to(self.begin(method, params))

    def result(self, method: str, params: object) -> Message:
        response = self.request(method, params)
        assert "result" in response, response
        result: Message = response["result"]
        return result

    def code(self, method: str, params: object) -> int:
        """The code of the error it is answered with."""
        return int(self.request(method, params)["error"]["code"])

    def answer_to(self, identity: object) -> Message:
        return next(message for message in self.messages() if "method" not in message and message.get("id") == identity)

    def until(self, wanted: Callable[[Message], bool]) -> Message:
        """The next message that is wanted; the others are collected."""
        return next(message for message in self.messages() if wanted(message))

    def messages(self) -> Iterator[Message]:
        while True:
            message = json.loads(self._line())
            self._collect(message)
            yield message

    def _line(self) -> bytes:
        line = self._lines.get(timeout=PATIENCE)
        assert line, f"the program ended with {self.process.wait(PATIENCE)}"
        if self._dialogue is not None:
            self.violations += self._dialogue.agent(line)
        return line

    def _collect(self, message: Message) -> None:
        if message.get("method") == "session/update":
            self.updates.append(message["params"]["update"])
        elif message.get("method") == "session/request_permission":
            self.asked.append(message)
            if self.permission is not None:
                self.send({"id": message["id"], "result": self.permission(message["params"])})
        elif "method" in message and "id" in message:
            self.served.append(message)
            self._serve(message)

    def _serve(self, message: Message) -> None:
        """A service that is missing leaves the request open: a test answers it, or sees that it was never asked."""
        if message["method"] not in self.services:
            return
        try:
            self.send({"id": message["id"], "result": self.services[message["method"]](message["params"])})
        except Refused as refused:
            self.send({"id": message["id"], "error": {"code": refused.code, "message": str(refused)}})

    def _pump(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def open(self, cwd: Path, *servers: Message, **more: object) -> str:
        """`initialize` and `session/new`."""
        self.initialize()
        return str(self.result("session/new", {"cwd": str(cwd), "mcpServers": list(servers), **more})["sessionId"])

    def initialize(self) -> Message:
        return self.result("initialize", {"protocolVersion": 1, "clientCapabilities": self.capabilities})

    def prompt(self, session: str, text: str, *more: Message) -> Message:
        """One turn; `updates` afterwards holds those of this turn alone. `more` are further blocks."""
        self.updates.clear()
        params = prompt_params(session, text)
        return self.result("session/prompt", {**params, "prompt": [*params["prompt"], *more]})

    def begin_prompt(self, session: str, text: str) -> int:
        self.updates.clear()
        return self.begin("session/prompt", prompt_params(session, text))

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.updates if update["sessionUpdate"] == kind)

    def of_kind(self, kind: str) -> list[Message]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def statuses(self) -> list[str]:
        return [update["status"] for update in self.updates if update["sessionUpdate"].startswith("tool_call")]

    def requests(self, method: str) -> list[Message]:
        """The params of what the agent asked with this method."""
        return [message["params"] for message in self.served if message["method"] == method]


def prompt_params(session: str, text: str) -> Message:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
