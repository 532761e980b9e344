"""Which kind of output a run has, made only when there is something to show: rich and msgspec are not free."""

import sys
from typing import TYPE_CHECKING

from acp_launch.errors import LaunchError, Stopped

if TYPE_CHECKING:
    from acp_launch.console.live import Live
    from acp_launch.console.ndjson import Ndjson
    from acp_launch.console.plain import Plain, Quiet
    from acp_launch.session.client import Ask

LAST_WORDS = 0.5  # seconds for a reader to take the end of our output once we were told to stop


class Screen:
    def __init__(self, output: str) -> None:
        """`output` is text, json or quiet."""
        self._output = output
        self._observer: Ndjson | Quiet | Plain | Live | None = None

    @property
    def observer(self) -> "Ndjson | Quiet | Plain | Live":
        if self._observer is None:
            self._observer = self._make()
        return self._observer

    def _make(self) -> "Ndjson | Quiet | Plain | Live":
        if self._output == "text" and sys.stdout.isatty():
            from acp_launch.console.live import Live

            return Live()
        from acp_launch.console.outlet import Outlet

        if self._output == "json":
            from acp_launch.console.ndjson import Ndjson

            return Ndjson(Outlet())
        from acp_launch.console.plain import Plain, Quiet

        return Quiet(Outlet()) if self._output == "quiet" else Plain(Outlet())

    def ask(self) -> "Ask | None":
        """How to ask a person, or None when there is nobody to ask."""
        from acp_launch.console.question import Question, possible

        if not possible():
            return None
        return Question(self.observer.pause).ask

    def failed(self, error: LaunchError) -> None:
        """Leave what was shown whole, and tell a script what went wrong."""
        if self._observer is None and self._output != "json":
            return
        import asyncio

        from acp_launch.console.outlet import OutputClosed

        self.observer.failed(error)
        patience = LAST_WORDS if isinstance(error, Stopped) else None
        try:
            asyncio.run(asyncio.wait_for(self.observer.drain(), patience))
        except (OutputClosed, TimeoutError):
            return  # nobody is left to tell
