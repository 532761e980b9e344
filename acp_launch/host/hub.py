"""
The host's side: one agent, its sessions, and the fronts that are attached to them.

Towards the agent it is the client that a launch of one prompt is, once for each session; towards a front it is an
agent (`wire`). All that happens in a session is an event in its window, with an id. A front has a place in it, and is
written to from there as fast as it reads, so a slow one delays neither the agent nor others. An answer to a front
stands after the events before it.
"""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from acp_launch.errors import (
    AgentError,
    AuthRequired,
    LaunchError,
    RemoteProtocolError,
    SessionError,
    WaitExpired,
)
from acp_launch.host.wire import (
    ASK,
    DETACH,
    DOWN,
    JOIN,
    RENEW,
    RESTART,
    SERVERS,
    STATUS,
    TAKE,
    Entrance,
    HostStatus,
    SessionStatus,
    SocketTransport,
    Wish,
    as_fault,
    event,
    member,
)
from acp_launch.launch.run import Launch, OpenSession, SessionNeeds, SessionRequest, Side, with_agent
from acp_launch.launch.services import ServicePolicy
from acp_launch.plan.model import LaunchPlan
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.process.spawn import Spawned
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import (
    ELICITATION,
    How,
    Opened,
    PermissionAsked,
    ServiceAsked,
    Updated,
    Withdrawn,
)
from acp_launch.protocol.jsonrpc import Called, Notified, Peer, as_line, notification
from acp_launch.protocol.window import Window
from acp_launch.rpc import Pump
from acp_launch.secret.redact import redactor
from acp_launch.session.client import Client, Turn
from acp_launch.session.connection import Connection
from acp_launch.session.observer import Observer, Permission, SessionReady, TurnEnd, When
from acp_launch.session.opening import how_to_continue
from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.policy import Approve
from acp_launch.session.person import Answer, ToolQuestion
from acp_launch.session.service import FileServed, TerminalServed
from acp_launch.session.store import Registry, SessionKeeper, continued

KEPT = 200_000  # events of a session that are kept for fronts
KEPT_BYTES = 32 * 1024 * 1024
KEPT_FOR = 3600.0  # seconds
PIECE = 256 * 1024  # bytes of events in one write to a front
TITLE = 80  # characters of a prompt that name a session, or a queued prompt

T = TypeVar("T")
NOTHING = Raw(b"{}")


class Unattended(Struct, frozen=True):
    """What becomes of a question while no front can ask the user: it waits so many seconds, then it is denied."""

    wait: float


class HostNeeds(Struct, frozen=True, kw_only=True):
    """The needs of a host besides those of its sessions.

    `gate` makes the gate of a session, for `--approve`; `hold` locks a session by its name. `redacted` removes secrets
    from what an observer is told. `ready` is called once, with seconds, when the host can be attached to. `keep` is how
    many seconds it stays without fronts and turns, None for ever; `outlives` is whether a turn goes on when the front
    that drives it ends.
    """

    needs: SessionNeeds
    registry: Registry
    gate: Callable[[Approve | None], Gate]
    hold: Callable[[str], AbstractContextManager[None]]
    redacted: "Callable[[Feed], Observer]"
    ready: Callable[[float], None]
    unattended: Unattended
    keep: float | None = None
    outlives: bool = True


class FrontGone(Exception):  # noqa: N818 - it reads as what happened
    """Raised by a request to a front that has left."""


