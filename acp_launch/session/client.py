"""
What we answer when the agent asks, and what we remember of what it tells.

Every question gets exactly one answer: by policy at once, by a person when there is one to ask, `cancelled` when
the turn is. Several may be open at the same time (C-11, C-60, C-61).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from acp_launch.errors import AgentRefused, LaunchError, WaitExpired
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.conversation import (
    ELICITATION,
    WORDS,
    Opened,
    PermissionAsked,
    ServiceAsked,
    Updated,
    Withdrawn,
)
from acp_launch.protocol.jsonrpc import BROKEN
from acp_launch.session.connection import AGENT, Connection
from acp_launch.session.observer import Permission, SessionReady, TurnEnd
from acp_launch.session.permission.gate import Decision, Gate
from acp_launch.session.permission.subject import Subject
from acp_launch.session.service import Refusal, Services
from acp_launch.session.state import KINDS, SessionState, ToolCalls, call_id, title

# The requests of the agent that we serve, each beside the pump, so that a slow one holds up nothing (C-11).
#
# Every one is answered exactly once: with its result, its refusal, or -32800 when the agent takes it back (C-65). Those
# that ask a person are answered `cancel` when their turn is cancelled; a file or a command of a cancelled turn goes on,
# since it is the agent that knows what depends on it.


class Serving:
    def __init__(self, connection: Connection, services: Services) -> None:
        self._connection = connection
        self._services = services
        self._open: dict[bytes, tuple[ServiceAsked, asyncio.Task[None]]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether the agent waits for us."""
        return bool(self._open)

    def asked(self, question: ServiceAsked) -> None:
        self._open[bytes(question.id)] = (question, self._connection.beside(self._served(question)))

    def withdrawn(self, id: bytes) -> bool:
        """Stop serving a request. Whether it was one of ours."""
        _, task = self._open.pop(id, (None, None))
        if task is not None:
            task.cancel()
        return task is not None

    def cancel(self, session_id: str) -> None:
        """The turn of a session is being cancelled: no question about it stays open."""
        for id, (question, task) in list(self._open.items()):
            if question.method == ELICITATION and question.session_id in ("", session_id):
                del self._open[id]
                task.cancel()
                self._connection.send(self._connection.conversation.serve(question.id, {"action": "cancel"}))

    async def _served(self, question: ServiceAsked) -> None:
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
        except Exception as error:  # a bug of ours costs the request, not the session
            self._connection.mishaps.add(AGENT, error)
            line = conversation.refuse(question.id, jsonrpc.INTERNAL_ERROR, BROKEN)
        else:
            line = conversation.serve(question.id, result)
        self._open.pop(bytes(question.id), None)
        self._connection.reply(line)


DENIED = "it was denied"
HISTORY = WORDS | KINDS  # updates of which a history is made; others may tell at any time how things stand


class Settled(Struct, frozen=True):
    """A tool call that was asked about, or told of."""

    allowed: bool
    about: Subject


