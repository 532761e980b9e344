"""
A conversation between the agent and a server at work: the agent's link, the exchange, and the server's processes.

A relay may run ahead of the agent: it starts the process and pings it while the agent still starts. Messages for an
agent that has not connected yet are held, within bounds.

A side that does not read makes the other one wait, as with a plain pipe, and also itself if it goes on sending us
requests.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct
from msgspec.structs import replace

from acp_launch.bridge.conversation import ServerObserver
from acp_launch.bridge.exchange import Exchange
from acp_launch.bridge.link import Hears, Link, LinkEnd
from acp_launch.bridge.messages import Lost, lost
from acp_launch.bridge.seat import ShimConnection
from acp_launch.mcp.era import Knowledge, pinned, suggests_stateless
from acp_launch.plan.model import RemotePlan, ServerPlan, StdioPlan
from acp_launch.process import prepare
from acp_launch.process.child import WORD, Child
from acp_launch.process.lifecycle import DOWNLOAD, Change
from acp_launch.process.program import Lines, Program, Running
from acp_launch.process.supervisor import Supervisor
from acp_launch.profile.model import ServerTimeouts, Tools
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.bridge.elevation import Elevation, Elevations
    from acp_launch.bridge.presentation import Presentations
    from acp_launch.bridge.sharedlink import SharedLink
    from acp_launch.bridge.toolpolicy import ToolPolicy
    from acp_launch.bridge.upstream import Sessions, Upstream
    from acp_launch.mcp.adapter import EraAdapter
    from acp_launch.mcp.http.wire import Credentials
    from acp_launch.trace import Side, Trace


def policy(plan: ServerPlan) -> "ToolPolicy | None":
    """Make the policy for a server's tools; None if every tool is allowed."""
    if plan.tools == Tools():
        return None
    from acp_launch.bridge.toolpolicy import ToolPolicy  # compiles regular expressions, and is rarely needed

    restricting = ToolPolicy(plan.name, plan.tools)
    return None if restricting.is_open else restricting


# What may differ between two plans of a server without an effect on a conversation that goes on.
CARRIED = frozenset(
    {"command", "args", "cwd", "required", "restart", "missing", "url", "headers", "env", "env_headers", "oauth"}
)


def is_carried(before: ServerPlan, now: ServerPlan) -> bool:
    """Return whether a conversation can go on with another process of the server."""
    if type(before) is not type(now) or now.start == "lazy" or now.session_elevation != "off":
        return False
    return all(getattr(before, name) == getattr(now, name) for name in {*before.__struct_fields__} - CARRIED)


KEPT = 1024 * 1024  # bytes held for an agent that has not connected yet; the server waits with the rest
LINGER = stretch(0.5)  # seconds for answers to an agent that has closed its side
AWAY = 120.0  # seconds in which an elevated session without a connection can be resumed
DYING = stretch(0.5)  # seconds for a process to exit after its output has ended, before it is stopped


def known_era(plan: ServerPlan) -> Knowledge:
    """Return what a plan says of the server's era."""
    return pinned(plan.protocol, plan.type if isinstance(plan, RemotePlan) else "")


def own_time(begun: float, first: float | None, asked: float, now: float) -> float:
    """Return the seconds that a server itself needed from its start to its answer to the agent.

    `first` is the time of its first message before that answer, None if there was none; `asked` is the time of the
    agent's request. The time between the two does not count, because the server waited for the agent. A server that
    was silent until the request may have been ready all the time.
    """
    asked = max(begun, asked)
    if first is None:
        return now - asked
    return now - begun if first >= asked else first - begun + now - asked


class AdapterPorts(Struct, frozen=True):
    """The ports of a relay's era adapter."""

    to_agent: Callable[[bytes], None]
    to_server: Callable[[bytes], None]
    heard: Callable[[], None]
    broke: Callable[[str, Exception], None]
    now: Callable[[], float]