class Feed:
    """The observer of one session, for all its fronts: it turns what it is told into events."""

    def __init__(self, session: "HostSession") -> None:
        self._session = session
        self.last: TurnEnd | None = None
        self.opened: SessionReady | None = None

    def negotiated(self, negotiated: Negotiated) -> None:
        """Say nothing: a front shakes hands itself."""

    def ready(self, session: SessionReady) -> None:
        self.opened = session

    def update(self, update: Updated) -> None:
        self._session.happened(
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":%b}}\n'
            % (self._session.id_json, bytes(update.update))
        )

    def permission(self, permission: Permission) -> None:
        self._tell("permission", permission)

    def unasked(self, call: dict[str, Any], by: str) -> None:
        self._tell("unasked", [call, by])

    def served(self, step: FileServed | TerminalServed) -> None:
        self._tell("file" if isinstance(step, FileServed) else "terminal", step)

    def cancelled(self, calls: Sequence[dict[str, Any]], grace: float) -> None:
        """Say nothing: the front that cancels knows."""

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        """Say nothing: a front that waits has its own clock."""

    def note(self, text: str) -> None:
        self._tell("note", text)

    def server(self, change: Change) -> None:
        self._tell("server", change)

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        self._tell("standing", [list(servers), when])

    def ended(self, turn: TurnEnd) -> None:
        self.last = turn

    def failed(self, error: LaunchError) -> None:
        """Say nothing: a front gets the error as its answer."""

    def pause(self) -> None:
        """Do nothing: nothing is drawn here."""

    async def drain(self) -> None:
        """Return at once: no front delays the agent."""

    def _tell(self, name: str, value: object) -> None:
        self._session.happened(event(name, value))


