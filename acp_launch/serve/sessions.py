"""
The sessions of an editor: what the profile adds when one is opened, and what lives as long as it does.

    session/new, load, resume, fork     the profile is planned for the session's directory; its servers and the editor's
                                        are started; the agent gets their seats in place of them
    the agent's answer                  the profile's mode and options are set; then the editor gets the answer
    session/close, delete               the servers end, as they do with the connection

Each session is a task, which begins with the editor's request and lives until the session is closed.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from acp_launch.bridge import offer
from acp_launch.errors import AgentRefused, AuthRequired, LaunchError, SessionError, WaitExpired, first
from acp_launch.launch.loop import Interrupts
from acp_launch.launch.run import taken
from acp_launch.launch.servers import LaunchServers, launch_servers
from acp_launch.plan.model import LaunchPlan
from acp_launch.process.guard import Guard
from acp_launch.process.logs import ServerLogs
from acp_launch.process.spawn import Spawned
from acp_launch.protocol import acp, edits, jsonrpc
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import OURS, Conversation
from acp_launch.protocol.jsonrpc import Call
from acp_launch.protocol.mishap import Mishaps
from acp_launch.protocol.written import written
from acp_launch.serve.entries import planned
from acp_launch.serve.relay import UPDATE, Relay, Request
from acp_launch.serve.session import Session, SessionPlan
from acp_launch.session.observer import Observer
from acp_launch.session.opening import REFUSAL, configure
from acp_launch.session.state import SessionState
from acp_launch.waits import awaited

if TYPE_CHECKING:
    from acp_launch.trace import Trace

SERVED = ("fs/read_text_file", "fs/write_text_file", "terminal/create")
SETTING = ("session/set_mode", "session/set_model", "session/set_config_option")
INFO = b'"session_info_update"'
OPENING = ("session/new", "session/load", "session/resume", "session/fork")
CLOSING = ("session/close", "session/delete")


class HostDoor(Struct, frozen=True):
    """Leads to a host that has the agent; `knock` connects to it."""

    knock: Callable[[], socket.socket]


class ServeNeeds(Struct, frozen=True, kw_only=True):
    """The needs of a served profile. `plan` is of its agent; `session_plan` plans a session for its directory."""

    plan: LaunchPlan
    guard: Guard
    max_line: int  # bytes
    log: Callable[[bytes], None]  # takes the agent's stderr
    observer: Observer
    session_plan: Callable[[Path], AbstractContextManager[SessionPlan]]
    forget: Callable[[str], None]  # removes a session from the store, by the agent's id
    respawn: Callable[[], Spawned | HostDoor]  # starts the agent again
    server_logs: ServerLogs
    cache: Path | None = None
    trace: "Trace | None" = None


class _Params(Struct, gc=False):
    sessionId: str  # noqa: N815 - wire name


class _About(Struct, gc=False):
    params: _Params


_about = msgspec.json.Decoder(_About)
Fault = Callable[[LaunchError], tuple[int, str, object]]


class Caller:
    """Requests of our own to the agent, beside those of the editor; implements `session.opening.Caller`."""

    def __init__(self, relay: Relay, observer: Observer) -> None:
        self.conversation = Conversation()  # writes the requests
        self.observer = observer
        self.made: list[tuple[str, dict[str, Any], Any]] = []  # method, params and result of those answered
        self._relay = relay

    async def call(self, call: Call, *, what: str, limit: float, knob: str = "") -> Raw:
        """As `session.connection.Connection.call`."""
        message = jsonrpc.decode(call.line)
        assert message is not None, "it is ours"
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        request = self._relay.ask("agent", call.method, message.params, partial(_set, answer))
        try:
            line = await awaited(answer, what=what, limit=limit, waiting=self.observer.waiting)
        finally:
            self._relay.forget(request)
        said = jsonrpc.decode(line)
        if said is None or said.result is UNSET:
            raise _refused(call.method, line)
        self.made.append((call.method, acp.mapping(acp.decoded(message.params)), acp.decoded(said.result)))
        return said.result


class Sessions:
    def __init__(self, needs: ServeNeeds, interrupts: Interrupts, relay: Relay, fault: Fault) -> None:
        self._needs, self._interrupts, self._relay, self._fault = needs, interrupts, relay, fault
        self._agent: Negotiated | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._lives: dict[asyncio.Task[None], Session] = {}
        self._by_id: dict[str, Session] = {}  # by the agent's id, from the moment it is known
        self._holding = 0  # how many sessions hold updates back
        self._mishaps = Mishaps(needs.observer.note)
        relay.requests["editor"].update(dict.fromkeys(OPENING, self._asked) | dict.fromkeys(CLOSING, self._closing))
        relay.requests["editor"]["session/prompt"] = self._of(Session.prompted)
        relay.requests["agent"]["session/request_permission"] = self._of(Session.permission)
        relay.requests["agent"]["terminal/release"] = self._of(Session.released)
        for method in SETTING:
            relay.requests["editor"][method] = self._of(Session.set)
        for method in SERVED:
            relay.requests["agent"][method] = self._of(Session.served)
        relay.notices["agent"][UPDATE] = self._updated
        relay.notices["editor"]["session/cancel"] = self._cancelled

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let sessions live while the block runs."""
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

    @property
    def has_met(self) -> bool:
        """Whether an agent has ever answered `initialize`."""
        return self._agent is not None

    def met(self, result: Raw) -> None:
        """Take the agent's answer to `initialize`.

        Raises:
            RemoteProtocolError: it speaks another version.
        """
        self._agent = acp.read_negotiated(result)

    def stopping(self) -> None:
        """Note that the last agent is about to be stopped: its servers end with it."""
        for session in self._lives.values():
            if session.servers is not None:
                session.servers.stopping(is_orderly=False)

    # What the editor asks.

    def _asked(self, request: Request) -> None:
        """Open a session; its life is a task."""
        if self._agent is None or not Path(acp.text(request.params.get("cwd"))).is_absolute():
            self._relay.pass_on(request)  # the agent will say what is wrong
            return
        tasks = self._tasks
        assert tasks is not None, "the sessions run"
        id = acp.text(request.params.get("sessionId")) if request.method in ("session/load", "session/resume") else ""
        session = Session(self._relay, self._needs.observer, tasks.create_task, request.method, id)
        task = tasks.create_task(self._life(session, request, self._agent), name=request.method)
        self._lives[task] = session
        task.add_done_callback(self._lives.pop)
        request.withdrawn = lambda: (task.cancel(), None)[1]

    def _closing(self, request: Request) -> None:
        """Let a session's servers go once the agent has closed it."""
        id = acp.text(request.params.get("sessionId"))
        session = self._by_id.get(id)

        def closed(line: bytes) -> None:
            if edits.at(line, ("error",)) is None:
                if session is not None:
                    session.left.set()
                if request.method == "session/delete":
                    self._needs.forget(id)
            self._relay.finish(request, line)

        request.answered = closed
        self._relay.pass_on(request)

    def _of(self, hook: Callable[[Session, Request], None]) -> Callable[[Request], None]:
        """Return the hook of a request that is about a session; of an unknown one, or in a host, it passes."""

        def hooked(request: Request) -> None:
            session = self._session(request.line)
            if session is None or session.is_hosted:
                self._relay.pass_on(request)
            elif session.lost:
                self._relay.refuse(request, jsonrpc.INTERNAL_ERROR, session.lost)
            else:
                hook(session, request)

        return hooked

    def _session(self, line: bytes) -> Session | None:
        """Return the session that a message is about."""
        try:
            return self._by_id.get(_about.decode(line).params.sessionId)
        except (msgspec.DecodeError, RecursionError):
            place = edits.at(line, ("params", "sessionId"))
            return self._by_id.get(acp.text(acp.decoded(line[place[0] : place[1]]))) if place else None

    def _cancelled(self, line: bytes, params: Raw) -> bytes:
        session = self._session(line)
        if session is not None:
            session.cancelled()
        return line

    def is_dull(self, said: bytes) -> bool:
        """Tell whether no update in what the agent has said concerns us."""
        return not self._holding and b'"tool_call' not in said and INFO not in said

    def _updated(self, line: bytes, params: Raw) -> bytes | None:
        """Pass an update on, or hold it until the editor knows the session as it is."""
        if self.is_dull(line):
            return line
        said = jsonrpc.read(acp.session_update, params)
        session = self._by_id.get(said.sessionId) if said else None
        if said is None or session is None:
            return line
        if session.is_muted:
            return None
        if session.how == "load" and not session.is_open and b'"terminalId"' in line:
            line = session.replayed(line)
        kind = jsonrpc.read(acp.update_kind, said.update)
        if kind is not None:
            session.updated(kind.sessionUpdate, said.update)
        if session.held is None:
            return line
        session.held.append(line)
        return None

    # The life of a session.

    async def _life(self, session: Session, request: Request, agent: Negotiated) -> None:
        try:
            await self._lived(session, request, agent)
        except LaunchError as error:
            told = (line.strip() for line in error.message.splitlines())
            self._needs.observer.note(f"{request.method}: {'; '.join(told)}" if str(error) else request.method)
            self._relay.refuse(request, *self._fault(error))
        except Exception as error:  # a bug of ours costs the session, not the others
            self._mishaps.add("a session", error)
            self._relay.refuse(request, jsonrpc.INTERNAL_ERROR, jsonrpc.BROKEN)
        finally:
            if self._by_id.get(session.id) is session:
                del self._by_id[session.id]
            self._release(session)
            session.gone.set()

    async def _lived(self, session: Session, request: Request, agent: Negotiated) -> None:
        needs, params = self._needs, request.params
        if session.id:
            await self._in_place(session)
        with needs.session_plan(Path(acp.text(params.get("cwd")))) as made, session.begin(made, agent):
            given = planned(
                acp.sequence(params.get("mcpServers")), [each.name for each in made.plan.servers], made.plan.cwd
            )
            for own, name in given.renamed:
                needs.observer.note(
                    f'the editor\'s MCP server "{own}" is called "{name}": the profile has one of that name'
                )
            plan = replace(made.plan, servers=(*made.plan.servers, *given.plans))
            async with launch_servers(
                plan,
                needs.observer,
                self._interrupts,
                secrets=made.secrets,
                max_line=needs.max_line,
                logs=needs.server_logs,
                trace=needs.trace,
                cache=needs.cache,
                credentials=made.credentials,
            ) as servers:
                session.servers = servers
                try:
                    entries = [*await self._entries(plan, made, servers, agent), *given.untouched]
                    if await self._opened(session, request, plan, made, entries, agent):
                        servers.opened()
                        await session.left.wait()
                finally:
                    servers.stopping(is_orderly=session.left.is_set())

    async def _in_place(self, session: Session) -> None:
        """Take the place of a session of this id, if it is open."""
        before = self._by_id.get(session.id)
        self._by_id[session.id] = session
        if before is not None:
            before.left.set()
            await before.gone.wait()

    async def _entries(
        self, plan: LaunchPlan, made: SessionPlan, servers: LaunchServers, agent: Negotiated
    ) -> list[dict[str, Any]]:
        offered = taken(plan, agent, self._needs.observer)
        await servers.up()
        way = await servers.way(offer.transport(plan, agent.capabilities))
        return offer.entries([each for each in offered if each.name not in servers.absent], made.secrets, way)

    async def _opened(
        self,
        session: Session,
        request: Request,
        plan: LaunchPlan,
        made: SessionPlan,
        entries: list[Any],
        agent: Negotiated,
    ) -> bool:
        """Have the agent open the session, set its mode and options, and answer the editor. False if it refuses."""
        line = _with_param(request.line, "mcpServers", entries)
        line = self._with_directories(line, request.params, plan, agent)
        if session.is_hosted:
            from acp_launch.serve.hosted import entering

            line = entering(line, session.name)
        message = jsonrpc.decode(line)
        session.params = acp.mapping(acp.decoded(message.params)) if message else {}
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def came(line: bytes) -> None:
            if edits.at(line, ("error",)) is None:
                self._began(session, line)
            _set(answer, line)

        request.answered = came
        self._relay.pass_on(request, line)
        line = await answer
        if edits.at(line, ("error",)) is not None:
            self._relay.finish(request, line)
            return False
        try:
            line = await self._configured(session, made, line, agent)
        except LaunchError:
            if agent.capabilities.close:
                self._relay.ask("agent", "session/close", {"sessionId": session.id}, lambda line: None)
            raise
        self._relay.finish(request, line)
        self._release(session)
        return True

    def _began(self, session: Session, line: bytes) -> None:
        """Note the answer that opens a session; what the agent says of it next waits for our answer."""
        message = jsonrpc.decode(line)
        result = acp.mapping(acp.decoded(message.result)) if message and message.result is not UNSET else {}
        session.id = session.id or acp.text(result.get("sessionId"))
        self._by_id[session.id] = session
        session.is_open = True
        session.held = []
        self._holding += 1

    def _release(self, session: Session) -> None:
        """Let the updates go that were held back."""
        if session.held is not None:
            for line in session.held:
                self._relay.forward("agent", UPDATE, line)
            session.held = None
            self._holding -= 1

    # An agent that is started again.

    def agent_lost(self) -> None:
        """Note that the agent has ended."""
        for session in self._lives.values():
            if session.is_open:
                session.agent_lost()

    async def reopen(self, limit: float) -> None:
        """Have an agent that was started again open the sessions, with their settings; `limit` seconds for each step.

        A session that it cannot open is lost: the editor is told so when it uses it.
        """
        agent = self._agent
        assert agent is not None, "it has answered"
        able = agent.capabilities
        method = "session/resume" if able.resume else "session/load" if able.load else ""
        for session in [each for each in self._lives.values() if each.is_open and not each.left.is_set()]:
            session.lost = ""
            session.is_muted = True
            self._holding += 1
            try:
                if not method:
                    raise SessionError("it can neither load nor resume a session")
                await self._reopened(session, method, limit)
            except (AgentRefused, AuthRequired, SessionError) as error:
                why = error.reply[1] if error.reply else error.message
                session.lost = f"the agent was started again and does not have this session: {why}; open a new one"
            finally:
                session.is_muted = False
                self._holding -= 1

    async def _reopened(self, session: Session, method: str, limit: float) -> None:
        caller = Caller(self._relay, self._needs.observer)
        what = f"answer to {method} from the agent that was started again"
        params = {**session.params, "sessionId": session.id}
        await caller.call(Call(0, method, jsonrpc.request(0, method, params)), what=what, limit=limit)
        if method == "session/load":  # some send the history after the answer; it comes before that of another request
            with suppress(AgentRefused, AuthRequired, WaitExpired):
                replayed = f"{OURS}replayed"
                await caller.call(Call(0, replayed, jsonrpc.request(0, replayed, {})), what=what, limit=REFUSAL)
        for setting, given in session.settings.values():
            try:
                await caller.call(Call(0, setting, jsonrpc.request(0, setting, given)), what=what, limit=limit)
            except AgentRefused as error:
                self._needs.observer.note(f"the agent that was started again: {error.message}")

    def _with_directories(self, line: bytes, params: Mapping[str, Any], plan: LaunchPlan, agent: Negotiated) -> bytes:
        """Add the profile's directories to those of the editor, if the agent takes any."""
        ours = list(map(str, plan.additional_directories))
        if ours and not agent.capabilities.additional_directories:
            title = agent.title or plan.agent.name
            self._needs.observer.note(
                f"{title} does not support additional directories; it is not told of {', '.join(ours)}"
            )
            return line
        theirs = acp.sequence(params.get("additionalDirectories"))
        new = [directory for directory in ours if directory not in theirs]
        return _with_param(line, "additionalDirectories", [*theirs, *new]) if new else line

    async def _configured(self, session: Session, made: SessionPlan, line: bytes, agent: Negotiated) -> bytes:
        """Set the profile's mode and options; return the agent's answer as it would be now."""
        if not made.wishes:
            return line
        message = jsonrpc.decode(line)
        assert message is not None and message.result is not UNSET, "it is not an error"
        state = SessionState()
        state.opened(acp.decoded(message.result))
        caller = Caller(self._relay, self._needs.observer)
        caller.conversation.negotiated(agent.raw)
        await configure(caller, state, session.id, made.wishes, limit=made.plan.timeouts.session)
        for method, params, result in caller.made:
            session.note_setting(method, params)
            if method == "session/set_mode":
                line = edits.replaced(line, ("result", "modes", "currentModeId"), written(params["modeId"]))
            elif method == "session/set_model":
                line = edits.replaced(line, ("result", "models", "currentModelId"), written(params["modelId"]))
            elif isinstance(listed := acp.mapping(result).get("configOptions"), list):
                line = _shown(edits.replaced(line, ("result", "configOptions"), written(listed)), listed)
        return line


