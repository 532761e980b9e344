"""
The steps of a trace: its entries as questions, answers and notices, each answer with its question and its time. Pure.

`entry` reads a line of a trace, and `Sequence` turns entries into `Step`s, in bounded memory.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping, sequence, text

MOST = 10_000  # open requests; beyond that the oldest is forgotten
TELLING = ("name", "uri", "path", "command", "modeId", "title", "requestId", "level", "cwd")

Kind = Literal["start", "exit", "request", "answer", "error", "notification", "text", "unanswered"]


class Entry(Struct):
    """A line of a trace, as `acp_launch.trace` writes it."""

    type: str
    time: str
    at: float
    sender: str = field(default="", name="from")
    receiver: str = field(default="", name="to")
    server: str = ""
    message: Raw | UnsetType = UNSET
    text: str = ""
    size: int = 0  # bytes of a message that was cut
    id: Raw | UnsetType = UNSET
    method: str = ""
    pid: int | None = 0  # None of a remote server
    how: str = ""
    verb: str = ""
    profile: str = ""
    version: int = 0


class Step(Struct, kw_only=True):
    """One step. `sender` and `receiver` are acp-launch, agent or server; `took` is in seconds.

    An unanswered request has the moment at which it was sent, and comes at the end.
    """

    at: float
    kind: Kind
    server: str = ""
    sender: str = ""
    receiver: str = ""
    method: str = ""
    id: str = ""
    took: float | None = None
    detail: str = ""


_entry = msgspec.json.Decoder(Entry)


def entry(line: bytes) -> Entry | None:
    """Read a line of a trace; None if it is something else."""
    try:
        return _entry.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Sequence:
    """Pairs answers with requests. `has_ended` tells whether the trace has its last entry."""

    def __init__(self) -> None:
        self.has_ended = False
        self._open: dict[tuple[str, str, bytes], Step] = {}  # by connection, the side that asked, and the id

    def steps(self, entry: Entry) -> Iterator[Step]:
        """Yield the steps of an entry: one, none, or one for each message of a batch."""
        if entry.type == "start":
            yield Step(at=entry.at, kind="start", server=entry.server, detail=f"pid {entry.pid}" if entry.pid else "")
        elif entry.type == "exit":
            yield Step(at=entry.at, kind="exit", server=entry.server, detail=entry.how)
        elif entry.type == "message":
            yield from self._said(entry)
        else:
            self.has_ended = entry.type == "end"

    def unanswered(self) -> Iterator[Step]:
        """Yield the requests without an answer, oldest first."""
        for asked in sorted(self._open.values(), key=lambda step: step.at):
            yield msgspec.structs.replace(asked, kind="unanswered")

    def _said(self, entry: Entry) -> Iterator[Step]:
        if entry.size:
            yield self._cut(entry)
            return
        line = entry.text.encode(errors="replace") if entry.message is UNSET else bytes(entry.message)
        for each in jsonrpc.batch(line) or (line,):
            yield self._message(entry, each)

    def _cut(self, entry: Entry) -> Step:
        """A message of which the trace has only the beginning."""
        said = jsonrpc.Envelope(id=entry.id, method=entry.method or UNSET)
        step = self._step(entry, said, "error" if '"error":' in entry.text[:200] else "answer")
        step.detail = f"{entry.size:,} bytes, cut in the trace"
        return step

    def _message(self, entry: Entry, line: bytes) -> Step:
        said = jsonrpc.decode(line)
        if said is None or (said.method is UNSET and said.id is UNSET):
            return Step(**_ends(entry), kind="text", detail=line.decode(errors="replace"))
        is_error = said.error is not UNSET and bytes(said.error) != b"null"
        step = self._step(entry, said, "error" if is_error else "answer")
        step.detail = _detail(step, said)
        return step

    def _step(self, entry: Entry, said: jsonrpc.Envelope, answers: Kind) -> Step:
        id = b"" if said.id is UNSET else bytes(said.id)
        step = Step(**_ends(entry), kind="notification", id=id.decode(errors="replace"))
        if said.method is UNSET:
            step.kind = answers
            self._answered(step, id)
        else:
            step.method = str(said.method)
            if id:
                step.kind = "request"
                self._asked(step, id)
        return step

    def _asked(self, step: Step, id: bytes) -> None:
        self._open.pop((step.server, step.sender, id), None)
        self._open[step.server, step.sender, id] = step
        if len(self._open) > MOST:
            del self._open[next(iter(self._open))]

    def _answered(self, step: Step, id: bytes) -> None:
        """Close the request that is answered.

        acp-launch may have held a request of the agent, and sent it later: then one answer closes two. It may also
        change an answer on its way: then the server's is only looked up, and closes none.
        """
        asked = self._open.pop((step.server, step.receiver, id), None)
        held = None
        if step.server and step.sender == "server" and step.receiver == "agent":
            held = self._open.pop((step.server, "acp-launch", id), None)
        elif step.server and step.receiver == "acp-launch" and asked is None:
            held = self._open.get((step.server, "agent" if step.sender == "server" else "server", id))
        if asked := asked or held:
            step.method, step.took = asked.method, step.at - asked.at


def _ends(entry: Entry) -> dict[str, Any]:
    return {"at": entry.at, "server": entry.server, "sender": entry.sender, "receiver": entry.receiver}


# The part of a message that tells it from others of its method.


def _detail(step: Step, said: jsonrpc.Envelope) -> str:
    if step.kind == "error":
        assert said.error is not UNSET
        fault = jsonrpc.fault(said.error)
        return f"{fault.message} ({fault.code})"
    if step.kind == "answer":
        return "" if said.result is UNSET else _of_result(mapping(decoded(said.result)))
    return _of_params(mapping(decoded(said.params)))


def _of_params(params: dict[str, Any]) -> str:
    if update := mapping(params.get("update")):
        return _joined(update.get("sessionUpdate"), update.get("title"), update.get("status"))
    if call := mapping(params.get("toolCall")):
        return _joined(call.get("title") or call.get("toolCallId"))
    if isinstance(version := params.get("protocolVersion"), str | int):
        return f"version {version}"
    said = [text(mapping(block).get("text")) for block in sequence(params.get("prompt"))]
    if any(said):
        return next(filter(None, said))
    return _joined(next((params[name] for name in TELLING if isinstance(params.get(name), str | int)), None))


def _of_result(result: dict[str, Any]) -> str:
    outcome = mapping(result.get("outcome"))
    if outcome:
        return _joined(outcome.get("outcome"), outcome.get("optionId"))
    who = mapping(result.get("agentInfo")) or mapping(result.get("serverInfo"))
    if who:
        return _joined(who.get("title") or who.get("name"), who.get("version"))
    if result.get("isError") is True:
        return "the tool failed"
    lists = [f"{len(items)} {name}" for name, items in result.items() if isinstance(items, list) and name != "content"]
    return _joined(result.get("stopReason") or result.get("sessionId"), *lists)


def _joined(*parts: object) -> str:
    return " ".join(str(part) for part in parts if isinstance(part, str | int) and part != "")
