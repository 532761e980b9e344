"""
A conversation between the agent and a server at work: the agent's link, the exchange, and the server's processes.

A relay may run ahead of the agent: it starts the process and pings it while the agent still starts. Messages for an
agent that has not connected yet are held, within bounds.

A side that does not read makes the other one wait, as with a plain pipe, and also itself if it goes on sending us
requests.
"""

import asyncio
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from acp_launch.bridge.conversation import GIVEN_UP, ConversationState, ServerGone, ServerObserver
from acp_launch.bridge.elevation import Elevation, Elevations, Sessions
from acp_launch.bridge.exchange import Exchange
from acp_launch.bridge.process import ServerProcess, known_era
from acp_launch.bridge.seat import ShimConnection
from acp_launch.bridge.toolpolicy import ToolPolicy
from acp_launch.plan.model import ServerPlan
from acp_launch.process.flow import FastPath, Link, LinkEnd, LinkUser
from acp_launch.process.program import Lines, Program
from acp_launch.profile.keys import server_keys
from acp_launch.profile.model import Tools
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.bridge.cached import CachedAnswers
    from acp_launch.bridge.multiplexer import SharedLink
    from acp_launch.trace import MessageTrace


def policy(plan: ServerPlan) -> "ToolPolicy | None":
    """Make the policy for a server's tools; None if every tool is allowed."""
    if plan.tools == Tools():
        return None

    restricting = ToolPolicy(plan.name, plan.tools)
    return None if restricting.is_open else restricting


def is_carried(before: ServerPlan, now: ServerPlan) -> bool:
    """Return whether a conversation can go on with another process of the server."""
    if type(before) is not type(now) or now.start == "lazy" or now.session_elevation != "off":
        return False
    carried = {*server_keys(lambda key: key.is_carried), "missing", "compared"}  # these two follow from others
    return all(getattr(before, name) == getattr(now, name) for name in {*before.__struct_fields__} - carried)


MAX_EARLY_BYTES = 1024 * 1024  # for an agent that has not connected yet; the server waits with the rest
ANSWER_TIMEOUT = stretch(0.5)  # to an agent that has closed its side
AWAY = 120.0  # seconds in which an elevated session without a connection can be resumed


