"""The output of a run, and the user at its terminal. The output is made when there is something to show."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from acp_launch import shutdown
from acp_launch.errors import LaunchError, RunExpired, Stopped
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.console.ask.terminal import StillClock
    from acp_launch.console.stream.redacted import RunOutput
    from acp_launch.engine.context import Elicit
    from acp_launch.session.elicitation import Elicitation
    from acp_launch.session.events import Person, TurnEnd

ENDED_WELL, ENDED_SHORT, DENIED = 0, 9, 10  # docs/scripting.md
FLUSH_TIMEOUT = stretch(0.5)  # for a reader to take the end of our output after a signal or a time-out


def exit_code(end: "TurnEnd") -> int:
    if end.denied:
        return DENIED
    return ENDED_WELL if end.stop_reason == "end_turn" else ENDED_SHORT


def elicitor(person: "Person") -> "Elicit":
    """Return what makes the forms and links of an agent."""

    def make(agent: str, note: Callable[[str], None]) -> "Elicitation":
        from acp_launch.console.ask.forms import make_elicitation

        return make_elicitation(person, agent, note)

    return make


class Screen:
    """The output of a run, and the user at its terminal."""

    def __init__(self, output: str, *, has_links: bool = True) -> None:
        """`output` is text, json or quiet."""
        self._output = output
        self._has_links = has_links
        self.roots: Sequence[Path] = ()  # the directories of the session, once they are known
        self._observer: RunOutput | None = None
        self._clock: StillClock | None = None  # of the drawing

    @property
    def observer(self) -> "RunOutput":
        if self._observer is None:
            from acp_launch.app.output import make_output, redacting

            made, self._clock = make_output(self._output, self.roots, has_links=self._has_links)
            self._observer = redacting(made)
        return self._observer

    def person(self) -> "Person | None":
        """Return the user at the terminal; None if there is no terminal to ask on."""
        if sys.stdin is None or not sys.stdin.isatty():
            return None
        from acp_launch.app.output import find_person

        return find_person(lambda: self.observer, lambda: self._clock)

    def show_wait(self, what: str, waited: float, limit: float) -> None:
        """Report a wait that happens before the run has an observer."""
        if self._output != "json":
            from acp_launch.app.stores import say_waiting

            say_waiting(what, waited, limit)
            return
        from acp_launch.app.output import put_waiting

        put_waiting(what, waited, limit)

    @contextmanager
    def report_failures(self) -> Iterator[None]:
        """Report a failure in the block, or the signal that ended it, and raise it again."""
        try:
            yield
        except LaunchError as error:
            self._show_failure(error)
            raise
        except KeyboardInterrupt:
            stopped = Stopped("stopped", signal_number=shutdown.code() - 128)
            self._show_failure(stopped)
            raise stopped from None

    def _show_failure(self, error: LaunchError) -> None:
        """Finish the output so far, and report the failure to a script."""
        if self._observer is None and self._output != "json":
            return
        from acp_launch.app.output import finish

        if isinstance(error, Stopped | RunExpired):
            shutdown.exit_deadline(FLUSH_TIMEOUT, error.exit_code)
        finish(self.observer, error)
