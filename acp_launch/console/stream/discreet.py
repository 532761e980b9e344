"""
What a session tells, without its secrets: stands before any kind of output.

Whatever has nothing to hide passes as the very object it was. Events keep their number and their order, but for the
notices that may come while a chunk is held back (`console.stream.seams`): a pause within a secret is no reason to
show it, and neither is a server that dies just then, which says nothing of how the agent's message goes on.
"""

import json
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from acp_launch.console.stream.plain import SAME_MESSAGE
from acp_launch.console.stream.seams import Seams
from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.problem import Problem
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.protocol import acp
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.event import WORDS, Updated
from acp_launch.secret.redact import Redactor, redactor
from acp_launch.session.observer import Observer, Permission, SessionReady, TurnEnd, When
from acp_launch.session.service import FileServed, TerminalServed

OURS = frozenset(
    {"by", "how", "state", "stop_reason"}
)  # members of what is told whose words are ours or the protocol's
S = TypeVar("S", bound=Struct)
E = TypeVar("E", bound=LaunchError)


class Output(Observer, Protocol):
    """An observer that a run is shown by."""

    def failed(self, error: LaunchError) -> None: ...

    def pause(self) -> None: ...


class Discreet:
    def __init__(self, output: Output, source: Redactor = redactor) -> None:
        self._output = output
        self._redactor = source
        self._seams = Seams(source, self._show)
        self._session_ids: dict[str, str] = {}

    def negotiated(self, negotiated: Negotiated) -> None:
        self._seams.release()
        self._output.negotiated(self._struct(negotiated))

    def ready(self, session: SessionReady) -> None:
        self._seams.release()
        self._output.ready(self._struct(session))

    def update(self, update: Updated) -> None:
        if self._redactor.is_empty:
            self._output.update(update)
        elif update.kind in WORDS:
            if self._seams.pass_by(update):
                self._show(update)
            else:
                self._seams.chunk(update)
        elif update.kind in SAME_MESSAGE and self._seams.is_holding:
            self._seams.wait(update)
        else:
            self._seams.release()
            self._show(update)

    def permission(self, permission: Permission) -> None:
        self._seams.release()
        self._output.permission(self._struct(permission))

    def unasked(self, call: dict[str, Any], by: str) -> None:
        self._seams.release()
        self._output.unasked(self._redactor.tree(call), self._redactor.text(by))

    def served(self, step: FileServed | TerminalServed) -> None:
        self._seams.release()
        self._output.served(self._struct(step))

    def cancelled(self, calls: Sequence[dict[str, Any]], grace: float) -> None:
        self._seams.release()
        self._output.cancelled(self._redactor.tree(calls), grace)

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        self._output.waiting(self._redactor.text(what), seconds, limit)

    def note(self, text: str) -> None:
        self._output.note(self._redactor.text(text))

    def server(self, change: Change) -> None:
        self._output.server(self._struct(change))

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        self._output.standing(self._member(tuple(servers)), when)

    def ended(self, turn: TurnEnd) -> None:
        self._seams.release()
        self._output.ended(self._struct(turn))

    def failed(self, error: LaunchError) -> None:
        self._seams.release()
        self._output.failed(error if self._redactor.is_empty else _without_secrets(error, self._redactor))

    def pause(self) -> None:
        self._seams.release()
        self._output.pause()

    async def drain(self) -> None:
        """Does not let go of what is held back: the pump drains after every batch, wherever that was cut."""
        await self._output.drain()

    def _show(self, update: Updated, text: str | None = None) -> None:
        """Hand on, with another `text` of its chunk if there is one."""
        said = bytes(update.update)
        written = self._redactor.raw_json(said if text is None else _with_text(said, text))
        session_id = self._session_id(update.session_id)
        if written is not said or session_id != update.session_id:
            update = replace(update, session_id=session_id, update=Raw(written))
        self._output.update(update)

    def _session_id(self, session_id: str) -> str:
        if session_id not in self._session_ids:
            self._session_ids = {session_id: self._redactor.text(session_id)}
        return self._session_ids[session_id]

    def _struct(self, struct: S) -> S:
        if self._redactor.is_empty:
            return struct
        members = {name: getattr(struct, name) for name in struct.__struct_fields__}
        changed = {
            name: new for name, old in members.items() if name not in OURS and (new := self._member(old)) is not old
        }
        return replace(struct, **changed) if changed else struct

    def _member(self, value: Any) -> Any:
        if isinstance(value, Raw):
            said = bytes(value)
            written = self._redactor.raw_json(said)
            return value if written is said else Raw(written)
        if isinstance(value, Struct):
            return self._struct(value)
        if isinstance(value, tuple):
            members = tuple(map(self._member, value))
            return value if all(new is old for new, old in zip(members, value, strict=True)) else members
        return self._redactor.tree(value)


def _with_text(update: bytes, text: str) -> bytes:
    """A chunk with another text, every other member as it was."""
    written = json.dumps(text).encode()  # half a surrogate pair may be in it, which msgspec does not write
    try:
        members = msgspec.json.decode(update, type=dict[str, Raw])
        content = msgspec.json.decode(members["content"], type=dict[str, Raw])
    except msgspec.DecodeError:
        body = acp.mapping(acp.decoded(update))
        return json.dumps({**body, "content": {**acp.mapping(body.get("content")), "text": text}}).encode()
    members["content"] = Raw(msgspec.json.encode({**content, "text": Raw(written)}))
    return msgspec.json.encode(members)


def _without_secrets(error: E, source: Redactor) -> E:
    """A copy, of the same class and exit code; the error itself is raised on, and says the same on stderr."""
    copy = error.__class__.__new__(error.__class__, *source.tree(list(error.args)))
    copy.__dict__.update(error.__dict__)
    if isinstance(copy, ProblemsError):
        copy.problems = tuple(_problem(problem, source) for problem in copy.problems)
        return copy
    copy.message, copy.fix = source.text(error.message), source.text(error.fix)
    copy.detail = tuple(map(source.text, error.detail))
    return copy


def _problem(problem: Problem, source: Redactor) -> Problem:
    return Problem(*map(source.tree, problem))
