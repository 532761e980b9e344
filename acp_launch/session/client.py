"""
Our side of a session: answers the agent's requests, tracks its updates, and runs prompt turns.

`AcpSession` handles everything the agent sends, `Turn` is one prompt turn. Every question gets
exactly one answer: by policy at once, by the user if one can be asked, `cancelled` if the turn is cancelled. Several
may be open at the same time (C-11, C-60, C-61).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw
from msgspec.structs import replace

from acp_launch.errors import AgentRefused, AuthRequired, LaunchError, WaitExpired
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.conversation import (
    ELICITATION,
    WORDS,
    Completed,
    Opened,
    PermissionAsked,
    ServiceAsked,
    Updated,
    Withdrawn,
)
from acp_launch.protocol.jsonrpc import BROKEN
from acp_launch.session.connection import AGENT, AgentMessage, Connection
from acp_launch.session.events import (
    CancelledEvent,
    Decision,
    Observer,
    PermissionEvent,
    Refusal,
    ResultEvent,
    Said,
    Services,
    SessionEvent,
    TurnEnd,
    UnaskedEvent,
)
from acp_launch.session.state import KINDS, SessionState, ToolCalls, title
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.session.permission.gate import Gate

# Requests of the agent are handled outside of the pump, so that a slow one does not hold up others (C-11).
#
# Each is answered exactly once: with its result, its refusal, or -32800 if the agent withdraws it (C-65). Those that
# ask the user are answered `cancelled` when their turn is cancelled; a file or a command of a cancelled turn continues,
# because only the agent knows what depends on it.


TOLD = frozenset({"agent_message_chunk", "tool_call"})  # updates that are kept of a turn
MAX_TOLD_BYTES = 256 * 1024  # of them in a turn
HISTORY = WORDS | KINDS  # the updates that make a history; others may come at any time


class TurnWords:
    """The agent's words and tool calls in a turn, as far as they are kept."""

    def __init__(self) -> None:
        self._updates: list[Updated] = []
        self._room = MAX_TOLD_BYTES

    def add(self, update: Updated) -> None:
        if (size := len(update.update)) <= self._room:
            self._updates.append(update)
            self._room -= size

    def said(self) -> Said:
        answer, tools = "", list[str]()
        for update in self._updates:
            body = acp.mapping(acp.decoded(update.update))
            if update.kind == "tool_call":
                tools.append(title(body))
                answer += "" if answer.endswith("\n") or not answer else "\n\n"
            else:
                answer += acp.text(acp.mapping(body.get("content")).get("text"))
        return Said(answer, tuple(tools))


