"""
The server host: the processes of servers that launches of one user share (`share: user`), without an agent.

    launch ══ unix socket ══▶ LaunchLine ──▶ SharedLink ─▶ Multiplexer ─▶ relay ──▶ the server
                              served/serverhost.py       bridge/multiplexer.py

Each process has a relay, as a shared server of a launch has, and each connection of a launch is a session of it; so a
crash, a restart and the handshake after it are those of every server. It holds the secrets of its servers and nothing
else.
"""

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, field
from msgspec.structs import asdict, replace

from acp_launch.bridge.multiplexer import BEGIN_WITH_HANDSHAKE, STAND_IN
from acp_launch.bridge.relay import ProxyConversation
from acp_launch.bridge.seat import ShimConnection
from acp_launch.bridge.servers import ServerNeeds, Servers
from acp_launch.mcp.message import INITIALIZE, PING
from acp_launch.plan.model import INHERITED, StdioPlan, Value
from acp_launch.plan.shared import SharedServer, differences, from_plain, share_key
from acp_launch.process.flow import Link, LinkEnd, LinkUser
from acp_launch.process.lifecycle import Change, Ended
from acp_launch.process.logs import LogFile, LogName, ServerLogs, this_launch, written
from acp_launch.process.workdir import workdirs
from acp_launch.profile.values import free_name
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.protocol.splice import without
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret
from acp_launch.served.shared import ENDED, JOINED, SHARE, Joined, SharedEnd, SharedRequest
from acp_launch.served.wire import COMPARE, STATUS, ServerHostStatus, SharedLikeness, SharedStanding, SharedUse
from acp_launch.waits import stretch, to_beat

PROFILE = "shared servers"  # in the names of its logs; no profile is called so
FIRST = stretch(10.0)  # seconds for the first launch to connect
POLL_SECONDS = 1.0  # for processes that are not used any more
OVER = ("failed", "stopped")


class HostedProcess(Struct, eq=False, kw_only=True):
    """A process and the connections to it."""

    server: SharedServer
    plan: StdioPlan
    relay: ProxyConversation
    since: float
    idle: float
    ending: ExitStack
    lines: "list[LaunchLine]" = field(default_factory=list)
    joining: "list[LaunchLine]" = field(default_factory=list)  # they wait for its start
    unused: float | None = None  # since when, in seconds of the loop
    gone: str = ""  # how its latest process has ended, until the next is started

    @property
    def users(self) -> "list[LaunchLine]":
        self.lines = [line for line in self.lines if line.is_open]
        return self.lines


