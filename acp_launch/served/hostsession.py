"""
A session of a host: its turns, one after the other, and the fronts that are attached to it.

Towards the agent it is what a run of one prompt is. All that happens is an event in its window, with an id.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from math import inf
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.engine.agent import AgentSession, ManagedAgent
from acp_launch.engine.run import Launch, OpenSession, SessionRequest
from acp_launch.errors import AgentError, LaunchError, WaitExpired
from acp_launch.process.lifecycle import Change
from acp_launch.protocol import acp
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import ELICITATION, Opened, Updated
from acp_launch.protocol.jsonrpc import as_line, notification
from acp_launch.protocol.window import Window
from acp_launch.secret.redact import redactor
from acp_launch.served.connections import KEPT_BYTES, MAX_EVENTS, ClientConnection, FrontGone, SessionEvents
from acp_launch.served.wire import ASK, TAKEN, AttachOptions, FrontNews, Reloaded, SessionStatus, event_line, news_line
from acp_launch.session.client import CANCELLED, AcpSession, Turn
from acp_launch.session.connection import Connection
from acp_launch.session.events import (
    Answer,
    AnyEvent,
    FileEvent,
    NoteEvent,
    PermissionEvent,
    ResultEvent,
    ServersEvent,
    SessionEvent,
    TerminalEvent,
    ToolQuestion,
    UnaskedEvent,
    editor_answer,
    show_note,
)
from acp_launch.session.opening import end_session
from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.policy import READS, choose, is_choice
from acp_launch.session.store import Record, Registry, SessionKeeper
from acp_launch.waits import first_of

TITLE = 80  # characters of a prompt that name a session, or a queued prompt

T = TypeVar("T")


class Unattended(Struct, frozen=True):
    """What becomes of a question while no front can ask the user (`permissions.unattended`, `written` there).

    It waits so many seconds; then it is denied, but for reads if `allows_reads`.
    """

    written: str
    wait: float = 0.0
    allows_reads: bool = False


class HostPolicy(Struct, frozen=True, kw_only=True):
    """How a host deals with its sessions and fronts.

    `gate` makes the gate of a session; `hold` locks a session by its name. `ready` is called once, with seconds, when
    the host can be attached to. `keep` is how many seconds it stays without fronts and turns, None for ever; `outlives`
    is whether a turn goes on when the front that drives it ends. `reload` takes the servers of the profile if its
    content has this digest. `delays` is whether the agent waits for a slow front; else such a front misses events.
    """

    registry: Registry
    gate: Callable[[], Gate]
    hold: Callable[[str], AbstractContextManager[None]]
    unattended: Unattended
    reload: Callable[[Launch, str], Awaitable[Reloaded]]
    waits: Callable[[str], None]  # hears of a session in which a question begins to wait
    ready: Callable[[float], None] = lambda seconds: None
    keep: float | None = None
    outlives: bool = True
    delays: bool = False


class EventRecorder:
    """The observer of one session, for all its fronts: it records what it is told.

    Not the start and the end of a turn, waits and errors: a front shakes hands itself, has its own clock, and gets
    errors as answers.
    """

    def __init__(self, session: "HostSession") -> None:
        self._session = session
        self.last: ResultEvent | None = None
        self.opened: SessionEvent | None = None

    def update(self, update: Updated) -> None:
        events = self._session.events
        add = events.add_answer if update.kind == "agent_message_chunk" else events.add
        add(self._line_of(update))

    def _line_of(self, update: Updated) -> bytes:
        return b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":%b}}\n' % (
            self._session.id_json,
            bytes(update.update),
        )

    def show(self, event: AnyEvent) -> None:
        match event:
            case SessionEvent():
                self.opened = event
            case ResultEvent():
                self.last = event
            case Change() | ServersEvent():
                self._session.events.add(event_line(event), "elsewhere")
            case PermissionEvent() | UnaskedEvent() | FileEvent() | TerminalEvent() | NoteEvent():
                self._session.events.add(event_line(event))

    def pause(self) -> None:
        """Do nothing: questions are asked at a front."""

    async def drain(self) -> None:
        """Return at once: a host that waits for its fronts does so when it has read from the agent."""


class HistoryRecorder(EventRecorder):
    """The observer of a session in another process of the agent: it keeps the history that is told there."""

    def __init__(self, session: "HostSession") -> None:
        super().__init__(session)
        self.window = Window(count=MAX_EVENTS, size=KEPT_BYTES)

    def update(self, update: Updated) -> None:
        self.window.append(self._line_of(update), key=None, now=0.0)

    def show(self, event: AnyEvent) -> None:
        """Record nothing: the session has all other events itself."""


class HostSession(AgentSession):
    """A session of the host, with the fronts that are attached to it. The one that drives it is asked questions."""

    def __init__(
        self,
        agent: "ManagedAgent[HostSession]",
        host: HostPolicy,
        tasks: asyncio.TaskGroup,
        name: str,
        servers: Sequence[object],
        keeper: SessionKeeper,
    ) -> None:
        """`tasks` run its turns. `servers` are entries of the front that opens it, besides the host's."""
        super().__init__(agent)
        self.name, self.servers, self._keeper = name, servers, keeper
        self.events = SessionEvents(asyncio.get_running_loop().time, self._tell)
        self.fronts: list[ClientConnection] = []
        if host.delays:
            self.events.window.spare = self._last_written
        self.driver: ClientConnection | None = None
        self._keeps_driving: ClientConnection | None = None  # until it leaves, whichever sends the prompts
        self.queue: list[str] = []
        self.id_json = b'""'
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.feed = EventRecorder(self)
        self.failed: LaunchError | None = None  # how the last turn failed
        self.turn: Turn | asyncio.Task[None] | None = None  # or the wait for the servers before it
        self.since = time.time()
        self._host, self._tasks, self._gate = host, tasks, host.gate()
        self._open: OpenSession | None = None
        # It stays open; or until a front has the end of its turn, which is over then.
        self.lifetime: Literal["open", "turn", "over"] = "turn"
        self._left: asyncio.Future[bool] = asyncio.get_running_loop().create_future()  # whether the agent is told
        self._changed = asyncio.Event()  # a front has come or gone
        self._turning = asyncio.Lock()
        self.current: asyncio.Task[object] | None = None  # runs the turn
        self._turns: dict[asyncio.Task[ResultEvent | LaunchError], ClientConnection | None] = {}  # whose end ends each

    @property
    def state(self) -> str:
        if self.turn is None:
            return "idle"
        return "asks" if self.client is not None and self.client.is_asking else "works"

    @property
    def status(self) -> SessionStatus:
        client = self.client
        return SessionStatus(
            name=self.name,
            title=redactor.text(client.title) if client else "",
            state=self.state,
            since=self.since,
            fronts=len(self.fronts),
            queued=len(self.queue),
        )

    @property
    def has_turned(self) -> bool:
        """Whether it has had a turn, whose end can be told."""
        return self.turn is None and (self.failed is not None or self.feed.last is not None)

    @property
    def has_begun(self) -> bool:
        """Whether it has had a turn, or has one."""
        return self.is_busy or self.has_turned

    @property
    def is_left(self) -> bool:
        """Whether it is being closed, or was."""
        return self._left.done()

    @property
    def is_busy(self) -> bool:
        return self.turn is not None or bool(self.queue)

    def _last_written(self) -> float:
        return min((front.last_written(self.events) for front in self.fronts), default=inf)

    async def catch_up(self) -> None:
        """Wait until all fronts that delay the agent were written most of what has happened."""
        for front in tuple(self.fronts) if self._host.delays else ():
            await front.catch_up(self.events)

    def _tell(self) -> None:
        for front in self.fronts:
            front.news()

    async def run(self, connection: Connection, request: SessionRequest) -> None:
        """Open the session, and keep it open until it is left or the agent ends."""
        launch = self.agent.launch
        try:
            with self._host.hold(self.name):
                async with launch.session(connection, request) as opened:
                    self._open = opened
                    self.opened.set_result(None)
                    if await self._left:
                        await _free(launch, opened)
        except LaunchError as error:
            self._not_opened(error)

    def end(self) -> None:
        self._not_opened(AgentError("the agent ended before the session was open"))
        super().end()

    def _not_opened(self, error: LaunchError) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()  # a request that waits reads it; without one it is not our fault

    def leave(self, *, closes: bool = False) -> None:
        """Leave it; `closes` has the agent close it too."""
        if not self._left.done():
            self._left.set_result(closes)

    def _leave_if_over(self) -> None:
        is_over = self.lifetime == "over" or not (self.lifetime == "open" or self.has_begun)
        if is_over and not (self.fronts or self.is_busy):
            self.leave(closes=True)

    def _note_end(self) -> None:
        """Note that a front has the end of the latest turn, or that none wants it."""
        if self.lifetime == "turn":
            self.lifetime = "over"

    def request(self, record: Record | None, *, replay: bool) -> SessionRequest:
        """Return the request that opens it."""
        return SessionRequest(
            name=self.name,
            continued=record,
            replay=replay,
            servers=self.servers,
            opened=self._note_opened,
            gate=self._gate,
            observer=RedactedOutput(self.feed),
            listen=self._listen,
            services={ELICITATION: self._elicit},
        )

    # Fronts.

    def enter(self, front: ClientConnection, options: AttachOptions) -> None:
        self.fronts.append(front)
        if not (options.close_after_turn or options.from_last_turn):
            self.lifetime = "open"
        self._choose_driver()

    def drive(self, front: ClientConnection) -> None:
        """Let this front drive until it leaves, whichever sends the prompts."""
        self._keeps_driving = front
        self._drive(front)

    def _drive(self, front: ClientConnection) -> None:
        before, self.driver = self.driver, front
        if before is not None and before is not front:
            before.say(event_line(NoteEvent(text=TAKEN)))
        self._choose_driver()

    def exit(self, front: ClientConnection) -> None:
        if front in self.fronts:
            self.fronts.remove(front)
        self.events.forget(front)
        self.driver, self._keeps_driving = (
            None if each is front else each for each in (self.driver, self._keeps_driving)
        )
        for task in [task for task, owner in self._turns.items() if owner is front]:
            self._note_end()
            self.cancel() if task is self.current else task.cancel()
        self._choose_driver()
        self._leave_if_over()

    def resume_events(self, front: ClientConnection) -> None:
        """Give a front what follows the history that it has shown."""
        front.resume(self.events)
        self._changed.set()

    def detach(self, front: ClientConnection) -> None:
        """Let the turns of a front go on without it."""
        self._turns = {task: None if owner is front else owner for task, owner in self._turns.items()}

    def _choose_driver(self) -> None:
        if self.driver is None:  # the one that has been here longest
            self.driver = next((front for front in self.fronts if not front.options.read_only), None)
        self._gate.ask = self.ask if self.driver is None or self.driver.options.can_ask else None
        self._changed.set()

    # Turns.

    async def prompt(self, blocks: Sequence[object], front: ClientConnection) -> ResultEvent:
        """Run a turn, after those before it."""
        said = " ".join(acp.prompt_text(blocks).split())[:TITLE]
        self.queue.append(said)
        task = self._tasks.create_task(self._run(blocks, said, front))
        self._turns[task] = None if self._host.outlives else front
        task.add_done_callback(self._turns.pop)
        outcome = await asyncio.shield(task)
        if not front.options.read_only:  # else it is about to leave (--detach)
            self._note_end()
        if isinstance(outcome, LaunchError):
            raise outcome
        return outcome

    async def _run(self, blocks: Sequence[object], said: str, front: ClientConnection) -> ResultEvent | LaunchError:
        if self.turn is not None:
            show_note(self.feed, f"queued after the turn that runs: {redactor.text(', '.join(self.queue))}")
        is_waiting = True
        try:
            async with self._turning:
                self.queue.remove(said)
                is_waiting = False
                self.current = asyncio.current_task()
                if isinstance(self.failed, WaitExpired):  # the agent, which hangs, is being ended
                    raise self.failed
                if front.options.own_turns_only and not await self._await_servers():
                    return ResultEvent(stop_reason="cancelled", result=CANCELLED)
                return await self._turn(blocks, said, front)
        except LaunchError as error:
            self.failed = error
            if isinstance(error, WaitExpired):  # the agent hangs
                self.agent.stop()
            return error
        finally:
            if is_waiting:
                self.queue.remove(said)
            else:
                self.current = None
                self.events.mark(None)
            self._leave_if_over()

    async def _await_servers(self) -> bool:
        """Wait for the required servers; False if the prompt is cancelled.

        Raises:
            LaunchError: as `LaunchServers.proven`.
        """
        self.turn = awaiting = asyncio.ensure_future(self.agent.launch.servers.proven())
        try:
            await asyncio.wait([awaiting])
        finally:
            awaiting.cancel()
            self.turn = None
        if not awaiting.cancelled():
            awaiting.result()
        return not awaiting.cancelled()

    async def _turn(self, blocks: Sequence[object], said: str, front: ClientConnection) -> ResultEvent:
        assert self._open is not None, "a front enters an open session"
        self.events.begin_turn(front)
        may_drive = front.options.can_ask and not front.options.read_only and self._keeps_driving is None
        if front in self.fronts and may_drive:
            self._drive(front)  # the user who has sent the prompt is asked about it
        self.lifetime = "open" if self.lifetime == "open" else "turn"
        broken = partial(self._keeper.store_broken_turn, said)
        self.turn = turn = self.agent.launch.turn(self._open, is_first=self.agent.turns == 0, broken=broken)
        self.agent.turns += 1
        self.since, self.failed = time.time(), None
        self._gate.policy = replace(self._gate.policy, approve=front.options.approve)
        self.events.add(news_line(FrontNews(turn=redactor.text(acp.prompt_text(blocks)))), front)
        for block in blocks:
            update = {"sessionUpdate": "user_message_chunk", "content": block}
            params = {"sessionId": Raw(self.id_json), "update": update}
            self.events.add(redactor.raw_json(as_line(notification("session/update", params))), "here")
        try:
            end = await turn.run(blocks)
        finally:
            self.turn, self.since = None, time.time()
            self.events.add(news_line(FrontNews(is_idle=True)), front)
        self._keeper.store_turn(said, end)
        if end.denied:
            self.events.add(news_line(FrontNews(denied=redactor.text(end.denied))))
        assert self.feed.last is not None, "it is told of each end"
        return self.feed.last

    async def join(self) -> ResultEvent | None:
        """Wait for the end of the running turn, and return the latest turn's end; None if there was none.

        Raises:
            LaunchError: how the turn failed.
        """
        async with self._turning:
            self._note_end()
            if self.failed is not None:
                raise self.failed
            return self.feed.last

    def cancel(self) -> None:
        if self.turn is not None:
            self.turn.cancel()

    # Questions for the user.

    async def ask(self, question: ToolQuestion) -> Answer:
        """Ask at the front that drives; without one, do what the profile says."""
        shown = redactor.tree(msgspec.to_builtins(question))
        id = Raw(self.id_json)

        async def put(front: ClientConnection) -> Answer:
            if front.options.acp_only:
                asked = {"sessionId": id, "toolCall": shown["call"], "options": shown["options"]}
                return editor_answer(await front.request("session/request_permission", asked), question.options)
            answer = await front.request(ASK, {"sessionId": id, "question": shown})
            return msgspec.convert(acp.mapping(acp.decoded(answer)), Answer)

        return await self._put(put) or self._answer_unattended(question)

    def _answer_unattended(self, question: ToolQuestion) -> Answer:
        policy = self._host.unattended
        about = self._gate.about(question.call)
        allowed = policy.allows_reads and about.kind in READS and not about.acts and not is_choice(question.options)
        came = ", and no terminal attached" if policy.wait else ""
        return Answer(choose(allowed, question.options), by=f"permissions.unattended: {policy.written}{came}")

    async def _elicit(self, params: dict[str, Any]) -> object:
        if self._gate.ask is None:
            return {"action": "cancel"}

        async def put(front: ClientConnection) -> object:
            return await front.request(ELICITATION, redactor.tree(params)) if front.can_elicit else None

        return await self._put(put) or {"action": "cancel"}

    async def _put(self, put: Callable[[ClientConnection], Awaitable[T]]) -> T | None:
        """Return the answer of the front that `put` asks; None if none came in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as patience:
                while True:
                    self._changed.clear()
                    front = self.driver
                    if front is not None and front.options.can_ask:
                        patience.reschedule(None)
                        if front.is_held(self.events):  # the question stands below the history
                            await self._changed.wait()
                            continue
                        with suppress(FrontGone):
                            return await self._put_to(front, put)
                        continue
                    if not (wait := self._host.unattended.wait):
                        return None
                    if patience.when() is None:
                        patience.reschedule(asyncio.get_running_loop().time() + wait)
                        self._wait_told()
                    await self._changed.wait()
        return None

    async def _put_to(self, front: ClientConnection, put: Callable[[ClientConnection], Awaitable[T]]) -> T:
        """Return the answer of a front. The other fronts learn that it is asked.

        Raises:
            FrontGone: it left, or another front has taken the questions.
        """
        answers: list[T] = []

        async def ask() -> None:
            answers.append(await put(front))

        async def until_taken() -> None:
            while self.driver is front:
                self._changed.clear()
                await self._changed.wait()

        self._tell_asked(is_asked=True)
        try:
            await first_of(ask(), until_taken())
        finally:
            self._tell_asked(is_asked=False)
        if not answers:
            raise FrontGone
        return answers[0]

    def _tell_asked(self, *, is_asked: bool) -> None:
        self.events.add(news_line(FrontNews(is_asked=is_asked)))

    def _wait_told(self) -> None:
        host = self._host
        show_note(self.feed, f"a question waits in session {self.name} ({host.unattended.written}): acp-launch attach")
        host.waits(self.name)

    # The agent's session.

    def _listen(self, client: AcpSession) -> None:
        self.client = client
        self.agent.by_id[msgspec.json.decode(self.id_json)] = self

    def begin(self, opened: Opened) -> None:
        assert self.client is not None, "it opens the session"
        self.set_agent_id(opened.session_id)
        before = self.agent.by_id.get(opened.session_id)
        if opened.how == "new" and before not in (None, self):
            what = f"the agent gave the id {opened.session_id!r} to two sessions; the latest one has it"
            show_note(self.agent.launch.observer, what)
            before.leave()
        self.client.opened(opened)

    def _note_opened(self, ready: SessionEvent, agent: Negotiated) -> None:
        self._keeper.opened(ready, agent)

    def set_agent_id(self, session_id: str) -> None:
        """Note the agent's id before the first event of a session that is loaded."""
        self.id_json = msgspec.json.encode(session_id)


async def _free(launch: Launch, session: OpenSession) -> None:
    """Have the agent free a session and its servers. One that cannot close sessions loses the connections to them."""
    is_closed, limit = False, launch.plan.timeouts.session
    with suppress(LaunchError):
        is_closed = await end_session(session.connection, "close", session.ready.session_id, limit=limit)
    if not is_closed:
        launch.servers.hang_up(session.client.name)
