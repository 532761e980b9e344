"""The output of a run. It is created when there is something to show, because importing rich and msgspec takes time."""

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from acp_launch import leave
from acp_launch.errors import LaunchError, RunExpired, Stopped
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from acp_launch.console.ask.terminal import StillClock
    from acp_launch.console.stream.redacted import Output
    from acp_launch.session.person import Person

LAST_WORDS = stretch(0.5)  # seconds for a reader to take the end of our output after a signal or a time-out


class Screen:
    def __init__(self, output: str, *, has_links: bool = True) -> None:
        """`output` is text, json or quiet."""
        self._output = output
        self._has_links = has_links
        self.roots: Sequence[Path] = ()  # the directories of the session, once they are known
        self._observer: Output | None = None
        self._clock: StillClock | None = None  # of what is drawn

    @property
    def observer(self) -> "Output":
        if self._observer is None:
            from acp_launch.secret.redact import redactor

            self._observer = self._make()
            if not redactor.is_empty:
                from acp_launch.console.stream.redacted import RedactedOutput

                self._observer = RedactedOutput(self._observer)
        return self._observer

    def _make(self) -> "Output":
        if self._output == "text" and sys.stdout.isatty():
            from acp_launch.console.ask.terminal import StillClock
            from acp_launch.console.draw.live import Live

            self._clock = StillClock()
            return Live(clock=self._clock, roots=self.roots, has_links=self._has_links)
        from acp_launch.console.stream.outlet import Outlet

        if self._output == "json":
            from acp_launch.console.stream.ndjson import Ndjson

            return Ndjson(Outlet())
        from acp_launch.console.stream.text import Plain, Quiet

        return Quiet(Outlet()) if self._output == "quiet" else Plain(Outlet())

    def person(self) -> "Person | None":
        """Return the user at the terminal; None if there is no terminal to ask on."""
        if sys.stdin is None or not sys.stdin.isatty():
            return None
        from acp_launch.console.ask.terminal import Questions, possible

        if not possible():
            return None
        return Questions(self.observer.pause, self._clock)

    def waiting(self, what: str, waited: float, limit: float) -> None:
        """Report a wait that happens before the run has an observer."""
        if self._output != "json":
            from acp_launch.cli.stores import say_waiting

            say_waiting(what, waited, limit)
            return
        import asyncio

        observer = self._make()  # not the run's own, which needs to know the secrets it must mask
        observer.waiting(what, waited, limit)
        asyncio.run(observer.drain())

    @contextmanager
    def reporting(self) -> "Iterator[None]":
        """Report a failure in the block, or the signal that ended it, and raise it again."""
        try:
            yield
        except LaunchError as error:
            self.failed(error)
            raise
        except KeyboardInterrupt:
            stopped = Stopped("stopped", signal_number=leave.code() - 128)
            self.failed(stopped)
            raise stopped from None

    def failed(self, error: LaunchError) -> None:
        """Finish the output so far, and report the failure to a script."""
        if self._observer is None and self._output != "json":
            return
        import asyncio

        from acp_launch.console.stream.outlet import OutputClosed

        if isinstance(error, Stopped | RunExpired):
            leave.within(LAST_WORDS, error.exit_code)
        self.observer.failed(error)
        try:
            asyncio.run(self.observer.drain())
        except OutputClosed:
            return  # the reader is gone
