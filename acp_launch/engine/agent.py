"""
The agent of a launch and its sessions, for a front that outlives it: a host, and a profile that is served to an editor.

It is started when a request wants it, and again after its end. Requests wait in their order until it has its sessions;
if it does not come up, each is told why. What the agent says goes to the session that it concerns.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from acp_launch.engine.run import Launch
from acp_launch.errors import AgentError, LaunchError, RemoteProtocolError, WaitExpired
from acp_launch.process.table import living
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import Opened, PermissionAsked, ServiceAsked, Updated
from acp_launch.session.client import AcpSession
from acp_launch.session.connection import AgentMessage, Connection
from acp_launch.waits import first_of


class AgentSession(ABC):
    """A session of the agent."""

    def __init__(self, agent: "ManagedAgent[Any]") -> None:
        self.agent = agent
        self.client: AcpSession | None = None  # set while the agent has it open, or opens it
        self.gone = asyncio.Event()
        agent.sessions.append(self)

    @abstractmethod
    def begin(self, opened: Opened) -> None:
        """Take the agent's answer to the request that opens it."""

    def end(self) -> None:
        """Note that it is not open any more."""
        self.agent.forget(self)
        self.gone.set()


S = TypeVar("S", bound=AgentSession)


class QueuedRequest(Struct, frozen=True):
    """A request that waits for the agent. `refuse` returns whether its sender was still waiting."""

    resume: Callable[[], object]
    refuse: Callable[[LaunchError], bool]


class AgentFront(Protocol):
    """What has the agent."""

    def meet(self, connection: Connection) -> None:
        """Take up an agent right after its handshake."""

    async def restore(self) -> None:
        """Return when the agent has its sessions, so that requests may go on."""

    def end(self, error: BaseException | None) -> None:
        """Prepare for the agent's stop; `error` is the reason, None after an orderly end."""

    def lose(self, error: LaunchError, *, is_told: bool) -> None:
        """Settle what an agent has left open. A request that waited for it may be `is_told` already.

        Raises:
            LaunchError: no other agent is to be started.
        """

    def stray(self, message: AgentMessage) -> None:
        """Take what concerns no session that is open."""


class ManagedAgent(Generic[S]):
    """One process after the other, each with the same sessions."""

    def __init__(self, launch: Launch, front: AgentFront, over: asyncio.Event) -> None:
        """`over` is set when no agent is wanted any more."""
        self.launch, self._front, self._over = launch, front, over
        self.sessions: list[S] = []
        self.by_id: dict[str, S] = {}  # by the agent's id; one that is made may have the empty one
        self.connection: Connection | None = None
        self.negotiated: Negotiated | None = None  # of the latest agent
        self.turns = 0  # so far, of all sessions
        self.wanted = asyncio.Event()
        self._up, self._ended, self._stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._reason: LaunchError | None = None  # of the stop
        self._is_ready = False  # it has its sessions
        self._was_ready = False  # the latest one
        self._queued: list[QueuedRequest] = []

    # Its life.

    async def run(self) -> None:
        """Have one agent after the other, each when it is wanted, until it is over.

        Raises:
            LaunchError: no agent has ever answered, or the front wants no other; `Stopped` after a signal.
        """
        try:
            if self.wanted.is_set() or await self._await_want():
                await self.launch.run(self._serve, self._again, self._front.end)
        except (AgentError, WaitExpired, RemoteProtocolError):
            if self.negotiated is None or not self._over.is_set():
                raise

    async def _await_want(self) -> bool:
        """Wait until a request wants an agent; False once it is over."""
        await self.launch.interrupts.watch(first_of(self.wanted.wait(), self._over.wait()))
        return not self._over.is_set()

    async def _again(self, error: Exception | None) -> bool:
        if isinstance(error, LaunchError):
            waiting, self._queued = ([], self._queued) if self._was_ready else (self._queued, [])
            refused = [each.refuse(error) for each in waiting]
            self._front.lose(error, is_told=any(refused))
        self._was_ready = False
        if not self._queued:
            self.wanted.clear()
        return await self._await_want()

    async def _serve(self, connection: Connection) -> None:
        """Serve with an agent until it ends, or is stopped.

        Raises:
            LaunchError: how it has ended, or why it was stopped.
        """
        self.connection, self.negotiated, self._reason = connection, connection.agent, None
        self._ended = asyncio.Event()
        self._stopped.clear()
        connection.listen(self._take)
        self._front.meet(connection)
        try:
            await connection.race_with_close(first_of(self._over.wait(), self._stopped.wait(), self._bring_back()))
            if self._reason is not None:
                raise connection.with_stall_reason(self._reason)
        finally:
            self.connection, self._is_ready = None, False
            self._up.clear()
            self._ended.set()

    async def _bring_back(self) -> None:
        """Bring the sessions to where the last agent had them, let requests go on, and wait for ever."""
        self._up.set()
        await self._front.restore()
        if self.connection is None:
            return  # it has just ended
        queued, self._queued = self._queued, []
        self._is_ready = self._was_ready = True
        for each in queued:
            each.resume()
        await asyncio.Event().wait()

    def stop(self, reason: LaunchError | None = None) -> None:
        """Stop the agent, which hangs for this reason, if there is one; the next request starts it again."""
        self._reason = reason
        self._stopped.set()

    # Its use.

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests; others are to be queued.

        The connection of a dead process ends half a second later, when its last words have come.
        """
        process = self.launch.agent_process
        return self._is_ready and (process is None or living([process]))

    def queue(self, request: QueuedRequest) -> None:
        self._queued.append(request)
        self.wanted.set()

    async def connected(self) -> Connection:
        """Return the connection to the agent, which is started if it has ended.

        Raises:
            LaunchError: it did not come up.
        """
        if not self.is_ready:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def refuse(error: LaunchError) -> bool:
                if is_open := not waiting.done():
                    waiting.set_exception(error)
                return is_open

            def resume() -> None:
                if not waiting.done():
                    waiting.set_result(None)

            self.queue(QueuedRequest(resume, refuse))
            await waiting
        if self.connection is None:
            raise AgentError("the agent has ended")
        return self.connection

    async def reconnected(self) -> Connection:
        """Return the connection to the next agent, for a session that it is to have again."""
        while self.connection is None:
            await self._up.wait()
        return self.connection

    async def until_end(self, connection: Connection) -> None:
        if self.connection is connection:
            await self._ended.wait()

    # What it says.

    def _take(self, message: AgentMessage) -> None:
        client: AcpSession | None = None
        match message:
            case Updated() | ServiceAsked():
                client = self._client(message.session_id)
            case PermissionAsked():
                session_client = self._client(message.session_id)
                client = session_client if session_client is not None and session_client.judges else None
            case Opened():
                self._open(message)
                return
        take = self._front.stray if client is None else client.on_event
        take(message)

    def _client(self, session_id: str) -> AcpSession | None:
        session = self.by_id.get(session_id)
        return None if session is None else session.client

    def _open(self, opened: Opened) -> None:
        for session in self.sessions:
            if session.client is not None and session.client.number == opened.number:
                session.begin(opened)
                self.by_id.pop("", None)
                self.by_id[opened.session_id] = session

    def forget(self, session: S) -> None:
        """Forget a session that is not open any more."""
        self.sessions.remove(session)
        for id in [id for id, each in self.by_id.items() if each is session]:
            del self.by_id[id]
