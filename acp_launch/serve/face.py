"""
The editor's side of a served profile: its lines, its requests, and what the agent has for it.

    editor ── stdin ──▶ EditorFace ──▶ Connection ──▶ agent
    editor ◀─ stdout ── EditorFace ◀── Connection ◀── agent

Messages pass as the bytes they are, but for their ids: a request of the editor goes on under a number of the connection
to the agent, one of the agent under a number of ours. It ends when the editor closes its end. The editor is read no
faster than the agent takes, and the agent no faster than the editor takes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from acp_launch.console.stderr import DIM
from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.console.stream.text import Notices
from acp_launch.errors import AgentError, LaunchError, RemoteProtocolError, WaitExpired, first
from acp_launch.launch.context import LaunchContext
from acp_launch.launch.run import Launch
from acp_launch.process.child import first_of
from acp_launch.process.flow import HIGH, LOW, Lent
from acp_launch.protocol import acp, jsonrpc, splice
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import (
    ELICITATION,
    Opened,
    Passing,
    PermissionAsked,
    ServiceAsked,
    Updated,
    Withdrawn,
)
from acp_launch.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, NULL, PARSE_ERROR, Answered
from acp_launch.secret.redact import redactor
from acp_launch.serve import handshake
from acp_launch.serve.lines import CANCEL, EditorLines, EditorRequest
from acp_launch.serve.session import OPENING, EditorSession, SessionPlan
from acp_launch.session.connection import Connection
from acp_launch.session.events import AnyEvent, ResultEvent, SessionEvent
from acp_launch.session.login import LIMIT as LOGIN
from acp_launch.session.observer import show_note
from acp_launch.waits import FIRST_WORD, seconds, to_beat

BEAT = 1.0  # seconds between two looks at what the agent has not answered
LAST_WORDS = 5  # stderr lines of an agent that has ended
UPDATE = "session/update"
SERVED = frozenset({"fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"})
ACTS = frozenset({"fs/write_text_file", "terminal/create"})  # what the editor does must be what the agent wants
CLOSING = ("session/close", "session/delete")
SETTING = ("session/set_mode", "session/set_model", "session/set_config_option")


class EditorFeed(Notices):
    """The observer of a served profile: updates go to the editor, and problems to stderr.

    Editors show each line of their agent's stderr as a message, Emacs' agent-shell even in the prompt that is typed.
    """

    def __init__(self, *, is_verbose: bool = False) -> None:
        """`is_verbose` prints what is well, too."""
        self._is_verbose = is_verbose
        self._face: EditorFace | None = None

    def of(self, face: "EditorFace") -> None:
        self._face = face

    def update(self, update: Updated) -> None:
        assert self._face is not None, "an agent is met with a face"
        self._face.show_update(update)

    def show(self, event: AnyEvent) -> None:
        """Print nothing about a session or the end of a turn: the editor has the answer."""
        if not isinstance(event, SessionEvent | ResultEvent):
            super().show(event)

    def _line(self, text: str, style: str) -> None:
        if self._is_verbose or style != DIM:
            super()._line(text, style)

    async def drain(self) -> None:
        if self._face is not None:
            await self._face.room()


class _Params(Struct, gc=False):
    sessionId: str  # noqa: N815 - wire name


class _About(Struct, gc=False):
    params: _Params


class _ChunkUpdate(acp.Chunk):
    sessionUpdate: str = ""  # noqa: N815 - the protocol's


class _ChunkParams(Struct):
    sessionId: str  # noqa: N815 - the protocol's
    update: _ChunkUpdate


class _Head(Struct, gc=False):
    method: str = ""
    id: Raw | UnsetType = UNSET


class _ChunkLine(_Head, kw_only=True):
    params: _ChunkParams


_about, _head, _chunk_line = map(msgspec.json.Decoder, (_About, _Head, _ChunkLine))


class _Asked(Struct, frozen=True):
    """A request to the editor: its id at the agent, None for one of ours, and what takes the answer."""

    id: Raw | None
    answered: Callable[[bytes], None]


class EditorFace(EditorLines):
    """One editor, and the agent of the profile."""

    def __init__(
        self,
        launch: Launch,
        feed: EditorFeed,
        source: Lent,
        sink: Lent | int,
        observer: RedactedOutput,
        *,
        plan_session: Callable[[Path], AbstractContextManager[SessionPlan]],
        deleting: Callable[[str, bool], AbstractContextManager[Callable[[], None]]],
    ) -> None:
        """`observer` is of the launch; it gives what it is told to `feed`. `plan_session` plans a session for its
        directory. `deleting` keeps others from a session, by the agent's id and whether it is open here, and gives what
        removes it from the store.
        """
        super().__init__(source, sink, max_line=launch.context.max_line, note=partial(show_note, observer))
        feed.of(self)
        self.interrupts, self.observer = launch.interrupts, observer
        self._stands_alone = observer.passes
        self._launch, self.plan_session, self._deleting = launch, plan_session, deleting
        self._withheld = handshake.withheld(launch.plan)  # methods that the profile keeps from the agent
        self._greeting: EditorRequest | None = None  # the first `initialize`
        self._agent: Negotiated | None = None
        self._connection: Connection | None = None
        self._ended = asyncio.Event()  # the agent of the connection
        self._is_up = asyncio.Event()
        self._is_ready = False  # the agent has the sessions, so requests need not wait
        self._was_ready = False  # the latest agent was ready
        self._wanted = asyncio.Event()  # a request waits for an agent
        self._hangs: LaunchError | None = None  # why the agent is to be stopped
        self._parked: list[EditorRequest] = []  # until there is an agent
        self._passed: dict[int, EditorRequest] = {}  # by their numbers at the agent
        self._asked: dict[bytes, _Asked] = {}  # by our number
        self._next = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._lives: dict[asyncio.Task[None], EditorSession] = {}
        self._by_id: dict[str, EditorSession] = {}  # by the agent's id, from the moment it is known
        timeouts = launch.plan.timeouts
        self._limits = {
            **dict.fromkeys((*OPENING, *CLOSING, *SETTING, "session/list", "logout"), timeouts.session),
            "initialize": timeouts.initialize,
            "authenticate": LOGIN,
            "session/prompt": timeouts.silence,
        }
        self._hooks: dict[str, Callable[[EditorRequest], None]] = {
            **dict.fromkeys(OPENING, self._open_session),
            **dict.fromkeys(CLOSING, self._close_session),
            **dict.fromkeys(SETTING, partial(self._in_session, EditorSession.set)),
            "session/prompt": partial(self._in_session, EditorSession.prompt),
        }

    async def run(self) -> None:
        """Serve with one agent after the other, until the editor ends.

        Raises:
            LaunchError: no agent has ever answered; `Stopped` after a signal.
        """
        try:
            async with self._sessions_running():
                await self.interrupts.watch(first_of(self._wanted.wait(), self.over.wait()))
                if not self.over.is_set():
                    await self._launch.run(self._serve, self._wants_another, self._stop_servers)
        except (AgentError, WaitExpired, RemoteProtocolError):
            if self._agent is None or not self.over.is_set():
                raise
        finally:
            self.close()

    @asynccontextmanager
    async def _sessions_running(self) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    yield
                finally:
                    for task, session in self._lives.items():
                        if session.is_open:
                            session.left.set()
                        else:
                            task.cancel()
        except BaseExceptionGroup as failures:
            raise first(failures) from None

    # The agent.

    async def _serve(self, connection: Connection) -> None:
        """Let the agent and the editor talk until one of them ends.

        Raises:
            LaunchError: the agent has ended, or hangs.
        """
        self._connection, self._ended = connection, asyncio.Event()
        self._hangs = None
        connection.listen(self)
        connection.serve_editor(lines=self._pass_plain, passing=self._take_passing, written=self._resume)
        self._agent = connection.agent
        if self._greeting is not None and not self._greeting.is_settled:
            line = jsonrpc.result(NULL, connection.agent.raw)
            self.finish(self._greeting, handshake.edit_answer(line, self._launch.plan.called))
        try:
            await connection.unless_over(first_of(self.over.wait(), self._bring_back(), self._watch()))
        finally:
            self._connection, self._is_ready = None, False
            self._is_up.clear()
            self._ended.set()

    async def _bring_back(self) -> None:
        """Bring the sessions to where the last agent had them, let requests go on, and wait for ever."""
        self._is_up.set()
        await asyncio.gather(*(each.is_back.wait() for each in self._lives.values() if each.is_open))
        parked, self._parked = self._parked, []
        self._is_ready = self._was_ready = True
        for request in parked:
            self._go_on(request)
        await asyncio.Event().wait()

    async def _wants_another(self, error: Exception | None) -> bool:
        """Wait until a request wants an agent again; False once the editor has ended."""
        if isinstance(error, LaunchError):
            self._lose(error)
        await self.interrupts.watch(first_of(self._wanted.wait(), self.over.wait()))
        return not self.over.is_set()

    def _stop_servers(self, error: BaseException | None) -> None:
        """Let the servers know that the last agent is about to be stopped: they end with it."""
        if self.over.is_set() or not isinstance(error, LaunchError):
            for session in self._lives.values():
                if session.servers is not None:
                    session.servers.stopping(is_orderly=False)

    def _lose(self, error: LaunchError) -> None:
        """Settle what an agent has left open. The next request starts it again."""
        after = self._launch.after_death if self._agent is not None else ""
        passed, self._passed = self._passed, {}
        is_told = bool(passed)
        for request in passed.values():
            text = f"{error.message} before it answered {request.method}{after}"
            self.refuse(request, INTERNAL_ERROR, text, {"details": "\n".join((text, *error.detail[-LAST_WORDS:]))})
        for number, asked in list(self._asked.items()):
            if asked.id is not None:
                del self._asked[number]
                self.write(jsonrpc.notification(CANCEL, {"requestId": int(number)}))
        for session in self._lives.values():
            session.lose_agent()
        self._wanted.clear()
        if self._was_ready and self._parked:
            self._wanted.set()
        elif not self._was_ready:  # they have waited for an agent that did not come up
            is_told = self._refuse_parked(error) or is_told
        if not is_told:
            show_note(self.observer, f"{error.message}{after}")
        self._was_ready = False
        self._resume()

    def _refuse_parked(self, error: LaunchError) -> bool:
        """Answer the requests that wait for an agent with the reason why none comes; return whether there are any."""
        parked, self._parked = [*filter(None, [self._greeting]), *self._parked], []
        has_open = not all(request.is_settled for request in parked)
        for request in parked:
            request.withdrawn()
            self.tell(request, error)
        return has_open

    async def _watch(self) -> None:
        """Wait until the agent lets the time for an answer pass. While it waits for the editor, it has time.

        Raises:
            WaitExpired: it does not answer any more.
        """
        connection, now = self._connection, asyncio.get_running_loop().time
        assert connection is not None
        spoke, has_told = now(), False
        while True:
            await asyncio.sleep(to_beat(now(), BEAT))
            spoke = now() if self._asked or self.is_full else max(spoke, connection.heard())
            if self._hangs is not None:
                raise connection.excused(self._hangs)
            if self._passed and now() >= spoke + FIRST_WORD and not has_told:
                has_told = connection.tell_excuse()
            for request in self._passed.values():
                limit = request.limit or self._limits.get(request.method)
                if limit is not None and now() >= max(request.since, spoke) + limit:
                    raise connection.excused(WaitExpired(f"no activity from the agent within {seconds(limit)}"))

    # What sessions need.

    @property
    def context(self) -> LaunchContext:
        return self._launch.context

    async def connected(self, *, is_wanted: bool) -> tuple[Connection, asyncio.Event]:
        if is_wanted:
            self._wanted.set()
        await self._is_up.wait()
        assert self._connection is not None
        return self._connection, self._ended

    def expire(self, error: LaunchError) -> None:
        self._hangs = error

    def pass_on(self, request: EditorRequest, answered: Callable[[Answered], None] | None = None) -> None:
        connection = self._connection
        assert connection is not None, "requests wait for an agent"
        take = answered or (lambda answer: self.finish(request, answer.line))

        def came(answer: Answered) -> None:
            del self._passed[answer.number]
            take(answer)

        line, request.line = request.line, b""  # it may be large
        request.since = asyncio.get_running_loop().time()
        request.number = number = connection.pass_on(request.method, line, came)
        self._passed[number] = request
        if connection.unsent > HIGH:
            self._inflow.pause()

    def _resume(self) -> None:
        """Read the editor again, if the agent takes what it has sent."""
        if self._connection is None or self._connection.unsent <= LOW:
            self._inflow.resume()

    def ask(self, id: Raw | None, method: str, line: bytes, answered: Callable[[bytes], None]) -> None:
        number = b"%d" % self._next
        self._next += 1
        self._asked[number] = _Asked(id, answered)
        self.write(splice.with_id(line, Raw(number)), is_masked=method not in ACTS)

    def refuse_agent(self, id: Raw, code: int, message: str) -> None:
        if self._connection is not None:
            self._connection.reply(self._connection.conversation.refuse(id, code, message))

    # What the editor says.

    def called(self, request: EditorRequest) -> None:
        if request.method == "initialize" and self._agent is None:
            self._greet(request)
        elif not self._is_ready or self._launch.is_agent_dead:
            self._parked.append(request)
            self._wanted.set()
        else:
            self._go_on(request)

    def _greet(self, request: EditorRequest) -> None:
        """Take the editor's `initialize`, with which the agent is met, now and after each start."""
        if self._greeting is not None:
            self.settle(self._greeting)
        self._greeting = request
        try:
            greeting = handshake.edit_request(request.line, self._withheld)
        except splice.Malformed:
            self.refuse(request, PARSE_ERROR, "Parse error")
            return
        self._launch.context = replace(self._launch.context, greeting=greeting)
        self._wanted.set()

    def _go_on(self, request: EditorRequest) -> None:
        if request.is_settled:
            return
        try:
            self._hooks.get(request.method, self.pass_on)(request)
        except splice.Malformed:
            self.refuse(request, PARSE_ERROR, "Parse error")

    def notified(self, method: str, line: bytes) -> None:
        if self._connection is None:
            return  # it is about what has ended with the agent
        if method == "session/cancel" and (session := self._session(line)) is not None:
            session.cancel()
        self._connection.send(jsonrpc.as_line(line))

    def withdraw(self, request: EditorRequest, line: bytes) -> None:
        number, place = self._number_of(request), splice.at(line, ("params", "requestId"))
        if number is None or place is None or self._connection is None:
            super().withdraw(request, line)
        else:
            self._connection.send(jsonrpc.as_line(line[: place[0]] + b"%d" % number + line[place[1] :]))

    def _number_of(self, request: EditorRequest) -> int | None:
        opening = next((each for each in self._lives.values() if each.request is request), None)
        if opening is None or opening.client is None or opening.client.number < 0:
            return request.number
        return opening.client.number

    def answered(self, id: bytes, line: bytes) -> None:
        asked = self._asked.pop(id, None)
        if asked is None:
            if not (id.isdigit() and len(id) <= jsonrpc.DIGITS and int(id) < self._next):  # else it is late
                self.mishaps.add_junk("the output of the editor", "an answer to a request that was never made")
            return
        if asked.id is not None and self._connection is not None:
            self._connection.reply(self._connection.conversation.settle(asked.id, line))
        asked.answered(line)

    # Sessions.

    def _open_session(self, request: EditorRequest) -> None:
        """Open a session; its life is a task."""
        cwd = acp.text(request.params.get("cwd"))
        if "\0" in cwd:
            self.refuse(request, INVALID_PARAMS, "cwd: a directory's name has no NUL character")
            return
        if not Path(cwd).is_absolute():
            self.pass_on(request)  # the agent will say what is wrong
            return
        assert self._tasks is not None, "the sessions run"
        session = EditorSession(self, request)
        task = self._tasks.create_task(self._live(session, request), name=request.method)
        self._lives[task] = session
        task.add_done_callback(self._lives.pop)
        request.withdrawn = task.cancel

    async def _live(self, session: EditorSession, request: EditorRequest) -> None:
        assert self._agent is not None, "it has answered"
        try:
            if session.id:
                await self._take_place(session)
            await session.live(request, self._agent)
        except LaunchError as error:
            self.tell(request, error)
        except Exception as error:  # a bug of ours costs the session, not the others
            self.mishaps.add("a session", error)
            self.refuse(request, INTERNAL_ERROR, jsonrpc.BROKEN)
        finally:
            if self._by_id.get(session.id) is session:
                del self._by_id[session.id]
            session.release()
            session.is_back.set()
            session.gone.set()

    async def _take_place(self, session: EditorSession) -> None:
        """Take the place of a session of this id, if it is open."""
        before = self._by_id.get(session.id)
        self._by_id[session.id] = session
        if before is not None:
            before.left.set()
            await before.gone.wait()

    def _close_session(self, request: EditorRequest) -> None:
        """Let a session's servers go once the agent has closed it."""
        id = acp.text(request.params.get("sessionId"))
        session = self._by_id.get(id)
        held, forget = ExitStack(), None
        if request.method == "session/delete":
            try:
                forget = held.enter_context(self._deleting(id, session is not None))
            except LaunchError as error:
                self.tell(request, error)
                return
            request.over = held.close

        def closed(answer: Answered) -> None:
            if answer.fault is None:
                if session is not None:
                    session.left.set()
                if forget is not None:
                    forget()
            self.finish(request, answer.line)

        self.pass_on(request, closed)

    def _in_session(self, hook: Callable[[EditorSession, EditorRequest], None], request: EditorRequest) -> None:
        """Have the session take a request; of an unknown one it passes."""
        session = self._session(request.line)
        if session is not None and session.lost:
            self.refuse(request, INTERNAL_ERROR, session.lost)
        elif session is None or session.client is None:
            self.pass_on(request)
        else:
            hook(session, request)

    def _session(self, line: bytes) -> EditorSession | None:
        try:
            return self._by_id.get(_about.decode(line).params.sessionId)
        except (msgspec.DecodeError, RecursionError):
            place = splice.at(line, ("params", "sessionId"))
            return self._by_id.get(acp.text(acp.decoded(line[slice(*place)]))) if place else None

    # What the agent says (`session.connection.Listener`).

    def _pass_plain(self, chunk: bytes, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Pass on the updates that do not concern us, as a turn has very many, and yield the other lines."""
        may_pass, plain = self._is_plain(chunk), list[bytes]()
        is_first = True  # it may have begun before this chunk
        for line in lines:
            if may_pass and not (is_first and not self._is_plain(line)) and self._may_pass(line):
                plain.append(line)
            else:
                self._write_plain(plain)
                plain = []
                yield line
                may_pass = may_pass and self._is_plain(b"")  # an answer may let updates wait
            is_first = False
        self._write_plain(plain)

    def _is_plain(self, said: bytes) -> bool:
        """Tell whether no update in what the agent has said concerns us: none is held, and none is of a tool call."""
        is_held = any(each.held is not None or each.is_muted for each in self._by_id.values())
        return not is_held and b'"tool_call' not in said and b'"session_info_update"' not in said

    def _may_pass(self, line: bytes) -> bool:
        """Tell whether a line is an update that needs no look at its neighbours, for a secret cut over several."""
        try:
            if not line.isascii():
                line.decode()  # the decoder does not check what it leaves out
            if redactor.is_empty:
                head = _head.decode(line)
                return head.method == UPDATE and head.id is UNSET
            chunk = _chunk_line.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # it is not a chunk, or not a message
            return False
        said, update = chunk.params, chunk.params.update
        is_update = chunk.method == UPDATE and chunk.id is UNSET
        return is_update and self._stands_alone(said.sessionId, update.sessionUpdate, update.content.text)

    def _write_plain(self, lines: list[bytes]) -> None:
        """Write updates, masked together if no secret is in any of them."""
        if not redactor.is_empty and redactor.raw_json(block := b"\n".join(lines)) is not block:
            lines = list(map(redactor.raw_json, lines))
        self.write_all(lines)

    def updated(self, update: Updated) -> None:
        session = self._by_id.get(update.session_id)
        if session is not None and session.client is not None:
            session.client.updated(update)
        else:
            self.observer.update(update)

    def opened(self, opened: Opened) -> None:
        for session in self._lives.values():
            if session.client is not None and session.client.number == opened.number:
                self._by_id[opened.session_id] = session
                session.begin(opened)

    def asked(self, question: PermissionAsked) -> None:
        session = self._by_id.get(question.session_id)
        if session is None or session.client is None or session.is_hosted:
            self.ask(question.id, "session/request_permission", question.line, lambda line: None)
        else:
            session.client.asked(question)

    def _take_passing(self, message: Passing) -> None:
        if message.id is None:
            self.write(message.line)
        elif message.method in self._withheld:  # the profile keeps it from the agent (C-68)
            self.refuse_agent(message.id, jsonrpc.METHOD_NOT_FOUND, "method not found")
        elif message.method in SERVED and (session := self._session(message.line)) is not None:
            session.serve(message)
        else:
            line = self._with_request(message.line) if message.method == ELICITATION else message.line
            self.ask(message.id, message.method, line, lambda line: None)

    def _with_request(self, line: bytes) -> bytes:
        """Edit a question of the agent that belongs to a request of the editor: it names it by its id there."""
        place = splice.at(line, ("params", "requestId"))
        number = line[slice(*place)] if place else b""
        request = self._passed.get(int(number)) if number.isdigit() and len(number) <= jsonrpc.DIGITS else None
        return line if place is None or request is None else line[: place[0]] + request.id + line[place[1] :]

    def withdrawn(self, withdrawn: Withdrawn) -> None:
        place = splice.at(withdrawn.line, ("params", "requestId"))
        for number, asked in self._asked.items():
            if place is not None and asked.id is not None and bytes(asked.id) == bytes(withdrawn.id):
                self.write(withdrawn.line[: place[0]] + number + withdrawn.line[place[1] :])
                return

    def service(self, question: ServiceAsked) -> None:
        raise AssertionError("requests of the agent pass on")

    def completed(self, elicitation_id: str) -> None:
        raise AssertionError("notifications of the agent pass on")

    # What is written to the editor.

    def show_update(self, update: Updated) -> None:
        """Write an update that may be seen, unless the editor is not to have it yet."""
        session, line = self._by_id.get(update.session_id), update.line
        if session is not None:
            if session.is_muted:
                return
            if update.replay and b'"terminalId"' in line:
                line = session.replayed(line)
            if session.held is not None:
                session.held.append(line)
                return
        self.show(line)

    def show(self, line: bytes) -> None:
        self.write_all((line,))

    def write(self, line: bytes, *, is_masked: bool = True) -> None:
        """Write a line that is not an update, after the updates that were held back for a secret in them."""
        if not redactor.is_empty:
            self.observer.pause()
            line = redactor.raw_json(line) if is_masked else line
        super().write(line)
