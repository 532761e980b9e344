"""
Events (`--output json`): one per line, and nothing else on stdout. docs/scripting.md "Events" documents every type.

An update keeps its bytes: it is never decoded and encoded again, so unknown members are not lost. Only invisible
characters become escapes, which mean the same.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Raw, convert, structs

from acp_launch.console.draw.outside import Halves
from acp_launch.console.problems import summary
from acp_launch.console.stream.outlet import JoinedText, Outlet
from acp_launch.console.stream.text import SAME_MESSAGE, Notices
from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.protocol import acp
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import WORDS, Updated
from acp_launch.protocol.written import visible_bytes
from acp_launch.session import events
from acp_launch.session.events import AnyEvent, encode
from acp_launch.session.observer import FileServed, Permission, SessionReady, TerminalServed, TurnEnd, When
from acp_launch.session.state import KINDS
from acp_launch.waits import format_time

_EMPTY = Raw(b"0")
Told = events.UpdateEvent | events.ReplayEvent | events.OutsideEvent


class _FinalMessage:
    """Collects the final message of a turn, as `quiet` does, but in less time, since every update comes here."""

    def __init__(self) -> None:
        self._text = JoinedText()
        self._message_id = ""
        self._is_over = True  # the next chunk begins a new message

    def take(self, update: Updated) -> None:
        if update.kind == "agent_message_chunk":
            text, message_id = acp.read_chunk(update.update)
            if self._is_over or (message_id and message_id != self._message_id):
                self._text, self._is_over, self._message_id = JoinedText(), False, message_id or self._message_id
            self._text.add(text)
        elif update.kind not in SAME_MESSAGE:
            self._is_over = True

    def end(self) -> str:
        """Return the message; the next chunk begins another."""
        parts, self._text, self._is_over = self._text.parts, JoinedText(), True
        text = "".join(part if isinstance(part, str) else part.decode("utf-8", "surrogatepass") for part in parts)
        return Halves().whole(text)


class Ndjson:
    """Writes events to `outlet`."""

    def __init__(self, outlet: Outlet, clock: Callable[[], float] = time.time) -> None:
        self._outlet = outlet
        self._clock = clock
        self._message = _FinalMessage()
        self._denied: tuple[str, str] | None = None  # the last denied call and what denied it, unless work went on
        self._session: str | None = None  # that `_heads` are for; None: the next update has another time
        self._heads: dict[type[Told], bytes] = {}

    def _now(self) -> str:
        self._session = None
        return format_time(self._clock())

    def _emit(self, event: AnyEvent) -> None:
        self._outlet.write(*visible_bytes(encode(event)), b"\n")

    def negotiated(self, negotiated: Negotiated) -> None:
        self._emit(events.InitializedEvent(self._now(), result=negotiated.raw))

    def ready(self, session: SessionReady) -> None:
        members = {name: getattr(session, name) for name in ("session_id", "name", "how", "replayed", "result")}
        self._emit(events.SessionEvent(self._now(), **members))

    def update(self, update: Updated) -> None:
        if update.session_id != self._session:
            self._address(update.session_id)
        is_outside = update.outside and update.kind in WORDS
        kind: type[Told] = (
            events.ReplayEvent if update.replay else events.OutsideEvent if is_outside else events.UpdateEvent
        )
        self._outlet.write(self._heads[kind], *visible_bytes(memoryview(update.update)), b"}\n")
        if kind is events.UpdateEvent:
            self._message.take(update)
        if self._denied and update.kind in KINDS:
            is_completed = acp.mapping(acp.decoded(update.update)).get("status") == "completed"
            self._denied = None if is_completed else self._denied

    def _address(self, session_id: str) -> None:
        """Prepare the part of an update's line that is the same for a session in a batch, which was read at once."""
        time = self._now()
        self._session = session_id
        for kind in (events.UpdateEvent, events.ReplayEvent, events.OutsideEvent):
            line = b"".join(visible_bytes(encode(kind(time, session_id=session_id, update=_EMPTY))))
            self._heads[kind] = line.removesuffix(b"%b}" % bytes(_EMPTY))

    def permission(self, permission: Permission) -> None:
        members = {name: getattr(permission, name) for name in ("tool_call", "options", "allowed", "option_id", "by")}
        self._emit(events.PermissionEvent(self._now(), **members))
        if not permission.allowed:
            self._denied = (permission.title, permission.by)
            Notices().permission(permission)  # the user should see it even if a script reads the events

    def unasked(self, call: dict[str, Any], by: str) -> None:
        self._emit(events.UnaskedEvent(self._now(), tool_call=call, by=by))

    def served(self, step: FileServed | TerminalServed) -> None:
        if isinstance(step, TerminalServed):
            self._emit(events.TerminalEvent(self._now(), **structs.asdict(step)))
            return
        members: dict[str, Any] = {"path": step.path, "how": step.how, "outcome": step.outcome}
        is_new = step.how == "write" and step.outcome == "done" and step.old is None
        self._emit(events.FileEvent(self._now(), **members, reason=step.reason or None, created=is_new))

    def cancelled(self, calls: Sequence[dict[str, Any]], grace: float) -> None:
        self._emit(events.CancelledEvent(self._now(), tool_calls=calls, limit=grace))

    def waiting(self, what: str, waited: float, limit: float) -> None:
        self._emit(events.WaitingEvent(self._now(), what=what, seconds=float(waited), limit=float(limit)))

    def note(self, text: str) -> None:
        self._emit(events.NoteEvent(self._now(), text=text))

    def server(self, change: Change) -> None:
        self._emit(events.tell_server(change, self._now()))

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        self._emit(events.ServersEvent(self._now(), when=when, servers=[*map(events.describe_server, servers)]))

    def ended(self, turn: TurnEnd) -> None:
        denied, by = self._denied or (turn.denied or None, None)
        members = {name: getattr(turn, name) for name in ("stop_reason", "usage", "result")}
        text = self._message.end()
        self._emit(events.ResultEvent(self._now(), text=text, denied=denied, denied_by=by, **members))
        self._denied = None

    def failed(self, error: LaunchError) -> None:
        """Emit the last line of a failed run; problems have their own messages and fixes."""
        message, problems = error.message, list[events.ErrorProblem]()
        if isinstance(error, ProblemsError):
            message = "".join(summary(error.problems, error.outcome))
            problems = [convert(problem.as_json(), events.ErrorProblem) for problem in error.problems]
        code, _, data = error.reply or error.cause or (None, "", None)
        members: dict[str, Any] = {
            "exit_code": error.exit_code,
            "message": message,
            "fix": error.fix,
            "detail": error.detail,
        }
        self._emit(events.ErrorEvent(self._now(), **members, problems=problems, code=code, data=data))

    def pause(self) -> None:
        """Do nothing: a question is asked on stderr, so stdout may go on."""

    async def drain(self) -> None:
        self._session = None
        await self._outlet.drain()
