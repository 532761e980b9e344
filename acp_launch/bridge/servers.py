"""
The bridged servers of a launch, started while the agent starts, and stopped with the launch.

One process serves one conversation (docs/mcp.md), so each connection of the agent has its own relay. For each server
one process is started ahead of the agent's first connection. A second connection at the same time gets a new process.
After a connection has ended, a process is started ahead again for the next one. A lazy server whose answers to a
handshake are known is not started ahead, but is asleep until it is needed (cached.py). A shared server has one
process for all connections of the agent, also after they have ended (multiplexer.py).

The plans may change while they run (`reload`): then a server restarts behind the connections that the agent has to it.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, KeysView, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from acp_launch.bridge.cached import CachedAnswers
from acp_launch.bridge.conversation import ServerObserver
from acp_launch.bridge.elevation import Elevations, Sessions
from acp_launch.bridge.relay import ProxyConversation, is_carried
from acp_launch.bridge.seat import ShimConnection, ShimListener, listen_for_shims
from acp_launch.errors import first
from acp_launch.mcp.message import ProtocolInfo
from acp_launch.plan.model import RemotePlan, ServerPlan, StdioPlan
from acp_launch.problem import ours
from acp_launch.process.child import HASTY_GRACE_SECONDS
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.process.program import LocalProgram, Program
from acp_launch.profile.values import free_name
from acp_launch.secret.value import Secret
from acp_launch.waits import to_beat

if TYPE_CHECKING:
    from acp_launch.bridge.http.server import LoopbackServer
    from acp_launch.mcp.http.wire import Credentials
    from acp_launch.mcp.program import RemoteProgram
    from acp_launch.trace import Trace

ShareServer = Callable[
    [StdioPlan, str, Mapping[str, Secret], Sequence[Path], Callable[[str], None]], Program
]  # the last shows a line to the user
TICK = 1.0  # seconds between two checks of time-outs, unless a server has a shorter `timeouts.call`


class ServerNeeds(Struct, frozen=True, kw_only=True):
    """The needs of servers besides their plans. `hurry` is set when they must be killed at once.

    `state` is the user's state directory, `cache` holds acp-launch's caches, if lazy servers may use it.
    `credentials` are those of remote servers, by name; `called` is the profile's name in commands. `share` makes the
    program of a server that launches share. `seat` is the directory for sockets that a confined agent sees. Errors name
    each server as it is `known_as`, by default by its name.
    """

    secrets: Mapping[str, Secret]
    directories: Sequence[Path]
    max_line: int
    hurry: asyncio.Event
    trace: "Trace | None" = None
    cache: Path | None = None
    state: Path | None = None
    credentials: "Mapping[str, Credentials]" = field(default_factory=dict)
    called: str = ""
    share: "ShareServer | None" = None
    seat: Path | None = None
    known_as: str = ""


class Servers:
    """The servers of a launch, each with its relays. Made by `running` only."""

    def __init__(
        self, plans: Sequence[ServerPlan], needs: ServerNeeds, observer: ServerObserver, tasks: asyncio.TaskGroup
    ) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._needs, self._observer, self._tasks = needs, observer, tasks
        self._relays: list[ProxyConversation] = []
        self._lives: dict[ProxyConversation, asyncio.Task[None]] = {}
        self._seated: dict[
            str, ProxyConversation
        ] = {}  # the latest that the agent has opened and not left, by server name
        self._knowledge: dict[str, ProtocolInfo] = {}  # of their eras, by server name
        self._shims: list[ShimConnection] = []  # those that are open, and some that were
        self._opened: set[str] = set()  # names of servers that the agent has ever opened
        self._proven: set[str] = set()  # names of servers of which an ended process has answered
        self._remotes: dict[str, RemoteProgram] = {}  # the connections to one server share what they learn of it
        self._elevations: Elevations | None = None  # the sessions that the agent has opened
        self._sessions: dict[str, Sessions] = {}  # the knowledge of each server's sessions, by its name
        self._cached: dict[str, CachedAnswers] = {}  # of lazy servers, by their names
        self._is_stopping = False
        for plan in plans:
            self._ahead(plan)

    def on_shim(self, shim: ShimConnection) -> None:
        """Connect the agent to the server that it has opened."""
        plan = self._plans.get(shim.name)  # None if it has been removed
        if self._is_stopping or plan is None:
            shim.close()
            return
        relay = self._current(plan)
        self._seated[plan.name] = relay
        self._opened.add(plan.name)
        self._shims = [each for each in self._shims if each.line.fileno() >= 0] + [shim]
        relay.connect_agent(shim)

    def hang_up(self, token: str) -> None:
        """End the connections that have shown this token."""
        for shim in self._shims:
            if shim.token == token and shim.line.fileno() >= 0:
                with suppress(OSError):  # it has gone
                    shim.line.shutdown(socket.SHUT_RDWR)

    def greet(self, plan: ServerPlan, hello: bytes) -> socket.socket:
        """Begin a handshake in place of an agent that has not opened this server; `hello` is its first line.

        Returns the agent's end of the connection, which the caller must close. The server's answer itself is ignored;
        only that it comes matters.
        """
        ours, its = socket.socketpair()
        ours.setblocking(False)
        relay = self._current(plan)
        relay.connect_agent(ShimConnection(plan.name, ours))
        its.sendall(hello)
        return its

    def up(self, plan: ServerPlan) -> "asyncio.Task[bool]":
        """Wait for a process of the server: True once it has answered, False if it never will. One that ends with a
        session, or has failed in it, is not the one for the next session."""
        return self._tasks.create_task(self._until_up(plan))

    async def _until_up(self, plan: ServerPlan) -> bool:
        while (relay := self._usable(plan)) is not None:
            if (is_up := await relay.process.supervisor.up()) or self._usable(plan) is relay:
                return is_up
        return False

    def has_answered(self, plan: ServerPlan) -> bool:
        """Tell whether any process of this server has ever sent a valid message, or none was needed."""
        supervisors = (each.process.supervisor for each in self._of(plan))
        return plan.name in self._proven or any(each.has_answered or each.state == "asleep" for each in supervisors)

    def patience(self, plan: ServerPlan) -> float:
        """Return the seconds that its process still has for its first answer."""
        relay = self._latest(plan)
        relay = self._usable(plan) if relay is None or relay.left.is_set() else relay
        return relay.process.supervisor.patience if relay else 0.0

    def is_fetching(self, plan: ServerPlan) -> bool:
        """Tell whether the package runner of this server is downloading."""
        return (relay := self._usable(plan)) is not None and relay.process.supervisor.is_fetching

    def last(self, plan: ServerPlan) -> Change | None:
        """Return the last state change of its process."""
        return relay.process.standing if (relay := self._usable(plan)) else None

    def standings(self) -> list[Standing]:
        """Return the state of each server, in the profile's order."""
        return [self._standing(plan) for plan in self._plans.values()]

    def restart(self, name: str) -> None:
        """Restart every process of this server, also a failed one; do nothing while the servers are being stopped.

        Raises:
            KeyError: there is no bridged server of this name.
        """
        plan = self._plans[name]
        for relay in [] if self._is_stopping else self._of(plan):
            if not relay.left.is_set():
                relay.give_up()
                relay.process.supervisor.renew()

    def add(self, plan: ServerPlan) -> ProxyConversation:
        """Start another server, of which there is one process; for the server host."""
        self._plans[plan.name] = plan
        return self._ahead(plan)

    def drop(self, relay: ProxyConversation) -> "asyncio.Task[None]":
        """End such a server; return what ends with it."""
        del self._plans[relay.plan.name]
        relay.left.set()
        return self._lives[relay]

    @property
    def names(self) -> KeysView[str]:
        """The names of the servers, also of those that are added later."""
        return self._plans.keys()

    async def reload(
        self, plans: Sequence[ServerPlan], secrets: Mapping[str, Secret], credentials: "Mapping[str, Credentials]"
    ) -> None:
        """Take these plans instead. A server whose plan is the same object goes on.

        A changed one restarts, behind its connections if they can go on with it. Otherwise, and if it is removed, the
        agent gets errors on them. Returns when what must end has ended.
        """
        self._needs = replace(self._needs, secrets=secrets, credentials=credentials)
        now = {plan.name: plan for plan in plans}
        for name in [name for name, plan in self._plans.items() if now.get(name) is not plan]:
            for known in (self._remotes, self._knowledge, self._sessions, self._cached):
                known.pop(name, None)
            self._proven.discard(name)
        self._plans.clear()
        self._plans.update(now)
        changed = [relay for relay in self._relays if now.get(relay.plan.name) is not relay.plan]
        await asyncio.gather(*map(self._reload, changed))
        for plan in plans:
            if not self._is_stopping and self._waiting_for(plan) is None and not any(self._of(plan)):
                self._ahead(plan)

    async def _reload(self, relay: ProxyConversation) -> None:
        plan = self._plans.get(relay.plan.name)
        if not (relay.is_claimed or relay.is_connected):
            relay.left.set()
            await asyncio.wait([self._lives[relay]])
        elif relay.process.retired:
            return
        elif plan is not None and is_carried(relay.plan, plan):
            relay.process.credentials = self._needs.credentials.get(plan.name)
            relay.process.renew_as(plan, self._program(plan, relay.name))
            self._knowledge[plan.name] = relay.exchange.state.knowledge
        else:
            why = "is no longer in the profile" if plan is None else "has changed; a new session can use it"
            await relay.process.retire(why, self._needs.hurry)

    def stopping(self) -> None:
        """Note that the agent is about to be stopped: no further processes are started ahead."""
        self._is_stopping = True

    def abandon(self) -> None:
        """Begin to stop all servers with less patience, after an error or a signal."""
        self.stopping()
        for relay in self._relays:
            relay.process.supervisor.grace = HASTY_GRACE_SECONDS
            relay.left.set()

    async def close(self) -> None:
        """Stop all servers concurrently and wait for the slowest."""
        self.stopping()
        for relay in self._relays:
            relay.left.set()
        if self._lives:
            await asyncio.wait(self._lives.values())

    async def tick(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            limits = [limit for plan in self._plans.values() for limit in (plan.timeouts.call, plan.idle)]
            every = max(0.02, min([TICK, *(limit / 4 for limit in limits if limit is not None)]))
            await asyncio.sleep(to_beat(now(), every))
            self._load_modules()
            for relay in self._relays:
                relay.tick()

    def _load_modules(self) -> None:
        """Load what the servers of a launch that goes on may need later, as acp-launch may be upgraded by then."""
        with suppress(ImportError):  # it has just been
            from acp_launch.protocol import splice  # noqa: F401

            if any(plan.share == "launch" for plan in self._plans.values()):
                from acp_launch.bridge import multiplexer  # noqa: F401

    def _ahead(self, plan: ServerPlan) -> ProxyConversation:
        name = free_name(plan.name, {each.name for each in self._relays}, "#")
        needs, running = self._needs, self._program(plan, name)
        inputs = plan, running, needs.directories, self._observer
        known = self._cached.get(plan.name)
        if plan.start == "lazy" and (known is None or not known.is_of(plan)):
            known = self._cached[plan.name] = CachedAnswers(plan, needs.cache)
        trace = None if needs.trace is None else needs.trace.conversation(name)
        relay = ProxyConversation(*inputs, max_line=needs.max_line, cached=known, trace=trace, known_as=needs.known_as)
        relay.process.credentials = needs.credentials.get(plan.name)
        relay.exchange.state.knowledge = self._knowledge.setdefault(plan.name, relay.exchange.state.knowledge)
        if plan.session_elevation != "off":
            if self._elevations is None:
                self._elevations = Elevations(lambda: f"s_{os.urandom(16).hex()}")
            relay.elevate(
                self._elevations, self._sessions.setdefault(relay.plan.name, Sessions(plan.session_elevation))
            )
        self._relays.append(relay)
        self._lives[relay] = life = self._tasks.create_task(self._life(relay), name=f"server {name}")
        life.add_done_callback(lambda _: self._lives.pop(relay))
        return relay

    def _program(self, plan: ServerPlan, name: str) -> Program:
        needs = self._needs
        if not isinstance(plan, RemotePlan):
            if plan.share == "user":
                assert needs.share is not None
                return needs.share(plan, name, needs.secrets, needs.directories, self._observer.note)
            return LocalProgram.of(plan, name, needs.secrets)
        from acp_launch.mcp.program import RemoteProgram

        if (known := self._remotes.get(plan.name)) is None:
            login = ours("mcp", "login", needs.called, plan.name) if needs.called else ""
            proof = needs.credentials.get(plan.name)
            known = RemoteProgram.of(plan, needs.secrets, max_line=needs.max_line, credentials=proof, login=login)
            self._remotes[plan.name] = known
        return replace(known, name=name)

    async def _life(self, relay: ProxyConversation) -> None:
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(relay.process.supervisor.run())
                await relay.left.wait()
                relay.exchange.end_session()
                await relay.process.supervisor.stop(self._needs.hurry)
        finally:
            relay.close()
            self._relays.remove(relay)
            if (known := self._cached.get(relay.plan.name)) is not None:
                known.save()
            if relay.process.supervisor.has_answered:
                self._proven.add(relay.plan.name)
            if self._seated.get(relay.plan.name) is relay:
                del self._seated[relay.plan.name]
            self._observer.log_end(relay.name)
        plan = self._plans.get(relay.plan.name)  # it may have changed, or be gone
        if plan is not None and not self._is_stopping and self._waiting_for(plan) is None:
            self._ahead(plan)

    def _waiting_for(self, plan: ServerPlan) -> ProxyConversation | None:
        return next((relay for relay in self._of(plan) if not (relay.is_claimed or relay.left.is_set())), None)

    def _current(self, plan: ServerPlan) -> ProxyConversation:
        """Return a relay for a new connection. A process that waits for one since before an upgrade makes way."""
        relay = self._waiting_for(plan) or self._ahead(plan)
        if relay.process.has_old_code:
            self._observer.note(f"mcp server {relay.name} has old code, as its files have changed since its start")
            relay.process.supervisor.renew()
        return relay

    def _of(self, plan: ServerPlan) -> Iterator[ProxyConversation]:
        return (relay for relay in self._relays if relay.plan is plan)

    def _usable(self, plan: ServerPlan) -> ProxyConversation | None:
        """Return a relay that a session to come may rely on, begun ahead of it if there is none; None if the plan is
        not used any more."""
        there = (relay for relay in self._of(plan) if not relay.left.is_set())
        works = next((relay for relay in there if not relay.process.supervisor.life.is_final), None)
        relay = works or self._waiting_for(plan)
        is_over = self._is_stopping or self._plans.get(plan.name) is not plan
        return self._ahead(plan) if relay is None and not is_over else relay

    def _latest(self, plan: ServerPlan) -> ProxyConversation | None:
        """Return the relay of the agent's latest connection, which may have moved to a session that it has resumed."""
        seated = self._seated.get(plan.name)
        if seated is not None and not seated.left.is_set():
            return seated
        return next((relay for relay in self._of(plan) if relay.is_connected and not relay.left.is_set()), seated)

    def _standing(self, plan: ServerPlan) -> Standing:
        seated = self._latest(plan)
        relay = seated or next(self._of(plan), None)
        change = relay.process.standing if relay else None
        return Standing(
            server=plan.name,
            state=change.state if change else "declared",
            required=plan.required,
            after=relay.process.took if relay else None,
            tools=relay.exchange.tools if relay else None,
            opened=plan.name in self._opened,
            closed=plan.name in self._opened and (seated is None or seated.is_left),
            unread=relay is not None and plan.name in self._opened and relay.exchange.is_unread,
            silent=change is not None and change.state == "starting" and not self.has_answered(plan),
            restarts=change.restarts if change else 0,
            reason="; ".join(filter(None, (change.exit, change.reason))) or None if change else None,
            retry=relay.process.supervisor.retry if relay else None,
            old_code=any(each.process.has_old_code for each in self._of(plan)),
        )


class RunningServers(Struct, frozen=True):
    """The running servers, the socket for shims, and their HTTP server, which is started when it is first asked for."""

    servers: Servers
    listener: ShimListener
    http: "Callable[[], Awaitable[LoopbackServer]]"


async def _forever(tell: Callable[[], Awaitable[None]]) -> None:
    while True:
        await tell()


def _starter(
    servers: Servers, needs: ServerNeeds, observer: ServerObserver, ending: AsyncExitStack
) -> "Callable[[], Awaitable[LoopbackServer]]":
    """Return the function that starts the HTTP server, or returns it if it is running; `ending` closes it."""
    started: list[LoopbackServer] = []

    async def start() -> "LoopbackServer":
        from acp_launch.bridge.http.server import http_server, make_keys  # few agents need it

        if not started:
            opening = http_server(make_keys(servers.names), servers.on_shim, observer.note, max_line=needs.max_line)
            started.append(await ending.enter_async_context(opening))
        started[0].add(servers.names)
        return started[0]

    return start


@asynccontextmanager
async def running(
    plans: Sequence[ServerPlan], needs: ServerNeeds, observer: ServerObserver
) -> AsyncIterator[RunningServers]:
    """Run the servers while the block runs; leaving stops them concurrently."""
    try:
        async with asyncio.TaskGroup() as tasks:
            servers = Servers(plans, needs, observer, tasks)
            refused = lambda why: observer.note(f"a connection to the launch's MCP socket was refused: {why}")  # noqa: E731
            beside = [tasks.create_task(servers.tick()), tasks.create_task(_forever(observer.tell))]
            try:
                async with (
                    listen_for_shims(servers.names, servers.on_shim, refused, needs.seat, needs.state) as address,
                    AsyncExitStack() as ending,
                ):
                    yield RunningServers(servers, address, _starter(servers, needs, observer, ending))
            finally:
                for task in beside:
                    task.cancel()
                await servers.close()  # within the group, which cancels its tasks when it is left with an error
    except BaseExceptionGroup as failures:
        raise first(failures) from None
