"""
A session of an editor, from its request to its end: its plan and servers, the agent's answer, its name in the store.

    session/new, load, resume, fork     the profile is planned for the session's directory; its servers and the editor's
                                        are started; the agent gets their seats in place of them
    the agent's answer                  the profile's mode and options are set; then the editor gets the answer
    session/close, delete               the servers end, as they do with the connection

The profile's rules answer a question first; the others go to the editor, as they are. What the editor does for the
agent, files and commands, is refused if a rule denies it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_args

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from acp_launch.engine.agent import AgentSession, ManagedAgent
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.engine.run import Launch, Opening, OpenSession, SessionRequest
from acp_launch.engine.servers import LaunchServers, launch_servers
from acp_launch.errors import AgentError, AgentRefused, AuthRequired, LaunchError, SessionError
from acp_launch.plan.model import OverSsh
from acp_launch.protocol import acp, jsonrpc, splice
from acp_launch.protocol.acp import Capabilities, Negotiated
from acp_launch.protocol.conversation import How, Opened, Passing, PermissionAsked
from acp_launch.protocol.jsonrpc import INTERNAL_ERROR, NULL, Answered
from acp_launch.protocol.splice import written
from acp_launch.served.entries import plan_servers
from acp_launch.served.lines import EditorRequest
from acp_launch.session.client import AcpSession
from acp_launch.session.connection import Connection
from acp_launch.session.events import Answer, SessionEvent, ToolQuestion, TurnEnd, editor_answer, show_note
from acp_launch.session.hold import fresh_name
from acp_launch.session.opening import AppliedOption, Setting
from acp_launch.session.permission.gate import Gate
from acp_launch.session.store import Record, Registry, SessionKeeper
from acp_launch.waits import first_of

if TYPE_CHECKING:
    pass

OPENING: Mapping[str, How] = {f"session/{how}": how for how in get_args(How)}
CANCELLED = 30.0  # seconds for an agent to end a turn that the editor has cancelled


class SessionPlan(Struct, frozen=True, kw_only=True):
    """The plan of a session; each of its servers has a directory. `wanted_options` are its mode and options.

    `hold` locks a session by its name; it is given the id too, if that is known. Without a `gate` the agent is a host,
    which decides about tool calls, and without `stores` it keeps the session: then `enters` adds how the session is
    entered to the params of a request, for a session of that name.
    """

    prepared: PreparedPlan
    wanted_options: Sequence[Setting]
    gate: Gate | None
    registry: Registry
    stores: bool = True
    hold: Callable[[str, str], AbstractContextManager[None]]
    enters: Callable[[dict[str, Any], str], dict[str, Any]] = lambda params, name: params


class Editor(Protocol):
    """The editor's side, as a session needs it."""

    plan_session: Callable[[Path], AbstractContextManager[SessionPlan]]  # for its directory

    def pass_on(self, request: EditorRequest, answered: Callable[[Answered], None] | None = None) -> None:
        """Pass a request on to the agent; `answered` takes the answer, and finishes the request."""

    def finish(self, request: EditorRequest, line: bytes) -> None:
        """Answer a request with a line of the agent."""

    def refuse(self, request: EditorRequest, code: int, message: str, data: object = None) -> None: ...

    def ask(self, id: Raw | None, method: str, line: bytes, answered: Callable[[bytes], None]) -> None:
        """Pass a request of the agent on to the editor, or ours if `id` is None."""

    def refuse_agent(self, id: Raw, code: int, message: str) -> None:
        """Refuse a request of the agent."""

    def show(self, line: bytes) -> None:
        """Write an update to the editor."""