class ProxyConversation(LinkUser):
    """One conversation at work; `left` is set when the agent has gone.

    `cached` are the answers of a lazy server, which is asleep until it is needed if they are known. A shared server
    has one relay for all sessions of the agent. With `trace` each message is written to a trace. Errors name the server
    as it is `known_as`, by default by its name.
    """

    def __init__(
        self,
        plan: ServerPlan,
        program: Program,
        directories: Sequence[PurePath],
        observer: ServerObserver,
        *,
        max_line: int,
        cached: "CachedAnswers | None" = None,
        trace: "MessageTrace | None" = None,
        known_as: str = "",
    ) -> None:
        self.left = asyncio.Event()
        self.is_claimed = False  # a shared server never is
        self.elevation: Elevation | None = None  # if an agent may resume its session on another connection
        self._observer, self._max_line, self._trace = observer, max_line, trace
        self._away: asyncio.TimerHandle | None = None
        self._parting: asyncio.TimerHandle | None = None
        self._agent: Link | SharedLink | None = None
        self._shared: SharedLink | None = None
        self._shim: ShimConnection | None = None
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._is_expected = False
        self._loop = asyncio.get_running_loop()
        state = ConversationState(
            known_as or plan.name,
            self,
            observer,
            policy(plan),
            directories,
            call=plan.timeouts.call,
            gives_roots=plan.roots == "session",
            process=program.name,
            cached=cached,
            knowledge=known_era(plan),
        )
        state.needs_inspection |= trace is not None
        self.exchange = Exchange(state, start=plan.timeouts.start)
        self.process = ServerProcess(
            plan, program, self, self.exchange, observer, max_line=max_line, cached=cached, trace=trace
        )
        if cached is not None and cached.is_known:
            self.exchange.fall_asleep()

    @property
    def name(self) -> str:
        """The server's, or `github#2`."""
        return self.process.name

    @property
    def plan(self) -> ServerPlan:
        return self.process.plan

    def connect_agent(self, shim: ShimConnection) -> None:
        """Connect the agent; the relay owns the descriptors from now on."""
        if self.plan.share == "launch":
            self.join(shim)
            return
        self.is_claimed = True
        self._connect(Link(shim.source, shim.sink, self, self._way(), max_line=self._max_line), shim)

    def join(self, shim: ShimConnection, launch: str = "", link: Link | None = None, called: str = "") -> LinkUser:
        """Begin another session of a shared server, and return what takes its lines; `link` is its link, if it has one.

        In the server host `launch` is the id of the launch that it belongs to, which has `called` the server so.
        """
        from acp_launch.bridge.multiplexer import SharedLink  # most servers are not shared

        if self._shared is None:
            self._shared = SharedLink(
                self.name, self, self._way(), self._observer.note, self.wedged, max_line=self._max_line
            )
            self._connect(self._shared, None)
        return self._shared.join(shim, launch, link, called)

    def _way(self) -> FastPath:
        return FastPath(self.exchange.from_agent.forward_fast, self.to_server)

    @property
    def is_left(self) -> bool:
        """Whether the agent has closed its connection, or every session of a shared server."""
        return self.left.is_set() or (self._shared is not None and not self._shared.is_open)

    def close(self) -> None:
        """Close the agent's connection. The process of an elevated session goes on until another one resumes it."""
        if self._agent is not None:
            self._agent.close()
        if (shim := self._disconnect()) is not None:
            shim.close()
        if self.elevation is not None and self.elevation.on_gone() and not self.left.is_set():
            self._away = self._away or self._loop.call_later(AWAY, self._expire)
            if self.process.link is not None:
                self.process.link.resume()  # it may have waited for the connection to take more
        else:
            self._expire()

    def elevate(self, sessions: Elevations, of_server: Sessions) -> None:
        """Let the agent open elevated sessions, and ask the server for one."""
        state = self.exchange.state
        self.elevation = Elevation(self, state, self.exchange.restorer, sessions)
        state.needs_inspection = state.questions.keeps_lines = True
        self.exchange.seek(of_server)

    def tick(self) -> None:
        """Check time-outs, and for agents that left while they were not read; called now and then."""
        if self._agent is not None and self._agent.is_paused and self._agent.has_hung_up:
            self.close()
        if self._shared is not None:
            self._shared.tick()
        self.process.tick()

    # Ports of the elevated session.

    @property
    def is_connected(self) -> bool:
        return self._agent is not None

    def from_agent(self, line: bytes) -> None:
        self.exchange.from_agent(line)

    def move(self, elevation: "Elevation") -> None:
        other, agent = elevation.conversation, self._agent
        assert isinstance(other, ProxyConversation)
        assert isinstance(agent, Link)
        self.exchange.on_gone(ServerGone(server=self.plan.name, why="was left for another session"), for_good=True)
        shim = self._disconnect()
        assert shim is not None
        other.close()
        other.exchange.state.take_over(self.exchange.state)
        agent.serve(other, other._way())
        other._connect(agent, shim)
        self.close()

    def release(self) -> None:
        if self._agent is None:
            self._expire()

    # Ports of the exchange.

    def to_agent(self, line: bytes, messages: Sequence[Envelope] = ()) -> None:
        self.process.is_used = True
        if self.elevation is None:
            self.deliver(line)
        else:
            self.elevation.to_agent(line)

    def deliver(self, line: bytes) -> None:
        if self._agent is None and self.left.is_set():
            return
        if self._trace is not None:
            self._trace.write("server", "agent", line)
        if self._agent is None:
            self._keep(line)
            return
        self._agent.send(line)
        if self._agent.is_full and self.process.link is not None:
            self.process.link.pause()

    def to_server(self, line: bytes, messages: Sequence[Envelope] = ()) -> None:
        if self.process.adapter is None:
            self.write(line, messages)
        else:
            self.process.translate(line)

    def write(self, line: bytes, messages: Sequence[Envelope] = ()) -> None:
        """Write a line to the server's process, if there is one."""
        link = self.process.link
        if link is None:
            return
        if self._trace is not None:
            self._trace.write("agent", "server", line)
        link.send(line, messages)
        if link.is_full and self._agent is not None:
            self._agent.pause()

    def alive(self) -> None:
        if self.process.times.messages < 2:  # this is called for every message
            self.process.heard_first()

    def ready(self) -> None:
        self.process.ready()

    def refused(self, hello: bytes, refusal: bytes) -> bool:
        return self.process.refused(hello, refusal)

    def wedged(self, reason: str) -> None:
        self.give_up()
        self.process.supervisor.condemn(reason)

    def give_up(self) -> None:
        """Tell the server host, if the process is there, that this launch has no more use for it as it is."""
        if self.plan.share == "user" and self.process.link is not None:
            self.process.link.send(GIVEN_UP)

    def now(self) -> float:
        return self._loop.time()

    # The agent's link.

    def receive(self, line: bytes) -> None:
        if self._trace is None:
            self._handle(line)
        else:
            self._trace.follow("agent", line, self._handle)

    def _handle(self, line: bytes) -> None:
        """Handle a line of the agent; pause an agent that sends requests but does not read our own answers."""
        agent, process = self._agent, self.process
        assert agent is not None
        held, process.is_used = agent.held, True
        if process.times.asked is None:
            process.times.asked = self._loop.time()
        if process.link is None:
            process.retry_after_login()
        if self.elevation is None:
            self.exchange.from_agent(line)
        else:
            self.elevation.from_agent(line)
        if agent.held > held and agent.is_full:
            agent.pause()
        process.start_if_needed()
        if not self._is_expected and self.exchange.is_introduced:
            self._is_expected = True
            process.supervisor.expect()  # from the handshake on, the agent waits for the process

    def over(self, end: LinkEnd) -> None:
        if end.is_fault:
            self._observer.note(f"the agent's connection to {self.name} is closed: it {end.why}")
        if end.is_fault or not self._owes_answers():
            self.close()
        else:
            self._parting = self._loop.call_later(ANSWER_TIMEOUT, self.close)

    def on_drained(self) -> None:
        self._resume(self.process.link, self._agent)
        self._see_off()

    def on_burst(self, is_on: bool) -> None:
        for link in (self._agent, self.process.link):
            if link is not None:
                link.cork() if is_on else link.uncork()
        if not is_on:
            self._see_off()

    def fail(self, error: Exception) -> None:
        self.exchange.state.mishaps.add("the agent", error)

    # For the server's process.

    def room_at_server(self) -> None:
        self._resume(self._agent, self.process.link)

    def take_kept(self) -> list[bytes]:
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        return kept

    def follow_up(self) -> None:
        if self._is_expected and not self.exchange.is_introduced:
            self._is_expected = False
            self.process.supervisor.unexpect()  # its handshake was refused, and may be tried again
        if self._agent is not None:
            self._agent.resume()  # it was paused for a server that has ended

    # Private.

    def _connect(self, agent: "Link | SharedLink", shim: ShimConnection | None) -> None:
        self._agent, self._shim = agent, shim
        if self._away is not None:
            self._away.cancel()
            self._away = None
        for kept in self.take_kept():
            agent.send(kept)
        if self.process.link is not None and not agent.is_full:
            self.process.link.resume()
        if shim is not None and shim.lent:
            self._loop.add_reader(shim.line, self.close)  # readable only at its end, when the shim has ended

    def _disconnect(self) -> ShimConnection | None:
        """Forget the agent's connection, and return it."""
        shim, self._agent, self._shim = self._shim, None, None
        if shim is not None and shim.lent:
            self._loop.remove_reader(shim.line)
        if self._parting is not None:
            self._parting.cancel()
            self._parting = None
        return shim

    def _expire(self) -> None:
        if self._away is not None:
            self._away.cancel()
        self.left.set()
        if self.elevation is not None:
            self.elevation.end()

    def _keep(self, line: bytes) -> None:
        self._kept.append(line)
        self._kept_bytes += len(line)
        if self._kept_bytes > MAX_EARLY_BYTES and self.process.link is not None:
            self.process.link.pause()

    def _owes_answers(self) -> bool:
        """Tell whether answers are due: an agent that pipes its requests closes its side but still reads."""
        return self.exchange.is_waiting or (self._agent is not None and self._agent.held > 0)

    def _see_off(self) -> None:
        if self._parting is not None and not self._owes_answers():
            self.close()

    def _resume(self, writer: "Link | SharedLink | Lines | None", reader: "Link | SharedLink | Lines | None") -> None:
        """Resume both sides after `reader` has taken its held bytes, which came from its peer and from us."""
        if writer is not None:
            writer.resume()
        if reader is not None and not (writer is not None and writer.is_full):
            reader.resume()
