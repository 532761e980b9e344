"""
The lines of an editor, and its requests that are not answered yet.

Each request is answered once, under its own id. What is written at once goes on together.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET, Raw

from acp_launch.errors import LaunchError
from acp_launch.process.flow import Inflow, Lent, Outflow
from acp_launch.protocol import acp, jsonrpc, splice
from acp_launch.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    NULL,
    PARSE_ERROR,
    LineFramer,
    LineTooLong,
    Mishaps,
)
from acp_launch.secret.redact import redactor

CANCEL = "$/cancel_request"


def fault(error: LaunchError) -> tuple[int, str, object]:
    """Return an error as code, message and data, for an editor to show; what the agent has answered stays as it was.

    The message is the first line of the details: editors show either of them, and some both.
    """
    if error.reply is not None:
        return error.reply
    lines = [*map(str.strip, error.message.splitlines()), *error.detail, *([f"fix: {error.fix}"] if error.fix else [])]
    text = redactor.text("\n".join(lines))
    return INTERNAL_ERROR, text.partition("\n")[0], {"exitCode": error.exit_code, "details": text}


class EditorRequest:
    """A request of the editor, until it is answered."""

    def __init__(self, id: bytes, method: str, line: bytes) -> None:
        self.id, self.method, self.line = id, method, line
        self.number: int | None = None  # under which the agent has it
        self.since = 0.0  # loop time when it was passed on
        self.limit: float | None = None  # seconds for the answer, if not its method's
        self.is_settled = False
        self.withdrawn: Callable[[], object] = lambda: None  # hears that the editor does not want it any more
        self.over: Callable[[], object] = lambda: None  # hears that it is answered

    @property
    def params(self) -> dict[str, Any]:
        """Decode its params, read leniently; only before it is passed on."""
        message = jsonrpc.decode(self.line)
        return {} if message is None else acp.mapping(acp.decoded(message.params))


class EditorLines(ABC):
    """The editor's requests that are not answered yet, and the lines to it."""

    def __init__(self, source: Lent, sink: Lent | int, *, max_line: int, note: Callable[[str], None]) -> None:
        self.over = asyncio.Event()  # the editor has ended
        self.told: LaunchError | None = None  # the latest error that an answer has told
        self._note = note
        self._room = asyncio.Event()  # the editor takes more
        self._framer = LineFramer(limit=max_line, skip=self._refuse_long)
        self._outflow = Outflow(sink, self._room.set, self.over.set)
        self._inflow = Inflow(source, self._take, self.over.set)
        self._unwritten: list[bytes] = []
        self._open: dict[bytes, EditorRequest] = {}  # by id; of two with one id, the later one can be withdrawn
        self.mishaps = Mishaps(note)

    def close(self) -> None:
        self._flush()
        self._inflow.close()
        self._outflow.close()

    async def room(self) -> None:
        """Return when the editor takes more."""
        self._flush()
        while self._outflow.is_full:
            self._room.clear()
            await self._room.wait()

    @property
    def is_full(self) -> bool:
        return self._outflow.is_full

    # What it says.

    @abstractmethod
    def called(self, request: EditorRequest) -> None:
        """Take a request."""

    @abstractmethod
    def notified(self, method: str, line: bytes) -> None:
        """Take a notification."""

    @abstractmethod
    def answered(self, id: bytes, line: bytes) -> None:
        """Take an answer."""

    def withdraw(self, request: EditorRequest, line: bytes) -> None:
        """Withdraw a request that the agent does not have yet."""
        request.withdrawn()
        self.refuse(request, jsonrpc.CANCELLED, "Request cancelled")

    def _take(self, chunk: bytes) -> None:
        for line in self._framer.feed(chunk):
            self._receive(line)

    def _refuse_long(self, error: LineTooLong) -> None:
        """Answer a line that is too long and was skipped, with the id that stands at one of its ends."""
        said = splice.outer(error.head, error.tail)
        id = Raw(said.get("id", b"null"))
        text = f"the editor sent {error}; attach less, or raise the limit: ACP_LAUNCH_MAX_LINE=<bytes>"
        line = jsonrpc.error(id, INVALID_REQUEST, text, {"details": text})
        if "method" not in said and ("result" in said or "error" in said):
            self.answered(bytes(id), line)
        else:
            self.write(line)

    def _receive(self, line: bytes) -> None:
        message = jsonrpc.decode(line)
        if message is None:
            self._take_garbage(line)
        elif message.method is UNSET:
            if message.id is UNSET or (message.result is UNSET and message.error is UNSET):
                self._take_garbage(line)
            else:
                self.answered(bytes(message.id), line)
        elif message.id is not UNSET:
            request = EditorRequest(bytes(message.id), str(message.method), line)
            self._open[jsonrpc.key(message.id)] = request
            self.called(request)
        elif message.method == CANCEL:
            self._take_cancel(line)
        else:
            self.notified(str(message.method), line)

    def _take_cancel(self, line: bytes) -> None:
        """Withdraw a request of the editor (C-65)."""
        place = splice.at(line, ("params", "requestId"))
        request = self._open.get(jsonrpc.key(Raw(line[slice(*place)]))) if place else None
        if request is not None:
            self.withdraw(request, line)

    def _take_garbage(self, line: bytes) -> None:
        if not line.strip():
            return
        code, text = (INVALID_REQUEST, "Invalid Request") if jsonrpc.is_json(line) else (PARSE_ERROR, "Parse error")
        id = jsonrpc.member(Raw(line), "id") if code == INVALID_REQUEST else None
        if id is None or bytes(id).startswith((b"{", b"[")):
            id = NULL
        self.write(jsonrpc.error(id, code, text, {"details": text}))

    # Messages to it.

    def finish(self, request: EditorRequest, line: bytes) -> None:
        """Answer a request with a line of the agent."""
        if self.settle(request):
            self.write(jsonrpc.with_id(line, Raw(request.id), was=request.number))

    def refuse(self, request: EditorRequest, code: int, message: str, data: object = UNSET) -> None:
        """Answer with an error; without `data` ours, whose text is in `details`, as toad shows nothing else."""
        if self.settle(request):
            data = {"details": message} if data is UNSET else data
            self.write(jsonrpc.error(Raw(request.id), code, message, data))

    def tell(self, request: EditorRequest, error: LaunchError) -> None:
        """Answer with our error, which the user need not be told again."""
        self.told = error
        self.refuse(request, *fault(error))

    def settle(self, request: EditorRequest) -> bool:
        """Return whether the request was still open."""
        if request.is_settled:
            return False
        request.is_settled = True
        key = jsonrpc.key(Raw(request.id))
        if self._open.get(key) is request:
            del self._open[key]
        request.over()
        return True

    def write(self, line: bytes) -> None:
        """Write a line, together with all that follow it at once."""
        self.write_all((line,))

    def write_all(self, lines: Sequence[bytes]) -> None:
        if lines and not self._unwritten:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unwritten.extend(lines)

    def _flush(self) -> None:
        lines, self._unwritten = self._unwritten, []
        if lines:
            self._outflow.send(b"\n".join(lines) + b"\n")


class _Refusing(EditorLines):
    """Answers each request with one error."""

    def __init__(self, error: LaunchError, source: Lent, sink: Lent | int, *, max_line: int) -> None:
        super().__init__(source, sink, max_line=max_line, note=lambda text: None)
        self._error = error

    def called(self, request: EditorRequest) -> None:
        self.tell(request, self._error)

    def notified(self, method: str, line: bytes) -> None:
        """Do nothing: no agent is there to take it."""

    def answered(self, id: bytes, line: bytes) -> None:
        """Do nothing: nothing was asked."""


async def refuse_all(error: LaunchError, source: Lent, sink: Lent | int, *, max_line: int) -> bool:
    """Answer each request of the editor with an error, until the editor ends: it shows the one about `initialize`.

    Return whether there was one.
    """
    lines = _Refusing(error, source, sink, max_line=max_line)
    try:
        await lines.over.wait()
    finally:
        lines.close()
    return lines.told is not None