class EditorSession(AgentSession):
    """A session of an editor."""

    def __init__(self, agent: "ManagedAgent[EditorSession]", editor: Editor, request: EditorRequest) -> None:
        super().__init__(agent)
        self.how: How = OPENING[request.method]
        # The agent's id; empty for a session that is made.
        self.id = acp.text(request.params.get("sessionId")) if self.how in ("load", "resume") else ""
        self.servers: LaunchServers | None = None
        self.held: list[bytes] | None = None  # updates that wait until the editor knows the session
        self.is_open = False  # the editor knows it
        self.is_muted = False  # it is opened again, and the editor knows its history
        self.lost = ""  # why the agent that was started again does not have it
        self.left, self.is_back = asyncio.Event(), asyncio.Event()
        self.request = request
        self._editor = editor
        self._connection: Connection | None = None
        self._params = request.params
        self._settings: dict[tuple[str, str], tuple[str, Mapping[str, object]]] = {}  # by method and option
        self._answer = b""  # of the agent, to the request
        self._terminals: set[str] = set()  # that the agent has at the editor
        self._turn: EditorRequest | None = None  # the latest
        self._waiting: dict[int, asyncio.Future[Answer]] = {}  # by the identity of a call

    # Its life.

    async def run(self, request: EditorRequest, agent: Negotiated) -> None:
        """Open the session, and keep it open until it is left.

        Raises:
            LaunchError: it cannot be opened.
        """
        editor = self._editor
        observer, interrupts = self.agent.launch.observer, self.agent.launch.interrupts
        with editor.plan_session(Path(acp.text(self._params.get("cwd")))) as made, self._begin(made, agent):
            plan = made.prepared.plan
            given = plan_servers(
                acp.sequence(self._params.get("mcpServers")),
                [each.name for each in plan.servers],
                plan.cwd,
                is_confined=plan.place is not None and not isinstance(plan.place.elsewhere, OverSsh),
            )
            for own, name in given.renamed:
                show_note(
                    observer,
                    f'the editor\'s MCP server "{own}" is called "{name}": the profile has one of that name',
                )
            prepared = made.prepared._replace(plan=replace(plan, servers=(*plan.servers, *given.plans)))
            context = replace(self.agent.launch.context, prepared=prepared)
            async with launch_servers(context, observer, interrupts) as servers:
                self.servers = servers
                launch = Launch(context, observer, interrupts, servers)
                try:
                    await self._stay(launch, request, self._request(made, given.untouched))
                finally:
                    servers.stopping(is_orderly=self.left.is_set())

    def _begin(self, made: SessionPlan, agent: Negotiated) -> AbstractContextManager[None]:
        """Take the plan, and the name that the store has for this session, or a new one. Return its lock."""
        plan, self._agent = made.prepared.plan, agent
        known = made.registry.list(str(plan.project), plan.profile) if self.id else ()
        record: Record | None = next((each for each in known if each.session_id == self.id), None)
        self.name = record.name if record else fresh_name()
        self._keeper = SessionKeeper(made.registry, plan, record)
        self._gate, self._stores = made.gate, made.stores
        if self._gate is not None:
            self._gate.ask = self._ask
        self._params = made.enters(self._params, self.name)
        return made.hold(self.name, self.id)

    def _request(self, made: SessionPlan, others: Sequence[object]) -> SessionRequest:
        return SessionRequest(
            name=self.name,
            wanted_options=made.wanted_options,
            servers=others,
            gate=self._gate,
            observer=self.agent.launch.observer,
            listen=self._attend,
            opening=Opening(
                how=self.how,
                session_id=self.id,
                params=self._params,
                replay="before",  # the editor shows it as it comes
                asking=self._pass_question,
            ),
        )

    def _attend(self, client: AcpSession) -> None:
        self.client = client

    async def _stay(self, launch: Launch, request: EditorRequest, wanted: SessionRequest) -> None:
        """Have one agent after the other open the session."""
        while not self.left.is_set():
            if (connection := await self._await_agent()) is None:
                return
            self._connection = connection
            try:
                now = self._again(wanted, connection.agent.capabilities) if self.is_open else wanted
                async with launch.session(connection, now) as opened:
                    if not self.is_open:
                        self._answer_editor(request, opened)
                        assert self.servers is not None
                        self.servers.opened()
                    else:
                        await self._restore(connection, launch.plan.timeouts.session)
                    self._be_back()
                    await first_of(self.left.wait(), self.agent.until_end(connection))
            except LaunchError as error:
                await self._fail(connection, error)

    async def _await_agent(self) -> Connection | None:
        """Wait for an agent; None if the session is left first. Once it is open, the next request starts the agent.

        Raises:
            LaunchError: the agent did not come up.
        """
        waiting = asyncio.ensure_future(self.agent.reconnected() if self.is_open else self.agent.connected())
        try:
            await first_of(asyncio.wait([waiting]), self.left.wait())
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()

    async def _fail(self, connection: Connection, error: LaunchError) -> None:
        """Deal with an agent that cannot open the session: give up if the editor does not know it yet.

        Raises:
            LaunchError: the editor does not know it yet.
        """
        if not self.is_open:
            if self.id and self.held is not None and connection.agent.capabilities.close:
                connection.spawn(_close(connection, self.id))
            raise error
        if isinstance(error, AgentRefused | AuthRequired | SessionError):
            why = error.reply[1] if error.reply else error.message
            self.lost = f"the agent was started again and does not have this session: {why}; open a new one"
        elif not isinstance(error, AgentError):
            self.agent.stop(error)
        self._be_back()
        await first_of(self.left.wait(), self.agent.until_end(connection))

    def _be_back(self) -> None:
        self.is_muted = False
        self.is_back.set()

    def lose_agent(self) -> None:
        """Note that the agent has ended, and release at the editor what it had there."""
        self.client, self.lost = None, ""
        self.is_back.clear()
        if self.is_open and not self.left.is_set():
            self.is_muted = True
            for terminal in self._terminals:
                params = {"sessionId": self.id, "terminalId": terminal}
                line = jsonrpc.request(0, "terminal/release", params)
                self._editor.ask(None, "terminal/release", line, lambda line: None)
        self._terminals.clear()
        self._waiting.clear()

    def _again(self, request: SessionRequest, able: Capabilities) -> SessionRequest:
        """Return the request that opens the session with the next agent.

        Raises:
            SessionError: that agent cannot.
        """
        if not (able.resume or able.load):
            raise SessionError("it can neither load nor resume a session")
        how: How = "resume" if able.resume else "load"
        params = {**self._params, "sessionId": self.id}
        opening = replace(request.opening, how=how, session_id=self.id, params=params, replay="")
        return replace(request, wanted_options=(), opening=opening)

    async def _restore(self, connection: Connection, limit: float) -> None:
        """Set again what was set."""
        for method, params in self._settings.values():
            call = connection.conversation.forward(method, params)
            what = f"answer to {method} from the agent that was started again"
            try:
                await connection.call(call, what=what, limit=limit)
            except AgentRefused as error:
                show_note(self.agent.launch.observer, f"the agent that was started again: {error.message}")

    # Its answer.

    def begin(self, opened: Opened) -> None:
        """Take the agent's answer; what the agent says next waits until the editor has it."""
        assert self.client is not None, "it opens the session"
        self.client.opened(opened)
        if not self.is_open:
            self.id, self._answer, self.held = opened.session_id, opened.line, []

    def _answer_editor(self, request: EditorRequest, opened: OpenSession) -> None:
        """Give the editor the agent's answer, as it would be now that the options are set."""
        line = self._answer
        for each in opened.made:
            line = self._with_setting(line, each)
        self.is_open = True
        self._editor.finish(request, line)
        self.release()

    def _with_setting(self, line: bytes, made: AppliedOption) -> bytes:
        if made.call is None or made.result is None:
            return line
        message = jsonrpc.decode(made.call.line)
        assert message is not None, "it is ours"
        params = acp.mapping(acp.decoded(message.params))
        self.note_setting(made.call.method, params)
        match made.call.method:
            case "session/set_mode":
                return splice.replaced(line, ("result", "modes", "currentModeId"), written(params["modeId"]))
            case "session/set_model":
                return splice.replaced(line, ("result", "models", "currentModelId"), written(params["modelId"]))
        listed = acp.mapping(acp.decoded(made.result)).get("configOptions")
        if not isinstance(listed, list):
            return line
        return _with_older(splice.replaced(line, ("result", "configOptions"), written(listed)), listed)

    def release(self) -> None:
        """Let the updates go that were held back."""
        held, self.held = self.held, None
        for line in held or ():
            self._editor.show(line)

    # Tool calls.

    def _pass_question(self, question: PermissionAsked, call: dict[str, Any]) -> None:
        """Pass a question on that no rule decides; the gate keeps what the editor answers."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[id(call)] = answer

        def answered(line: bytes) -> None:
            if not answer.done():
                answer.set_result(_answer(line, question.options))

        self._editor.ask(question.id, "session/request_permission", question.line, answered)

    async def _ask(self, question: ToolQuestion) -> Answer:
        try:
            return await self._waiting[id(question.call)]
        finally:
            self._waiting.pop(id(question.call), None)

    def serve(self, message: Passing) -> None:
        """Pass on what the editor is to do for the agent, unless a rule denies it."""
        assert message.id is not None
        params = acp.mapping(acp.decoded(message.params))
        if message.method == "terminal/release":
            self._terminals.discard(acp.text(params.get("terminalId")))
        elif self._gate is not None and (why := self._gate.deny_reason(_act(message.method, params))):
            self._editor.refuse_agent(message.id, INTERNAL_ERROR, why)
            return
        answered = self._note_terminal if message.method == "terminal/create" else lambda line: None
        self._editor.ask(message.id, message.method, message.line, answered)

    def _note_terminal(self, line: bytes) -> None:
        if terminal := splice.at(line, ("result", "terminalId")):
            self._terminals.add(acp.text(acp.decoded(line[terminal[0] : terminal[1]])))

    def cancel(self) -> None:
        """Note that the editor cancels the turn."""
        if self.client is not None:
            self.client.note_cancel()
        if self._turn is not None:
            self._turn.limit = CANCELLED

    def replayed(self, line: bytes) -> bytes:
        """Edit an update of a history: it names terminals of before, which the editor does not have."""
        place = splice.at(line, ("params", "update", "content"))
        if place is None or splice.at(line, ("params", "update", "_meta", "terminal_info")) is not None:
            return line
        items = acp.decoded(line[place[0] : place[1]])
        if not isinstance(items, list):
            return line
        spans = zip(splice.elements(line, place[0]), map(acp.mapping, items), strict=True)
        terminals = ((span, item.get("terminalId")) for span, item in spans if item.get("type") == "terminal")
        return splice.without_spans(line, [span for span, id in terminals if id not in self._terminals])

    # Requests of the editor.

    def set(self, request: EditorRequest) -> None:
        """Pass a setting on, and remember it for an agent that is started again."""
        method, params = request.method, request.params

        def answered(answer: Answered) -> None:
            if answer.fault is None:
                self.note_setting(method, params)
            self._editor.finish(request, answer.line)

        self._editor.pass_on(request, answered)

    def note_setting(self, method: str, params: Mapping[str, object]) -> None:
        key = method, acp.text(params.get("configId"))
        self._settings.pop(key, None)
        self._settings[key] = method, params

    def prompt(self, request: EditorRequest) -> None:
        """Pass a prompt on; its end is kept, and with it the session, as editors open many that they never use."""
        client = self.client
        assert client is not None and self._connection is not None, "it is open"
        client.new_turn()
        self._connection.conversation.working(self.id, is_working=True)  # a history has ended
        is_first, self._turn = self._turn is None, request
        said = acp.prompt_text(acp.sequence(request.params.get("prompt")))
        if self._stores and not self._keeper.is_kept:
            ready = SessionEvent(session_id=self.id, name=self.name, how=self.how, result=NULL)
            self._note(lambda: self._keeper.opened(ready, self._agent))

        def answered(answer: Answered) -> None:
            self._editor.finish(request, answer.line)
            if self.servers is not None and is_first:
                self.servers.first_turn_over()
            if answer.fault is not None:
                self._note(lambda: self._keeper.store_broken_turn(said, client.said()))
            else:
                reason = acp.text(acp.mapping(acp.decoded(answer.result)).get("stopReason"))
                end = TurnEnd(reason, None, "", client.title, client.said())
                self._note(lambda: self._keeper.store_turn(said, end))

        self._editor.pass_on(request, answered)

    def _note(self, work: Callable[[], None]) -> None:
        """Do something with the store; a fault of it is not one of the session."""
        try:
            work()
        except LaunchError as error:
            show_note(self.agent.launch.observer, f"the session is not stored: {error.message}")


async def _close(connection: Connection, session_id: str) -> None:
    """Have the agent close a session whose options could not be set."""
    try:
        await connection.call(connection.conversation.end("close", session_id), what="session/close", limit=CANCELLED)
    except LaunchError:  # the editor gets the first error
        return


def _with_older(line: bytes, options: list[Any]) -> bytes:
    """Show the values of options also where an agent tells mode and model in the older way, beside them."""
    for option in map(acp.mapping, options):
        older = {"mode": ("modes", "currentModeId"), "model": ("models", "currentModelId")}.get(
            acp.text(option.get("category"))
        )
        if older is not None and isinstance(option.get("currentValue"), str):
            line = splice.replaced(line, ("result", *older), written(option["currentValue"]))
    return line


def _answer(line: bytes, options: Sequence[object]) -> Answer:
    """Read the editor's answer to a question; an error, and one that is malformed, allow nothing."""
    message = jsonrpc.decode(line)
    return editor_answer(message.result if message is not None and message.result is not UNSET else NULL, options)


def _act(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool call that a request to the editor amounts to, as our own services word it."""
    path = acp.text(params.get("path"))
    match method:
        case "fs/read_text_file":
            return {"kind": "read", "title": f"Read {path}", "locations": [{"path": path}]}
        case "fs/write_text_file":
            diff = {"type": "diff", "path": path, "newText": acp.text(params.get("content"))}
            return {"kind": "edit", "title": f"Write {path}", "locations": [{"path": path}], "content": [diff]}
    words = [acp.text(params.get("command")), *map(acp.text, acp.sequence(params.get("args")))]
    raw = {"command": words[0], **({"args": words[1:]} if words[1:] else {}), "cwd": acp.text(params.get("cwd"))}
    return {"kind": "execute", "title": " ".join(words), "rawInput": raw}
