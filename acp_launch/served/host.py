"""
The host: one agent, its sessions, and the fronts that are attached to them.

Towards the agent it is the client that a launch of one prompt is, once for each session; towards a front it is an
agent (`wire`). The agent may die and be started again; fronts and the host's place params.
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.console.stream.text import Notices
from acp_launch.engine.agent import ManagedAgent
from acp_launch.engine.loop import Interrupts
from acp_launch.engine.run import Launch
from acp_launch.engine.surroundings import with_agent
from acp_launch.errors import AgentError, LaunchError, SessionError
from acp_launch.plan.model import LaunchPlan
from acp_launch.problem import ours
from acp_launch.process.lifecycle import Change
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.conversation import Completed, How, PermissionAsked, ServiceAsked, Withdrawn
from acp_launch.protocol.jsonrpc import as_line, notification
from acp_launch.protocol.window import Window
from acp_launch.secret.redact import redactor
from acp_launch.served.connections import ClientConnection, SessionEvents, UnknownMethod
from acp_launch.served.hostsession import HistoryRecorder, HostPolicy, HostSession
from acp_launch.served.wire import (
    CANCEL,
    DETACH,
    FOLLOW,
    JOIN,
    META,
    MISSED,
    RELOAD,
    RELOADED,
    RENEW,
    RESTART,
    SERVERS,
    STATUS,
    TAKE,
    AttachOptions,
    FrontNews,
    HostStatus,
    event_line,
    member,
    news_line,
)
from acp_launch.session.client import AcpSession
from acp_launch.session.connection import AgentMessage, Connection
from acp_launch.session.events import AnyEvent, NoteEvent, ServersEvent, redact, show_note
from acp_launch.session.opening import SessionParams, how_to_continue, open_session
from acp_launch.session.store import SessionKeeper, continued

if TYPE_CHECKING:
    from acp_launch.process.logs import LogFile

T = TypeVar("T")
NOTHING = Raw(b"{}")
MAX_SILENT = 64  # connections that have asked for nothing; the oldest is closed for a further one
PAST = 5  # sessions that are not open any more, whose latest turn is kept
UPDATE = b'"session/update"'
FORK = "session/fork"  # its result would be a session that no front can enter
Handler = Callable[[ClientConnection, dict[str, Any]], Awaitable[object]]


class Host:
    """The sessions of a host. Made by `hosting`."""

    def __init__(self, launch: Launch, policy: HostPolicy, tasks: asyncio.TaskGroup) -> None:
        self.launch, self.policy = launch, policy
        self._over = asyncio.Event()
        self.agent: ManagedAgent[HostSession] = ManagedAgent(launch, self, self._over)
        self.fronts: dict[ClientConnection, list[HostSession]] = {}  # and what each has entered
        self._silent: dict[ClientConnection, None] = {}  # those that have asked for nothing yet; the oldest first
        self.past: dict[str, HostSession] = {}  # sessions that have ended, until their next turn
        self.now = asyncio.get_running_loop().time
        self.max_line = launch.context.max_line
        self._handlers: dict[str, Handler] = {
            "initialize": self._initialize,
            "session/new": partial(self._enter, "new"),
            "session/load": partial(self._enter, "load"),
            "session/resume": partial(self._enter, "resume"),
            "session/prompt": self._prompt,
            "session/close": self._close,
            "session/delete": self._delete,
            JOIN: self._join,
            RESTART: self._restart,
            RELOAD: self._reload,
            CANCEL: self._cancel,
        }
        self._tasks = tasks
        self._one_at_a_time = asyncio.Lock()
        self._began = time.monotonic()
        self._took = 0.0
        self._idle_since = inf  # not before it is up

    @property
    def plan(self) -> LaunchPlan:
        return self.launch.plan

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run work that no front owns."""
        return self._tasks.create_task(work)

    async def run(self) -> None:
        """Serve with one agent after the other, until `down`.

        Raises:
            LaunchError: the first agent could not be used; `Stopped` after a signal.
        """
        ending = self.begin(self._until_idle())
        self.agent.wanted.set()
        try:
            await self.agent.run()
        finally:
            ending.cancel()

    # What the agent needs (`engine.agent.AgentFront`).

    def meet(self, connection: Connection) -> None:
        self._idle_since = self.now()

    async def restore(self) -> None:
        await self.launch.servers.up()
        if not self._took:
            self._took = time.monotonic() - self._began
            self.policy.ready(self._took)

    def end(self, error: BaseException | None) -> None:
        if self._over.is_set():
            self.launch.servers.stopping(is_orderly=True)

    def lose(self, error: LaunchError, *, is_told: bool) -> None:
        if not self._took:
            raise error
        self.note(f"{error.message}; it is started again at the next prompt")

    def stray(self, message: AgentMessage) -> None:
        connection = self.agent.connection
        match message:
            case PermissionAsked(id, session_id) if connection is not None:
                connection.send(connection.conversation.permit(session_id, id, None))
            case ServiceAsked(id) if connection is not None:
                refuse = connection.conversation.refuse
                connection.send(refuse(id, jsonrpc.INVALID_PARAMS, "there is no such session"))
            case Completed(elicitation_id):
                line = as_line(notification("elicitation/complete", {"elicitationId": elicitation_id}))
                for driver in filter(None, [each.driver for each in self.agent.sessions]):
                    driver.say(line)
            case Withdrawn():
                for client in filter(None, [each.client for each in self.agent.sessions]):
                    client.withdrawn(message)

    async def _until_idle(self) -> None:
        """Wait until the host was without fronts and turns for `keep`."""
        keep = self.policy.keep
        if keep is None:
            await asyncio.Event().wait()
            return
        while True:
            if self.fronts or any(session.is_busy for session in self.agent.sessions):
                self._idle_since = self.now()
            left = self._idle_since + keep - self.now()
            if left <= 0:
                self.down()
                return
            await asyncio.sleep(min(1.0, left))

    def down(self) -> None:
        self._over.set()

    async def open(
        self, how: How, options: AttachOptions, front: ClientConnection, servers: Sequence[object]
    ) -> tuple[HostSession, bool]:
        """Enter a session, and open it if it is not open, with these servers of the front and the host's.
        Returns it, and whether it was open.

        Raises:
            LaunchError: it cannot be opened.
        """
        async with self._one_at_a_time:
            session = self._session(options.name)
            if session is not None and (
                session.is_left or self.agent.connection is None
            ):  # it is being closed, or its agent has ended
                await session.gone.wait()
                session = None
            if options.from_last_turn and (session is None or not session.has_begun):
                session = self._past(options.name) or session
            if session is not None and options.restart:
                await self._end_session(session)
                session = None
            if session is None:
                return await self._open_new(how, options, front, servers), False
            self._enter_session(front, session, options)
            return session, True

    def _session(self, name: str) -> HostSession | None:
        return next((each for each in self.agent.sessions if each.name == name), None)

    def _past(self, name: str) -> HostSession | None:
        past = self.past.get(name)
        return past if past is not None and past.has_turned else None

    def _enter_session(
        self, front: ClientConnection, session: HostSession, options: AttachOptions
    ) -> list[HostSession]:
        """Let a front enter a session, and leave that in which it is, or the one of this name; return what it left."""
        entered = self.fronts[front]
        if session in entered:
            return []
        left = [each for each in entered if not options.several or each.name == session.name]
        for each in left:
            self._exit(front, each)
        self.fronts[front].append(session)
        session.enter(front, options)
        return left

    def _exit(self, front: ClientConnection, session: HostSession) -> None:
        session.exit(front)
        front.unfollow(session.events)
        if front in self.fronts and session in self.fronts[front]:
            self.fronts[front].remove(session)

    def _return(self, front: ClientConnection, failed: HostSession, before: Sequence[HostSession]) -> None:
        """Put a front back where it was before a session that could not be opened."""
        self._exit(front, failed)
        if front not in self.fronts:  # it has left
            return
        for each in before:
            self.fronts[front].append(each)
            each.enter(front, AttachOptions(name=each.name, can_ask=front.options.can_ask))
            front.follow(each.events, each.events.window.newest)

    async def _end_session(self, session: HostSession) -> None:
        if session.is_busy:
            raise SessionError(
                f'session "{session.name}" is in a turn', fix="wait for its end, or use another --session"
            )
        session.leave(closes=True)
        await session.gone.wait()

    async def _open_new(
        self, how: How, options: AttachOptions, front: ClientConnection, servers: Sequence[object]
    ) -> HostSession:
        connection, host, plan = await self.agent.connected(), self.policy, self.plan
        record = None
        if how != "new" or (options.continues and not options.restart):
            record = continued(host.registry, plan, options.name, latest=False)
        if how != "new" and record is None:
            raise SessionError(f'there is no session "{options.name}"', fix=ours("session", "list"))
        if record is not None:
            able = connection.agent.capabilities
            how = how_to_continue(able, replay=how == "load", name=options.name)
        keeper = SessionKeeper(host.registry, plan, record)
        session = HostSession(self.agent, host, self._tasks, options.name, servers, keeper)
        if record is not None:
            session.set_agent_id(record.session_id)
        before = self._enter_session(front, session, options)
        front.follow(session.events, 0)
        living = connection.spawn(session.run(connection, session.request(record, replay=how == "load")))
        living.add_done_callback(lambda task: self._end(session))
        try:
            await asyncio.shield(session.opened)
        except BaseException:
            session.leave(closes=True)
            self._return(front, session, before)
            raise
        return session

    def _end(self, session: HostSession) -> None:
        """Note that a session is not open any more; the end of its latest turn can still be waited for."""
        session.end()
        if session.has_begun:
            self.past.pop(session.name, None)
            self.past[session.name] = session
        while len(self.past) > PAST:  # the oldest goes, first of those whose end a front has
            del self.past[min(self.past, key=lambda name: self.past[name].lifetime != "over")]

    async def forward(self, method: str, params: object) -> Raw:
        """Pass a request on to the agent, and return its answer."""
        connection = await self.agent.connected()
        limit = self.plan.timeouts.session
        what = f"answer to {method} from the agent"
        answer = await connection.call(connection.conversation.forward(method, params), what=what, limit=limit)
        return Raw(redactor.raw_json(bytes(answer)))

    def status(self) -> HostStatus:
        connection = self.agent.connection
        agent = connection.agent.title if connection else ""
        return HostStatus(
            pid=os.getpid(),
            agent=redactor.text(agent or self.plan.agent.command.name),
            sessions=tuple(session.status for session in self.agent.sessions),
            servers=tuple(self.launch.servers.standings()),
            past=tuple(name for name, session in self.past.items() if session.has_turned),
        )

    def close(self) -> None:
        """End all fronts."""
        for front in self.fronts:
            front.close()

    # Fronts.

    def attach(self, line: socket.socket) -> None:
        """Serve a new front; the oldest of those that have asked for nothing makes room for it."""
        front = ClientConnection(self, line)
        self.fronts[front] = []
        self._silent[front] = None
        self.begin(front.run())
        if len(self._silent) > MAX_SILENT:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.close()

    def on_gone(self, front: ClientConnection) -> None:
        entered = self.fronts.pop(front)
        self._silent.pop(front, None)
        self._idle_since = max(self._idle_since, self.now())
        for session in entered:
            session.exit(front)

    def note(self, text: str) -> None:
        show_note(self.launch.observer, text)

    def on_notification(self, front: ClientConnection, method: str, params: Raw) -> None:
        if method == "session/cancel":
            for session in self._about(front, acp.mapping(acp.decoded(params))):
                session.cancel()

    async def serve(self, front: ClientConnection, method: str, params: dict[str, Any], raw: Raw) -> object:
        self._silent.pop(front, None)
        if (handler := self._handlers.get(method)) is not None:
            return await handler(front, params)
        if (act := ACTS.get(method)) is not None:
            act(self._session_of(front, params), front)
            return NOTHING
        if (answer := ANSWERS.get(method)) is not None:
            return answer(self)
        if method.startswith("_") or method == FORK:
            raise UnknownMethod
        return await self.forward(method, raw)

    async def _initialize(self, front: ClientConnection, params: dict[str, Any]) -> object:
        connection = await self.agent.connected()
        elicitation = acp.mapping(params.get("clientCapabilities")).get("elicitation")
        front.can_elicit = bool(elicitation)
        said = acp.mapping(acp.decoded(connection.agent.raw))
        able = {**acp.mapping(said.get("agentCapabilities")), "loadSession": True}
        kinds = {**acp.mapping(able.get("sessionCapabilities")), "resume": {}}
        able["sessionCapabilities"] = {kind: kinds[kind] for kind in kinds if kind != "fork"}
        return redactor.tree({**said, "agentCapabilities": able})

    async def _enter(self, how: How, front: ClientConnection, params: dict[str, Any]) -> object:
        options = msgspec.convert(member(params), AttachOptions)
        front.options = options
        session, was_open = await self.open(how, options, front, acp.sequence(params.get("mcpServers")))
        ready = session.feed.opened
        assert ready is not None, "it is open"
        if was_open:
            await self._catch_up(front, session, how, options)
            # It may have been opened in another way, whose answer differs in this alone.
            known = {**acp.mapping(acp.decoded(ready.result)), "sessionId": ready.session_id}
            return known if how == "new" else {name: known[name] for name in known if name != "sessionId"}
        if options.continues:
            return {**acp.mapping(acp.decoded(ready.result)), "sessionId": ready.session_id, "_meta": {META: ready.how}}
        return ready.result

    async def _catch_up(self, front: ClientConnection, session: HostSession, how: How, options: AttachOptions) -> None:
        """Find the place of a front in a session that is open: its history first, then the turn that runs."""
        events, history = session.events, None
        if how == "load" and not options.own_turns_only and events.window.since(0, self.now()) is None:
            history = await self._load_history(session)
        has_turn = session.turn is not None or options.from_last_turn
        start = events.began if has_turn else events.window.newest
        if history is not None and session.turn is None:
            front.show(event_line(NoteEvent(text=RELOADED)))
            for _, line in history.since(history.lost, 0.0) or ():
                front.show(line)
        elif how == "load":
            self._show_kept(front, events, start)
        front.follow(events, start)
        if (how == "load" or options.read_only) and not options.acp_only:
            front.hold(session.events)  # until it has shown the history, or joins the turn

    def _show_kept(self, front: ClientConnection, events: SessionEvents, start: int) -> None:
        """Show the kept events of a session, up to `start`."""
        window = events.window
        if window.since(0, self.now()) is None:
            front.show(event_line(NoteEvent(text=MISSED)))
            if start >= window.lost:  # else it follows with the turn
                for line in events.lost_answer(0, front):
                    front.show(line)
        for id, line in window.since(window.lost, self.now()) or ():
            if id <= start and UPDATE in line[:50]:
                front.show(line)

    async def _load_history(self, session: HostSession) -> Window | None:
        """Have another process of the agent load a session, as it is open in this one; return the history it tells.

        None if it tells none in half the time that the front waits, or a turn runs, of which it would tell a part.
        """
        context, ready, limit = self.launch.context, session.feed.opened, self.plan.timeouts.session / 2
        able = self.agent.connection.agent.capabilities.load if self.agent.connection else False
        if ready is None or context.respawn is None or session.turn is not None or not able:
            return None
        feed, interrupts = HistoryRecorder(session), Interrupts()
        interrupts.hurry = self.launch.interrupts.hurry

        async def story(connection: Connection) -> None:
            client = AcpSession(connection, name=session.name, gate=None, observer=RedactedOutput(feed))
            params, id = SessionParams(self.plan.directory, (), ()), ready.session_id
            await open_session(connection, client, params, how="load", session_id=id, limit=limit)

        with suppress(LaunchError, TimeoutError):
            agent, quiet = context.respawn(), replace(context, trace=None)
            async with asyncio.timeout(limit):
                await with_agent(quiet, agent, self.launch.observer, story, interrupts)
            return feed.window if feed.window.newest else None
        return None

    async def _prompt(self, front: ClientConnection, params: dict[str, Any]) -> object:
        session = self._session_of(front, params)
        if session.gone.is_set() and front.options.several:
            session = await self._enter_again(front, session)
        if session.gone.is_set():
            raise AgentError("the agent has ended")
        self.past.pop(session.name, None)
        session.resume_events(front)
        end = await session.prompt(acp.sequence(params.get("prompt")), front)
        return end.result

    async def _join(self, front: ClientConnection, params: dict[str, Any]) -> object:
        session = self._session_of(front, params)
        session.resume_events(front)
        end = await session.join()
        if end is None:
            what = f'session "{session.name}" has had no turn since the host was started'
            raise SessionError(what, fix=f"to see its history: {ours('attach', session.name)}")
        if end.denied:
            front.say(news_line(FrontNews(denied=redactor.text(end.denied))))
        return end.result

    async def _restart(self, front: ClientConnection, params: dict[str, Any]) -> object:
        name = acp.text(params.get("server"))
        if name not in {standing.server for standing in self.launch.servers.standings()}:
            raise LaunchError(f'unknown server "{name}"')
        self.launch.servers.restart(name)
        return NOTHING

    async def _cancel(self, front: ClientConnection, params: dict[str, Any]) -> object:
        session = self._session(acp.text(params.get("name")))
        if session is None or session.turn is None:
            return False
        session.cancel()
        return True

    async def _reload(self, front: ClientConnection, params: dict[str, Any]) -> object:
        async with self._one_at_a_time:  # a session is opened with the servers of before or of after
            return await self.policy.reload(self.launch, acp.text(params.get("digest")))

    async def _close(self, front: ClientConnection, params: dict[str, Any]) -> object:
        """Let a front leave a session, which the agent closes if it does not params."""
        for session in self._about(front, params):
            self._exit(front, session)
            if session.is_left:
                await session.gone.wait()
        return NOTHING

    async def _delete(self, front: ClientConnection, params: dict[str, Any]) -> object:
        """Have the agent delete a session, unless another front has it open."""
        id = msgspec.json.encode(acp.text(params.get("sessionId")))
        for session in [each for each in self.agent.sessions if each.id_json == id]:
            if session.is_busy or set(session.fronts) - {front}:
                raise SessionError(f'session "{session.name}" is in use by the host', fix="close it there first")
            session.leave()
        return await self.forward("session/delete", params)

    async def _enter_again(self, front: ClientConnection, past: HostSession) -> HostSession:
        """Open a session again whose agent has ended, for a front that goes on with it."""
        options = replace(front.options, name=past.name)
        session, was_open = await self.open("resume", options, front, past.servers)
        if was_open:
            front.follow(session.events, session.events.window.newest)
        return session

    def _about(self, front: ClientConnection, params: Mapping[str, Any]) -> list[HostSession]:
        """Return the session that params name; where they name none, the one that the front has entered."""
        entered, wanted = self.fronts.get(front, []), params.get("sessionId")
        id = msgspec.json.encode(wanted) if isinstance(wanted, str) else None
        return [session for session in entered if id in (None, session.id_json)][:1]

    def _session_of(self, front: ClientConnection, params: Mapping[str, Any]) -> HostSession:
        found = self._about(front, params)
        if not found:
            raise SessionError("this session was not entered" if params.get("sessionId") else "no session was entered")
        return found[0]