class Relay:
    """One conversation at work. `name` is the server's, or `github#2`; `left` is set when the agent has gone.

    `presentations` are those of a lazy server, which is asleep until it is needed if they are known. A shared server
    has one relay for all sessions of the agent.
    """

    def __init__(
        self,
        plan: ServerPlan,
        program: Program,
        directories: Sequence[PurePath],
        observer: ServerObserver,
        *,
        max_line: int,
        presentations: "Presentations | None" = None,
    ) -> None:
        self.name = program.name
        self.plan = plan
        self.standing: Change | None = None  # the last
        self.took: float | None = None  # seconds its latest process needed itself to be READY
        self.left = asyncio.Event()
        self.is_claimed = False  # a shared server never is
        self.is_last = False  # the agent opens no further session
        self.retired = ""  # why no process will follow, for the agent
        self._observer, self._max_line = observer, max_line
        self.elevation: Elevation | None = None  # if an agent may resume its session on another connection
        self.upstream: Upstream | None = None  # the session with a server that has such
        self._away: asyncio.TimerHandle | None = None
        self._agent: Link | SharedLink | None = None
        self._shared: SharedLink | None = None
        self._shim: ShimConnection | None = None
        self._server: Link | Lines | None = None
        self._latest: Running | None = None  # its process, or that which has ended last
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._probe = True
        self._is_expected = False
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._asked: float | None = None  # when the agent first said anything
        self._begun = self._first = 0.0  # when the latest process was started, and first said anything
        self._messages = 0  # of it, up to two
        self._was_stopped = False
        self.credentials: Credentials | None = None  # of a remote server
        self._presentations = presentations
        self._is_used = True  # since the last look
        self._used = self._time()  # when it was in use, as far as the looks have seen
        is_known = presentations is not None and presentations.is_known
        self._adapter: EraAdapter | None = None  # if the server's process has no handshake
        self._adapter_timer: asyncio.TimerHandle | None = None
        self._dying: asyncio.TimerHandle | None = None
        self._parting: asyncio.TimerHandle | None = None
        self.supervisor = Supervisor(
            program,
            restart=plan.restart,
            start=plan.timeouts.start,
            download=plan.timeouts.download if isinstance(plan.timeouts, ServerTimeouts) else DOWNLOAD,
            required=plan.required,
            watcher=self,
            emit=self._changed,
            log=observer.log(self.name),
            begins_asleep=is_known,
        )
        self.exchange = Exchange(
            plan.name,
            self,
            observer,
            policy(plan),
            directories,
            start=plan.timeouts.start,
            call=plan.timeouts.call,
            gives_roots=plan.roots == "session",
            process=self.name,
            presentations=presentations,
            knowledge=known_era(plan),
        )
        if is_known:
            self.exchange.fall_asleep()
        self._is_careful = self.exchange.is_careful
        self._adapter_ports = AdapterPorts(
            self.exchange.from_server, self._write, self.exchange.heard, self.exchange.mishaps.add, self._time
        )

    # The agent's side.

    def seat(self, shim: ShimConnection) -> None:
        """Connect the agent; the relay owns the descriptors from now on."""
        if self.plan.share:
            self._share(shim)
            return
        self.is_claimed = True
        self._connect(Link(shim.source, shim.sink, *self._hears_agent(), max_line=self._max_line), shim)

    def _share(self, shim: ShimConnection) -> None:
        """Begin another session of a shared server."""
        from acp_launch.bridge.sharedlink import Hooks, SharedLink  # most servers are not shared

        if self._shared is None:
            tells = self._session_says, self._emptied, self._agent_has_room, self._burst, self._agent_broke
            self._shared = SharedLink(self.name, Hooks(*tells, self._observer.note), max_line=self._max_line)
            self._connect(self._shared, None)
        self._shared.join(shim)

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
        if self.elevation is not None and self.elevation.lost() and not self.left.is_set():
            self._away = self._away or self._loop.call_later(AWAY, self._expire)
            if self._server is not None:
                self._server.resume()  # it may have waited for the connection to take more
        else:
            self._expire()

    def elevate(self, sessions: "Elevations", of_server: "Sessions") -> None:
        """Let the agent open elevated sessions, and ask the server for one."""
        from acp_launch.bridge.elevation import Elevation  # rarely needed, and takes time to import

        self.elevation = Elevation(self.plan.name, self, sessions, self.exchange.mishaps)
        self.exchange.is_careful = self._is_careful = True
        self.upstream = self.exchange.seek(of_server)

    def tick(self) -> None:
        """Check time-outs, stopped processes, and agents that left while they were not read; called now and then."""
        if self._agent is not None and self._agent.is_paused and self._agent.has_hung_up:
            self.close()
        if self._shared is not None:
            self._shared.tick()
        if self._server is not None and self._server.is_paused:
            self.exchange.excuse()
        is_stopped = self.exchange.is_waiting and self._is_stopped()
        if is_stopped and not self._was_stopped:
            self._observer.note(f"{self.name} is stopped (SIGSTOP); calls to it wait")
        self._was_stopped = is_stopped
        self.exchange.tick(is_stopped=is_stopped, is_fetching=self.supervisor.life.is_fetching)
        self._doze()

    def renew_as(self, plan: ServerPlan, program: Program) -> None:
        """Go on with another process, of a plan that differs only in what `CARRIED` names."""
        self.plan, self._probe, self.exchange.knowledge = plan, True, known_era(plan)
        self.supervisor.renew_as(program, restart=plan.restart, required=plan.required)

    async def retire(self, why: str, hurry: asyncio.Event) -> None:
        """End the server for good; from now on the agent gets errors, which say `why`."""
        self.retired = why
        await self.supervisor.stop(hurry)

    # Events of the server's process, from the supervisor.

    def started(self, child: Running) -> None:
        self._server = self._hear(child)
        self._latest, self._begun, self._messages = child, self._time(), 0
        if self.exchange.knowledge.server == "stateless":
            self._adapt()
        self.exchange.attached(probe=self._probe)

    def _hear(self, child: Running) -> Link | Lines:
        if (lines := child.lines) is not None:
            lines.listen(self._remote_says, self._server_has_room, self._burst)
            return lines
        assert isinstance(child, Child)
        hears = (self._server_says, self._server_over, self._server_has_room, self._burst, self._server_broke)
        passes = self.exchange.from_server.passes
        return Link(
            child.source,
            child.sink,
            *hears,
            passes,
            lambda lines, messages: self.to_agent(lines),
            max_line=self._max_line,
        )

    def ending(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            self.exchange.detached()
        self._stop_adapter_timer()

    def lost(self, change: Change) -> None:
        if self._server is not None:
            self._server.drain()
        self.ending()
        if self._dying is not None:
            self._dying.cancel()
        if change.after is not None and not self.supervisor.has_answered and isinstance(self.plan, StdioPlan):
            self._probe = False  # the ping itself may have ended it
        self._take_kept()
        unsent = self._latest.unsent if self._latest else ()
        self._latest = None
        for_good = change.state not in ("resting", "asleep") and not self._was_provoked()
        if self._adapter is not None:
            unsent = self._adapter.ended(unsent)
            self._remove_adapter()
        if isinstance(self.plan, RemotePlan):
            change = replace(change, reason="", detail=())  # they name its address, which is not for the agent
        if change.by_hand and self.upstream is not None:
            self.upstream.end()
        told = lost(change, self.plan.name)
        told = replace(told, why=self.retired or told.why, stderr=() if self.retired else told.stderr)
        self.exchange.lost(told, for_good=for_good, unsent=unsent)
        if change.state == "asleep":
            self.exchange.fall_asleep()
            self._loop.call_soon(self._wake)  # a request may have come while it was ended
        self._follow_up()

    def _follow_up(self) -> None:
        if self._is_expected and not self.exchange.is_introduced:
            self._is_expected = False
            self.supervisor.unexpect()  # its handshake was refused, and may be tried again
        if self._agent is not None:
            self._agent.resume()  # it was paused for a server that has ended

    # Ports of the elevated session.

    @property
    def is_connected(self) -> bool:
        return self._agent is not None

    def take(self, line: bytes) -> None:
        self.exchange.from_agent(line)

    def unsubscribe(self) -> None:
        self.exchange.unsubscribe()

    def move(self, elevation: "Elevation") -> None:
        other, agent = elevation.conversation, self._agent
        assert isinstance(other, Relay)
        assert isinstance(agent, Link)
        self.exchange.lost(Lost(server=self.plan.name, why="was left for another session"), for_good=True)
        shim = self._disconnect()
        assert shim is not None
        other.close()
        other.exchange.take_over(self.exchange)
        agent.hear(*other._hears_agent())
        other._connect(agent, shim)
        self.close()

    def release(self) -> None:
        if self._agent is None:
            self._expire()

    # Ports of the exchange.

    def to_agent(self, line: bytes) -> None:
        self._is_used = True
        if self.elevation is None:
            self.deliver(line)
        else:
            self.elevation.to_agent(line)

    def deliver(self, line: bytes) -> None:
        if self._agent is None:
            if not self.left.is_set():
                self._keep(line)
            return
        self._agent.send(line)
        if self._agent.is_full and self._server is not None:
            self._server.pause()

    def to_server(self, line: bytes, messages: Sequence[Envelope] = ()) -> None:
        if self._adapter is None:
            self._write(line, messages)
        else:
            self._adapter.from_agent(line)
            self._look_after_adapter()

    def _write(self, line: bytes, messages: Sequence[Envelope] = ()) -> None:
        if self._server is None:
            return
        self._server.send(line, messages)
        if self._server.is_full and self._agent is not None:
            self._agent.pause()

    def alive(self) -> None:
        if self._messages < 2:  # this is called for every message
            self._messages += 1
            if self._messages == 1:
                self._first = self._time()
                self.supervisor.answered()

    def ready(self) -> None:
        now = self._time()
        first = self._first if self._messages > 1 else None
        asked = now if self._asked is None else self._asked
        self.supervisor.ready(own_time(self._begun, first, asked, now))

    def refused(self, hello: bytes, refusal: bytes) -> bool:
        message = jsonrpc.decode(refusal)
        assert message is not None
        assert message.error is not UNSET
        if self._adapter is not None or not suggests_stateless(message.error):
            return False
        self._adapt().introduce(hello, refusal)
        return True

    def wedged(self, reason: str) -> None:
        self.supervisor.condemn(reason)

    def now(self) -> float:
        return self._time()

    # Private.

    def _hears_agent(self) -> Hears:
        hears = (self._agent_says, self._agent_over, self._agent_has_room, self._burst, self._agent_broke)
        return *hears, self.exchange.from_agent.passes, self.to_server

    def _connect(self, agent: "Link | SharedLink", shim: ShimConnection | None) -> None:
        self._agent, self._shim = agent, shim
        if self._away is not None:
            self._away.cancel()
            self._away = None
        for kept in self._take_kept():
            agent.send(kept)
        if self._server is not None and not agent.is_full:
            self._server.resume()
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
        """End the conversation."""
        if self._away is not None:
            self._away.cancel()
        self.left.set()
        if self.elevation is not None:
            self.elevation.end()

    def _agent_says(self, line: bytes) -> None:
        """Handle a line of the agent; pause an agent that sends requests but does not read our own answers."""
        agent = self._agent
        assert agent is not None
        held, self._is_used = agent.held, True
        if self._asked is None:
            self._asked = self._time()
        if self._server is None and self._has_hope:
            self.supervisor.renew()
        if self.elevation is None:
            self.exchange.from_agent(line)
        else:
            self.elevation.from_agent(line)
        if agent.held > held and agent.is_full:
            agent.pause()
        self._wake()
        if not self._is_expected and self.exchange.is_introduced:
            self._is_expected = True
            self.supervisor.expect()  # from the handshake on, the agent waits for the process

    def _session_says(self, line: bytes) -> None:
        if self._agent is None:  # the relay is closed
            return
        if (message := self.exchange.from_agent.passes(line)) is not None:
            self.to_server(line, (message,))
        else:
            self._agent_says(line)

    def _emptied(self) -> None:
        if self.is_last:
            self.close()

    @property
    def _has_hope(self) -> bool:
        """Whether a remote server that has failed may be of use now, as the user has logged in to it since."""
        return self.credentials is not None and self.supervisor.state == "failed" and self.credentials.has_news

    def _wake(self) -> None:
        """Have a process started, or a connection made, because a request waits for it."""
        is_lazy = isinstance(self.plan, RemotePlan) or self.exchange.phase == "asleep"
        if is_lazy and self._server is None and self.exchange.is_waiting:
            self.supervisor.need()

    def _doze(self) -> None:
        """Send a server to sleep that was not used for its `idle`."""
        now, idle = self._time(), self.plan.idle
        if self._is_used or self.exchange.is_in_use or not self.supervisor.life.is_up:
            self._is_used, self._used = False, now
        elif idle is not None and now - self._used >= idle:
            self.supervisor.sleep()

    def _server_says(self, line: bytes) -> None:
        server = self._server
        assert server is not None
        held = server.held
        if self._adapter is None:
            self.exchange.from_server(line)
        else:
            self._adapter.from_server(line)
            self._look_after_adapter()
        if server.held > held and server.is_full:
            server.pause()

    def _remote_says(self, line: bytes, message: Envelope | None) -> None:
        try:
            if self.exchange.from_server.passes(line, message) is not None:
                self.to_agent(line)
            else:
                self._server_says(line)
        except Exception as error:
            self._server_broke(error)

    def _adapt(self) -> "EraAdapter":
        """Put an adapter between the conversation and a process that has no handshake."""
        from acp_launch.mcp.adapter import EraAdapter  # few servers need it

        self._adapter = EraAdapter(self.plan.name, self._adapter_ports, self.exchange.knowledge)
        self.exchange.is_careful = True  # no line may pass by it
        return self._adapter

    def _look_after_adapter(self) -> None:
        """Set the timer of the adapter, or take it out of the path once it is not needed."""
        adapter = self._adapter
        if adapter is None:
            return
        self._stop_adapter_timer()
        if not adapter.is_needed:
            self._remove_adapter()
        elif (due := adapter.due) is not None and self._server is not None:
            self._adapter_timer = self._loop.call_at(due, self._tick_adapter)

    def _remove_adapter(self) -> None:
        self._adapter = None
        self.exchange.is_careful = self._is_careful

    def _stop_adapter_timer(self) -> None:
        if self._adapter_timer is not None:
            self._adapter_timer.cancel()
            self._adapter_timer = None

    def _tick_adapter(self) -> None:
        self._adapter_timer = None
        if self._adapter is not None:
            self._adapter.tick()
        self._look_after_adapter()

    def _was_provoked(self) -> bool:
        """Tell whether a process has ended on an agent's question for its era, which it did not know.

        Another one is started then, because its restart policy is not for that.
        """
        knowledge = self.exchange.knowledge
        if knowledge.server is not None or not isinstance(self.plan, StdioPlan) or not self.exchange.is_discovering:
            return False
        knowledge.learn("handshake")
        self._loop.call_soon(self.supervisor.renew)
        return True

    def _agent_broke(self, error: Exception) -> None:
        self.exchange.mishaps.add("the agent", error)

    def _server_broke(self, error: Exception) -> None:
        self.exchange.mishaps.add(f"the MCP server {self.name}", error)

    def _burst(self, is_on: bool) -> None:
        """Write lines that came in one chunk in one chunk."""
        for link in (self._agent, self._server):
            if link is not None:
                link.gather() if is_on else link.release()
        if not is_on:
            self._see_off()

    def _keep(self, line: bytes) -> None:
        self._kept.append(line)
        self._kept_bytes += len(line)
        if self._kept_bytes > KEPT and self._server is not None:
            self._server.pause()

    def _take_kept(self) -> list[bytes]:
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        return kept

    def _changed(self, change: Change) -> None:
        self.standing = change
        if change.state == "ready":
            self.took = change.after
        if change.state == "asleep" and self._presentations is not None:
            self._presentations.save()
        self._observer.changed(change)

    def _agent_over(self, over: LinkEnd) -> None:
        if over.is_fault:
            self._observer.note(f"the agent's connection to {self.name} is closed: it {over.why}")
        if over.is_fault or not self._owes_answers():
            self.close()
        else:
            self._parting = self._loop.call_later(LINGER, self.close)

    def _owes_answers(self) -> bool:
        """Tell whether answers are due: an agent that pipes its requests closes its side but still reads."""
        return self.exchange.is_waiting or (self._agent is not None and self._agent.held > 0)

    def _see_off(self) -> None:
        if self._parting is not None and not self._owes_answers():
            self.close()

    def _agent_has_room(self) -> None:
        self._resume(self._server, self._agent)
        self._see_off()

    def _server_has_room(self) -> None:
        self._resume(self._agent, self._server)

    def _resume(self, writer: "Link | SharedLink | Lines | None", reader: "Link | SharedLink | Lines | None") -> None:
        """Resume both sides after `reader` has taken its held bytes, which came from its peer and from us."""
        if writer is not None:
            writer.resume()
        if reader is not None and not (writer is not None and writer.is_full):
            reader.resume()

    def _server_over(self, over: LinkEnd) -> None:
        """Give the process time to exit by itself after its pipe has ended, so that its exit status can be reported."""
        if over.is_fault:
            self.supervisor.condemn(over.why)
            return
        child = self.supervisor.child

        def help_along(patience: float) -> None:
            if self.supervisor.child is child:
                if patience and child is not None and child.is_dead:
                    self._dying = self._loop.call_later(patience, help_along, 0.0)
                else:
                    self.supervisor.condemn(over.why)

        self._dying = self._loop.call_later(DYING, help_along, WORD)

    def _is_stopped(self) -> bool:
        child = self.supervisor.child
        process = prepare.table().read(child.pid) if child and child.pid is not None else None
        return process is not None and process.is_stopped


class TracedRelay(Relay):
    """A relay that writes each message to a trace, once: from its sender to the side that gets it unchanged.

    A message that the exchange keeps, answers or changes goes to acp-launch, and what it sends instead comes from it.
    """

    def __init__(
        self,
        plan: ServerPlan,
        program: Program,
        directories: Sequence[PurePath],
        observer: ServerObserver,
        *,
        max_line: int,
        trace: "Trace",
        presentations: "Presentations | None" = None,
    ) -> None:
        self._trace = trace
        self._crossing: tuple[Side, bytes] | None = None  # the message in hand and its sender, until it is written
        super().__init__(plan, program, directories, observer, max_line=max_line, presentations=presentations)
        self.exchange.is_careful = self._is_careful = True

    def deliver(self, line: bytes) -> None:
        if self._agent is not None or not self.left.is_set():
            self._passes("server", "agent", line)
        super().deliver(line)

    def _write(self, line: bytes, messages: Sequence[Envelope] = ()) -> None:
        if self._server is not None:
            self._passes("agent", "server", line)
        super()._write(line, messages)

    def _agent_says(self, line: bytes) -> None:
        self._crossing = "agent", line
        super()._agent_says(line)
        self._stays()

    def _server_says(self, line: bytes) -> None:
        self._crossing = "server", line
        super()._server_says(line)
        self._stays()

    def _agent_broke(self, error: Exception) -> None:
        self._stays()
        super()._agent_broke(error)

    def _server_broke(self, error: Exception) -> None:
        self._stays()
        super()._server_broke(error)

    def _passes(self, sender: "Side", receiver: "Side", line: bytes) -> None:
        if self._crossing == (sender, line):
            self._crossing = None
            self._trace.message(line, sender, receiver, self.name)
            return
        self._stays()
        self._trace.message(line, "acp-launch", receiver, self.name)

    def _stays(self) -> None:
        """Write the message in hand, which was not passed on."""
        if self._crossing is not None:
            (sender, line), self._crossing = self._crossing, None
            self._trace.message(line, sender, "acp-launch", self.name)