def _shown(line: bytes, options: list[Any]) -> bytes:
    """Show the values of options also where an agent tells mode and model in the older way, beside them."""
    for option in map(acp.mapping, options):
        older = {"mode": ("modes", "currentModeId"), "model": ("models", "currentModelId")}.get(
            acp.text(option.get("category"))
        )
        if older is not None and isinstance(option.get("currentValue"), str):
            line = edits.replaced(line, ("result", *older), written(option["currentValue"]))
    return line


def _with_param(line: bytes, key: str, value: object) -> bytes:
    """Set a member of `params`."""
    if edits.at(line, ("params", key)) is not None:
        return edits.replaced(line, ("params", key), written(value))
    return edits.with_params(line, written({key: value})[1:-1])


def _set(answer: "asyncio.Future[bytes]", line: bytes) -> None:
    if not answer.done():
        answer.set_result(line)


def _refused(method: str, line: bytes) -> LaunchError:
    """Return the error of a request that the agent refuses."""
    message = jsonrpc.decode(line)
    said = jsonrpc.fault(message.error) if message and message.error is not UNSET else jsonrpc.Fault()
    if said.code == jsonrpc.AUTH_REQUIRED:
        error: LaunchError = AuthRequired(f"the agent wants a login first: {said.message}")
    else:
        text = f"the agent answered {method} with an error: {said.message} ({said.code})"
        error = AgentRefused(text, code=said.code)
    error.reply = said.code, said.message, said.data
    return error