# What a front may do in its session, and ask of the host.
ACTS: Mapping[str, Callable[[HostSession, ClientConnection], None]] = {
    FOLLOW: HostSession.resume_events,
    TAKE: HostSession.drive,
    DETACH: HostSession.detach,
}
ANSWERS: Mapping[str, Callable[[Host], object]] = {
    STATUS: Host.status,
    SERVERS: lambda host: host.launch.servers.standings(),
    RENEW: lambda host: host.agent.stop(),
}


class HostNotices(Notices):
    """The observer of what concerns no session: servers, and notes.

    Once `is_silent`, as its terminal is gone, notes go to the log alone.
    """

    log: "LogFile"

    def __init__(self) -> None:
        self._host: Host | None = None
        self.is_silent = False

    def of(self, host: "Host") -> None:
        self._host = host

    def show(self, event: AnyEvent) -> None:
        event = redact(event, redactor)
        if isinstance(event, NoteEvent):
            with suppress(OSError):  # a full disk; the agent's next line meets it, too
                self.log.mark(event.text)
        if not (self.is_silent or isinstance(event, ServersEvent)):
            super().show(event)
        if isinstance(event, NoteEvent | Change | ServersEvent):
            for session in self._sessions():
                session.feed.show(event)

    def _sessions(self) -> "Sequence[HostSession]":
        return list(self._host.agent.sessions) if self._host else []
