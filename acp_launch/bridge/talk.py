"""The state both halves of a conversation share (see exchange.py), and whom it talks to. Sans-IO."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, Protocol

from acp_launch.bridge import refusal
from acp_launch.bridge.health import Health
from acp_launch.bridge.ledger import Asked, Ledger, Questions
from acp_launch.bridge.refusal import Lost
from acp_launch.bridge.replay import Memory
from acp_launch.bridge.waiting import Queue, Waiting
from acp_launch.protocol.mishap import Mishaps

if TYPE_CHECKING:
    from acp_launch.bridge.toolpolicy import ToolPolicy

Phase = Literal["absent", "replaying", "open", "final"]
CANCELLED, PROGRESS, PING = "notifications/cancelled", "notifications/progress", "ping"


class Surroundings(Protocol):
    """Whoever carries the lines and drives the process. It must not call the exchange from within these."""

    def to_agent(self, line: bytes) -> None:
        """One message, without its newline; kept until the agent has come."""

    def to_server(self, line: bytes) -> None: ...

    def alive(self) -> None:
        """The server has said something sensible."""

    def ready(self) -> None:
        """It has answered the agent's handshake."""

    def listed(self) -> None:
        """The agent was shown its tools."""

    def wedged(self, reason: str) -> None:
        """Its process is of no use any more; `reason` completes "the server …"."""

    def note(self, text: str) -> None:
        """Something a person may want to know; it may quote what was sent."""

    def noise(self, line: bytes) -> None:
        """The first line of the server's stdout that is no message; it may hold anything."""

    def waiting(self, method: str, seconds: float, limit: float) -> None:
        """A request has been with the server for so long; at `limit` it is given up."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""


class Talk:
    """`policy` is None where every tool is allowed; `directories` are the session's, for `roots/list`.

    `call` is `timeouts.call` in seconds; with `gives_roots` the server is told that it may ask for them.
    """

    def __init__(
        self,
        server: str,
        around: Surroundings,
        policy: "ToolPolicy | None",
        directories: Sequence[PurePath],
        *,
        call: float | None,
        health: Health,
        gives_roots: bool,
    ) -> None:
        self.server, self.around, self.policy, self.directories = server, around, policy, directories
        self.call, self.health, self.gives_roots = call, health, gives_roots
        self.phase: Phase = "absent"
        self.memory = Memory()
        self.ledger, self.questions, self.queue = Ledger(), Questions(), Queue()
        self.mishaps = Mishaps(around.note)
        self.lost = Lost(server=server, why="has not been started yet")
        self.agent_has_roots = False
        self.handshake = b""  # the key of the agent's `initialize`
        self.is_ready = False
        self.has_asked = False  # the agent has, anything
        self.is_modern = False  # it shakes no hands (era.py), so we ping nothing before it speaks
        self.was_pinged = False  # we pinged the process that is there now, before anybody else spoke to it
        self.opening: Waiting | None = None  # the first request of a modern agent, until it is answered

    def forward(self, asked: Asked, line: bytes) -> bytes | None:
        """A request on its way to the server: the line to send now, None when it has to wait or is refused."""
        if self.phase == "open":
            asked.silent_since = self.around.now()
            self.ledger.ask(asked)
            return line
        if self.phase == "final" or not self.queue.put(Waiting(line, asked, self.around.now())):
            self.refuse(asked)
        return None

    def refuse(self, asked: Asked, *, was_sent: bool = False) -> None:
        self.around.to_agent(self.lost.line(asked.id, asked.method, was_sent=was_sent))

    def open(self) -> None:
        """From here on everything passes; what waited goes first."""
        self.phase = "open"
        for waiting in self.queue.take_all():
            if waiting.asked is not None:
                self.ledger.ask(waiting.asked)
                waiting.asked.silent_since = self.around.now()
            self.around.to_server(waiting.line)

    def become_ready(self) -> None:
        if not self.is_ready:
            self.is_ready = True
            self.around.ready()

    def pong(self, asked: Asked) -> None:
        self.around.to_agent(refusal.result(asked.id, {}))
