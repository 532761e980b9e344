"""
What we answer when the agent asks, and what we remember of what it tells.

Every question gets exactly one answer: by policy at once, by a person when there is one to ask, `cancelled` when
the turn is. Several may be open at the same time (C-11, C-60, C-61).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Opened, PermissionAsked, Updated, Withdrawn
from acp_launch.session.connection import Connection
from acp_launch.session.observer import Permission, SessionReady
from acp_launch.session.permission import Policy, choose, judge
from acp_launch.session.toolcall import KINDS, ToolCalls, title

# Asks a person; gives the id of the option chosen, or None for "none of them".
Ask = Callable[[dict[str, Any], list[Any]], Awaitable[str | None]]


class Client:
    def __init__(self, connection: Connection, *, name: str, policy: Policy, ask: Ask | None) -> None:
        """`name` is ours for the session. `ask` is None when there is no one to ask: then `ask` means deny."""
        self.name = name
        self.calls = ToolCalls()
        self.replayed = 0
        self.history_complete = False  # whether what was replayed so far ends with the agent's words
        self.title = ""  # of the session, as the agent names it (C-57)
        self._session: SessionReady | None = None
        self.denied = ""  # the last tool call that was denied because no one could be asked, unless work went on
        self._connection = connection
        self._observer = connection.observer
        self._policy = policy
        self._ask = ask
        self._answered = 0.0  # loop time of the last answer a person gave
        self._questions: dict[bytes, tuple[str, asyncio.Task[None]]] = {}
        connection.listen(self)

    def alive(self) -> float:
        """Loop time of the last sign of life; while a person is being asked, nobody is silent."""
        if self._questions:
            return asyncio.get_running_loop().time()
        return max(self._connection.heard(), self._answered)

    def updated(self, update: Updated) -> None:
        if update.replay:
            self.replayed += 1
            self.history_complete = update.kind == "agent_message_chunk" or (
                self.history_complete and update.kind not in ("user_message_chunk", "agent_thought_chunk")
            )
        if update.kind in KINDS:
            self._tool(update)
        elif update.kind == "session_info_update":
            self._info(update)
        self._observer.update(update)

    def opened(self, opened: Opened) -> None:
        """Right before the first update of a new session; a loaded one is ready when its history is in."""
        self._session = SessionReady(opened.session_id, self.name, opened.how, 0, opened.result)
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
        call = self.calls.merge(question.tool_call)
        verdict = judge(self._policy, acp.text(call.get("kind")) or None)
        if verdict.answer == "ask" and self._ask is not None:
            task = self._connection.beside(self._question(question, call, self._ask))
            self._questions[bytes(question.id)] = (question.session_id, task)
            return
        allowed = verdict.answer == "allow"
        by = verdict.by
        if verdict.answer == "ask":
            self.denied = title(call)
            by = f"{verdict.by}, and no terminal to ask on"
        self._answer(question, call, choose(allowed, question.options), allowed=allowed, by=by)

    def withdrawn(self, withdrawn: Withdrawn) -> None:
        session_id, task = self._questions.pop(bytes(withdrawn.id), ("", None))
        if task is not None:
            task.cancel()
        self._connection.send(self._connection.conversation.withdraw(session_id, withdrawn.id))

    def cancel(self, session_id: str) -> None:
        """`session/cancel`; open questions are answered `cancelled`, unfinished tool calls marked so (C-61, C-63)."""
        for line in self._connection.conversation.cancel(session_id):
            self._connection.send(line)
        for _, task in self._questions.values():
            task.cancel()
        self._questions.clear()
        self._observer.cancelled(self.calls.cancel())

    async def _question(self, question: PermissionAsked, call: dict[str, Any], ask: Ask) -> None:
        chosen = await ask(call, question.options)
        self._questions.pop(bytes(question.id), None)
        self._answered = asyncio.get_running_loop().time()
        kinds = {option.get("optionId"): option.get("kind") for option in question.options if isinstance(option, dict)}
        allowed = str(kinds.get(chosen, "")).startswith("allow")
        self._answer(question, call, chosen, allowed=allowed, by="you")

    def _answer(
        self, question: PermissionAsked, call: dict[str, Any], option_id: str | None, *, allowed: bool, by: str
    ) -> None:
        self._connection.send(self._connection.conversation.permit(question.session_id, question.id, option_id))
        allowed = allowed and option_id is not None
        self._observer.permission(
            Permission(title(call), call, question.options, allowed=allowed, option_id=option_id, by=by)
        )

    def _tool(self, update: Updated) -> None:
        call = self.calls.merge(acp.mapping(acp.decoded(update.update)))
        if call.get("status") == "completed":
            self.denied = ""

    def _info(self, update: Updated) -> None:
        info = acp.mapping(acp.decoded(update.update))
        if "title" in info:
            self.title = acp.text(info["title"])


def usage(result: msgspec.Raw) -> dict[str, Any] | None:
    """The `usage` member many agents add to a turn's answer."""
    found = acp.mapping(acp.decoded(result)).get("usage")
    return found if isinstance(found, dict) else None
