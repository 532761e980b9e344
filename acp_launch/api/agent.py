"""The agents, sessions and prompts of a program: a client of ACP, as every front of a host is one."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from acp_launch.api.lifeline import PrivateHost
from acp_launch.api.order import LaunchOptions, OnEvent, OnForm, OnPermission
from acp_launch.api.words import EVENT, FAILED, UP, HostWord, Up
from acp_launch.console.stream.ndjson import TurnRecord, choose_type
from acp_launch.errors import AgentError, LaunchError, RunExpired, SessionError, UsageError, WaitExpired
from acp_launch.process.lifecycle import Standing
from acp_launch.profile.values import SESSION_NAME_FIX, session_name_fault
from acp_launch.protocol import acp
from acp_launch.protocol.acp import Capabilities, Negotiated, Offers, read_negotiated
from acp_launch.protocol.conversation import ELICITATION, Updated
from acp_launch.served.client import ANSWERS, ENDED, Attached, attach_meta
from acp_launch.served.connect import SocketTransport
from acp_launch.served.connect import connect as connect_to_host
from acp_launch.served.wire import ASK, SERVERS, AttachOptions
from acp_launch.session import events
from acp_launch.session.attachments import attach as attached_file
from acp_launch.session.client import GRACE_SECONDS, AcpSession, Turn
from acp_launch.session.connection import Connection, connect, negotiate
from acp_launch.session.events import (
    Answer,
    AnyEvent,
    FormQuestion,
    InitializedEvent,
    Observer,
    PermissionQuestion,
    ResultEvent,
    SessionEvent,
    ToolQuestion,
    WaitingEvent,
)
from acp_launch.session.hold import fresh_name
from acp_launch.session.opening import SessionParams, Setting, configure, open_session
from acp_launch.session.permission.policy import choose
from acp_launch.session.state import Cost
from acp_launch.waits import format_time, stretch

T = TypeVar("T")
CANCEL_SECONDS = GRACE_SECONDS + stretch(1.0)  # for the end of a turn: the host, with `GRACE_SECONDS`, tells first
EXPLAINING = stretch(1.0)  # for the word of a private host that has ended
MAX_WAITING_EVENTS = 1000  # events of a turn that were not taken; then the agent is not read


class Result(Struct, frozen=True, kw_only=True):
    """What became of a prompt. `answer` is the agent's final message, `session` the name to continue under.

    `denied` is the tool call that ended the work because nothing allowed it. `cost` is of the whole session.
    """

    answer: str
    stop_reason: str
    session: str
    usage: Mapping[str, Any] | None = None
    cost: Cost | None = None
    denied: str | None = None


class Agent:
    """An agent that was launched; it can have several sessions at once. Made by `launch`."""

    def __init__(self, process: PrivateHost, options: LaunchOptions) -> None:
        self._process, self._options = process, options
        self._loop = asyncio.get_running_loop()
        self._up: asyncio.Future[Up] = self._loop.create_future()
        self._negotiated: Negotiated | None = None
        self._failure: LaunchError | None = None
        self._sessions: set[Session] = set()
        self._is_stopping = False
        self._raised: Exception | None = None  # by `on_event`, while no turn ran
        self._hearing = self._loop.create_task(self._hear())

    def __repr__(self) -> str:
        return f"<Agent {self.name} {self.version}>" if self._negotiated else "<Agent>"

    @property
    def name(self) -> str:
        """What the agent calls itself; may be empty."""
        return self._known.title

    @property
    def version(self) -> str:
        return self._known.agent_version

    @property
    def capabilities(self) -> Capabilities:
        return self._known.capabilities

    @property
    def _known(self) -> Negotiated:
        assert self._negotiated is not None, "it is up"
        return self._negotiated

    async def servers(self) -> tuple[Standing, ...]:
        """Return the states of the MCP servers at this moment."""
        async with self._connected(_SessionEvents(lambda event: None)) as (connection, _):
            call = connection.conversation.forward(SERVERS, {})
            answer = await connection.call(call, what="answer of the host", limit=ANSWERS)
        return msgspec.json.decode(answer, type=tuple[Standing, ...])

    @asynccontextmanager
    async def session(self, name: str | None = None, *, new: bool = False) -> "AsyncIterator[Session]":
        """Open a session while the block runs: the one of this name is continued, unless it is to be `new`.

        Without a name it is the profile's, or a new one. No other process can open it until then.

        Raises:
            LaunchError: it cannot be opened.
        """
        if name is not None and (fault := session_name_fault(name)):
            raise UsageError(fault, fix=SESSION_NAME_FIX)
        opened = Session(self, name or self._up.result().session or fresh_name(), self._options, is_new=new)
        if opened.name in {each.name for each in self._sessions}:
            raise SessionError(f'session "{opened.name}" is open in this program', fix="use it, or leave it first")
        self._sessions.add(opened)
        try:
            await opened._open()
            yield opened
        finally:
            self._sessions.discard(opened)
            await opened._close()

    async def _start(self) -> None:
        up = await self._up
        self._negotiated = read_negotiated(up.initialized)
        self._tell(events.InitializedEvent(time=_now(), result=up.initialized))

    async def _end(self) -> None:
        try:
            for each in list(self._sessions):
                await each._close()
        finally:
            await self._stop()

    async def _stop(self) -> None:
        """End the process. Sessions that are open need not be closed before."""
        if not self._is_stopping:
            self._is_stopping = True
            await asyncio.shield(asyncio.to_thread(self._process.end))
            self._hearing.cancel()

    async def _hear(self) -> None:
        """Read what the process says until it ends."""
        rest = b""
        with self._process.listen() as line, suppress(OSError):
            while said := await self._loop.sock_recv(line, 1 << 16):
                *lines, rest = (rest + said).split(b"\n")
                for word in lines:
                    self._take(msgspec.json.decode(word, type=HostWord))
        if self._failure is None and not self._is_stopping:
            self._failure = await asyncio.to_thread(self._process.describe_end)
        if not self._up.done():
            assert self._failure is not None, "it has not come up"
            self._up.set_exception(self._failure)
            self._up.exception()  # it may not be awaited any more

    def _take(self, word: HostWord) -> None:
        if word.name == UP and not self._up.done():
            self._up.set_result(msgspec.json.decode(word.value, type=Up))
        elif word.name == FAILED:
            self._failure = events.restore_error(*msgspec.json.decode(word.value, type=events.NamedError))
        elif word.name == EVENT and (event := events.decode(bytes(word.value))) is not None:
            self._tell(event)

    def _tell(self, event: AnyEvent) -> None:
        """Tell the program of something outside of a prompt."""
        if (hear := self._options.get("on_event")) is not None:
            self._loop.call_soon(self._call, hear, event)

    def _call(self, hear: OnEvent, event: AnyEvent) -> None:
        try:
            hear(event)
        except Exception as error:  # the program's own: it comes out of its turns, else of its block
            turns = [each._turn for each in self._sessions if each._turn is not None and not each._turn.is_over]
            for turn in turns:
                turn.fail(error)
            if not turns:
                self._raised = self._raised or error

    async def explain_end(self, error: LaunchError) -> LaunchError:
        """Return why the private host has ended, if `error` comes from its end, else `error`."""
        if ENDED in error.message:
            await asyncio.wait([self._hearing], timeout=EXPLAINING)
        return self._failure or error

    @asynccontextmanager
    async def _connected(self, observer: Observer) -> AsyncIterator[tuple[Connection, Attached]]:
        if self._is_stopping:
            raise AgentError("the agent was left", fix="launch it again")
        if self._hearing.done():
            raise self._failure or AgentError(f"the agent {ENDED}")
        up = self._up.result()
        connecting = asyncio.ensure_future(asyncio.to_thread(connect_to_host, up.note))
        try:
            line = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_line)
            raise
        try:
            with line:
                async with connect(SocketTransport(line, ENDED), observer, max_line=up.max_line) as connection:
                    attached = Attached(connection, observer)
                    offers = Offers(forms=True, urls=True)
                    await negotiate(connection, limit=up.timeouts["initialize"], offers=offers)
                    yield connection, attached
        except AgentError as error:
            raise await self.explain_end(error) from None


def _close_line(connecting: "asyncio.Future[socket.socket]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


def _now() -> str:
    return format_time(time.time())


# Sessions.


class _SessionEvents:
    """The observer of a session: gives `tell` its events, and waits for `room` before there are more."""

    def __init__(self, tell: Callable[[AnyEvent], None], room: Callable[[], Awaitable[None]] | None = None) -> None:
        self._tell, self._room = tell, room
        self._turn = TurnRecord()

    def show(self, event: AnyEvent) -> None:
        if isinstance(event, InitializedEvent):
            return  # the agent was met before
        if isinstance(event, SessionEvent):
            meta = acp.mapping(acp.mapping(acp.decoded(event.result)).get("_meta"))
            event = msgspec.structs.replace(event, how=next(iter(meta.values()), event.how))
        event = self._turn.complete(event)
        if isinstance(event, ResultEvent):
            event = msgspec.structs.replace(event, text="".join(self._turn.message().taken()))
        self._tell(event if event.time else msgspec.structs.replace(event, time=_now()))

    def update(self, update: Updated) -> None:
        kind = choose_type(update)
        self._turn.on_update(update, kind)
        self._tell(kind(time=_now(), session_id=update.session_id, update=update.update.copy()))

    async def drain(self) -> None:
        if self._room is not None:
            await self._room()


class _Reading:
    """A turn, and the events that its reader has not taken."""

    def __init__(
        self,
        turn: Turn,
        blocks: Sequence[object],
        timeout: float | None,
        explain: Callable[[LaunchError], Awaitable[LaunchError]],
    ) -> None:
        self._turn, self._explain = turn, explain
        self._failure: Exception | None = None
        self._queue: asyncio.Queue[AnyEvent | None] = asyncio.Queue()
        self._taken = asyncio.Event()
        self.is_over = self.is_left = False
        self._loop = loop = asyncio.get_running_loop()
        self._timer = loop.call_later(timeout, self._expire, timeout) if timeout is not None else None
        self.task = loop.create_task(self._run(blocks))

    async def _run(self, blocks: Sequence[object]) -> None:
        try:
            await self._turn.run(blocks)
        except LaunchError as ended:
            error = await self._explain(ended)
            if isinstance(error, WaitExpired) and isinstance(self._failure, RunExpired):
                self._failure.message += f"; {error.message}"
            self._failure = self._failure or error
        finally:
            self.is_over = True
            if self._timer is not None:
                self._timer.cancel()
            self._queue.put_nowait(None)

    def put(self, event: AnyEvent) -> None:
        if not self.is_left:
            self._queue.put_nowait(event)

    async def have_room(self) -> None:
        while not self.is_left and self._queue.qsize() >= MAX_WAITING_EVENTS:
            self._taken.clear()
            await self._taken.wait()

    async def next(self) -> AnyEvent | None:
        """Return the next event; None after the last one.

        Raises:
            Exception: how the turn has failed.
        """
        event = await self._queue.get()
        self._taken.set()
        if event is None and self._failure is not None:
            raise self._failure
        return event

    def fail(self, error: Exception) -> None:
        """Cancel the turn; its reader gets this error."""
        self._failure = self._failure or error
        self._turn.cancel(CANCEL_SECONDS)

    def _expire(self, timeout: float) -> None:
        self._failure = self._failure or RunExpired(f"the prompt took longer than {timeout:g} s")
        self._turn.cancel(CANCEL_SECONDS)

    def let_go(self) -> None:
        """Note that nothing reads it any more; from a destructor, too, which may run in any thread."""
        self.is_left = True
        if not (self.task.done() or self._loop.is_closed()):
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._taken.set()
        self._turn.cancel(CANCEL_SECONDS)
        if not self._turn.is_running:
            self.task.cancel()

    async def leave(self) -> None:
        """Cancel the turn if it runs, and wait for its end: `Turn.cancel` has a limit."""
        self.is_left = True
        self._cancel()
        try:
            await asyncio.wait([self.task])
        finally:
            self.task.cancel()


class PromptEvents:
    """The events of a prompt, which begins with the first of them. Made by `Session.prompt`."""

    def __init__(self, begin: Callable[[], Awaitable[_Reading]]) -> None:
        self._begin = begin
        self._reading: _Reading | None = None
        self._is_over = False

    def __aiter__(self) -> "PromptEvents":
        return self

    async def __anext__(self) -> AnyEvent:
        if self._is_over:
            raise StopAsyncIteration
        try:
            self._reading = self._reading or await self._begin()
            event = await self._reading.next()
        except BaseException:
            await self.aclose()
            raise
        if event is None:
            self._is_over = True
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """Cancel the turn if it runs, and wait for its end."""
        self._is_over = True
        if self._reading is not None:
            await self._reading.leave()

    def __del__(self) -> None:  # the loop that reads it was left
        if self._reading is not None:
            self._reading.let_go()


class Session:
    """A session of an agent, in which one prompt runs at a time. Made by `Agent.session`."""

    def __init__(self, agent: Agent, name: str, options: LaunchOptions, *, is_new: bool) -> None:
        self.name = name
        self._agent, self._options, self._is_new = agent, options, is_new
        self._turn: _Reading | None = None
        self._left = asyncio.Event()
        self._opened: asyncio.Future[tuple[Connection, AcpSession]] = asyncio.get_running_loop().create_future()
        self._living: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Session {self.name}>"

    @property
    def id(self) -> str:
        """The agent's id of the session."""
        return self._client.session_id

    @property
    def title(self) -> str:
        """The agent's title for it; may be empty."""
        return self._client.title

    @property
    def cost(self) -> Cost | None:
        """What it has cost since it began, if the agent says so."""
        return self._client.state.usage.cost

    async def set(self, option: str, value: str | bool) -> None:
        """Set an option of the agent, by its id, category or name: `mode`, `model`.

        Raises:
            LaunchError: the agent has no such option or value.
        """
        wish = Setting(option, value, f"set {option}")
        await configure(self._connection, self._client.state, self.id, [wish], limit=self._limit)

    def prompt(
        self, text: str, *, attach: Sequence[str | os.PathLike[str]] = (), timeout: float | None = None
    ) -> PromptEvents:
        """Run a prompt and give its events, the last of which is a `ResultEvent`.

        Leaving the loop, or cancelling the task, cancels the turn; so do `timeout` seconds. Files of `attach` are sent
        with the prompt.

        Raises:
            LaunchError: how the turn has failed.
            Exception: what `on_permission` or `on_form` has raised.
        """
        return PromptEvents(partial(self._begin, text, attach, timeout))

    async def _begin(self, text: str, files: Sequence[str | os.PathLike[str]], timeout: float | None) -> _Reading:
        if self._turn is not None and not self._turn.task.done():
            if not self._turn.is_left:
                fix = "wait for its end, or aclose() its events"
                raise SessionError(f'session "{self.name}" is in a turn', fix=fix)
            await self._turn.leave()
        blocks = await self._blocks(text, files)
        turn = Turn(self._connection, self._client, self.id, silence=self._agent._up.result().timeouts["silence"])
        self._turn = _Reading(turn, blocks, timeout, self._agent.explain_end)
        return self._turn

    async def _blocks(self, text: str, files: Sequence[str | os.PathLike[str]]) -> list[object]:
        if not text.strip():
            raise UsageError("the prompt is empty")
        made: list[object] = [{"type": "text", "text": text}]
        up = self._agent._up.result()
        roots = tuple(map(Path, up.directories))
        for file in files:
            make = partial(attached_file, Path(file), self._agent.capabilities, roots=roots, machine=up.machine)
            made.append(await asyncio.to_thread(make))
        return made

    @property
    def _client(self) -> AcpSession:
        return self._opened.result()[1]

    @property
    def _connection(self) -> Connection:
        if self._left.is_set():
            raise SessionError(f'session "{self.name}" was left', fix="open it again")
        return self._opened.result()[0]

    @property
    def _limit(self) -> float:
        return self._agent._up.result().timeouts["session"]

    async def _open(self) -> None:
        self._living = asyncio.get_running_loop().create_task(self._stay())
        await asyncio.shield(self._opened)

    async def _stay(self) -> None:
        try:
            await self._live()
        except Exception as error:  # after the opening a prompt tells it
            if not self._opened.done():
                self._opened.set_exception(error)
                self._opened.exception()

    async def _live(self) -> None:
        """Open the session, and keep it open until it is left."""
        up, asks = self._agent._up.result(), self._options
        observer = _SessionEvents(self._take, self._have_room)
        options = AttachOptions(
            name=self.name,
            can_ask=asks.get("on_permission") is not None or asks.get("on_form") is not None,
            approve=asks.get("approve"),
            restart=self._is_new,
            close_after_turn=True,
            continues=True,
        )
        async with self._agent._connected(observer) as (connection, attached):
            connection.conversation.serving([ASK])
            services = {ASK: self._ask, ELICITATION: self._fill}
            client = AcpSession(connection, name=self.name, gate=None, services=services, observer=observer)
            attached.client = client
            params = SessionParams(Path(up.note.cwd), (), (), attach_meta(options))
            ready = await open_session(connection, client, params, how="new", session_id="", limit=inf)
            wanted_options = [Setting(*each) for each in up.settings]
            await configure(connection, client.state, ready.session_id, wanted_options, limit=self._limit)
            self._opened.set_result((connection, client))
            await connection.race_with_close(self._left.wait())
            close = connection.conversation.forward("session/close", {"sessionId": ready.session_id})
            await connection.call(close, what="end of the session", limit=self._limit)

    async def _close(self) -> None:
        if self._turn is not None and not self._turn.task.done():
            await self._turn.leave()
        self._left.set()
        if self._living is not None:
            if not self._opened.done():
                self._living.cancel()
            try:
                await asyncio.wait([self._living])
            finally:
                self._living.cancel()

    def _take(self, event: AnyEvent) -> None:
        """Give an event of a turn to its reader, and any other to the program."""
        if self._turn is not None and not self._turn.is_over:
            self._turn.put(event)
        else:
            self._agent._tell(event)

    async def _have_room(self) -> None:
        if self._turn is not None:
            await self._turn.have_room()

    # Questions.

    async def _ask(self, params: dict[str, Any]) -> object:
        asked = msgspec.convert(params.get("question"), ToolQuestion)
        options = [option for option in map(acp.mapping, asked.options) if acp.text(option.get("optionId"))]
        told = PermissionQuestion(
            session=self.name,
            title=acp.text(asked.call.get("title")),
            kind=acp.text(asked.call.get("kind")) or "other",
            call=asked.call,
            options=tuple(
                events.AnswerOption(*(acp.text(option.get(key)) for key in ("optionId", "name", "kind")))
                for option in options
            ),
        )

        async def answer(on_permission: OnPermission) -> object:
            chosen = await on_permission(told)
            is_id = not (chosen is None or isinstance(chosen, bool))
            if is_id and chosen not in [option.id for option in told.options]:
                raise ValueError(f"on_permission: the question has no option {chosen!r}")
            id = choose(chosen, asked.options) if isinstance(chosen, bool) else chosen
            return msgspec.to_builtins(Answer(id, by="the program"))

        refusal = Answer(choose(False, asked.options), by="there is no on_permission")
        return await self._answer(self._options.get("on_permission"), answer, msgspec.to_builtins(refusal))

    async def _fill(self, params: dict[str, Any]) -> object:
        schema, url = params.get("requestedSchema"), acp.text(params.get("url")) or None
        message = acp.text(params.get("message"))
        told = FormQuestion(
            session=self.name, message=message, schema=schema if isinstance(schema, dict) else None, url=url
        )

        async def answer(on_form: OnForm) -> object:
            filled = await on_form(told)
            if filled is None or isinstance(filled, bool):
                return {"action": {None: "cancel", False: "decline", True: "accept"}[filled]}
            return {"action": "accept", "content": dict(filled)}

        return await self._answer(self._options.get("on_form"), answer, {"action": "decline"})

    async def _answer(self, ask: T | None, answer: Callable[[T], Awaitable[object]], otherwise: object) -> object:
        if ask is None:
            return otherwise
        try:
            return msgspec.Raw(msgspec.json.encode(await answer(ask)))
        except Exception as error:  # the program's own, which its reader gets
            if self._turn is not None:
                self._turn.fail(error)
            return otherwise


