"""
The processes of one conversation's server, one after another: the link to each, and what its supervisor tells of it.

A server without a handshake has an adapter in front of its process.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import UNSET, Struct
from msgspec.structs import replace

from acp_launch.bridge.conversation import ServerObserver, describe_gone
from acp_launch.bridge.exchange import Exchange
from acp_launch.mcp.adapter import EraAdapter
from acp_launch.mcp.message import ProtocolInfo, pinned_era, suggests_stateless
from acp_launch.plan.model import RemotePlan, ServerPlan, StdioPlan
from acp_launch.process import prepare
from acp_launch.process.child import WORD, Child
from acp_launch.process.code import changed_code
from acp_launch.process.flow import FastPath, Link, LinkEnd, LinkUser
from acp_launch.process.lifecycle import DOWNLOAD_TIMEOUT, Change
from acp_launch.process.program import Lines, Program, Running
from acp_launch.process.supervisor import Supervisor
from acp_launch.profile.model import ServerTimeouts
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.bridge.cached import CachedAnswers
    from acp_launch.mcp.http.wire import Credentials
    from acp_launch.trace import MessageTrace

DYING = stretch(0.5)  # seconds for a process to exit after its output has ended, before it is stopped


def known_era(plan: ServerPlan) -> ProtocolInfo:
    """Return what a plan says of the server's era; in the server host it has a handshake, whatever it is."""
    if plan.share == "user":
        return pinned_era("legacy", "")
    return pinned_era(plan.protocol, plan.type if isinstance(plan, RemotePlan) else "")


class StartTimes(Struct):
    """When a process was started, when it first said anything, and when the agent first did."""

    begun: float = 0.0
    first: float = 0.0
    asked: float | None = None
    messages: int = 0  # of the process, up to two

    def own(self, now: float) -> float:
        """Return the seconds that a server itself needed from its start to its answer to the agent, which comes now.

        The time between its first message and the agent's request does not count, because the server waited for the
        agent. A server that was silent until the request may have been ready all the time.
        """
        asked = max(self.begun, now if self.asked is None else self.asked)
        if self.messages < 2:
            return now - asked
        return now - self.begun if self.first >= asked else self.first - self.begun + now - asked


class Conversation(Protocol):
    """The agent's side of a conversation."""

    def to_agent(self, line: bytes, messages: Sequence[Envelope] = ()) -> None: ...

    def write(self, line: bytes) -> None:
        """Write a line to the process."""

    def room_at_server(self) -> None:
        """Note that the process has taken what was held for it."""

    def on_burst(self, is_on: bool) -> None:
        """Write lines that came in one chunk in one chunk."""

    def take_kept(self) -> list[bytes]:
        """Remove and return the messages that wait for the agent to connect."""

    def follow_up(self) -> None:
        """Go on after the end of a process."""


