"""
A front of a host: what a run is when a host is up for its profile. The agent, the servers and the store are the host's;
a front has the user.

It is a client of ACP whose agent is the host, so a turn, its updates and its end are handled by the code of every run.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from acp_launch.engine.context import LaunchContext
from acp_launch.engine.loop import Interrupts
from acp_launch.engine.run import Ending, Launch, Prompt, RestartAgent, SessionRequest, Story, converse
from acp_launch.engine.servers import LaunchServers
from acp_launch.problem import ours
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.protocol import acp
from acp_launch.protocol.acp import Negotiated, Offers
from acp_launch.protocol.conversation import Extension
from acp_launch.served.connect import SocketTransport, stall_reason
from acp_launch.served.connect import connect as connect_to_host
from acp_launch.served.registry import HostNote
from acp_launch.served.wire import (
    ASK,
    DETACH,
    EVENT,
    FOLLOW,
    META,
    NEWS,
    RENEW,
    RESTART,
    SERVERS,
    TAKE,
    AttachOptions,
    FrontNews,
    read_own_error,
)
from acp_launch.session.client import AcpSession, Turn
from acp_launch.session.connection import Budget, Connection, connect, in_profile, negotiate
from acp_launch.session.events import Ask, Observer, SessionEvent, ToolQuestion, TurnEnd, decode
from acp_launch.waits import stretch

T = TypeVar("T")
ANSWERS = stretch(10.0)  # seconds for an answer of the host to what needs no agent
ENDED = "is gone with its host"


class HostedServers(LaunchServers):
    """The servers of a host, as a front knows them."""

    _known: tuple[Standing, ...] = ()
    connection: Connection | None = None

    async def refresh(self) -> None:
        """Learn the states of the servers."""
        assert self.connection is not None
        answer = await _request_host(self.connection, SERVERS, {})
        self._known = msgspec.json.decode(answer, type=tuple[Standing, ...])

    def standings(self) -> list[Standing]:
        return list(self._known)

    def restart(self, name: str) -> None:
        assert self.connection is not None
        _request_beside(self.connection, RESTART, {"server": name})

    def note_state(self, change: Change) -> None:
        """Note a step in the life of a server."""
        now = {"state": change.state, "restarts": change.restarts, "silent": False}
        self._known = tuple(replace(each, **now) if each.server == change.server else each for each in self._known)


async def _request_host(connection: Connection, method: str, params: Mapping[str, object]) -> Raw:
    call = connection.conversation.forward(method, params)
    return await connection.call(call, what="answer of the host", limit=ANSWERS)


def _request_beside(connection: Connection, method: str, params: Mapping[str, object]) -> None:
    """Do the same while the pump continues."""

    async def request() -> None:
        await _request_host(connection, method, params)

    connection.spawn(request())


class Attached:
    """A front's connection to its host: what the host says besides ACP reaches the observer."""

    def __init__(self, connection: Connection, observer: Observer) -> None:
        self.connection, self._observer = connection, observer
        self.client: AcpSession | None = None
        self.began: Callable[[str], None] = lambda prompt: None  # hears of a turn of another front
        self.asked: Callable[[bool], None] = lambda is_asked: None  # hears when a front is asked, and when no more
        self.changed: Callable[[Change], None] = lambda change: None  # hears of a step in the life of a server
        connection.read_own_error, connection.extension = read_own_error, self._receive_event

    def _receive_event(self, extension: Extension) -> None:
        if extension.method == EVENT and (event := decode(bytes(extension.params))) is not None:
            if isinstance(event, Change):
                self.changed(event)
            self._observer.show(event)
        elif extension.method == NEWS:
            self._take_news(msgspec.json.decode(extension.params, type=FrontNews))

    def _take_news(self, news: FrontNews) -> None:
        if news.is_asked is not None:
            self.asked(news.is_asked)
        if self.client is None:
            return
        self.client.denied = news.denied or self.client.denied
        if news.is_idle or news.turn is not None:
            self.connection.conversation.working(self.client.session_id, is_working=not news.is_idle)
        if news.turn is not None:
            self.began(news.turn)


def attach_meta(options: AttachOptions) -> dict[str, object]:
    """Return the `_meta` with which a session is entered."""
    return {META: msgspec.to_builtins(options)}


async def with_host(
    note: HostNote,
    observer: Observer,
    story: Callable[[Attached], Awaitable[T]],
    interrupts: Interrupts,
    *,
    max_line: int,
    limit: float = ANSWERS,
    offers: Offers | None = None,
) -> T:
    """Connect to a host, do the handshake within `limit` seconds, and run `story`.

    Raises:
        StateError: as `connect.connect`.
        LaunchError: as `engine.run.with_agent`; the host's own errors as they are raised there.
    """

    line = connect_to_host(note)

    async def attach() -> T:
        with line:
            async with connect(
                SocketTransport(line, ENDED), observer, max_line=max_line, longer=in_profile, budget=interrupts.budget
            ) as connection:
                connection.stall_reason = partial(stall_reason, note)
                attached = Attached(connection, observer)
                await negotiate(connection, limit=limit, offers=offers)
                connection.conversation.serving([ASK])
                return await story(attached)

    return await interrupts.watch(attach())


async def detach_prompt(launch: "HostedLaunch", prompt: Prompt, connection: Connection) -> None:
    """Open the session, and return when the host has taken the prompt; its turn needs no front.

    Raises:
        LaunchError: as `engine.run.prompted`, up to the prompt.
    """
    blocks = prompt.blocks(connection.agent.capabilities)
    connection.extension = lambda extension: None  # what the host tells is for a front that waits
    async with launch.session(connection, launch.completed(prompt.request)) as session:
        connection.listen(None)  # nothing more is shown
        connection.send(connection.conversation.prompt(session.ready.session_id, blocks).line)
        await launch.detach()  # answered after the prompt was taken
    await connection.observer.drain()