class HostSession:
    """A session of the host, with the fronts that are attached to it. The one that drives it is asked questions."""

    def __init__(self, hub: "Hub", name: str, how: How) -> None:
        self.name, self.how = name, how
        self.window = Window(count=KEPT, size=KEPT_BYTES, age=KEPT_FOR)
        self.fronts: list[Front] = []
        self.driver: Front | None = None
        self.queue: list[str] = []
        self.id_json = b'""'
        self.began = 0  # the last event before the latest turn
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.feed = Feed(self)
        self.failed: LaunchError | None = None  # how the last turn failed
        self.turn: Turn | None = None
        self.turns = 0
        self.since = time.time()
        self._hub = hub
        self._open: OpenSession | None = None
        self._left = asyncio.Event()
        self._changed = asyncio.Event()  # a front has come or gone
        self._turning = asyncio.Lock()
        self._own: dict[int, Front] = {}  # by event: the front that it came from
        self._client: Client | None = None
        self.current: asyncio.Task[TurnEnd | LaunchError] | None = None  # runs the turn
        self.gone = asyncio.Event()

    @property
    def state(self) -> str:
        if self.turn is None:
            return "idle"
        return "asks" if self._client is not None and self._client.is_asking else "works"

    @property
    def status(self) -> SessionStatus:
        client = self._client
        last = self.feed.last.result if self.feed.last is not None else Raw(b"null")
        return SessionStatus(
            name=self.name,
            title=redactor.text(client.title) if client else "",
            state=self.state,
            since=self.since,
            fronts=len(self.fronts),
            queued=len(self.queue),
            last=last,
        )

    @property
    def is_busy(self) -> bool:
        return self.turn is not None or bool(self.queue)

    def happened(self, line: bytes, own: "Front | None" = None) -> None:
        """Add an event; `own` is the front that knows it already."""
        id = self.window.append(line, key=None, now=self._hub.now())
        if own is not None:
            self._own[id] = own
        for front in self.fronts:
            front.news()

    def is_own(self, id: int, front: "Front") -> bool:
        return self._own.get(id) is front

    async def live(self, connection: Connection, request: SessionRequest) -> None:
        """Open the session, and keep it open until it is left or the agent ends."""
        hub = self._hub
        try:
            with hub.host.hold(self.name):
                async with hub.launch.session(connection, request, _refuse) as opened:
                    self._open = opened
                    self.opened.set_result(None)
                    await self._left.wait()
        except LaunchError as error:
            self._not_opened(error)
        finally:
            self._not_opened(AgentError("the agent ended before the session was open"))
            if hub.sessions.get(self.name) is self:
                del hub.sessions[self.name]
            self.gone.set()

    def _not_opened(self, error: LaunchError) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()  # it is read by who waits; without one it is not a fault of ours

    def leave(self) -> None:
        """Close it."""
        self._left.set()

    def side(self) -> Side:
        return Side(
            observer=self._hub.host.redacted(self.feed), listen=self._listen, services={ELICITATION: self._elicited}
        )

    def policy(self, gate: Gate) -> ServicePolicy:
        self._gate = gate
        self._may_ask()
        mine = self._hub.launch.needs.services
        return ServicePolicy(offers=mine.offers, gate=gate, env=mine.env, elicit=None)

    # Fronts.

    def enter(self, front: "Front", entrance: Entrance) -> None:
        self.fronts.append(front)
        if not entrance.watches and self.driver is None:
            self.driver = front
        self._turned()

    def drive(self, front: "Front") -> None:
        """Let another front drive."""
        before, self.driver = self.driver, front
        if before is not None and before is not front:
            before.say(event("taken", self.name))
        self._turned()

    def exit(self, front: "Front") -> None:
        self.fronts.remove(front)
        self._own = {id: own for id, own in self._own.items() if own is not front}
        if self.driver is front:
            self.driver = None
        self._turned()

    def _turned(self) -> None:
        self._may_ask()
        self._changed.set()

    def _may_ask(self) -> None:
        """Ask as a run of one prompt does while a front drives; without one, the question waits for a front."""
        self._gate.ask = self.ask if self.driver is None or self.driver.can_ask else None

    # Turns.

    async def prompt(self, blocks: Sequence[object], front: "Front", wish: Wish) -> TurnEnd:
        """Run a turn, after those before it."""
        said = _beginning(blocks)
        self.queue.append(said)
        task = self._hub.begin(self._run(blocks, said, front))
        front.turns[task] = self
        if wish.detached or self._hub.host.outlives:
            front.outlived.add(task)
        try:
            outcome = await asyncio.shield(task)
        finally:
            front.turns.pop(task, None)
        if isinstance(outcome, LaunchError):
            raise outcome
        return outcome

    async def _run(self, blocks: Sequence[object], said: str, front: "Front") -> TurnEnd | LaunchError:
        if self.turn is not None:
            self.happened(event("queued", list(self.queue)))
        is_waiting = True
        try:
            async with self._turning:
                self.queue.remove(said)
                is_waiting = False
                self.current = asyncio.current_task()
                return await self._turn(blocks, said, front)
        except LaunchError as error:
            self.failed = error
            if isinstance(error, WaitExpired):  # the agent hangs
                self._hub.renew()
            return error
        finally:
            self.current = None
            if is_waiting:
                self.queue.remove(said)

    async def _turn(self, blocks: Sequence[object], said: str, front: "Front") -> TurnEnd:
        assert self._open is not None, "a front enters an open session"
        self.began = self.window.newest
        for block in blocks:
            update = {"sessionUpdate": "user_message_chunk", "content": block}
            params = {"sessionId": Raw(self.id_json), "update": update}
            self.happened(redactor.raw_json(as_line(notification("session/update", params))), own=front)
        self.turn = turn = self._hub.launch.turn(self._open, is_first=self._hub.turns == 0)
        self._hub.turns += 1
        self.since, self.failed = time.time(), None
        self.happened(event("turn", said), own=front)
        try:
            end = await turn.run(blocks)
        finally:
            self.turn, self.since = None, time.time()
            self.happened(event("idle", said), own=front)
        self.turns += 1
        self._keeper.ended(end.title or ("" if self._has_title else said))
        if end.denied:
            self.happened(event("denied", redactor.text(end.denied)))
        return self.feed.last or end

    async def join(self) -> TurnEnd | None:
        """Wait for the end of the running turn, and return that of the latest one; None if there was none.

        Raises:
            LaunchError: how the turn failed.
        """
        async with self._turning:
            if self.failed is not None:
                raise self.failed
            return self.feed.last

    def cancel(self) -> None:
        if self.turn is not None:
            self.turn.cancel()

    # Questions for the user.

    async def ask(self, question: ToolQuestion) -> Answer:
        """Ask at the front that drives; without one, wait until a front comes, or deny."""
        shown = redactor.tree(msgspec.to_builtins(question))
        params = {"sessionId": Raw(self.id_json), "question": shown}
        answer = await self._asked(ASK, params)
        if answer is None:
            return Answer(None)
        return msgspec.convert(acp.mapping(acp.decoded(answer)), Answer)

    async def _elicited(self, params: dict[str, Any]) -> object:
        if self._gate.ask is None:
            return {"action": "cancel"}
        answer = await self._asked(ELICITATION, redactor.tree(params))
        return {"action": "cancel"} if answer is None else answer

    async def _asked(self, method: str, params: Mapping[str, object]) -> Raw | None:
        """Return the answer of a front; None if none came in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as patience:
                while True:
                    self._changed.clear()
                    front = self.driver
                    if front is not None and front.can_ask:
                        patience.reschedule(None)
                        with suppress(FrontGone):
                            return await front.request(method, params)
                        continue
                    if patience.when() is None:
                        patience.reschedule(self._hub.now() + self._hub.host.unattended.wait)
                    await self._changed.wait()
        return None

    # The agent's session.

    def _listen(self, client: Client) -> None:
        self._client = client
        self._hub.clients.append(client)

    def keeping(self, keeper: SessionKeeper, *, has_title: bool) -> None:
        self._keeper, self._has_title = keeper, has_title

    def note_opened(self, ready: SessionReady, agent: Negotiated) -> None:
        self.id_json = msgspec.json.encode(ready.session_id)
        self._keeper.opened(ready, agent)

    def named(self, session_id: str) -> None:
        """Note the agent's id before the first event of a session that is loaded."""
        self.id_json = msgspec.json.encode(session_id)


