"""The output of a run, once there is something to show, and the user whom it may ask."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from acp_launch.console.ask.terminal import StillClock, TerminalQuestions
from acp_launch.console.stderr import can_ask_user
from acp_launch.console.stream.ndjson import Ndjson
from acp_launch.console.stream.outlet import Outlet, OutputClosed
from acp_launch.console.stream.redacted import RedactedOutput, RunOutput
from acp_launch.console.stream.text import Plain, Quiet
from acp_launch.errors import LaunchError
from acp_launch.secret.redact import redactor
from acp_launch.session.events import Person, WaitingEvent, describe_error


def make_output(kind: str, roots: Sequence[Path], *, has_links: bool) -> tuple[RunOutput, StillClock | None]:
    """Make the output, and the clock of the drawing. `kind` is text, json or quiet."""
    if kind == "text" and sys.stdout.isatty():
        from acp_launch.console.draw.live import Live

        clock = StillClock()
        return Live(clock=clock, roots=roots, has_links=has_links), clock
    if kind == "json":
        return Ndjson(Outlet()), None
    return (Quiet(Outlet()) if kind == "quiet" else Plain(Outlet())), None


def redacting(output: RunOutput) -> RunOutput:
    return output if redactor.is_empty else RedactedOutput(output)


def find_person(observer: Callable[[], RunOutput], clock: Callable[[], StillClock | None]) -> Person | None:
    return TerminalQuestions(observer().pause, clock()) if can_ask_user() else None


def put_waiting(what: str, waited: float, limit: float) -> None:
    """Put a wait into its own output: the run's needs to know the secrets that it must mask."""
    output = Ndjson(Outlet())
    output.show(WaitingEvent(what=what, seconds=waited, limit=limit))
    asyncio.run(output.drain())


def finish(output: RunOutput, error: LaunchError) -> None:
    """Show the failure that ends a run."""
    output.show(describe_error(error))
    try:
        asyncio.run(output.drain())
    except OutputClosed:
        return  # the reader is gone
