"""
The MCP servers of a session: started in the background, called with bounded waits, stopped with the session.

A server that cannot be started, or does not answer, has no tools and a `problem`; it never fails the session (MCP
"lifecycle", ACP v1 "session setup").
"""

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import acp_launch
from acp_launch.demo.wire import METHOD_NOT_FOUND, Call, Message, RpcError, Wire, decode, start_thread

if TYPE_CHECKING:
    import subprocess

HANDSHAKE = 10.0  # seconds for each answer while a server starts; `npx` may be downloading
PAGES = 50  # of tools/list; more than that means a loop of cursors
END_TIMEOUT = 0.2  # below the 0.3 s for our own end
STUCK_SECONDS = 0.05  # a writer that takes longer is blocked by a server that does not read
# Our own environment may contain credentials, so a server gets only the variables of its entry and these.
INHERITED: tuple[str, ...] = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
INHERITED += ("XDG_STATE_HOME", "ACP_DEMO_HOME", "ACP_LAUNCH_ID")


class Server:
    """An MCP server. `ready` is set once `tools` or `problem` is known."""

    def __init__(self, entry: Message, cwd: str) -> None:
        self.name: str = entry["name"]
        self.tools: list[Message] = []
        self.problem = ""
        self.ready = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        self._wire = Wire(-1)
        try:
            self._start(entry, cwd)
        except OSError as error:
            self._fail(str(error))

    def ask_tool(self, tool: str, arguments: Message) -> Call:
        return self._wire.ask("tools/call", {"name": tool, "arguments": arguments})

    def withdraw(self, call: Call) -> None:
        """Tell the server that this call is cancelled (MCP "cancellation")."""
        with suppress(OSError, RpcError):  # the server has ended, which also cancels the call
            self._wire.notify("notifications/cancelled", {"requestId": call.identity})

    def tool(self, name: str) -> Message | None:
        return next((tool for tool in self.tools if tool["name"] == name), None)

    def close(self) -> None:
        """Close its stdin, but not while a writer is stuck in it: its number could soon be another file's."""
        self._wire.lose(f"{self.name} was stopped")
        if self.process is not None and self.process.stdin and self._wire.writing.acquire(timeout=STUCK_SECONDS):
            self.process.stdin.close()

    def _start(self, entry: Message, cwd: str) -> None:
        import subprocess

        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self.process = subprocess.Popen(
            [entry["command"], *entry["args"]],
            cwd=cwd,
            env={**inherited, **entry["env"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdin and self.process.stdout
        self._wire, output = Wire(self.process.stdin.fileno()), self.process.stdout
        start_thread(lambda: self._read(output))
        start_thread(self._shake_hands)

    def _read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            with suppress(RpcError, OSError):  # noise on its stdout, or it stopped reading: the connection continues
                self._receive(decode(line) or {})
        self._fail(f"{self.name} closed its output")

    def _receive(self, message: Message) -> None:
        if "method" not in message:
            self._wire.deliver(message)
        elif message["method"] == "ping":
            self._wire.answer(message["id"], {})
        elif "id" in message:
            refusal = RpcError(METHOD_NOT_FOUND, f"{message['method']} is not offered by this client")
            self._wire.refuse(message["id"], refusal)

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self._wire.lose(problem)
        self.ready.set()

    def _shake_hands(self) -> None:
        try:
            about = {"name": "acp-launch-demo", "version": acp_launch.__version__}
            params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
            self._request("initialize", params)
            self._wire.notify("notifications/initialized", {})
            self.tools = self._list_tools()
            self.ready.set()
        except (OSError, RpcError) as error:  # a timeout is an OSError
            self._fail(str(error))

    def _list_tools(self) -> list[Message]:
        tools: list[Message] = []
        cursor = None
        for _ in range(PAGES):
            page = self._request("tools/list", {"cursor": cursor} if cursor else {})
            tools += page.get("tools", [])
            if not (cursor := page.get("nextCursor")):
                break
        return tools

    def _request(self, method: str, params: Message) -> Message:
        call = self._wire.ask(method, params)
        if not call.done.wait(HANDSHAKE):
            raise TimeoutError(f"no answer to {method} within {HANDSHAKE:.0f} s")
        return call.result()


def stop(servers: list[Server]) -> None:
    """Stop all servers together: close stdin, and kill what has not ended `END_TIMEOUT` later."""
    import subprocess

    for server in servers:
        server.close()
    deadline = time.monotonic() + END_TIMEOUT
    for process in [server.process for server in servers if server.process is not None]:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
