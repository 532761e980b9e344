"""
The editor's side of a served profile: its lines, its requests, and what the agent has for it.

    editor ── stdin ──▶ EditorConnection ──▶ Connection ──▶ agent
    editor ◀─ stdout ── EditorConnection ◀── Connection ◀── agent

Messages pass as the bytes they are, but for their ids: a request of the editor goes on under a number of the connection
to the agent, one of the agent under our number. It ends when the editor closes its end. The editor is read no
faster than the agent takes, and the agent no faster than the editor takes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from acp_launch.console.stderr import DIM
from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.console.stream.text import Notices
from acp_launch.engine.agent import ManagedAgent, QueuedRequest
from acp_launch.engine.run import Launch
from acp_launch.errors import LaunchError, WaitExpired, first
from acp_launch.process.flow import HIGH_BYTES, LOW_BYTES, Lent
from acp_launch.protocol import acp, jsonrpc, splice
from acp_launch.protocol.conversation import (
    ELICITATION,
    Passing,
    PermissionAsked,
    Updated,
    Withdrawn,
)
from acp_launch.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, NULL, PARSE_ERROR, Answered
from acp_launch.secret.redact import redactor
from acp_launch.served import handshake
from acp_launch.served.editorsession import OPENING, EditorSession, SessionPlan
from acp_launch.served.lines import CANCEL, EditorLines, EditorRequest
from acp_launch.session.connection import AgentMessage, Connection
from acp_launch.session.events import AnyEvent, ResultEvent, SessionEvent, show_note
from acp_launch.session.login import LOGIN_TIMEOUT as LOGIN
from acp_launch.waits import FIRST_NOTICE, seconds, to_beat

BEAT_SECONDS = 1.0  # between two checks for requests that the agent has not answered
STDERR_LINES = 5  # of an agent that has ended
UPDATE = "session/update"
SERVED = frozenset({"fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"})
ACTS = frozenset({"fs/write_text_file", "terminal/create"})  # what the editor does must be what the agent wants
CLOSING = ("session/close", "session/delete")
SETTING = ("session/set_mode", "session/set_model", "session/set_config_option")


class EditorNotices(Notices):
    """The observer of a served profile: updates go to the editor, and problems to stderr.

    Editors show each line of their agent's stderr as a message, Emacs' agent-shell even in the prompt that is typed.
    """

    def __init__(self, *, is_verbose: bool = False) -> None:
        """`is_verbose` prints good news, too."""
        self._is_verbose = is_verbose
        self._face: EditorConnection | None = None

    def of(self, face: "EditorConnection") -> None:
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
    """A request to the editor: its id at the agent, None for ours, and the taker of the answer."""

    id: Raw | None
    answered: Callable[[bytes], None]


class EditorConnection(EditorLines):
    """One editor, and the agent of the profile."""

    def __init__(
        self,
        launch: Launch,
        feed: EditorNotices,
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
        self.observer = observer
        self._stands_alone = observer.passes
        self.plan_session, self._deleting = plan_session, deleting
        self._withheld = handshake.withheld(launch.plan)  # methods that the profile keeps from the agent
        self._greeting: EditorRequest | None = None  # the first `initialize`
        self.agent: ManagedAgent[EditorSession] = ManagedAgent(launch, self, self.over)
        self._passed: dict[int, EditorRequest] = {}  # by their numbers at the agent
        self._asked: dict[bytes, _Asked] = {}  # by our number
        self._next = 0
        self._tasks: asyncio.TaskGroup | None = None
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
            **({"session/list": self._list_sessions} if launch.plan.machine else {}),
        }

    async def run(self) -> None:
        """Serve with one agent after the other, until the editor ends.

        Raises:
            LaunchError: no agent has ever answered; `Stopped` after a signal.
        """
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    await self.agent.run()
                finally:
                    for session in self.agent.sessions:
                        leave = session.left.set if session.is_open else session.request.withdrawn
                        leave()
        except BaseExceptionGroup as failures:
            raise first(failures) from None
        finally:
            self.close()

    # What the agent needs (`engine.agent.AgentFront`).

    def meet(self, connection: Connection) -> None:
        connection.attach_editor(lines=self._stream_updates, on_passthrough=self._take_passing, written=self._resume)
        if self._greeting is not None and not self._greeting.is_settled:
            line = jsonrpc.result(NULL, connection.agent.raw)
            self.finish(self._greeting, handshake.edit_answer(line, self.agent.launch.plan.called))
        connection.spawn(self._watch(connection))

    async def restore(self) -> None:
        await asyncio.gather(*(each.is_back.wait() for each in self.agent.sessions if each.is_open))

    def end(self, error: BaseException | None) -> None:
        """Let the servers know that the last agent is about to be stopped: they end with it."""
        if self.over.is_set() or not isinstance(error, LaunchError):
            for session in self.agent.sessions:
                if session.servers is not None:
                    session.servers.stopping(is_orderly=False)

    def lose(self, error: LaunchError, *, is_told: bool) -> None:
        after = self.agent.launch.after_death if self.agent.negotiated is not None else ""
        passed, self._passed = self._passed, {}
        for request in passed.values():
            text = f"{error.message} before it answered {request.method}{after}"
            self.refuse(request, INTERNAL_ERROR, text, {"details": "\n".join((text, *error.detail[-STDERR_LINES:]))})
        for number, asked in list(self._asked.items()):
            if asked.id is not None:
                del self._asked[number]
                self.write(jsonrpc.notification(CANCEL, {"requestId": int(number)}))
        for session in self.agent.sessions:
            session.lose_agent()
        if not (passed or is_told):
            show_note(self.observer, f"{error.message}{after}")
        self._resume()

    def _queue(self, request: EditorRequest, go_on: Callable[[EditorRequest], None]) -> None:
        """Let a request wait for the agent."""

        def refuse(error: LaunchError) -> bool:
            is_open = not request.is_settled
            request.withdrawn()
            self.tell(request, error)
            return is_open

        self.agent.queue(QueuedRequest(partial(go_on, request), refuse))

    async def _watch(self, connection: Connection) -> None:
        """Stop the agent if it lets the time for an answer pass. While it waits for the editor, it has time."""
        now = asyncio.get_running_loop().time
        spoke, has_told = now(), False
        while True:
            await asyncio.sleep(to_beat(now(), BEAT_SECONDS))
            spoke = now() if self._asked or self.is_full else max(spoke, connection.heard())
            if self._passed and now() >= spoke + FIRST_NOTICE and not has_told:
                has_told = connection.tell_stall_reason()
            for request in self._passed.values():
                limit = request.limit or self._limits.get(request.method)
                if limit is not None and now() >= max(request.since, spoke) + limit:
                    self.agent.stop(WaitExpired(f"no activity from the agent within {seconds(limit)}"))
                    return

    # What sessions need.

    def pass_on(self, request: EditorRequest, answered: Callable[[Answered], None] | None = None) -> None:
        connection = self.agent.connection
        assert connection is not None, "requests wait for an agent"
        take = answered or (lambda answer: self.finish(request, answer.line))

        def came(answer: Answered) -> None:
            del self._passed[answer.number]
            take(answer)

        line, request.line = request.line, b""  # it may be large
        request.since = asyncio.get_running_loop().time()
        request.number = number = connection.pass_on(request.method, line, came)
        self._passed[number] = request
        if connection.unsent > HIGH_BYTES:
            self._inflow.pause()

    def _resume(self) -> None:
        """Read the editor again, if the agent takes what it has sent."""
        if self.agent.connection is None or self.agent.connection.unsent <= LOW_BYTES:
            self._inflow.resume()

    def ask(self, id: Raw | None, method: str, line: bytes, answered: Callable[[bytes], None]) -> None:
        number = b"%d" % self._next
        self._next += 1
        self._asked[number] = _Asked(id, answered)
        self.write(jsonrpc.with_id(line, Raw(number)), is_masked=method not in ACTS)

    def refuse_agent(self, id: Raw, code: int, message: str) -> None:
        if (connection := self.agent.connection) is not None:
            connection.reply(connection.conversation.refuse(id, code, message))

    # What the editor says.

    def called(self, request: EditorRequest) -> None:
        if request.method == "initialize" and self.agent.negotiated is None:
            self._greet(request)
        elif self.agent.is_ready:
            self._go_on(request)
        else:
            self._queue(request, self._go_on)

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
        self.agent.launch.context = replace(self.agent.launch.context, greeting=greeting)
        self._queue(request, lambda request: None)  # it is answered with the agent's handshake

    def _go_on(self, request: EditorRequest) -> None:
        if request.is_settled:
            return
        try:
            self._hooks.get(request.method, self.pass_on)(request)
        except splice.Malformed:
            self.refuse(request, PARSE_ERROR, "Parse error")

    def notified(self, method: str, line: bytes) -> None:
        if (connection := self.agent.connection) is None:
            return  # it is about what has ended with the agent
        if method == "session/cancel" and (session := self._session(line)) is not None:
            session.cancel()
        connection.send(jsonrpc.as_line(line))

    def withdraw(self, request: EditorRequest, line: bytes) -> None:
        number, place = self._number_of(request), splice.at(line, ("params", "requestId"))
        connection = self.agent.connection
        if number is None or place is None or connection is None:
            super().withdraw(request, line)
        else:
            connection.send(jsonrpc.as_line(line[: place[0]] + b"%d" % number + line[place[1] :]))

    def _number_of(self, request: EditorRequest) -> int | None:
        opening = next((each for each in self.agent.sessions if each.request is request), None)
        if opening is None or opening.client is None or opening.client.number < 0:
            return request.number
        return opening.client.number

    def answered(self, id: bytes, line: bytes) -> None:
        asked = self._asked.pop(id, None)
        if asked is None:
            if not (id.isdigit() and len(id) <= jsonrpc.DIGITS and int(id) < self._next):  # else it is late
                self.mishaps.add_junk("the output of the editor", "an answer to a request that was never made")
            return
        if asked.id is not None and (connection := self.agent.connection) is not None:
            connection.reply(connection.conversation.settle(asked.id, line))
        asked.answered(line)

    # Sessions.

    def _open_session(self, request: EditorRequest) -> None:
        """Open a session; its life is a task."""
        cwd = acp.text(request.params.get("cwd"))
        if "\0" in cwd:
            self.refuse(request, INVALID_PARAMS, "cwd: a directory's name has no NUL character")
            return
        if not Path(cwd).is_absolute():
            self.pass_on(request)  # the agent will tell the fault
            return
        assert self._tasks is not None, "the sessions run"
        session = EditorSession(self.agent, self, request)
        task = self._tasks.create_task(self._live(session, request), name=request.method)
        task.add_done_callback(lambda task: session.end())
        request.withdrawn = task.cancel

    async def _live(self, session: EditorSession, request: EditorRequest) -> None:
        assert self.agent.negotiated is not None, "it has answered"
        try:
            if session.id:
                await self._take_place(session)
            await session.run(request, self.agent.negotiated)
        except LaunchError as error:
            self.tell(request, error)
        except Exception as error:  # our bug costs the session, not the others
            self.mishaps.add("a session", error)
            self.refuse(request, INTERNAL_ERROR, jsonrpc.BROKEN)
        finally:
            session.release()
            session.is_back.set()

    async def _take_place(self, session: EditorSession) -> None:
        """Take the place of a session of this id, if it is open."""
        before = self.agent.by_id.get(session.id)
        self.agent.by_id[session.id] = session
        if before is not None:
            before.left.set()
            await before.gone.wait()

    def _list_sessions(self, request: EditorRequest) -> None:
        """List those of an agent on another machine, which has another directory than the editor."""
        plan, wanted = self.agent.launch.plan, acp.text(request.params.get("cwd"))
        there, here = str(plan.directory), wanted or str(plan.cwd)
        if wanted:
            request.line = splice.replaced(request.line, ("params", "cwd"), splice.written(there))
        self.pass_on(request, lambda answer: self.finish(request, handshake.edit_list(answer.line, there, here)))

    def _close_session(self, request: EditorRequest) -> None:
        """Let a session's servers go once the agent has closed it."""
        id = acp.text(request.params.get("sessionId"))
        session = self.agent.by_id.get(id)
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
            return self.agent.by_id.get(_about.decode(line).params.sessionId)
        except (msgspec.DecodeError, RecursionError):
            place = splice.at(line, ("params", "sessionId"))
            return self.agent.by_id.get(acp.text(acp.decoded(line[slice(*place)]))) if place else None

    # What the agent says.

    def _stream_updates(self, chunk: bytes, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Pass on the updates that do not concern us, as a turn has very many, and yield the other lines."""
        may_pass, plain = self._may_stream(chunk), list[bytes]()
        is_first = True  # it may have begun before this chunk
        for line in lines:
            if may_pass and not (is_first and not self._may_stream(line)) and self._may_pass(line):
                plain.append(line)
            else:
                self._write_plain(plain)
                plain = []
                yield line
                may_pass = may_pass and self._may_stream(b"")  # an answer may let updates wait
            is_first = False
        self._write_plain(plain)

    def _may_stream(self, said: bytes) -> bool:
        """Tell whether no update in what the agent has said concerns us: none is held, and none is of a tool call."""
        is_held = any(each.held is not None or each.is_muted for each in self.agent.by_id.values())
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

    def stray(self, message: AgentMessage) -> None:
        match message:
            case Updated():
                self.observer.update(message)
            case PermissionAsked():
                self.ask(message.id, "session/request_permission", message.line, lambda line: None)
            case Withdrawn():
                self._withdraw_asked(message)
            case _:
                raise AssertionError("requests and notifications of the agent pass on")

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

    def _withdraw_asked(self, withdrawn: Withdrawn) -> None:
        place = splice.at(withdrawn.line, ("params", "requestId"))
        for number, asked in self._asked.items():
            if place is not None and asked.id is not None and bytes(asked.id) == bytes(withdrawn.id):
                self.write(withdrawn.line[: place[0]] + number + withdrawn.line[place[1] :])
                return

    # Messages to the editor.

    def show_update(self, update: Updated) -> None:
        """Write an update that may be seen, unless the editor is not to have it yet."""
        session, line = self.agent.by_id.get(update.session_id), update.line
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