class Router:
    """Gives what the agent sends to the client of its session."""

    def __init__(self, hub: "Hub", connection: Connection) -> None:
        self._hub, self._connection = hub, connection

    def _of(self, session_id: str) -> Client | None:
        return next((client for client in self._hub.clients if client.session_id == session_id), None)

    def updated(self, update: Updated) -> None:
        if (client := self._of(update.session_id)) is not None:
            client.updated(update)

    def opened(self, opened: Opened) -> None:
        # One session is opened at a time, and its client is the latest.
        session = self._hub.opening
        if session is not None:
            session.named(opened.session_id)
        self._hub.clients[-1].opened(opened)

    def asked(self, question: PermissionAsked) -> None:
        if (client := self._of(question.session_id)) is not None:
            client.asked(question)
        else:
            self._connection.send(self._connection.conversation.permit(question.session_id, question.id, None))

    def service(self, question: ServiceAsked) -> None:
        if (client := self._of(question.session_id)) is not None:
            client.service(question)
            return
        refuse = self._connection.conversation.refuse
        self._connection.send(refuse(question.id, jsonrpc.INVALID_PARAMS, "there is no such session"))

    def completed(self, elicitation_id: str) -> None:
        line = as_line(notification("elicitation/complete", {"elicitationId": elicitation_id}))
        for session in self._hub.sessions.values():
            if session.driver is not None:
                session.driver.say(line)

    def withdrawn(self, withdrawn: Withdrawn) -> None:
        for client in self._hub.clients:
            client.withdrawn(withdrawn)