class Client:
    """One session's side of a connection; a connection has one at a time, the latest."""

    def __init__(
        self,
        connection: Connection,
        *,
        name: str,
        gate: Gate,
        services: Services | None = None,
        completed: Callable[[str], None] = lambda elicitation_id: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`name` is ours for the session. `completed` hears of an elicitation's end, `changed` that `state` has."""
        self.name = name
        self.calls = ToolCalls()
        self.state = SessionState()
        self.replayed = 0
        self._replayed_turns = 0
        self._last_replayed = ""  # the kind of the last update
        self.history_complete = False  # whether what was replayed so far ends with the agent's words
        self.history_late = False  # whether some of it came after the answer to `session/load`
        self.denied = ""  # the last tool call that was denied because no user could be asked, unless work went on
        self._session: SessionReady | None = None
        self._session_id = ""
        self._connection = connection
        self._observer = connection.observer
        self._gate = gate
        self._serving = Serving(connection, services or {})
        self._completed, self._changed = completed, changed
        self._answered = 0.0  # loop time of the last answer a person gave
        self._questions: dict[bytes, tuple[str, asyncio.Task[None]]] = {}
        self._settled: dict[str, Settled] = {}  # by tool call: what was asked about, and what was said
        self._excused: set[str] = set()  # calls that may fail: asked about, whatever became of it, or cancelled
        self.attend()

    def attend(self) -> None:
        """From now on what the agent says is for this session, also after it was left for another."""
        self._gate.enter(self.name)
        self._connection.listen(self)

    @property
    def title(self) -> str:
        """Of the session, as the agent names it (C-57)."""
        return self.state.title or ""

    def alive(self) -> float:
        """Loop time of the last sign of life; while a person is being asked, or we serve, nobody is silent."""
        if self._questions or self._serving.is_busy:
            return asyncio.get_running_loop().time()
        return max(self._connection.heard(), self._answered)

    def opening(self, session_id: str) -> None:
        """The session that is about to be loaded or resumed: what others tell is not ours."""
        self._session_id = session_id

    def updated(self, update: Updated) -> None:
        if update.session_id != self._session_id:
            return  # of a session that was left
        if update.replay:
            self.replayed += 1
            self._replayed_turns += "user_message_chunk" == update.kind != self._last_replayed
            self._last_replayed = update.kind
            self.history_late = self.history_late or (self._session is not None and update.kind in HISTORY)
            self.history_complete = update.kind == "agent_message_chunk" or (
                self.history_complete and update.kind not in ("user_message_chunk", "agent_thought_chunk")
            )
        if update.kind not in WORDS:
            self._take(update)
        self._observer.update(update)

    def opened(self, opened: Opened) -> None:
        """Right before the first update of a new session; a loaded one is ready when its history is in."""
        self._session_id = opened.session_id
        if opened.how == "new":
            self._gate.begin()
        self._session = SessionReady(opened.session_id, self.name, opened.how, 0, opened.result)
        self.state.opened(acp.mapping(acp.decoded(opened.result)))
        self._changed()
        if opened.how != "load":
            self._observer.ready(self._session)

    def loaded(self) -> SessionReady:
        """The history is in."""
        self._session = replace(self.session, replayed=self.replayed, turns=self._replayed_turns)
        self._observer.ready(self._session)
        return self._session

    @property
    def session(self) -> SessionReady:
        """The session, once it is open."""
        assert self._session is not None, "open_session comes first"
        return self._session

    def asked(self, question: PermissionAsked) -> None:
        # As it is now: what the agent says of it while somebody decides is not what was decided about. Members are
        # replaced whole, so the one level is enough; a deeper copy would fail on what is nested too deeply.
        announced = self.calls.announced(question.tool_call)
        call = dict(self.calls.merge(question.tool_call))
        self._excused.add(call_id(call))
        if question.session_id != self._session_id and self._session is not None:
            decision: Decision | None = Decision(False, None, "its session was left")
        else:
            decision = self._gate.decided(call, question.options)
        if decision is None:
            task = self._connection.beside(self._question(question, call, announced))
            self._questions[bytes(question.id)] = (question.session_id, task)
            return
        if decision.is_unasked:
            self.denied = title(call)
        self._answer(question, call, decision)

    def service(self, question: ServiceAsked) -> None:
        if question.session_id in ("", self._session_id):
            self._serving.asked(question)
            return
        conversation = self._connection.conversation
        self._connection.send(conversation.refuse(question.id, jsonrpc.INVALID_PARAMS, "this session was left"))

    def completed(self, elicitation_id: str) -> None:
        self._completed(elicitation_id)

    def withdrawn(self, withdrawn: Withdrawn) -> None:
        id = bytes(withdrawn.id)
        session_id, task = self._questions.pop(id, ("", None))
        if task is not None:
            task.cancel()
        self._serving.withdrawn(id)
        self._connection.send(self._connection.conversation.withdraw(session_id, withdrawn.id))

    def settled(self) -> None:
        """Options were set: `state` has changed without an update."""
        self._changed()

    def new_turn(self) -> None:
        """A prompt is about to be sent."""
        self.denied = ""
        self._gate.new_turn()

    def cancel(self, session_id: str, grace: float) -> None:
        """`session/cancel`; open questions are answered `cancelled`, unfinished tool calls marked so (C-61, C-63).

        `grace` is how many seconds the turn has to end.
        """
        for line in self._connection.conversation.cancel(session_id):
            self._connection.send(line)
        for _, task in self._questions.values():
            task.cancel()
        self._questions.clear()
        self._serving.cancel(session_id)
        unfinished = self.calls.cancel()
        self._excused.update(call_id(call) for call in unfinished)
        self._observer.cancelled(unfinished, grace)

    async def _question(self, question: PermissionAsked, call: dict[str, Any], announced: str) -> None:
        try:
            decision = await self._gate.asked(call, question.options, announced=announced)
        except LaunchError:
            raise
        except Exception as error:  # a bug of ours costs the question, not the session
            self._connection.mishaps.add(AGENT, error)
            decision = Decision(False, None, "it could not be asked")
        self._questions.pop(bytes(question.id), None)
        self._answered = asyncio.get_running_loop().time()
        self._answer(question, call, decision)

    def _answer(self, question: PermissionAsked, call: dict[str, Any], decision: Decision) -> None:
        permit = self._connection.conversation.permit
        self._connection.send(permit(question.session_id, question.id, decision.option_id))
        self._settled[call_id(call)] = Settled(decision.allowed, self._gate.about(call))
        self._observer.permission(
            Permission(
                title(call),
                call,
                question.options,
                allowed=decision.allowed,
                option_id=decision.option_id,
                by=decision.by,
            )
        )

    def _take(self, update: Updated) -> None:
        """What is more than words."""
        body = acp.mapping(acp.decoded(update.update))
        if update.kind in KINDS:
            self._tool(self.calls.merge(body), is_replay=update.replay)
        else:
            self.state.apply(update.kind, body)
            self._changed()

    def _tool(self, call: dict[str, Any], *, is_replay: bool) -> None:
        status = call.get("status")
        if status == "completed":
            self.denied = ""
        elif status != "failed":
            return
        if is_replay or not (by := self._passed_over(call)):
            return
        self._settled[call_id(call)] = Settled(True, self._gate.about(call))
        self._observer.unasked(call, by)

    def _passed_over(self, call: dict[str, Any]) -> str:
        """Why a call should not have run as it did; empty when all is well, or it was told before."""
        settled = self._settled.get(call_id(call))
        if settled is None:
            was_asked = call_id(call) in self._excused  # and withdrawn, or cancelled with its turn
            return "" if was_asked and call.get("status") == "failed" else self._gate.passed(call)
        if not settled.allowed:  # that it failed is what a denial should lead to
            return self._gate.passed(call, by=DENIED) if call.get("status") == "completed" else ""
        return "" if settled.about.includes(self._gate.about(call)) else self._gate.passed(call)


def usage(result: msgspec.Raw) -> dict[str, Any] | None:
    """The `usage` member many agents add to a turn's answer."""
    found = acp.mapping(acp.decoded(result)).get("usage")
    return found if isinstance(found, dict) else None


# One prompt turn: prompt → updates… → stop reason (ACP v1 "prompt turn").


KNOB = "silence"
CANCELLED = Raw(b'{"stopReason":"cancelled"}')
# Seconds for an agent to end a turn that is cancelled; real ones need less than 0.2. Then the agent counts as hung.
GRACE = 3.0
LATE_GRACE = 1.0  # when the run has taken as long as it may: nobody waits who could say that it is enough
STUCK_GRACE = 0.5  # when nobody takes our output, so that we cannot read how it ends


class Turn:
    """A turn that can be cancelled while it runs."""

    def __init__(
        self,
        connection: Connection,
        client: Client,
        session_id: str,
        *,
        silence: float,
        over: Callable[[], None] = lambda: None,
    ) -> None:
        """`silence` is the longest silence in seconds; while a person is being asked, nobody is silent.

        `over` is called before the observer is told of the end, which is the last thing it is told of a turn.
        """
        self._over = over
        self._connection = connection
        self._client = client
        self._session_id = session_id
        self._silence = silence
        self._patience = asyncio.timeout(None)
        self._grace: float | None = None  # once it is being cancelled
        self.is_running = False  # the prompt was sent and is not answered

    def cancel(self, grace: float = GRACE) -> None:
        """Ask the agent to end the turn; it is over when the agent answers, or after the grace (C-62).

        Nothing for a turn that is over, or is being cancelled.
        """
        if self.is_running and self._grace is None:
            self._grace = min(grace, STUCK_GRACE) if self._connection.held_back else grace
            self._client.cancel(self._session_id, self._grace)
            self._patience.reschedule(asyncio.get_running_loop().time() + self._grace)

    async def run(self, blocks: Sequence[object]) -> TurnEnd:
        """Send the prompt and wait for the turn's end.

        Raises:
            AgentError, AuthRequired: as `Connection.call`.
            WaitExpired: the agent was silent too long, or went on after being cancelled.
        """
        self._client.new_turn()
        call = self._connection.conversation.prompt(self._session_id, blocks)
        try:
            async with self._patience:
                self.is_running = True
                result = await self._connection.call(
                    call,
                    what="sign of life from the agent in its turn",
                    limit=self._silence,
                    knob=KNOB,
                    since=self._alive,
                )
        except TimeoutError:
            if self._connection.held_back:
                return self._end(CANCELLED)
            hung = WaitExpired(f"the agent went on for {self._grace:g} s after its turn was cancelled")
            raise self._connection.blamed(hung) from None
        except AgentRefused:
            if self._grace is None:
                raise
            result = CANCELLED  # agents must not turn a cancellation into an error, and some do
        finally:
            self.is_running = False
        return self._end(result)

    def _alive(self) -> float:
        """What is being cancelled has a deadline of its own, and no silence is mentioned any more."""
        return self._client.alive() if self._grace is None else asyncio.get_running_loop().time()

    def _end(self, result: Raw) -> TurnEnd:
        reason = acp.text(acp.mapping(acp.decoded(result)).get("stopReason")) or "unknown"
        turn = TurnEnd(reason, usage(result), self._client.denied, self._client.title, result)
        self._over()
        self._connection.observer.ended(turn)
        return turn
