"""
What we answer when the agent asks, and what we remember of what it tells.

Every question gets exactly one answer: by policy at once, by a person when there is one to ask, `cancelled` when
the turn is. Several may be open at the same time (C-11, C-60, C-61).
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from acp_launch.errors import LaunchError
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.event import WORDS, Opened, PermissionAsked, ServiceAsked, Updated, Withdrawn
from acp_launch.session.connection import AGENT, Connection
from acp_launch.session.observer import Permission, SessionReady
from acp_launch.session.options.state import SessionState
from acp_launch.session.permission.gate import Decision, Gate
from acp_launch.session.permission.subject import Subject
from acp_launch.session.service import Services
from acp_launch.session.serving import Serving
from acp_launch.session.toolcall import KINDS, ToolCalls, call_id, title

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
        self.history_complete = False  # whether what was replayed so far ends with the agent's words
        self.history_late = False  # whether some of it came after the answer to `session/load`
        self.denied = ""  # the last tool call that was denied because no one could be asked, unless work went on
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
        self._session = replace(self.session, replayed=self.replayed)
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