class Hub:
    """The sessions of a host. Made by `hosting`."""

    def __init__(self, launch: Launch, host: HostNeeds, tasks: asyncio.TaskGroup) -> None:
        self.launch, self.host = launch, host
        self.sessions: dict[str, HostSession] = {}
        self.clients: list[Client] = []
        self.fronts: set[Front] = set()
        self.opening: HostSession | None = None
        self.turns = 0
        self.now = asyncio.get_running_loop().time
        self._tasks = tasks
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()
        self._is_up, self._is_wanted, self._is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_left = asyncio.Event()  # the agent is to be stopped, and started again if it is wanted
        self._began = time.monotonic()
        self._took = 0.0
        self._idle_since = self.now()

    @property
    def plan(self) -> LaunchPlan:
        return self.launch.plan

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run work that no front owns."""
        return self._tasks.create_task(work)

    async def run(self, spawned: Spawned, observer: Observer) -> None:
        """Serve with one agent after the other, until `down`.

        Raises:
            LaunchError: the first agent could not be used; `Stopped` after a signal.
        """
        launch, interrupts = self.launch, self.launch.interrupts

        def ending(error: BaseException | None) -> None:
            if self._is_over.is_set():
                launch.servers.stopping(is_orderly=True)

        while True:
            try:
                await with_agent(self.plan, launch.needs, spawned, observer, self._serve, interrupts, ending)
            except (AgentError, WaitExpired, RemoteProtocolError) as error:
                if not self._took:
                    raise
                observer.note(f"{error.message}; it is started again at the next prompt")
            if self._is_over.is_set():
                return
            self._is_left.clear()
            await interrupts.watch(self._until_wanted())
            if self._is_over.is_set():
                return
            spawned = launch.needs.respawn()

    async def _serve(self, connection: Connection) -> None:
        await self.launch.servers.up()
        connection.listen(Router(self, connection))
        self._connection = connection
        self._is_wanted.clear()
        self._is_up.set()
        if not self._took:
            self._took = time.monotonic() - self._began
            self.host.ready(self._took)
        try:
            await connection.unless_over(_first_of(self._is_over.wait(), self._is_left.wait(), self._until_idle()))
        finally:
            self._is_up.clear()
            self._connection = None
            for session in list(self.sessions.values()):
                session.leave()
            self.clients.clear()

    async def _until_wanted(self) -> None:
        await _first_of(self._is_over.wait(), self._is_wanted.wait(), self._until_idle())

    async def _until_idle(self) -> None:
        """Wait until the host was without fronts and turns for `keep`."""
        keep = self.host.keep
        if keep is None:
            await asyncio.Event().wait()
            return
        while True:
            if self.fronts or any(session.is_busy for session in self.sessions.values()):
                self._idle_since = self.now()
            left = self._idle_since + keep - self.now()
            if left <= 0:
                self.down()
                return
            await asyncio.sleep(min(1.0, left))

    def down(self) -> None:
        self._is_over.set()

    def renew(self) -> None:
        """Stop the agent; the next request starts it again."""
        self._is_left.set()

    async def connected(self) -> Connection:
        """Return the connection to the agent, which is started if it has ended.

        Raises:
            WaitExpired: it did not come up in time.
        """
        limit = self.plan.timeouts.initialize
        self._is_wanted.set()
        try:
            async with asyncio.timeout(limit):
                await self._is_up.wait()
        except TimeoutError:
            raise WaitExpired(f"the agent did not come up within {limit:g} s") from None
        assert self._connection is not None
        return self._connection

    async def open(self, how: How, entrance: Entrance, front: "Front") -> HostSession:
        """Enter a session, and open it if it is not open.

        Raises:
            LaunchError: it cannot be opened.
        """
        session = self.sessions.get(entrance.name)
        if session is not None and how == "new":
            await self._closed(session)
            session = None
        if session is not None:
            await asyncio.shield(session.opened)
            session.enter(front, entrance)
            return session
        async with self._one_at_a_time:
            return await self._opened(how, entrance, front)

    async def _closed(self, session: HostSession) -> None:
        if session.is_busy:
            raise SessionError(
                f'session "{session.name}" is in a turn', fix="wait for its end, or use another --session"
            )
        session.leave()
        await session.gone.wait()

    async def _opened(self, how: How, entrance: Entrance, front: "Front") -> HostSession:
        connection, host, plan = await self.connected(), self.host, self.plan
        record = None
        if how != "new":
            record = continued(host.registry, plan, entrance.name, latest=False)
            if record is None:
                raise SessionError(f'there is no session "{entrance.name}"', fix="session list")
            able = connection.agent.capabilities
            how = how_to_continue(able, replay=how == "load", name=entrance.name)
        session = HostSession(self, entrance.name, how)
        if record is not None:
            session.named(record.session_id)
        policy = session.policy(host.gate(entrance.approve))
        session.enter(front, entrance)
        keeper = SessionKeeper(host.registry, plan, record, "")
        session.keeping(keeper, has_title=bool(record and record.title))
        front.follow(session, 0)
        request = SessionRequest(
            name=entrance.name,
            continued=record,
            replay=how == "load",
            wishes=(),
            opened=session.note_opened,
            services=policy,
            side=session.side(),
        )
        self.sessions[entrance.name] = self.opening = session
        connection.beside(session.live(connection, request))
        try:
            await asyncio.shield(session.opened)
        except BaseException:
            front.follow(None, 0)
            session.exit(front)
            session.leave()
            raise
        finally:
            self.opening = None
        return session

    async def forward(self, method: str, params: object) -> Raw:
        """Pass a request on to the agent, and return its answer."""
        connection = await self.connected()
        limit = self.plan.timeouts.session
        what = f"answer to {method} from the agent"
        answer = await connection.call(connection.conversation.forward(method, params), what=what, limit=limit)
        return Raw(redactor.raw_json(bytes(answer)))

    def status(self) -> HostStatus:
        import os

        agent = self._connection.agent.title if self._connection else ""
        return HostStatus(
            pid=os.getpid(),
            agent=redactor.text(agent or self.plan.agent.command.name),
            is_running=self._connection is not None,
            took=self._took,
            sessions=tuple(session.status for session in self.sessions.values()),
            servers=tuple(self.launch.servers.standings()),
        )

    def close(self) -> None:
        """End all fronts."""
        for front in self.fronts:
            front.close()

    # Fronts.

    def attach(self, line: socket.socket) -> None:
        """Serve a front that has greeted."""
        front = Front(self, line)
        self.fronts.add(front)
        self.begin(front.run())

    def gone(self, front: "Front") -> None:
        self.fronts.discard(front)
        self._idle_since = self.now()
        if front.session is not None:
            front.session.exit(front)
        for task, session in list(front.turns.items()):
            if task not in front.outlived:
                if session.current is task:
                    session.cancel()
                else:
                    task.cancel()


class Handler(Protocol):
    def __call__(self, params: dict[str, Any], raw: Raw) -> Awaitable[object]: ...


class Front:
    """An attached front, as the host sees it."""

    def __init__(self, hub: Hub, line: socket.socket) -> None:
        self.can_ask = False
        self.session: HostSession | None = None
        self.turns: dict[asyncio.Task[TurnEnd | LaunchError], HostSession] = {}  # of its prompts
        self.outlived: set[asyncio.Task[TurnEnd | LaunchError]] = set()  # those that go on without it
        self._hub, self._line = hub, line
        self._peer = Peer()
        self._transport = SocketTransport(line, "has left")
        self._said: deque[tuple[int, bytes]] = deque()  # what stands after the event of an id
        self._at = 0  # the last event of the session that was written
        self._news = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        limit = hub.launch.needs.max_line
        self._pump = Pump(self._transport, self._received, self, "a front", spoilt=self._peer.spoilt, max_line=limit)
        self._handlers: dict[str, Handler] = {
            "initialize": self._initialize,
            "session/new": partial(self._enter, "new"),
            "session/load": partial(self._enter, "load"),
            "session/resume": partial(self._enter, "resume"),
            "session/prompt": self._prompt,
            JOIN: self._join,
            TAKE: self._take_over,
            DETACH: self._detach,
            STATUS: self._status,
            SERVERS: self._servers,
            RESTART: self._restart,
            RENEW: self._renew,
            DOWN: self._down,
        }

    async def run(self) -> None:
        try:
            async with self._pump.running() as self._tasks:
                self._tasks.create_task(self._write())
                await self._pump.over()
                raise FrontGone
        except (FrontGone, LaunchError):
            pass  # it left, or broke the protocol: it concerns no one else
        finally:
            self._hub.gone(self)
            self._line.close()

    def close(self) -> None:
        """End it: its line is read to the end."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    # What is written to it.

    def say(self, line: bytes) -> None:
        """Write a line after all events so far."""
        self._said.append((self.session.window.newest if self.session else 0, line))
        self.news()

    def news(self) -> None:
        self._news.set()

    def follow(self, session: HostSession | None, at: int) -> None:
        """Write the events of a session from now on, those after the one with the id `at`."""
        self.session, self._at = session, at

    async def _write(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while piece := self._piece():
                await self._transport.write(piece)

    def _piece(self) -> bytes:
        """Return what is to be written next; empty if there is nothing."""
        parts: list[bytes] = []
        size = 0
        session = self.session
        missed = session.window.since(self._at, self._hub.now()) if session else []
        if missed is None:
            assert session is not None
            parts.append(event("missed", session.window.newest))
            self._at = session.window.newest
            missed = []
        for id, line in missed:
            self._due(id - 1, parts)
            if size > PIECE:
                break
            if session is not None and not session.is_own(id, self):
                parts.append(line)
                size += len(line)
            self._at = id
        else:
            self._due(self._at, parts)
        return b"".join(parts)

    def _due(self, at: int, parts: list[bytes]) -> None:
        while self._said and self._said[0][0] <= at:
            parts.append(self._said.popleft()[1])

    async def request(self, method: str, params: Mapping[str, object]) -> Raw:
        """Ask the front.

        Raises:
            FrontGone: it left, or does not answer such requests.
        """
        call = self._peer.call(method, params)
        try:
            with self._pump.asking(jsonrpc.Call(call.number, method, b"")) as future:
                self.say(call.line)
                try:
                    answer = await future
                except asyncio.CancelledError:
                    self.say(as_line(notification("$/cancel_request", {"requestId": call.number})))
                    raise
        except LaunchError as error:
            raise FrontGone from error
        if answer.fault is not None:
            self.can_ask = False
            raise FrontGone
        return answer.result

    # What it says.

    def _received(self, line: bytes) -> tuple[object, ...]:
        return (self._peer.receive(line),)

    def take(self, message: Called | Notified) -> None:
        assert self._tasks is not None
        if isinstance(message, Called):
            self._tasks.create_task(self._serve(message))
        elif message.method == "session/cancel" and self.session is not None:
            self.session.cancel()

    def note(self, text: str) -> None:
        """Ignore junk: the front is a program of ours."""

    def died(self, how: str, last_words: tuple[str, ...], method: str) -> LaunchError:
        return LaunchError(f"the front {how}")

    async def drain(self) -> None:
        """Return at once: what a front sends is little."""

    async def _serve(self, called: Called) -> None:
        handler = self._handlers.get(called.method)
        try:
            params = acp.mapping(acp.decoded(called.params))
            if handler is not None:
                result = await handler(params, called.params)
            elif called.method.startswith("_"):
                self.say(self._peer.refuse(called.id, jsonrpc.METHOD_NOT_FOUND, "method not found"))
                return
            else:
                result = await self._hub.forward(called.method, called.params)
        except LaunchError as error:
            code, message, data = as_fault(error)
            self.say(redactor.raw_json(self._peer.refuse(called.id, code, message, data)))
        except Exception as error:  # a bug of ours costs the request, not the host
            self._pump.mishaps.add("a front", error)
            self.say(self._peer.refuse(called.id, jsonrpc.INTERNAL_ERROR, jsonrpc.BROKEN))
        else:
            self.say(self._peer.respond(called.id, result))

    async def _initialize(self, params: dict[str, Any], raw: Raw) -> object:
        connection = await self._hub.connected()
        elicitation = acp.mapping(params.get("clientCapabilities")).get("elicitation")
        self.can_ask = bool(elicitation)
        said = acp.mapping(acp.decoded(connection.agent.raw))
        able = {**acp.mapping(said.get("agentCapabilities")), "loadSession": True}
        able["sessionCapabilities"] = {**acp.mapping(able.get("sessionCapabilities")), "resume": {}}
        return redactor.tree({**said, "agentCapabilities": able})

    async def _enter(self, how: How, params: dict[str, Any], raw: Raw) -> object:
        entrance = msgspec.convert(member(params), Entrance)
        self.can_ask = self.can_ask and entrance.can_ask
        known = self._hub.sessions.get(entrance.name)
        session = await self._hub.open(how, entrance, self)
        ready = session.feed.opened
        assert ready is not None, "it is open"
        if known is session:  # it was open before
            self._catch_up(session, how, entrance)
        return ready.result

    def _catch_up(self, session: HostSession, how: How, entrance: Entrance) -> None:
        """Find the place of a front in a session that is open: its history first, then the turn that runs."""
        start = session.began if session.turn is not None else session.window.newest
        if entrance.after is not None:
            start = session.began if entrance.after < 0 else entrance.after
        elif how == "load":
            for id, line in session.window.since(0, self._hub.now()) or []:
                if id <= start and b'"session/update"' in line[:50]:
                    self._said.append((0, line))
        self.follow(session, start)

    async def _prompt(self, params: dict[str, Any], raw: Raw) -> object:
        session = self._entered()
        said = member(params)
        wish = Wish() if said is None else msgspec.convert(said, Wish)
        end = await session.prompt(acp.sequence(params.get("prompt")), self, wish)
        return end.result

    async def _join(self, params: dict[str, Any], raw: Raw) -> object:
        end = await self._entered().join()
        if end is None:
            raise SessionError(f'session "{self._entered().name}" has had no turn since the host is up')
        if end.denied:
            self.say(event("denied", redactor.text(end.denied)))
        return end.result

    async def _take_over(self, params: dict[str, Any], raw: Raw) -> object:
        self._entered().drive(self)
        return NOTHING

    async def _detach(self, params: dict[str, Any], raw: Raw) -> object:
        self.outlived.update(self.turns)
        return NOTHING

    async def _status(self, params: dict[str, Any], raw: Raw) -> object:
        return self._hub.status()

    async def _servers(self, params: dict[str, Any], raw: Raw) -> object:
        return self._hub.launch.servers.standings()

    async def _restart(self, params: dict[str, Any], raw: Raw) -> object:
        name = acp.text(params.get("server"))
        if name not in {standing.server for standing in self._hub.launch.servers.standings()}:
            raise LaunchError(f'unknown server "{name}"')
        self._hub.launch.servers.restart(name)
        return NOTHING

    async def _renew(self, params: dict[str, Any], raw: Raw) -> object:
        self._hub.renew()
        return NOTHING

    async def _down(self, params: dict[str, Any], raw: Raw) -> object:
        self._hub.down()
        return NOTHING

    def _entered(self) -> HostSession:
        if self.session is None:
            raise SessionError("no session was entered")
        if self.session.gone.is_set():
            raise AgentError("the agent has ended")
        return self.session


async def _refuse(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
    """Leave a login to the front: its user is asked, and the front tries again."""
    raise wanted


async def _first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Return when the first of them ends."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


def _beginning(blocks: Sequence[object]) -> str:
    """Return the beginning of a prompt, as a title."""
    texts = (acp.text(acp.mapping(block).get("text")) for block in blocks)
    return " ".join(" ".join(texts).split())[:TITLE]
