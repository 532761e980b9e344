"""
The output of `logs`: `github | …`, as docker compose shows it, when there is more than one log.

A pipe or a file gets the bytes of each line unchanged. On a terminal, colours are removed, other control characters are
made visible, and only the last state of a progress bar is shown.
"""

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from zlib import crc32

from acp_launch.console.sessions import ago
from acp_launch.console.stderr import DIM, harmless, strip_colours, tell
from acp_launch.console.stdout import cells, has_colours
from acp_launch.errors import StateError
from acp_launch.process.logs import LogName, LogReader, SharedLogReader, began, logs, open_log

AGENT = "agent"
COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")


def label(name: LogName) -> str:
    """Return the label of a log. A server may be named "agent"; then it is "mcp:agent", since names have no colon."""
    return f"mcp:{AGENT}" if name.server == AGENT else name.server or AGENT


class LogPrinter:
    """Prints log lines to stdout, and notes to stderr between them."""

    def __init__(self, *, as_json: bool) -> None:
        self._written = self._json if as_json else self._line
        self._is_terminal = sys.stdout.isatty()
        self._is_coloured = has_colours()
        self._width = 0

    def prefix(self, labels: Iterable[str]) -> None:
        """Begin each further line with the label of its log; `labels` are some of the labels."""
        self._width = max([self._width, *map(cells, labels)])

    def line(self, name: LogName, line: bytes) -> None:
        rest = memoryview(self._written(name, line) + b"\n")
        while rest:  # with PYTHONUNBUFFERED, stdout may write only a part when a signal arrives
            rest = rest[sys.stdout.buffer.write(rest) :]

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def launch(self, name: LogName) -> None:
        """Announce the launch whose lines follow."""
        self.note(f"{name.profile}, started {ago(began(name.launch), now=time.time())}")

    def note(self, text: str) -> None:
        self.flush()
        tell(text, style=DIM)

    def _json(self, name: LogName, line: bytes) -> bytes:
        members = {"launch": name.launch, "profile": name.profile, "name": label(name)}
        return json.dumps({**members, "line": line.decode(errors="replace")}).encode()

    def _line(self, name: LogName, line: bytes) -> bytes:
        return self._prefix(label(name)) + (on_terminal(line) if self._is_terminal else line)

    def _prefix(self, of: str) -> bytes:
        if not self._width:
            return b""
        text = f"{of}{' ' * (self._width - cells(of))} |"
        if self._is_coloured:
            text = f"\x1b[{COLOURS[crc32(of.encode()) % len(COLOURS)]}m{text}\x1b[0m"
        return f"{text} ".encode(errors="replace")


def on_terminal(line: bytes) -> bytes:
    """Return what a terminal would show of this line, without control characters."""
    text = strip_colours(line.decode(errors="replace")).rstrip("\r").rpartition("\r")[2]
    return harmless(text, keep="\t").encode(errors="replace")


# The logs to show, now and while launches begin and servers start to write.


class LogWatch:
    """The logs of a profile's latest launch and of later ones, or of all profiles in `project`.

    `server` is a label, and means every process of that server. With `follow` there will be further looks, so each line
    gets a label from the beginning, since other logs may appear. `is_enough` is called before each line; when it
    returns True, no further line is shown.
    """

    def __init__(
        self,
        directory: Path,
        printer: LogPrinter,
        *,
        profile: str | None,
        server: str | None,
        project: Path | None = None,
        follow: bool = False,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> None:
        self._directory, self._printer = directory, printer
        self._profile, self._project, self._server = profile, project, server
        self._follow, self._is_enough = follow, is_enough
        self.since = ""  # the first launch whose logs are shown; empty if there is none
        self.trails: dict[Path, tuple[LogName, LogReader | SharedLogReader]] = {}
        self.has_lines = False
        self._is_through = False  # whether the last look reached the end, so that an incomplete line may be shown
        self._launches: set[str] = set()

    def look(self, last: int | None = None) -> None:
        """Show the lines written since the last look; at most the `last` lines of each log.

        Raises:
            StateError: a log cannot be read.
        """
        self._is_through = False
        try:
            self._is_through = self._look(last)
        except OSError as error:
            if error.filename is None:
                raise  # the error is about stdout, which is closed or full
            fix = "see who owns it: ls -l"
            raise StateError(f"cannot read {error.filename}: {error.strerror}", fix=fix) from None

    def end(self) -> None:
        """Show incomplete last lines, if all lines before them were shown."""
        for name, trail in self.trails.values():
            if self._is_through:
                self._show_rest(name, trail)
            trail.close()
        if self._is_through:
            self._printer.flush()

    def _look(self, last: int | None) -> bool:
        """Return False if `is_enough` stopped it before the last line."""
        there = {
            file: name
            for file, name in logs(self._directory).items()
            if self._profile in (None, name.profile) and (self._project is None or name.is_of(self._project))
        }
        self.since = self.since or max((name.launch for name in there.values()), default="")
        now = {file: name for file, name in there.items() if name.launch >= self.since and self._wants(label(name))}
        if (self._follow and self._server is None) or sum(map(_is_written, {*self.trails, *now})) > 1:
            self._printer.prefix(map(label, now.values()))
        for file, name in now.items():
            if file not in self.trails:
                self.trails[file] = name, open_log(file)
        for file, (name, trail) in list(self.trails.items()):
            if name.launch not in self._launches:
                self._launches.add(name.launch)
                self._printer.launch(name)
            if not self._show(name, _last(trail, last) if last is not None else trail.lines()):
                return False
            if not self._follow or file not in now:  # the files of old launches are removed
                self._show_rest(name, trail)
            if file not in now:
                self.trails.pop(file)[1].close()
        self._printer.flush()
        return True

    def _show(self, name: LogName, lines: Iterable[bytes]) -> bool:
        for line in lines:
            if self._is_enough():
                return False
            self.has_lines = True
            self._printer.line(name, line)
        return True

    def _show_rest(self, name: LogName, trail: LogReader | SharedLogReader) -> None:
        if rest := trail.rest():
            self.has_lines = True
            self._printer.line(name, rest)

    def _wants(self, of: str) -> bool:
        return self._server is None or of == self._server or of.startswith(f"{self._server}#")


def _is_written(log: Path) -> bool:
    """Tell whether a log holds anything: the agent's is there before its first byte."""
    try:
        return log.stat().st_size > 0
    except OSError:  # it was full and is renamed at this moment, or removed with its launch
        return True


def _last(trail: LogReader | SharedLogReader, count: int) -> Iterable[bytes]:
    """Return the last lines. An incomplete line counts as one; it is shown later."""
    lines = deque(trail.lines(), min(count, sys.maxsize))
    if not count:
        trail.rest()
    elif trail.is_within_a_line and len(lines) == count:
        lines.popleft()
    return lines
