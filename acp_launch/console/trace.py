"""
The output of `trace`: one line for each step of a trace, each answer with its question and its time.

All text of agents and servers in it is on one line and cannot drive a terminal. Notices that repeat are counted.
"""

import sys
from typing import Any

import msgspec
from msgspec import Struct, field

from acp_launch.console.stdout import cells, fit, has_colours, plain, terminal_width
from acp_launch.protocol.acp import mapping, sequence

WAY = 20  # cells of `acp-launch → agent` and most servers' names
MAX_DETAIL_CHARS = 400
TELLING = ("name", "uri", "path", "command", "modeId", "title", "stopReason", "sessionId")
PROCESS, FAULT, NOTICE, JUNK = "33", "31", "2", "35"  # colours


class TraceEntry(Struct):
    """A line of a trace, as `acp_launch.trace` writes it."""

    type: str
    time: str
    at: float
    sender: str = field(default="", name="from")
    receiver: str = field(default="", name="to")
    server: str = ""
    message: Any = None
    text: str = ""
    size: int = 0  # bytes of a message that was cut
    id: Any = None
    method: str = ""
    pid: int | None = 0  # None of a remote server
    how: str = ""
    verb: str = ""
    profile: str = ""
    version: int = 0


_decoder = msgspec.json.Decoder(TraceEntry)


def read(line: bytes) -> TraceEntry | None:
    """Read a line of a trace; None if it is something else."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class TraceView:
    """Prints entries on stdout. `has_ended` tells whether the trace has its last entry."""

    def __init__(self) -> None:
        self.has_ended = False
        # By connection, the side that asked, and the id: the time, the way, the method and the text of the request.
        self._open: dict[tuple[str, str, str], tuple[float, str, str, str]] = {}
        self._notices: tuple[float, str, str, int] | None = None  # those that may repeat: time, way, text and count
        self._width = terminal_width()
        self._is_coloured = has_colours()
        self._put("TIME", "FROM → TO", "MESSAGE", "1", "TOOK")

    def add(self, entry: TraceEntry) -> None:
        if entry.type == "start":
            self._put(entry.at, _way(entry), f"started, pid {entry.pid}" if entry.pid else "connecting", PROCESS)
        elif entry.type == "exit":
            self._put(entry.at, _way(entry), entry.how, PROCESS)
        elif entry.type == "message" and entry.size:
            self._message(entry, {"id": entry.id, "method": entry.method}, f"{entry.size:,} bytes, cut in the trace")
        elif entry.type == "message":
            for said in entry.message if isinstance(entry.message, list) and entry.message else [entry.message]:
                if isinstance(said, dict) and ("method" in said or "id" in said):
                    self._message(entry, said, _detail(said))
                else:
                    self._put(entry.at, _way(entry), f"not a message: {entry.text or said}", JUNK)
        else:
            self.has_ended = entry.type == "end"

    def finish(self) -> None:
        """Print the requests without an answer, oldest first."""
        for at, way, _, shown in sorted(self._open.values()):
            self._put(at, way, f"{shown} was not answered", FAULT)
        self._release()

    def _message(self, entry: TraceEntry, said: dict[str, Any], about: str) -> None:
        id, method = said.get("id"), str(said.get("method") or "")
        shown = ": ".join(filter(None, (method, about[:MAX_DETAIL_CHARS])))
        if not method:
            self._answer(entry, repr(id), about, is_error=said.get("error") is not None)
        elif id is None:
            at, way, what, count = self._notices or (entry.at, "", "", 0)
            if (way, what) != (_way(entry), shown):
                self._release()
                at, count = entry.at, 0
            self._notices = at, _way(entry), shown, count + 1
        else:
            self._open[entry.server, entry.sender, repr(id)] = entry.at, _way(entry), method, shown
            self._put(entry.at, _way(entry), shown)

    def _answer(self, entry: TraceEntry, id: str, about: str, *, is_error: bool) -> None:
        asked = self._open.pop((entry.server, entry.receiver, id), None)
        if entry.receiver != "acp-launch":  # which may have held the request, and sent it later
            held = self._open.pop((entry.server, "acp-launch", id), None)
        else:  # which may change the answer on its way
            held = self._open.get((entry.server, "agent" if entry.sender == "server" else "server", id))
        at, _, method, _ = asked or held or (entry.at, "", "an unknown request", "")
        shown = ": ".join(filter(None, (f"{'error for' if is_error else 'answer to'} {method}", about)))
        took = f"{entry.at - at:.1f} s" if entry.at - at >= 1 else f"{1000 * (entry.at - at):.1f} ms"
        self._put(entry.at, _way(entry), shown, FAULT if is_error else "", took if asked or held else "")

    def _release(self) -> None:
        """Print the notice that was held back because it may repeat."""
        if self._notices is not None:
            (at, way, shown, count), self._notices = self._notices, None
            self._put(at, way, shown + (f" ×{count:,}" if count > 1 else ""), NOTICE)

    def _put(self, at: float | str, way: str, message: str, colour: str = "", took: str = "") -> None:
        self._release()
        time = at if isinstance(at, str) else f"{at:.3f}"
        row = f"{time:>9}  {took:>8}  {way}{' ' * (WAY - cells(way))}  {plain(message[: 2 * MAX_DETAIL_CHARS])}"
        shown = row if self._width is None else fit(row[: 2 * self._width], self._width)
        painted = f"\x1b[{colour}m{shown}\x1b[0m" if colour and self._is_coloured else shown
        sys.stdout.buffer.write(f"{painted}\n".encode(errors="replace"))
        if self._width is not None:  # a user may look at a run that goes on
            sys.stdout.buffer.flush()


def _way(entry: TraceEntry) -> str:
    """Return who spoke to whom. On a server's connection, acp-launch may speak in the place of either side."""
    server = plain(entry.server) or "agent"
    names = {"acp-launch": "acp-launch", "agent": "agent", "server": server}
    return f"{names.get(entry.sender, '?')} → {names.get(entry.receiver, '?')}" if entry.type == "message" else server


def _detail(said: dict[str, Any]) -> str:
    """Return the part of a message that tells it from others of its method."""
    if said.get("error") is not None:
        fault = mapping(said["error"])
        return f"{fault.get('message')} ({fault.get('code')})"
    params, result = mapping(said.get("params")), mapping(said.get("result"))
    if update := mapping(params.get("update")):
        return " ".join(str(update[name]) for name in ("sessionUpdate", "title", "status") if update.get(name))
    told = params | result
    for inner in ("toolCall", "outcome", "agentInfo", "serverInfo"):
        told |= mapping(told.get(inner))
    prompt = [str(mapping(block).get("text", "")) for block in sequence(told.get("prompt"))]
    names = (str(told[name]) for name in TELLING if isinstance(told.get(name), str | int))
    lists = [f"{len(each)} {name}" for name, each in result.items() if isinstance(each, list) and name != "content"]
    return next(filter(None, prompt), "") or next(names, "") or " ".join(lists)