class LaunchLine(LinkUser):
    """A connection of a launch: it asks for a server, and is a session of a process from its handshake on."""

    def __init__(self, host: "ServerHost", line: socket.socket, max_line: int) -> None:
        self.shim = ShimConnection("", line)
        self.request: SharedRequest | None = None
        self.server: SharedServer | None = None
        self.process: HostedProcess | None = None
        self.is_session = False
        self.link = Link(line.fileno(), line.fileno(), self, max_line=max_line)
        self._host = host

    @property
    def is_open(self) -> bool:
        return self.shim.line.fileno() >= 0

    def close(self) -> None:
        if self.is_open and not self.is_session:  # else its process closes it
            self.link.close()
            self.shim.close()

    def receive(self, line: bytes) -> None:
        if self.process is None and line.startswith(SHARE):
            asked = json.loads(line[len(SHARE) :])
            self.server = from_plain(asked["server"])
            self.request = msgspec.convert(asked["request"], SharedRequest)
            self._host.admit(self)
            return
        message = jsonrpc.decode(line)
        if message is None or message.id is UNSET or message.method is UNSET:
            return  # it is not for a server that has no handshake yet
        if self.process is not None:
            self._begin(message, line)
        elif message.method == STATUS:
            self.link.send(jsonrpc.result(message.id, msgspec.to_builtins(self._host.status())))
        elif message.method == COMPARE:
            server = from_plain(json.loads(msgspec.json.decode(message.params)["server"]))
            self.link.send(jsonrpc.result(message.id, msgspec.to_builtins(self._host.compare(server))))

    def _begin(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        if message.method == INITIALIZE:
            self._host.bind(self, line)
        elif message.method == PING:
            self._host.pong(self, jsonrpc.result(message.id, {}))
        else:
            self.link.send(jsonrpc.error(message.id, jsonrpc.METHOD_NOT_FOUND, BEGIN_WITH_HANDSHAKE))

    def over(self, end: LinkEnd) -> None:
        self.close()

    def on_drained(self) -> None:
        """Do nothing: it is written to without regard to what it holds, until it is a session."""

    def on_burst(self, is_on: bool) -> None:
        """Do nothing."""

    def fail(self, error: Exception) -> None:
        self._host.note(f"a launch does not speak as it should: {type(error).__name__}")
        self.close()


class ServerHost:
    """The host; also the observer of its servers."""

    def __init__(self, state: Path, max_line: int, hurry: asyncio.Event, tasks: asyncio.TaskGroup) -> None:
        self._state, self._max_line, self._tasks = state, max_line, tasks
        self._directory = state / "log" / "shared"  # `logs` takes those of a launch from here
        self._logs = ServerLogs(self._directory, PROFILE)
        self._log = LogFile(self._directory, PROFILE)
        needs = ServerNeeds(secrets={}, directories=(), max_line=max_line, hurry=hurry, known_as=STAND_IN.decode())
        self._servers = Servers((), needs, self, tasks)
        self._processes: list[HostedProcess] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._lines: list[LaunchLine] = []
        self._is_closing = False
        self._now = asyncio.get_running_loop().time
        self._until = self._now() + FIRST
        self._ticking = tasks.create_task(self._servers.tick())

    # Connections.

    def attach(self, line: socket.socket) -> None:
        if self._is_closing:
            line.close()  # the launch looks for another host
            return
        self._lines = [each for each in self._lines if each.is_open]
        self._lines.append(LaunchLine(self, line, self._max_line))

    def admit(self, line: LaunchLine) -> None:
        """Give a connection a process of its server, which is started if there is none."""
        assert line.server is not None
        self._until = 0.0
        redactor.register(*map(Secret, line.server.secrets))
        self._use(self._process_of(line.server), line)

    def bind(self, line: LaunchLine, hello: bytes) -> None:
        """Make a connection a session of its process. The server is offered roots only with `roots: session`: those of
        one agent are not for others."""
        assert line.server is not None
        assert line.request is not None
        if line.process not in self._processes:  # it has ended
            self._use(self._process_of(line.server), line)
        assert line.process is not None
        line.is_session = True
        if line.server.roots is None:
            hello = without(hello, ("params", "capabilities"), ("roots",))
        line.process.relay.join(line.shim, line.request.launch, line.link, line.server.name).receive(hello)

    def pong(self, line: LaunchLine, answer: bytes) -> None:
        """Answer the ping of a launch once the process has answered ours."""
        assert line.process is not None
        up = self._servers.up(line.process.plan)

        def tell(up: "asyncio.Task[bool]") -> None:
            if not up.cancelled() and up.result() and line.is_open:
                line.link.send(answer)

        up.add_done_callback(tell)

    def _process_of(self, server: SharedServer) -> HostedProcess:
        wanted = share_key(server)
        same = [each for each in self._processes if share_key(each.server) == wanted]
        return next((each for each in same if not each.relay.process.has_old_code), None) or self._start(server)

    def _use(self, process: HostedProcess, line: LaunchLine) -> None:
        assert line.server is not None
        if line.process is not None:
            line.process.lines.remove(line)
        line.process, process.unused = process, None
        process.lines.append(line)
        process.joining.append(line)
        process.idle = max(process.idle, line.server.idle)
        self._tell_joined(process)

    def _tell_joined(self, process: HostedProcess, why: str = "") -> None:
        """Tell launches of the process once it was started; all of them, and `why`, if it was started again."""
        if process.relay.process.standing is None:
            return
        log = self._directory / self._log_name(process)
        joined = Joined(
            pid=process.relay.process.supervisor.pid,
            log=str(log),
            offset=log.stat().st_size if log.exists() else 0,
        )
        again = replace(joined, why=why)
        waiting, process.joining = process.joining, []
        for line in process.users if why else waiting:
            if line.is_open:
                line.link.send(JOINED + msgspec.json.encode(joined if line in waiting else again))

    # Processes.

    def _start(self, server: SharedServer) -> HostedProcess:
        taken = {each.plan.name for each in self._processes} | {each.get_name() for each in self._ending}
        name = free_name(server.name, taken, "#")
        ending = ExitStack()
        directory = server.directory
        if directory is None:
            directory = str(ending.enter_context(workdirs(self._state, [name], self._note_left))[name])
        plan = plan_of(server, name, Path(directory))
        process = HostedProcess(
            server=server,
            plan=plan,
            relay=self._servers.add(plan),
            since=time.time(),
            idle=server.idle,
            ending=ending,
        )
        self._processes.append(process)
        return process

    def _end(self, process: HostedProcess) -> None:
        self._processes.remove(process)
        ending = self._tasks.create_task(self._see_off(process), name=process.plan.name)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _see_off(self, process: HostedProcess) -> None:
        with process.ending:
            await asyncio.wait([self._servers.drop(process.relay)])

    def _fail(self, process: HostedProcess, change: Change) -> None:
        """Tell the launches that a process will not be started again."""
        is_clean = change.state == "stopped"
        ended = Ended(change.exit or "", is_clean, change.reason or "", follows="judged" if is_clean else "never")
        told = ENDED + msgspec.json.encode(SharedEnd(ended=ended, detail=change.detail))
        self._tell_joined(process)
        for line in process.users:
            line.link.send(told)
        self._end(process)

    async def run(self) -> None:
        """Return once nothing is left; until then end unused processes."""
        while not self._is_over():
            every = min([POLL_SECONDS, *(process.idle / 4 for process in self._processes)])
            await asyncio.sleep(to_beat(self._now(), max(0.02, every)))
            for process in list(self._processes):
                if process.users:
                    process.unused = None
                elif process.relay.process.has_old_code:
                    self._end(process)
                elif process.unused is None:
                    process.unused = self._now()
                elif self._now() - process.unused >= process.idle:
                    self._end(process)

    def _is_over(self) -> bool:
        if self._processes or self._ending or any(line.is_open and line.request for line in self._lines):
            return False
        return self._now() >= self._until

    async def close(self) -> None:
        """End all processes; launches that use them start others when they need them."""
        self._is_closing = True
        self._ticking.cancel()
        ended = Ended("was ended with all shared servers", follows="needed")
        for line in self._lines:
            if line.is_open:
                line.link.send(ENDED + msgspec.json.encode(SharedEnd(ended=ended)))
                line.close()
        for process in list(self._processes):
            self._end(process)
        if self._ending:
            await asyncio.wait(self._ending)
        self._logs.close()
        self._log.close()

    def status(self) -> ServerHostStatus:
        return ServerHostStatus(pid=os.getpid(), servers=tuple(map(self._standing, self._processes)))

    def compare(self, server: SharedServer) -> list[SharedLikeness]:
        """Say what keeps each process apart from a server, of those that have its name or its words."""
        return [
            SharedLikeness(
                pid=process.relay.process.supervisor.pid,
                labels=tuple(each.label for each in self._requests(process)),
                differences=(*differences(server, process.server), *["old code"] * process.relay.process.has_old_code),
            )
            for process in self._processes
            if server.name == process.server.name or server.argv == process.server.argv
        ]

    def _requests(self, process: HostedProcess) -> list[SharedRequest]:
        """Return what the launches that use a process have asked, one of each."""
        return list({each.request.launch: each.request for each in process.users if each.request is not None}.values())

    def _standing(self, process: HostedProcess) -> SharedStanding:
        relay = process.relay.process
        return SharedStanding(
            name=process.plan.name,
            state=relay.standing.state if relay.standing else "declared",
            since=process.since,
            pid=relay.supervisor.pid,
            restarts=relay.supervisor.restarts,
            log=self._log_name(process),
            uses=tuple(
                SharedUse(label=each.label, launch=each.launch, pid=each.pid) for each in self._requests(process)
            ),
        )

    def _log_name(self, process: HostedProcess) -> str:
        return written(LogName(this_launch(), PROFILE, process.plan.name))

    # The observer of the servers.

    def changed(self, change: Change) -> None:
        self._logs.mark(change.server, " ".join(filter(None, (change.state, change.exit, change.reason))))
        process = next((each for each in self._processes if each.plan.name == change.server), None)
        if process is None:
            return
        loop = asyncio.get_running_loop()
        if change.state in OVER:
            loop.call_soon(self._fail, process, change)  # after the answers to the calls that it leaves behind
        elif change.state == "resting":
            process.gone = change.exit or "has ended"
        else:
            gone, process.gone = process.gone, ""
            loop.call_soon(self._tell_joined, process, gone)

    def listed(self) -> None:
        """Do nothing: the launches know."""

    def note(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a full disk ends no server
            self._log.mark(redactor.text(text))

    def _note_left(self, server: str, names: object) -> None:
        self.note(f"{server} wrote into its own directory, which is removed now")

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        """Do nothing: the launches tell of their calls."""

    def log(self, server: str) -> Callable[[bytes], None]:
        return self._logs.of(server)

    def log_end(self, server: str) -> None:
        self._logs.end(server)

    async def tell(self) -> None:
        """Do nothing."""


def plan_of(server: SharedServer, name: str, directory: Path) -> StdioPlan:
    """Return the plan of a process of the host."""
    return StdioPlan(
        name=name,
        command=Path(server.argv[0]),
        args=tuple(Value((argument,), INHERITED) for argument in server.argv[1:]),
        env={variable: Value((text,), INHERITED) for variable, text in server.env.items()},
        cwd=directory,
        **asdict(server.options),
    )
