"""
Events (`--output json`): one per line, and nothing else on stdout. docs/scripting.md "Events" documents every type.

An update keeps its bytes: it is never decoded and encoded again, so unknown members are not lost. Only invisible
characters become escapes, which mean the same.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from acp_launch.console.draw.outside import Halves
from acp_launch.console.problems import summary
from acp_launch.console.stream.outlet import JoinedText, Outlet
from acp_launch.console.stream.text import SAME_MESSAGE, Notices
from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.protocol import acp
from acp_launch.protocol.acp import Negotiated
from acp_launch.protocol.conversation import WORDS, Updated
from acp_launch.protocol.written import visible_bytes, written
from acp_launch.session.observer import FileServed, Permission, SessionReady, TerminalServed, TurnEnd, When
from acp_launch.session.state import KINDS
from acp_launch.waits import format_time


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
        self._heads: dict[str, bytes] = {}

    def emit(self, type: str, members: Mapping[str, object]) -> None:
        self._session = None
        event = {"type": type, "time": format_time(self._clock()), **members}
        self._outlet.write(*visible_bytes(written(event)), b"\n")

    def negotiated(self, negotiated: Negotiated) -> None:
        self.emit("initialized", {"result": negotiated.raw})

    def ready(self, session: SessionReady) -> None:
        members = {"sessionId": session.session_id, "name": session.name, "how": session.how}
        self.emit("session", {**members, "replayed": session.replayed, "result": session.result})

    def update(self, update: Updated) -> None:
        if update.session_id != self._session:
            self._address(update.session_id)
        type = "replay" if update.replay else "outside" if update.outside and update.kind in WORDS else "update"
        self._outlet.write(self._heads[type], *visible_bytes(memoryview(update.update)), b"}\n")
        if type == "update":
            self._message.take(update)
        if self._denied and update.kind in KINDS:
            is_completed = acp.mapping(acp.decoded(update.update)).get("status") == "completed"
            self._denied = None if is_completed else self._denied

    def _address(self, session_id: str) -> None:
        """Prepare the part of an update's line that is the same for a session in a batch, which was read at once."""
        self._session = session_id
        time = format_time(self._clock())
        for type in ("update", "replay", "outside"):
            head = b"".join(visible_bytes(written({"type": type, "time": time, "sessionId": session_id})))
            self._heads[type] = head[:-1] + b',"update":'

    def permission(self, permission: Permission) -> None:
        members = {"toolCall": permission.tool_call, "options": permission.options, "allowed": permission.allowed}
        self.emit("permission", {**members, "optionId": permission.option_id, "by": permission.by})

        if not permission.allowed:
            self._denied = (permission.title, permission.by)
            Notices().permission(permission)  # the user should see it even if a script reads the events

    def unasked(self, call: dict[str, Any], by: str) -> None:
        self.emit("unasked", {"toolCall": call, "by": by})

    def served(self, step: FileServed | TerminalServed) -> None:
        self.emit(*_service_event(step))

    def cancelled(self, calls: Sequence[dict[str, Any]], grace: float) -> None:
        self.emit("cancelled", {"toolCalls": calls, "limit": grace})

    def waiting(self, what: str, waited: float, limit: float) -> None:
        self.emit("waiting", {"for": what, "seconds": float(waited), "limit": float(limit)})

    def note(self, text: str) -> None:
        self.emit("note", {"text": text})

    def server(self, change: Change) -> None:
        self.emit("server", _members(change, CHANGED))

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        self.emit("servers", {"when": when, "servers": [_members(server, STANDING) for server in servers]})

    def ended(self, turn: TurnEnd) -> None:
        denied, by = self._denied or (turn.denied or None, None)
        members = {"stopReason": turn.stop_reason, "text": self._message.end(), "usage": turn.usage}
        self.emit("result", {**members, "denied": denied, "deniedBy": by, "result": turn.result})
        self._denied = None

    def failed(self, error: LaunchError) -> None:
        """Emit the last line of a failed run; problems have their own messages and fixes."""
        message, problems = error.message, list[object]()
        if isinstance(error, ProblemsError):
            message = "".join(summary(error.problems, error.outcome))
            problems = [problem.as_json() for problem in error.problems]
        code, _, data = error.reply or error.cause or (None, "", None)
        members = {"message": message, "fix": error.fix, "detail": error.detail, "problems": problems}
        self.emit("error", {"exitCode": error.exit_code, **members, "code": code, "data": data})

    def pause(self) -> None:
        """Do nothing: a question is asked on stderr, so stdout may go on."""

    async def drain(self) -> None:
        self._session = None
        await self._outlet.drain()


def _service_event(step: FileServed | TerminalServed) -> tuple[str, dict[str, object]]:
    """Return type and members. Events do not hold a file's content, because a script can read the file."""
    if isinstance(step, FileServed):
        members = {"path": step.path, "how": step.how, "outcome": step.outcome, "reason": step.reason or None}
        return "file", members | {"created": step.how == "write" and step.outcome == "done" and step.old is None}
    return "terminal", {
        "terminalId": step.terminal_id,
        "command": step.command,
        "cwd": step.cwd,
        "output": step.output,
        "exit": step.exit,
    }


# What events tell of a server, in this order, and the names that differ there.
CHANGED = ("server", "state", "required", "pid", "restarts", "after", "exit", "reason", "retry", "detail")
STANDING = ("server", "state", "required", "opened", "unread", "after", "tools", "restarts", "reason")
NAMES = {"server": "name", "after": "seconds"}


def _members(server: Change | Standing, names: Sequence[str]) -> dict[str, object]:
    """Return these members of a server; an empty text is null."""
    values = ((name, getattr(server, name)) for name in names)
    return {NAMES.get(name, name): None if value == "" else value for name, value in values}