class AcpSession:
    """One session's side of a connection. A connection has one at a time, the latest, unless `listen` takes several."""

    def __init__(
        self,
        connection: Connection,
        *,
        name: str,
        title: str = "",
        gate: "Gate | None",
        services: Services | None = None,
        completed: Callable[[str], None] = lambda elicitation_id: None,
        changed: Callable[[], None] = lambda: None,
        observer: Observer | None = None,
        listen: "Callable[[AcpSession], None] | None" = None,
        asking: Callable[[PermissionAsked, dict[str, Any]], None] = lambda question, call: None,
    ) -> None:
        """Serve a session. `name` is our name for it, `title` the one that the store has.

        `gate` is None if the agent is a host, which judges tool calls itself.
        `completed` is called at the end of an elicitation, `changed` when `state` has changed; a caller that sets an
        option calls it as `settled`, because no update comes. `observer` is the connection's, unless it is given;
        `listen` takes this client where the connection has several. `asking` hears of a question, with its merged call,
        before the user is asked.
        """
        self.name = name
        self._stored_title = title
        self.calls = ToolCalls()
        self.state = SessionState()
        self.replayed = 0
        self._replayed_turns = 0
        self._last_replayed = ""  # the kind of the last update
        self.history_late = False  # whether some of it came after the answer to `session/load`
        self.denied = ""  # the last tool call that was denied because no user could be asked, unless work went on
        self._words: Updated | None = None  # the last of the agent's answer
        self._session: SessionEvent | None = None
        self.session_id = ""  # the agent's id of the session; empty before it is known
        self.number = -1  # of the request that opens it
        self._connection = connection
        self.observer = observer or connection.observer
        self._listen = listen or (lambda client: connection.listen(client.on_event))
        self._gate = gate
        self._services = services or {}
        self.completed, self.settled, self._asking = completed, changed, asking
        self._told = TurnWords()
        self._answered = 0.0  # loop time of the user's last answer
        self._open: dict[bytes, tuple[PermissionAsked | ServiceAsked, asyncio.Task[None]]] = {}
        self._checks = gate.checks() if gate is not None else None
        self.attend()

    def attend(self) -> None:
        """Take the agent's messages for this session from now on, also after another one was open."""
        if self._gate is not None:
            self._gate.enter(self.name)
        self._listen(self)

    @property
    def judges(self) -> bool:
        """Whether tool calls are judged here, and not by the agent, which is a host."""
        return self._gate is not None

    @property
    def is_asking(self) -> bool:
        """Whether a question of the agent waits for the user."""
        asked = (question for question, _ in self._open.values())
        return any(isinstance(each, PermissionAsked) or each.method == ELICITATION for each in asked)

    @property
    def title(self) -> str:
        """Return the session's title from the agent (C-57)."""
        return self.state.title or ""

    def alive(self) -> float:
        """Return the loop time of the last sign of life. While the user is asked, or we serve, that is now."""
        if self._open:
            return asyncio.get_running_loop().time()
        return max(self._connection.heard(), self._answered)

    def opening(self, session_id: str, number: int = -1) -> None:
        """Name the session that is about to be loaded or resumed: updates of others are ignored. `number` is that of
        the request.
        """
        self.session_id, self.number = session_id, number

    def on_event(self, message: AgentMessage) -> None:
        if isinstance(message, Updated):  # first, as a turn has very many
            self.updated(message)
            return
        match message:
            case Opened():
                self.opened(message)
            case PermissionAsked():
                self.asked(message)
            case ServiceAsked():
                self.service(message)
            case Completed(elicitation_id):
                self.completed(elicitation_id)
            case Withdrawn():
                self.withdrawn(message)

    def updated(self, update: Updated) -> None:
        if update.session_id != self.session_id:
            return  # of a session that was left
        if update.replay:
            self.replayed += 1
            self._replayed_turns += "user_message_chunk" == update.kind != self._last_replayed
            self._last_replayed = update.kind
            self.history_late = self.history_late or (self._session is not None and update.kind in HISTORY)
        elif update.kind in TOLD:
            self._told.add(update)
        if update.kind not in WORDS:
            self._take(update)
        elif update.kind == "agent_message_chunk":
            self._words = update
        self.observer.update(update)

    def opened(self, opened: Opened) -> None:
        """Note the open session, right before its first update. A loaded one is ready when its history is complete."""
        self.session_id = opened.session_id
        if opened.how in ("new", "fork") and self._gate is not None:
            self._gate.begin()
        self._session = SessionEvent(
            session_id=opened.session_id,
            name=self.name,
            how=opened.how,
            result=opened.result,
            title=self._stored_title,
        )
        self.state.opened(acp.mapping(acp.decoded(opened.result)))
        self.settled()
        if opened.how != "load":
            self.observer.show(self._session)

    def loaded(self) -> SessionEvent:
        """Note that the history is complete."""
        self._session = replace(self.session, replayed=self.replayed, turns=self._replayed_turns)
        self.observer.show(self._session)
        return self._session

    @property
    def session(self) -> SessionEvent:
        """Return the session, once it is open."""
        assert self._session is not None, "open_session comes first"
        return self._session

    def asked(self, question: PermissionAsked) -> None:
        # A copy: what the agent says of the call while the user decides is not part of the decision. Members are
        # replaced whole, so one level is enough; a deeper copy would fail on deep nesting.
        announced = self.calls.announced(question.tool_call)
        call = dict(self.calls.merge(question.tool_call))
        if self._checks is not None:
            self._checks.allow_failure([call])
        decision = self._decide(question, call)
        if decision is None:
            self._asking(question, call)
            task = self._connection.spawn(self._question(question, call, announced))
            self._open[bytes(question.id)] = (question, task)
            return
        if decision.is_unasked:
            self.denied = title(call)
        self._answer(question, call, decision)

    def _decide(self, question: PermissionAsked, call: dict[str, Any]) -> "Decision | None":
        """Return the decision about a tool call; None if the user is to be asked."""
        if question.session_id != self.session_id and self._session is not None:
            return Decision(False, None, "its session was left")
        if self._gate is None:
            return Decision(False, None, "the agent decides")
        return self._gate.decide_by_policy(call, question.options)

    def service(self, question: ServiceAsked) -> None:
        if question.session_id in ("", self.session_id):
            self._open[bytes(question.id)] = (question, self._connection.spawn(self._serve(question)))
            return
        conversation = self._connection.conversation
        self._connection.send(conversation.refuse(question.id, jsonrpc.INVALID_PARAMS, "this session was left"))

    def withdrawn(self, withdrawn: Withdrawn) -> None:
        question, task = self._open.pop(bytes(withdrawn.id), (None, None))
        if task is not None:
            task.cancel()
        session_id = question.session_id if question is not None else ""
        self._connection.send(self._connection.conversation.withdraw(session_id, withdrawn.id))

    def said(self) -> Said:
        """Return what was said since the last prompt, as far as it is kept."""
        return self._told.said()

    def new_turn(self) -> None:
        """Prepare for the next prompt."""
        self.denied, self.state.failure, self._words = "", None, None
        self._told = TurnWords()
        if self._gate is not None:
            self._gate.new_turn()

    def failure(self) -> AgentRefused | None:
        """Return the error with which the agent says that this turn has failed, although it ends it well (codex); its
        text is the last that it said."""
        if self.state.failure is None:
            return None
        said = acp.decoded(self._words.update) if self._words else None
        text = acp.text(acp.mapping(acp.mapping(said).get("content")).get("text")).strip() or "it does not say which"
        error = AgentRefused(f"the agent ended its turn with an error: {text}", code=jsonrpc.INTERNAL_ERROR)
        error.reply = jsonrpc.INTERNAL_ERROR, text, self.state.failure
        return error

    def note_cancel(self) -> list[dict[str, Any]]:
        """Note that the turn is being cancelled, and return the tool calls that were unfinished (C-63)."""
        unfinished = self.calls.cancel()
        if self._checks is not None:
            self._checks.allow_failure(unfinished)
        return unfinished

    def cancel(self, session_id: str, grace: float) -> None:
        """Send `session/cancel`. Open questions are answered `cancelled`, unfinished tool calls marked so (C-61, C-63).

        `grace` is how many seconds the turn has to end.
        """
        conversation = self._connection.conversation
        for line in conversation.cancel(session_id):
            self._connection.send(line)
        for id, (question, task) in list(self._open.items()):
            if isinstance(question, ServiceAsked):
                if question.method != ELICITATION or question.session_id not in ("", session_id):
                    continue
                self._connection.send(conversation.serve(question.id, {"action": "cancel"}))
            del self._open[id]
            task.cancel()
        self.observer.show(CancelledEvent(tool_calls=self.note_cancel(), limit=grace))

    async def _serve(self, question: ServiceAsked) -> None:
        serve = self._services.get(question.method)
        conversation = self._connection.conversation
        try:
            if serve is None:
                raise Refusal(jsonrpc.METHOD_NOT_FOUND, "method not found")
            result = await serve(question.params)
        except Refusal as refusal:
            line = conversation.refuse(question.id, refusal.code, refusal.message, refusal.data)
        except LaunchError:
            raise
        except Exception as error:  # our bug costs the request, not the session
            self._connection.mishaps.add(AGENT, error)
            line = conversation.refuse(question.id, jsonrpc.INTERNAL_ERROR, BROKEN)
        else:
            line = conversation.serve(question.id, result)
        self._open.pop(bytes(question.id), None)
        self._connection.reply(line)

    async def _question(self, question: PermissionAsked, call: dict[str, Any], announced: str) -> None:
        assert self._gate is not None, "it has left the decision to the user"
        try:
            decision = await self._gate.ask_user(call, question.options, announced=announced)
        except LaunchError:
            raise
        except Exception as error:  # our bug costs the question, not the session
            self._connection.mishaps.add(AGENT, error)
            decision = Decision(False, None, "it could not be asked")
        if decision.is_unasked:
            self.denied = title(call)
        self._open.pop(bytes(question.id), None)
        self._answered = asyncio.get_running_loop().time()
        self._answer(question, call, decision)

    def _answer(self, question: PermissionAsked, call: dict[str, Any], decision: "Decision") -> None:
        permit = self._connection.conversation.permit
        self._connection.send(permit(question.session_id, question.id, decision.option_id))
        if self._checks is not None:
            self._checks.record_answer(call, allowed=decision.allowed)
        self.observer.show(
            PermissionEvent(
                tool_call=call,
                options=question.options,
                allowed=decision.allowed,
                option_id=decision.option_id,
                by=decision.by,
                title=title(call),
            )
        )

    def _take(self, update: Updated) -> None:
        """Take an update that is more than words."""
        body = acp.mapping(acp.decoded(update.update))
        if update.kind in KINDS:
            call = self.calls.merge(body)
            if call.get("status") == "completed":
                self.denied = ""
            if not update.replay and self._checks is not None and (by := self._checks.passed_over(call)):
                self.observer.show(UnaskedEvent(tool_call=call, by=by))
        else:
            self.state.apply(update.kind, body)
            self.settled()


