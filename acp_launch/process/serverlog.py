"""A log file for each server of a launch, beside its agent's; lines of ours say when each process began and ended."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from acp_launch.process.logfile import LogFile
from acp_launch.secret.redact import Redactor, redactor


class ServerLogs:
    """`server` is a name as in `process.change`: `github#2` has a file of its own."""

    def __init__(self, directory: Path, profile: str, *, launch: str = "", source: Redactor = redactor) -> None:
        self._directory = directory
        self._profile = profile
        self._launch = launch
        self._redactor = source
        self._logs: dict[str, LogFile] = {}
        self._is_closed = False

    def of(self, server: str) -> Callable[[bytes], None]:
        """Takes what it says on stderr, redacted already (`process.pipes`). OSError when it cannot be written."""
        return self._log(server)

    def mark(self, server: str, text: str) -> None:
        """Note something between the lines: "started (pid 123), restart 1". Never raises, and is redacted here."""
        if self._is_closed:
            return
        with suppress(OSError):  # the next bytes run into the same, and who sends them says so
            self._log(server).mark(f"{server} {self._redactor.text(text)}")

    def close(self) -> None:
        """What is still said goes nowhere: a write after this is a ValueError."""
        self._is_closed = True
        for log in self._logs.values():
            log.close()

    def end(self, server: str) -> None:
        """This process of the server will not come back; its file is closed."""
        if log := self._logs.pop(server, None):
            log.close()

    def _log(self, server: str) -> LogFile:
        if server not in self._logs:
            self._logs[server] = LogFile(self._directory, self._profile, server, launch=self._launch)
        return self._logs[server]
