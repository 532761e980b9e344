"""
The MCP servers of a session: started in the background, called with bounded waits, stopped with the session.

A server that cannot be started, or does not answer, has no tools and a `problem`; it never fails the session (MCP
"lifecycle", ACP v1 "session setup").
"""

import os
import threading
import time
from abc import ABC, abstractmethod
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import acp_launch
from acp_launch.demo.wire import METHOD_NOT_FOUND, Call, Mailbox, Message, RpcError, Wire, aside, decode, result_of

if TYPE_CHECKING:
    import subprocess

HANDSHAKE = 10.0  # seconds for each answer while a server starts; `npx` may be downloading
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
PAGES = 50  # of tools/list; more than that means a loop of cursors
# Seconds after closing stdin, after TERM, after KILL: together below the 0.3 s for our own end.
RUNGS = (0.12, 0.06, 0.06)
# Our own environment may contain credentials, so a server gets only the variables of its entry and these.
INHERITED: tuple[str, ...] = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
INHERITED += ("XDG_STATE_HOME", "ACP_DEMO_HOME", "ACP_LAUNCH_ID")


class Server(ABC):
    """An MCP server. `ready` is set once `tools` or `problem` is known."""

    def __init__(self, entry: Message) -> None:
        self.name: str = entry["name"]
        self.tools: list[Message] = []
        self.problem = ""
        self.ready = threading.Event()
        self._entry = entry
        self._wire: Wire | None = None
        try:
            aside(self._open)
        except RpcError as error:
            self.problem = str(error)
            self.ready.set()

    def ask_tool(self, tool: str, arguments: Message, mail: Mailbox) -> Call:
        if self._wire is None:
            raise RpcError(METHOD_NOT_FOUND, self.problem or f"{self.name} is still starting")
        return self._wire.ask("tools/call", {"name": tool, "arguments": arguments}, mail)

    def withdraw(self, call: Call) -> None:
        """Tell the server that this call is cancelled (MCP "cancellation")."""
        if self._wire is None:
            return
        self._wire.forget(call)
        try:
            self._wire.notify("notifications/cancelled", {"requestId": call.identity})
        except (OSError, RpcError) as error:  # the server has ended, which also cancels the call
            self.problem = f"{self.name} has ended: {error}"

    def tool(self, name: str) -> Message | None:
        return next((tool for tool in self.tools if tool["name"] == name), None)

    @abstractmethod
    def close_input(self) -> None:
        """Begin to stop the server; returns at once."""

    def wait(self, deadline: float) -> None:  # noqa: B027 - most servers have a process
        """Wait until the server knows that it is stopped, if it has no process."""

    @property
    def process(self) -> "subprocess.Popen[bytes] | None":
        """The process to stop, if any."""
        return None

    @abstractmethod
    def _connect(self) -> Wire | None:
        """Return the wire to the server; None if it was stopped before."""

    def _open(self) -> None:
        try:
            self._wire = self._connect()
            if self._wire is not None:
                self._shake_hands(self._wire)
        except (OSError, RpcError, TimeoutError) as error:
            self.problem = str(error)
        finally:
            self.ready.set()

    def _shake_hands(self, wire: Wire) -> None:
        about = {"name": "acp-launch-demo", "version": acp_launch.__version__}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        answered = _request(wire, "initialize", params).get("protocolVersion")
        if answered not in VERSIONS:
            raise RpcError(METHOD_NOT_FOUND, f"it speaks MCP {answered!r}, which this agent does not support")
        wire.notify("notifications/initialized", {})
        self.tools = _all_tools(wire)


class StdioServer(Server):
    """An MCP server that is a child process."""

    def __init__(self, entry: Message, cwd: str) -> None:
        self._cwd = cwd
        self._stopped = False
        self._changing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        super().__init__(entry)

    def close_input(self) -> None:
        with self._changing:
            self._stopped = True
            process = self._process
        if process is not None and process.stdin is not None and self._wire is not None:
            self._wire.close(process.stdin, f"{self.name} was stopped")

    @property
    def process(self) -> "subprocess.Popen[bytes] | None":
        return self._process

    def _connect(self) -> Wire | None:
        import subprocess

        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        command = [self._entry["command"], *self._entry["args"]]
        with self._changing:
            if self._stopped:
                return None
            process = subprocess.Popen(
                command,
                cwd=self._cwd,
                env={**inherited, **self._entry["env"]},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
            assert process.stdin is not None
            self._process, self._wire = process, Wire(process.stdin.fileno())
        wire = self._wire
        aside(lambda: self._read(process, wire))
        return wire

    def _read(self, process: "subprocess.Popen[bytes]", wire: Wire) -> None:
        import io

        assert process.stdout is not None
        assert isinstance(process.stdout, io.RawIOBase)
        for line in io.BufferedReader(process.stdout):
            try:
                message = decode(line)
                if message is not None:
                    receive(wire, message)
            except (RpcError, OSError):  # noise on its stdout, or it stopped reading: the connection continues
                continue
        self.problem = f"{self.name} closed its output{_status(process)}"
        wire.lose(self.problem)


def stop(servers: list[Server]) -> None:
    """Stop all servers together, within sum(RUNGS) seconds: close stdin or the session, then TERM, then KILL."""
    for server in servers:
        server.close_input()
    farewell = time.monotonic() + RUNGS[0]
    processes = [server.process for server in servers if server.process is not None]
    for seconds, push in zip(RUNGS, ("terminate", "kill", ""), strict=True):
        deadline = time.monotonic() + seconds
        processes = [process for process in processes if not _ended(process, deadline)]
        for process in processes if push else ():
            getattr(process, push)()
    for server in servers:
        server.wait(farewell)


def _ended(process: "subprocess.Popen[bytes]", deadline: float) -> bool:
    import subprocess

    try:
        process.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _all_tools(wire: Wire) -> list[Message]:
    tools: list[Message] = []
    params: Message = {}
    for _ in range(PAGES):
        page = _request(wire, "tools/list", params)
        listed = page.get("tools")
        tools += [tool for tool in listed if _usable(tool)] if isinstance(listed, list) else []
        if not isinstance(page.get("nextCursor"), str):
            return tools
        params = {"cursor": page["nextCursor"]}
    raise RpcError(METHOD_NOT_FOUND, f"its list of tools has no end ({PAGES} pages read)")


def _request(wire: Wire, method: str, params: Message) -> Message:
    mail: Mailbox = SimpleQueue()
    wire.ask(method, params, mail)
    try:
        arrived = mail.get(timeout=HANDSHAKE)
    except Empty as error:
        raise TimeoutError(f"no answer to {method} within {HANDSHAKE:.0f} s") from error
    assert arrived is not None
    return result_of(arrived[1])


def receive(wire: Wire, message: Message) -> None:
    if "method" not in message:
        wire.deliver(message)
    elif message["method"] == "ping" and "id" in message:
        wire.answer(message["id"], {})
    elif "id" in message:
        wire.refuse(message["id"], RpcError(METHOD_NOT_FOUND, f"{message['method']} is not offered by this client"))


def _usable(tool: object) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


def _status(process: "subprocess.Popen[bytes]") -> str:
    status = process.poll()
    return "" if status is None else f" (exit status {status})"