# One prompt turn: prompt → updates… → stop reason (ACP v1 "prompt turn").


KNOB = "silence"
CANCELLED = Raw(b'{"stopReason":"cancelled"}')
# Seconds for an agent to end a cancelled turn; real ones need less than 0.2. Then the agent counts as hung.
GRACE_SECONDS = stretch(3.0)
LATE_GRACE = stretch(1.0)  # when the run has used up its time, and no user waits for the end
STUCK_GRACE = stretch(0.5)  # when our output is not read, so that the end cannot be shown
MOST_HELD = 30.0  # seconds by which the grace grows in all, while a slow terminal keeps us from reading the agent
POLL_SECONDS = 0.1  # whether this process was itself held up, while the grace runs


class Turn:
    """A turn that can be cancelled while it runs."""

    def __init__(
        self,
        connection: Connection,
        client: AcpSession,
        session_id: str,
        *,
        silence: float,
        over: Callable[[], None] = lambda: None,
        broken: Callable[[Said], None] = lambda said: None,
    ) -> None:
        """Prepare a turn. `silence` is the longest silence in seconds; while the user is asked, the agent is not
        silent.

        `over` is called before the observer is told of the end, which is the last call about a turn; `broken` with
        what was said if the turn has no end.
        """
        self._over, self._broken = over, broken
        self._connection = connection
        self._client = client
        self._session_id = session_id
        self._silence = silence
        self._patience = asyncio.timeout(None)
        self._grace: float | None = None  # set when it is cancelled
        self._cancelled_at, self._may_grow = 0.0, 0.0
        self._next_look: asyncio.TimerHandle | None = None
        self.is_running = False  # the prompt was sent and is not answered

    def cancel(self, grace: float = GRACE_SECONDS) -> None:
        """Ask the agent to end the turn. It is over when the agent answers, or after the grace (C-62).

        Does nothing if the turn is over or already cancelled.
        """
        if self.is_running and self._grace is None:
            self._grace = min(grace, STUCK_GRACE) if self._connection.held_back else grace
            self._client.cancel(self._session_id, self._grace)
            self._cancelled_at = asyncio.get_running_loop().time()
            self._may_grow = MOST_HELD if self._grace == GRACE_SECONDS else 0.0  # the shorter ones are promised limits
            self._patience.reschedule(self._cancelled_at + self._grace)
            self._look(0.0)

    def _look(self, late: float) -> None:
        """Look again soon. A look that comes `late` was held up, and so was the reading of the agent: a terminal that
        takes nothing blocks the whole process in a write.
        """
        if late > POLL_SECONDS:
            self._extend(late)
        loop = asyncio.get_running_loop()
        due = loop.time() + POLL_SECONDS
        self._next_look = loop.call_at(due, lambda: self._look(loop.time() - due))

    def _extend(self, seconds: float) -> None:
        """Do not count the time in which the agent was not read: its answer may have been waiting."""
        when = self._patience.when()
        if self._grace is not None and when is not None and not self._patience.expired():
            since = asyncio.get_running_loop().time() - self._cancelled_at
            more = min(seconds, since, self._may_grow)
            self._may_grow -= more
            self._patience.reschedule(when + more)

    async def run(self, blocks: Sequence[object] | None) -> TurnEnd:
        """Send the prompt and wait for the turn's end; without a prompt, wait for the end of the turn that runs.

        Raises:
            AgentError, AuthRequired: as `Connection.call`.
            WaitExpired: the agent was silent too long, or continued after being cancelled.
        """
        self._client.new_turn()
        try:
            return self._end(await self._answer(blocks))
        except AuthRequired:
            raise  # it is sent again after the login
        except (LaunchError, asyncio.CancelledError):
            self._broken(self._client.said())
            raise

    async def _answer(self, blocks: Sequence[object] | None) -> Raw:
        conversation, session_id = self._connection.conversation, self._session_id
        call = conversation.join(session_id) if blocks is None else conversation.prompt(session_id, blocks)
        try:
            async with self._patience:
                self.is_running = True
                self._connection.drain_listeners.add(self._extend)
                return await self._connection.call(
                    call, what="activity from the agent", limit=self._silence, knob=KNOB, since=self._alive
                )
        except TimeoutError:
            if self._connection.held_back:
                return CANCELLED
            hung = WaitExpired(f"the agent did not stop within {self._grace:g} s of the cancellation, so it was ended")
            raise self._connection.blamed(hung) from None
        except AgentRefused:
            if self._grace is None:
                raise
            return CANCELLED  # agents must not turn a cancellation into an error, and some do
        finally:
            self.is_running = False
            self._connection.drain_listeners.discard(self._extend)
            if self._next_look is not None:
                self._next_look.cancel()

    def _alive(self) -> float:
        """Return the last sign of life. A cancelled turn has its own deadline, so its silence is not reported."""
        return self._client.alive() if self._grace is None else asyncio.get_running_loop().time()

    def _end(self, result: Raw) -> TurnEnd:
        answer = acp.mapping(acp.decoded(result))
        reason, used = acp.text(answer.get("stopReason")) or "unknown", answer.get("usage")  # which many agents add
        if reason == "end_turn" and (failure := self._client.failure()) is not None:
            raise failure
        usage = used if isinstance(used, dict) else None
        denied = self._client.denied
        self._over()
        self._client.observer.show(ResultEvent(stop_reason=reason, usage=usage, denied=denied or None, result=result))
        return TurnEnd(reason, usage, denied, self._client.title, self._client.said())