class ServerProcess(LinkUser):
    """A server's process, or the next one. `name` is the server's, or `github#2`.

    `standing` is its last change, `took` the seconds that it needed itself to be READY. `link` is None while there is
    no process. `retired` says why no process will follow.
    """

    def __init__(
        self,
        plan: ServerPlan,
        program: Program,
        relay: Conversation,
        exchange: Exchange,
        observer: ServerObserver,
        *,
        max_line: int,
        cached: "CachedAnswers | None" = None,
        trace: "MessageTrace | None" = None,
    ) -> None:
        self.name, self.plan = program.name, plan
        self.standing: Change | None = None
        self.took: float | None = None
        self.retired = ""
        self.credentials: Credentials | None = None  # of a remote server
        self.link: Link | Lines | None = None
        self.adapter: EraAdapter | None = None  # if the process has no handshake
        self.times = StartTimes()
        self.is_used = True  # since the last look
        self._relay, self._exchange, self._observer, self._max_line = relay, exchange, observer, max_line
        self._cached, self._trace = cached, trace
        self._latest: Running | None = None  # the process, or that which has ended last
        self._probe = True
        self._was_stopped = self._was_careful = False
        self._loop = asyncio.get_running_loop()
        self._used = self._loop.time()  # when it was in use, as far as the looks have seen
        self._exit_timer: asyncio.TimerHandle | None = None
        self.supervisor = Supervisor(
            program,
            restart=plan.restart,
            start=plan.timeouts.start,
            download=plan.timeouts.download if isinstance(plan.timeouts, ServerTimeouts) else DOWNLOAD_TIMEOUT,
            required=plan.required,
            watcher=self,
            emit=self._changed,
            log=observer.log(self.name),
            begins_asleep=cached is not None and cached.is_known,
        )

    def renew_as(self, plan: ServerPlan, program: Program) -> None:
        """Go on with another process, of a plan that differs only in what `is_carried` allows."""
        self.plan, self._probe, self._exchange.state.knowledge = plan, True, known_era(plan)
        self.supervisor.renew_as(program, restart=plan.restart, required=plan.required)

    async def retire(self, why: str, hurry: asyncio.Event) -> None:
        """End the server for good; from now on the agent gets errors, which say `why`."""
        self.retired = why
        await self.supervisor.stop(hurry)

    def tick(self) -> None:
        """Check time-outs and stopped processes; called now and then."""
        if self.link is not None and self.link.is_paused:
            self._exchange.restart_clocks()
        is_stopped = self._exchange.is_waiting and self._is_stopped()
        if is_stopped and not self._was_stopped:
            self._observer.note(f"{self.name} is stopped (SIGSTOP); calls to it wait")
        self._was_stopped = is_stopped
        self._exchange.tick(is_stopped=is_stopped, is_fetching=self.supervisor.life.is_fetching)
        now, idle = self._loop.time(), self.plan.idle
        if self.plan.share == "user" and self.plan.start != "lazy":
            return  # it is the server host that ends it
        if self.is_used or self._exchange.is_in_use or not self.supervisor.life.is_up:
            self.is_used, self._used = False, now
        elif idle is not None and now - self._used >= idle:
            self.supervisor.sleep()

    @property
    def has_old_code(self) -> bool:
        """Whether its process was started from files that have changed since."""
        child = self.supervisor.child
        return isinstance(child, Child) and bool(changed_code(child.spawned.code))

    def start_if_needed(self) -> None:
        """Have a process started, or a connection made, because a request waits for it."""
        is_lazy = isinstance(self.plan, RemotePlan) or self._exchange.state.phase == "asleep"
        if is_lazy and self.link is None and self._exchange.is_waiting:
            self.supervisor.need()

    def retry_after_login(self) -> None:
        """Try a remote server that has failed again, if the user has logged in to it since."""
        if self.credentials is not None and self.supervisor.state == "failed" and self.credentials.has_news:
            self.supervisor.renew()

    def heard_first(self) -> None:
        """Note one of its first two messages."""
        self.times.messages += 1
        if self.times.messages == 1:
            self.times.first = self._loop.time()
            self.supervisor.answered()

    def ready(self) -> None:
        """Note that it has answered the agent's handshake."""
        self.supervisor.ready(self.times.own(self._loop.time()))

    # Events of the process, from the supervisor.

    def started(self, child: Running) -> None:
        self.link = self._connect(child)
        self._latest, self.times.begun, self.times.messages = child, self._loop.time(), 0
        if self._exchange.state.knowledge.server == "modern":
            self._adapt()
        self._exchange.attached(probe=self._probe)

    def _connect(self, child: Running) -> Link | Lines:
        way = FastPath(self._exchange.from_server.forward_fast, self._relay.to_agent)
        if (lines := child.lines) is not None:
            lines.listen(self._receive_message, self.on_drained, self.on_burst)
            if isinstance(lines, Link):  # of a process in the server host
                lines.set_fast_path(way)
            return lines
        assert isinstance(child, Child)
        return Link(child.source, child.sink, self, way, max_line=self._max_line)

    def ending(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None
            self._exchange.detached()

    def on_gone(self, change: Change) -> None:
        relay = self._relay
        if isinstance(self.link, Link):
            self.link.drain()
        self.ending()
        if self._exit_timer is not None:
            self._exit_timer.cancel()
        if change.after is not None and not self.supervisor.has_answered and isinstance(self.plan, StdioPlan):
            self._probe = False  # the ping itself may have ended it
        relay.take_kept()
        unsent = self._latest.unsent if self._latest else ()
        self._latest = None
        for_good = change.state not in ("resting", "asleep") and not self._was_provoked()
        if self.adapter is not None:
            unsent = self.adapter.end(unsent)
            self._remove_adapter()
        if isinstance(self.plan, RemotePlan):
            change = replace(change, reason="", detail=())  # they name its address, which is not for the agent
        if change.by_hand:
            self._exchange.end_session()
        told = describe_gone(change, self._exchange.state.server)
        told = replace(told, why=self.retired or told.why, stderr=() if self.retired else told.stderr)
        self._exchange.on_gone(told, for_good=for_good, unsent=unsent)
        if change.state == "asleep":
            self._exchange.fall_asleep()
            self._loop.call_soon(self.start_if_needed)  # a request may have come while it was ended
        relay.follow_up()

    def _was_provoked(self) -> bool:
        """Tell whether a process has ended on an agent's question for its era, which it did not know.

        Another one is started then, because its restart policy is not for that.
        """
        knowledge = self._exchange.state.knowledge
        is_local = isinstance(self.plan, StdioPlan)
        if knowledge.server is not None or not is_local or not self._exchange.is_discovering:
            return False
        knowledge.learn("legacy")
        self._loop.call_soon(self.supervisor.renew)
        return True

    def _changed(self, change: Change) -> None:
        self.standing = change
        if change.state == "ready":
            self.took = change.after
        if change.state == "asleep" and self._cached is not None:
            self._cached.save()
        self._observer.changed(change)

    def _is_stopped(self) -> bool:
        child = self.supervisor.child
        process = prepare.table().read(child.pid) if child and child.pid is not None else None
        return process is not None and process.is_stopped

    # Its link.

    def receive(self, line: bytes) -> None:
        if self._trace is None:
            self._handle(line)
        else:
            self._trace.follow("server", line, self._handle)

    def _handle(self, line: bytes, message: Envelope | None = None) -> None:
        """Handle a line; pause a server that sends requests but does not read our own answers."""
        link = self.link
        assert link is not None
        held = link.held
        if self.adapter is None:
            self._exchange.from_server(line, message)
        else:
            self._exchange.heard()  # not every message of it reaches the agent
            self.adapter.from_server(line)
            self._look_after_adapter()
        if link.held > held and link.is_full:
            link.pause()

    def _receive_message(self, line: bytes, message: Envelope | None) -> None:
        try:
            if self._exchange.from_server.forward_fast(line, message) is not None:
                self._relay.to_agent(line)
            elif self._trace is None:
                self._handle(line, message)
            else:
                self.receive(line)
        except Exception as error:
            self.fail(error)

    def over(self, end: LinkEnd) -> None:
        """Give the process time to exit by itself after its pipe has ended, so that its exit status can be reported."""
        if end.is_fault:
            self.supervisor.condemn(end.why)
            return
        child = self.supervisor.child

        def help_along(patience: float) -> None:
            if self.supervisor.child is child:
                if patience and child is not None and child.is_dead:
                    self._exit_timer = self._loop.call_later(patience, help_along, 0.0)
                else:
                    self.supervisor.condemn(end.why)

        self._exit_timer = self._loop.call_later(DYING, help_along, WORD)

    def on_drained(self) -> None:
        self._relay.room_at_server()

    def on_burst(self, is_on: bool) -> None:
        self._relay.on_burst(is_on)

    def fail(self, error: Exception) -> None:
        self._exchange.state.mishaps.add(f"the MCP server {self.name}", error)

    # The adapter, and its ports.

    def refused(self, hello: bytes, refusal: bytes) -> bool:
        """Take the server's refusal of the handshake `hello`; return whether another answer to it follows."""
        message = jsonrpc.decode(refusal)
        assert message is not None
        assert message.error is not UNSET
        if self.adapter is not None or not suggests_stateless(message.error):
            return False
        self._adapt().introduce(hello, refusal)
        return True

    def translate(self, line: bytes) -> None:
        """Give the adapter a line of the agent."""
        assert self.adapter is not None
        self.adapter.from_agent(line)
        self._look_after_adapter()

    def _adapt(self) -> "EraAdapter":
        state = self._exchange.state
        self.adapter = EraAdapter(state.server, self, state.knowledge)
        self._was_careful, state.needs_inspection = state.needs_inspection, True  # no line may pass by it
        return self.adapter

    def _look_after_adapter(self) -> None:
        """Take the adapter out of the path once it is not needed."""
        if self.adapter is not None and not self.adapter.is_needed:
            self._remove_adapter()

    def _remove_adapter(self) -> None:
        self.adapter = None
        self._exchange.state.needs_inspection = self._was_careful

    def to_agent(self, line: bytes) -> None:
        self._exchange.from_server(line)

    def to_server(self, line: bytes) -> None:
        self._relay.write(line)
