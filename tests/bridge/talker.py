"""Both ends of an exchange in one test: what the agent and the server say, what each of them hears."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Self

from acp_launch.bridge.cached import CachedAnswers
from acp_launch.bridge.conversation import ConversationState, ServerGone
from acp_launch.bridge.exchange import AgentSide, Exchange, ServerSide
from acp_launch.bridge.toolpolicy import ToolPolicy
from acp_launch.profile.model import Tools
from tests.bridge.observing import Silent

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "7"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
KILLED = ServerGone(
    server="github", why="was killed by SIGKILL", comes_back="it is being started again", stderr=("oh",)
)
DEAD = ServerGone(
    server="github", why="failed: exited with status 1; 5 restarts are used up", stderr=("no token", "bye")
)
ANEW = ServerGone(server="github", why="was restarted by the user", comes_back="it is being started again")
Json = dict[str, Any]


@dataclass
class Talker(Silent):
    """Implements Ports and ServerObserver, and remembers."""

    tools: Tools = field(default_factory=Tools)
    start: float = 30.0
    call: float | None = None
    directories: Sequence[PurePosixPath] = (PurePosixPath("/project/a b"), PurePosixPath("/lib/é%"))
    gives_roots: bool = False
    cached: CachedAnswers | None = None
    is_quick: bool = False  # offers each line to `passes` first, as a link does
    clock: float = 1000.0
    agent_heard: list[bytes] = field(default_factory=list)
    server_heard: list[bytes] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        policy = ToolPolicy("github", self.tools)
        state = ConversationState(
            "github",
            self,
            self,
            None if policy.is_open else policy,
            self.directories,
            gives_roots=self.gives_roots,
            call=self.call,
            cached=self.cached,
        )
        self.exchange = Exchange(state, start=self.start)
        if self.cached is not None and self.cached.is_known:
            self.exchange.fall_asleep()

    def to_agent(self, line: bytes) -> None:
        self.agent_heard.append(line)

    def to_server(self, line: bytes) -> None:
        self.server_heard.append(line)

    def alive(self) -> None:
        if "alive" not in self.events:
            self.events.append("alive")

    def ready(self) -> None:
        self.events.append("ready")

    def listed(self) -> None:
        self.events.append("listed")

    def refused(self, hello: bytes, refusal: bytes) -> bool:
        return False

    def wedged(self, reason: str) -> None:
        self.events.append(f"wedged: {reason}")

    def note(self, text: str) -> None:
        self.events.append(f"note: {text}")

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        self.events.append(f"waiting: {what} for {seconds:g} of {limit:g} s")

    def now(self) -> float:
        return self.clock

    def agent(self, *messages: Json | bytes) -> None:
        for message in messages:
            self._says(self.exchange.from_agent, self.to_server, message)

    def server(self, *messages: Json | bytes) -> None:
        for message in messages:
            self._says(self.exchange.from_server, self.to_agent, message)

    def _says(self, side: AgentSide | ServerSide, on: Callable[[bytes], None], message: Json | bytes) -> None:
        said = message if isinstance(message, bytes) else line(message)
        if self.is_quick and side.forward_fast(said):
            on(said)
        else:
            side(said)

    def agent_hears(self) -> list[Any]:
        """What is new since the last look."""
        heard, self.agent_heard[:] = [json.loads(each) for each in self.agent_heard], []
        return heard

    def server_hears(self) -> list[Any]:
        heard, self.server_heard[:] = [json.loads(each) for each in self.server_heard], []
        return heard

    def attached(self) -> Self:
        """There is a process."""
        self.exchange.attached()
        return self

    def introducing(self) -> Self:
        """Attached, and the handshake is not answered yet."""
        self.attached().agent(INITIALIZE)
        return self

    def introduced(self, **capabilities: Any) -> Self:
        """Attached, and the handshake is done."""
        self.exchange.attached()
        initialize = json.loads(json.dumps(INITIALIZE))
        initialize["params"]["capabilities"] = capabilities
        self.agent(initialize)
        self.server(answer(0, HELLO))
        self.agent(INITIALIZED)
        self.agent_hears(), self.server_hears()
        return self

    def killed(self) -> Self:
        """The process has ended, and another one follows."""
        self.exchange.on_gone(KILLED, for_good=False)
        return self

    def restarted(self) -> None:
        self.killed().back()

    def wait(self, seconds: float) -> None:
        """Let time pass, and look at the clock."""
        self.clock += seconds
        self.exchange.tick()

    def back(self) -> None:
        """Another process, up to the answered replay."""
        self.exchange.attached()
        self.server(answer(0, HELLO))


def line(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def ask(id: object, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def tell(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answer(id: object, result: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def call(id: object, tool: str = "echo") -> Json:
    return ask(id, "tools/call", name=tool, arguments={})