@asynccontextmanager
async def running(process: PrivateHost, options: LaunchOptions) -> AsyncIterator[Agent]:
    """Provide the agent of a private host while the block runs.

    Raises:
        LaunchError: the agent cannot be launched.
    """
    agent = Agent(process, options)
    try:
        await agent._start()
        yield agent
    finally:
        await agent._end()
    if agent._raised is not None:
        raise agent._raised


async def run_prompt(
    process: PrivateHost,
    options: LaunchOptions,
    prompt: str,
    *,
    session: str | None,
    new: bool,
    attach: Sequence[str | os.PathLike[str]],
    timeout: float | None,
) -> Result:
    """Run one prompt, and end the agent.

    Raises:
        LaunchError: as `running`, or how the turn has failed.
    """
    hear = options.get("on_event")
    async with running(process, options) as agent, agent.session(session, new=new) as opened:
        async for event in opened.prompt(prompt, attach=attach, timeout=timeout):
            if hear is not None and not isinstance(event, WaitingEvent):  # the host has told it
                hear(event)
        await agent._stop()
        assert isinstance(event, ResultEvent), "it is the last one"
        return Result(
            answer=event.text,
            stop_reason=event.stop_reason,
            session=opened.name,
            usage=event.usage,
            cost=opened.cost,
            denied=event.denied,
        )
