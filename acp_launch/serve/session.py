"""
A session of an editor while it is open: the questions about its tool calls, its name in the store, and what opened it.

The profile's rules answer a question first; the others go to the editor, as they are. What the editor does for the
agent, files and commands, is refused if a rule denies it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from acp_launch.errors import LaunchError
from acp_launch.plan.model import LaunchPlan
from acp_launch.protocol import acp, edits, jsonrpc
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import How
from acp_launch.protocol.jsonrpc import INTERNAL_ERROR, NULL
from acp_launch.secret.value import Secret
from acp_launch.serve.relay import Relay, Request
from acp_launch.session.observer import Observer, Permission, SessionReady
from acp_launch.session.opening import Setting
from acp_launch.session.permission.checks import Checks
from acp_launch.session.permission.gate import Decision, Gate
from acp_launch.session.person import Answer, ToolQuestion
from acp_launch.session.state import KINDS, ToolCalls, title
from acp_launch.session.store import Record, Registry, SessionKeeper, fresh_name

if TYPE_CHECKING:
    from acp_launch.launch.servers import LaunchServers
    from acp_launch.mcp.http.wire import Credentials

EDITOR = "the editor"  # what the record calls it
INFO = "session_info_update"
TITLE = 80  # characters of a prompt that name a session
CANCELLED = 30.0  # seconds for an agent to end a turn that the editor has cancelled
Settings = dict[tuple[str, str], tuple[str, object]]  # method and params, by method and option


class SessionPlan(Struct, frozen=True, kw_only=True):
    """The plan of a session; each of its servers has a directory. `wishes` are its mode and options.

    `hold` locks a session by its name. A session in a host has no gate: the host decides, and keeps it.
    """

    plan: LaunchPlan
    secrets: Mapping[str, Secret]
    credentials: "Mapping[str, Credentials]"
    wishes: Sequence[Setting]
    gate: Gate | None
    registry: Registry
    hold: Callable[[str], AbstractContextManager[None]]


class Session:
    """A session, from the editor's request to its end."""

    def __init__(
        self,
        relay: Relay,
        observer: Observer,
        beside: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
        method: str,
        id: str,
    ) -> None:
        """`beside` runs a task that ends with the connection. `id` is empty for a new session."""
        self.id = id  # the agent's
        self.how: How = "load" if method == "session/load" else "resume" if method == "session/resume" else "new"
        self.name = ""  # in the store
        self.is_open = False  # the agent's answer has come
        self.is_hosted = False  # a host decides, and keeps it
        self.servers: LaunchServers | None = None
        self.held: list[bytes] | None = None  # updates that wait until the editor knows the session
        self.is_muted = False  # it is opened again, and the editor knows its history
        self.lost = ""  # why the agent that was started again does not have it
        self.left = asyncio.Event()
        self.gone = asyncio.Event()
        self.params: dict[str, Any] = {}  # of the request that the agent got
        self.settings: Settings = {}  # what was set since
        self._relay, self._observer, self._beside = relay, observer, beside
        self._calls = ToolCalls()
        self._terminals: set[str] = set()  # that the agent has at the editor
        self._turn: Request | None = None
        self._waiting: dict[int, asyncio.Future[Answer]] = {}  # by the identity of a call

    def begin(self, made: SessionPlan, agent: Negotiated) -> AbstractContextManager[None]:
        """Take the plan, and the name that the store has for this session, or a new one. Return its lock."""
        plan, self._agent = made.plan, agent
        known = made.registry.list(str(plan.project), plan.profile) if self.id else ()
        record: Record | None = next((each for each in known if each.session_id == self.id), None)
        self.name = record.name if record else fresh_name()
        self._keeper = SessionKeeper(made.registry, plan, record, "")
        self._title, self._has_title, self._is_kept = "", bool(record and record.title), False
        self._said = ""
        self.is_hosted = made.gate is None
        if made.gate is not None:
            self._gate, self._checks = made.gate, Checks(made.gate)
            self._gate.ask = self._by_editor
            self._gate.enter(self.name)
            if self.how == "new":
                self._gate.begin()
        return made.hold(self.name)

    # Tool calls.

    def updated(self, kind: str, update: Raw) -> None:
        """Take an update about a tool call, or the session's title."""
        if self.is_hosted:
            return
        body = acp.mapping(acp.decoded(update))
        if kind == INFO:
            self._title = acp.text(body.get("title")) or self._title
        elif kind in KINDS:
            call = self._calls.merge(body)
            if self.is_open and (by := self._checks.passed_over(call)):
                self._observer.unasked(call, by)

    def permission(self, request: Request) -> None:
        """Answer a question by the rules, or pass it on to the editor."""
        params = request.params
        options = acp.sequence(params.get("options"))
        call = dict(self._calls.merge(acp.mapping(params.get("toolCall"))))
        self._checks.excuse([call])
        decision = self._gate.decided(call, options)
        if decision is None:
            self._ask(request, call, options)
            return
        id = decision.option_id
        outcome = {"outcome": "cancelled"} if id is None else {"outcome": "selected", "optionId": id}
        self._relay.answer(request, {"outcome": outcome})
        self._decided(call, options, decision)

    def served(self, request: Request) -> None:
        """Pass on what the editor is to do for the agent, unless a rule denies it."""
        if why := self._gate.forbids(_act(request.method, request.params)):
            self._relay.refuse(request, INTERNAL_ERROR, why)
            return
        if request.method == "terminal/create":
            request.answered = partial(self._created, request)
        self._relay.pass_on(request)

    def released(self, request: Request) -> None:
        """Pass the release of a terminal on."""
        self._terminals.discard(acp.text(request.params.get("terminalId")))
        self._relay.pass_on(request)

    def cancelled(self) -> None:
        """Note that the editor cancels the turn."""
        if self.is_hosted:
            return
        self._checks.excuse(self._calls.cancel())
        if self._turn is not None:
            self._turn.limit = CANCELLED

    def set(self, request: Request) -> None:
        """Pass a setting on, and remember it for an agent that is started again."""
        method, params = request.method, request.params

        def done(line: bytes) -> None:
            if edits.at(line, ("error",)) is None:
                self.note_setting(method, params)
            self._relay.finish(request, line)

        request.answered = done
        self._relay.pass_on(request)

    def note_setting(self, method: str, params: Mapping[str, Any]) -> None:
        key = method, acp.text(params.get("configId"))
        self.settings.pop(key, None)
        self.settings[key] = method, params

    def agent_lost(self) -> None:
        """Release at the editor what the agent had there when it ended."""
        for terminal in self._terminals:
            params = {"sessionId": self.id, "terminalId": terminal}
            self._relay.ask("editor", "terminal/release", params, lambda line: None)
        self._terminals.clear()
        self.cancelled()

    def replayed(self, line: bytes) -> bytes:
        """Edit an update of a history: it names terminals of before, which the editor does not have."""
        place = edits.at(line, ("params", "update", "content"))
        if place is None or edits.at(line, ("params", "update", "_meta", "terminal_info")) is not None:
            return line
        items = acp.decoded(line[place[0] : place[1]])
        if not isinstance(items, list):
            return line
        from acp_launch.protocol import splice

        spans = zip(splice.elements(line, place[0]), map(acp.mapping, items), strict=True)
        gone = [span for span, item in spans if item.get("type") == "terminal" and self._is_gone(item)]
        return splice.without(line, gone)

    def _is_gone(self, item: Mapping[str, Any]) -> bool:
        return item.get("terminalId") not in self._terminals

    def _created(self, request: Request, line: bytes) -> None:
        if terminal := edits.at(line, ("result", "terminalId")):
            self._terminals.add(acp.text(acp.decoded(line[terminal[0] : terminal[1]])))
        self._relay.finish(request, line)

    def _ask(self, request: Request, call: dict[str, Any], options: list[Any]) -> None:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[id(call)] = answer

        def came(line: bytes) -> None:
            self._relay.finish(request, line)
            if not answer.done():
                answer.set_result(_answer(line, options))

        task = self._beside(self._recorded(call, options))
        request.answered, request.withdrawn = came, lambda: (task.cancel(), None)[1]
        self._relay.pass_on(request)

    async def _recorded(self, call: dict[str, Any], options: list[Any]) -> None:
        try:
            self._decided(call, options, await self._gate.asked(call, options))
        finally:
            self._waiting.pop(id(call), None)

    async def _by_editor(self, question: ToolQuestion) -> Answer:
        return await self._waiting[id(question.call)]

    def _decided(self, call: dict[str, Any], options: list[Any], decision: Decision) -> None:
        self._checks.settle(call, allowed=decision.allowed)
        allowed, option_id, by = decision.allowed, decision.option_id, decision.by
        self._observer.permission(Permission(title(call), call, options, allowed=allowed, option_id=option_id, by=by))

    # The store. A session is kept once it has had a prompt: editors open many that they never use.

    def prompted(self, request: Request) -> None:
        """Pass a prompt on; its end is kept."""
        self._gate.new_turn()
        self._turn = request
        if not self._has_title and not self._said:
            blocks = map(acp.mapping, acp.sequence(request.params.get("prompt")))
            self._said = " ".join(next((acp.text(block.get("text")) for block in blocks), "").split())[:TITLE]
        self._noting(self._keep)

        def ended(line: bytes) -> None:
            self._turn = None
            self._relay.finish(request, line)
            if edits.at(line, ("error",)) is None:
                self._noting(self._ended)

        request.answered = ended
        self._relay.pass_on(request)

    def _keep(self) -> None:
        if not self._is_kept:
            self._keeper.opened(SessionReady(self.id, self.name, self.how, 0, NULL), self._agent)
            self._is_kept = True

    def _ended(self) -> None:
        self._keeper.ended(self._title or ("" if self._has_title else self._said))
        self._has_title = True

    def _noting(self, work: Callable[[], None]) -> None:
        """Do something with the store; a fault of it is not one of the session."""
        try:
            work()
        except LaunchError as error:
            self._observer.note(f"the session is not kept: {error.message}")


def _answer(line: bytes, options: Sequence[object]) -> Answer:
    """Read the editor's answer to a question; an error, and one that is malformed, allow nothing."""
    message = jsonrpc.decode(line)
    return chosen(message.result if message is not None and isinstance(message.result, Raw) else NULL, options)


def chosen(result: Raw, options: Sequence[object]) -> Answer:
    """Return what the editor has chosen. What it allows or denies for always holds for its session with us, too."""
    id = acp.text(acp.mapping(acp.mapping(acp.decoded(result)).get("outcome")).get("optionId")) or None
    kind = next((option.get("kind") for option in map(acp.mapping, options) if option.get("optionId") == id), "")
    return Answer(id, holds="session" if acp.text(kind).endswith("_always") else "once", by=EDITOR)


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
