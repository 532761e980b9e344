"""
The output of `trace`: the steps of a trace, one line each, as they are read.

All text of agents and servers in it is on one line and cannot drive a terminal. Steps that repeat are counted.
"""

import json
import os
import sys
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import asdict

from acp_launch.console import stdout
from acp_launch.console.columns import cells, fit, plain
from acp_launch.console.sequence import Entry, Step
from acp_launch.console.stderr import DIM, harmless, say
from acp_launch.console.width import terminal_width

HEADINGS = ("TIME", "TOOK", "FROM → TO", "MESSAGE")
WAY = 20  # cells of `acp-launch → agent` and most servers' names
LONGEST = 400  # characters of a detail
COLOURS = {"start": "33", "exit": "33", "error": "31", "unanswered": "31", "notification": "2", "text": "35"}


class Filter(Struct, frozen=True):
    """The steps to show. `server` is a server's name, or `agent`; `method` may hold wildcards."""

    server: str | None = None
    method: str | None = None

    def shows(self, step: Step) -> bool:
        if self.method is not None and not fnmatchcase(step.method, self.method):
            return False
        if self.server is None or self.server in (step.server, step.server.partition("#")[0]):
            return True
        return self.server == "agent" and not step.server


class TracePrinter:
    """Prints steps on stdout."""

    def __init__(self, wanted: Filter, *, as_json: bool) -> None:
        self._wanted, self._as_json = wanted, as_json
        self._last: tuple[Step, int] | None = None  # the step that may repeat, and how often it came
        self._width = terminal_width()
        self._is_coloured = (
            self._width is not None and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        )
        self._has_head = as_json

    def begin(self, header: Entry) -> None:
        said = f"{header.verb} of {header.profile}" if header.profile else header.verb
        say(f"acp-launch: {harmless(said, keep='')}, {harmless(header.time, keep='')}", style=DIM)

    def step(self, step: Step) -> None:
        if not self._wanted.shows(step):
            return
        if self._as_json:
            stdout.put_json(json.dumps(asdict(step)))
        elif self._last and _alike(self._last[0], step):
            self._last = self._last[0], self._last[1] + 1
        else:
            self.flush()
            self._last = step, 1

    def flush(self) -> None:
        """Print the step that is held back because it may repeat."""
        if self._last is not None:
            self._put(*self._last)
            self._last = None
        sys.stdout.flush()

    def _put(self, step: Step, count: int) -> None:
        if not self._has_head:
            self._has_head = True
            self._line(_row(*HEADINGS), "1")
        message = _message(step) + (f" ×{count:,}" if count > 1 else "")
        took = "" if step.took is None else duration(step.took)
        self._line(_row(f"{step.at:.3f}", took, _way(step), message), COLOURS.get(step.kind, ""))

    def _line(self, row: str, colour: str) -> None:
        shown = row if self._width is None else fit(row[: 2 * self._width], self._width)
        painted = f"\x1b[{colour}m{shown}\x1b[0m" if colour and self._is_coloured else shown
        sys.stdout.buffer.write(f"{painted}\n".encode(errors="replace"))
        if self._width is not None:  # a user may look at a run that goes on
            sys.stdout.buffer.flush()


def duration(seconds: float) -> str:
    """Return `0.4 ms`, `12 ms`, `3.2 s` or `4.5 min`."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.00995 else f"{1000 * seconds:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _alike(one: Step, other: Step) -> bool:
    if one.kind != "notification" or other.kind != "notification":
        return False
    same = (one.server, one.sender, one.method, one.detail)
    return same == (other.server, other.sender, other.method, other.detail)


def _way(step: Step) -> str:
    """Return who spoke to whom. On a server's connection, acp-launch may speak in the place of either side."""
    server = plain(step.server) or "agent"
    if step.kind in ("start", "exit"):
        return server
    names = {"acp-launch": "acp-launch", "agent": "agent", "server": server}
    return f"{names.get(step.sender, '?')} → {names.get(step.receiver, '?')}"


def _message(step: Step) -> str:
    method = plain(step.method)
    detail = plain(step.detail[:LONGEST])
    told = ": ".join(filter(None, (method, detail)))
    match step.kind:
        case "start":
            return f"started, {detail}" if detail else "connecting"
        case "exit":
            return detail
        case "text":
            return f"not a message: {detail}"
        case "answer":
            return f"answer to {told if method else 'an unknown request'}"
        case "error":
            return f"error for {method or 'an unknown request'}: {detail}"
        case "unanswered":
            return f"{told} was not answered"
    return told


def _row(time: str, took: str, way: str, message: str) -> str:
    return f"{time:>9}  {took:>8}  {way}{' ' * (WAY - cells(way))}  {message}"
