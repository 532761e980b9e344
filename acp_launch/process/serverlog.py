"""A log file for each server of a launch, beside its agent's; lines of ours say when each process began and ended."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from acp_launch.process.logfile import LogFile
from acp_launch.secret.redact import Redactor, redactor

OPEN = 8  # files at once; the others are opened again when there is something to write


class ServerLogs:
    """`server` is a name as in `process.change`: `github#2` has a file of its own."""

    def __init__(self, directory: Path, profile: str, *, launch: str = "", source: Redactor = redactor) -> None:
        self._directory = directory
        self._profile = profile
        self._launch = launch
        self._redactor = source
        self._logs: dict[str, LogFile] = {}
        self._open: dict[LogFile, None] = {}  # the one that was written last at the end
        self._is_closed = False

    def of(self, server: str) -> Callable[[bytes], None]:
        """Takes what it says on stderr, redacted already (`process.pipes`). OSError when it cannot be written."""
        log = self._log(server)

        def write(data: bytes) -> None:
            self._make_room(log)
            log(data)

        return write

    def mark(self, server: str, text: str) -> None:
        """Note something between the lines: "started (pid 123), restart 1". Never raises, and is redacted here."""
        if self._is_closed:
            return
        with suppress(OSError):  # the next bytes run into the same, and who sends them says so
            log = self._log(server)
            self._make_room(log)
            log.mark(f"{server} {self._redactor.text(text)}")

    def close(self) -> None:
        """What is still said goes nowhere: a write after this is a ValueError."""
        self._is_closed = True
        for log in self._logs.values():
            log.close()

    def end(self, server: str) -> None:
        """This process of the server will not come back; its file is closed."""
        if log := self._logs.pop(server, None):
            self._open.pop(log, None)
            log.close()

    def _make_room(self, log: LogFile) -> None:
        """`log` is about to be written."""
        self._open.pop(log, None)
        self._open[log] = None
        if len(self._open) > OPEN:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.rest()

    def _log(self, server: str) -> LogFile:
        if server not in self._logs:
            self._logs[server] = LogFile(self._directory, self._profile, server, launch=self._launch)
        return self._logs[server]