async def watch_turn(attached: Attached, client: AcpSession, session_id: str, options: AttachOptions) -> TurnEnd:
    """Watch the latest turn of a session from its beginning, and return its end.

    Raises:
        LaunchError: how it failed.
    """
    connection = attached.connection
    attached.client = client
    client.opening(session_id)
    conversation = connection.conversation
    # The host has the session open, and reads only `_meta`.
    entered = conversation.open("resume", session_id, cwd="/", servers=(), directories=(), meta=attach_meta(options))
    await connection.call(entered, what="answer of the host", limit=ANSWERS)
    return await Turn(connection, client, session_id, silence=inf).run(None)


class HostEntry(Struct, frozen=True, kw_only=True):
    """How a front enters its host: where it is, how it enters a session of a name, and how it asks its user.

    A front that `stays` for more than one turn shows the servers, and what happens between turns.
    """

    note: HostNote
    options: Callable[[str], AttachOptions]
    ask: Ask | None
    stays: bool


class HostedLaunch(Launch):
    """The launch of a host, as a front has it: the agent is the host's, and so are the servers."""

    servers: HostedServers
    outlives_terminal = True

    def __init__(self, context: LaunchContext, observer: Observer, interrupts: Interrupts, entry: HostEntry) -> None:
        servers = HostedServers(context.plan, observer, interrupts.budget, logs=None)
        super().__init__(context, observer, interrupts, servers)
        self._entry = entry
        self._attached: Attached | None = None

    async def meet(self, story: Story[T], ending: Ending) -> T:
        """Run `story` with a connection to the host. Its agent is started again after a login that wants it."""

        async def met(attached: Attached) -> T:
            self._attached = attached
            attached.began, attached.asked, attached.changed = self.began, self.asked, self.servers.note_state
            self.servers.connection = attached.connection
            if self._entry.stays:
                await self.servers.refresh()
            try:
                return await story(attached.connection)
            except RestartAgent:
                await self._request(RENEW)
                raise

        context, note = self.context, self._entry.note
        limit, offers, longest = context.plan.timeouts.initialize, context.offers, context.max_line
        return await with_host(note, self.observer, met, self.interrupts, max_line=longest, limit=limit, offers=offers)

    def completed(self, request: SessionRequest) -> SessionRequest:
        """Return the request as a front of the host makes it: the host keeps the record, and asks the user here."""
        entry, attached = self._entry, self._attached
        assert attached is not None, "a session is opened within `meet`"
        connection, ask = attached.connection, entry.ask

        def opened(ready: SessionEvent, agent: Negotiated) -> None:
            if entry.stays:  # it has what follows the history, now that it is shown
                _request_beside(connection, FOLLOW, {})

        async def asked(params: dict[str, Any]) -> object:
            assert ask is not None, "the host asks only where a user is"
            answer = await ask(msgspec.convert(params.get("question"), ToolQuestion))
            return msgspec.to_builtins(answer)

        def listen(client: AcpSession) -> None:
            attached.client = client
            connection.listen(client.on_event)

        return replace(
            request,
            meta=attach_meta(entry.options(request.name)),
            opened=opened,
            observer=self.observer,
            listen=listen,
            services={ASK: asked} if ask else {},
        )

    async def detach(self) -> None:
        await self._request(DETACH)

    async def take(self) -> None:
        await self._request(TAKE)

    async def _request(self, method: str) -> None:
        assert self._attached is not None, "it is asked within `meet`"
        await _request_host(self._attached.connection, method, {})


@asynccontextmanager
async def launch_in_host(
    context: LaunchContext,
    entry: HostEntry,
    observer: Observer,
    *,
    on_interrupt: Callable[[], None] | None = None,
    budget: Budget | None = None,
) -> AsyncIterator[HostedLaunch]:
    """Provide the launch of a host while the block runs, as `engine.run.conversation` provides one of one's own."""
    async with Interrupts(on_interrupt, budget=budget) as interrupts:
        yield HostedLaunch(context, observer, interrupts, entry)
        interrupts.check()


class HostAsAgent(Launch):
    """A launch whose agent is a host. The host starts its own agent again when it is wanted."""

    def __init__(
        self,
        context: LaunchContext,
        observer: Observer,
        interrupts: Interrupts,
        servers: LaunchServers,
        find: Callable[[], HostNote],
    ) -> None:
        """Prepare it. `find` finds the host, or raises AgentError."""
        super().__init__(context, observer, interrupts, servers)
        self._find = find

    @property
    def after_death(self) -> str:
        return f"; to go on: {ours('up', self.plan.called)}"

    async def meet(self, story: Story[T], ending: Ending) -> T:
        """Run `story` with a connection to the host."""

        note = self._find()

        async def met(connection: Connection) -> T:
            connection.stall_reason = partial(stall_reason, note)
            return await story(Attached(connection, self.observer).connection)

        with connect_to_host(note) as line:
            transport = SocketTransport(line, ENDED)
            told = converse(self.context, transport, self.observer, met, self.interrupts)
            return await self.interrupts.watch(told)


def enter_from_editor(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Add to the params with which an editor opens a session how it is entered; `name` is its name in the store."""
    options = AttachOptions(name=name, can_ask=True, acp_only=True, several=True)
    return {**params, "_meta": {**acp.mapping(params.get("_meta")), **attach_meta(options)}}
