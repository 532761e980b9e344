"""
The check of an item: a command in its directory after the agent's turn, which alone decides whether the item passed.

It is started as everything is: below guards, so that its whole tree ends with it, after its time-out, and with us. It
is over when its process has ended. No shell is involved, stdin is /dev/null, and no secret is in its environment. It
runs code that the agent has written, so it runs in the agent's place: in the box of a confined agent, or in another
container of the same image, which has none of our variables. On another machine it cannot run.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from acp_launch.app.spec import load_settings
from acp_launch.app.start import record_and_guard
from acp_launch.batch.model import CheckCommand, CheckResult
from acp_launch.engine.loop import Interrupts, run_supervised
from acp_launch.errors import AgentError, StateError
from acp_launch.plan.executable import CannotRun, find, inherited
from acp_launch.plan.model import OverSsh, Place
from acp_launch.plan.place import enclose, shows
from acp_launch.plan.written import keep_path
from acp_launch.private import real
from acp_launch.process.containers import label_arguments
from acp_launch.process.terminal import Terminal
from acp_launch.waits import first_of, seconds

MAX_OUTPUT_BYTES = 10 * 1024 * 1024  # the end is kept, where test runners sum up
POLL_SECONDS = 0.5
CANNOT_START = 127  # as in a shell


def run_check(
    check: CheckCommand,
    cwd: Path,
    place: Place | None,
    is_cancelled: Callable[[], bool],
    *,
    called: str = "check",
) -> tuple[CheckResult, str]:
    """Run the check in a place, or outside; return its end and what it printed. `is_cancelled` is asked twice a second.

    A program given as a path that cannot be started is a check that failed: the agent may have removed it.

    Raises:
        StateError: its program is not on PATH, or not in the place.
        Stopped: a signal came, or it was cancelled.
    """
    begun = time.monotonic()
    there = None if place is None else place.elsewhere
    program = find(check.command[0], project=cwd, path=os.environ.get("PATH")) if there is None else check.command[0]
    if not isinstance(program, CannotRun):
        if place is not None and (fault := find_absence(check, place, cwd)):
            raise StateError(fault[0], fix=fault[1])
        with record_and_guard(load_settings(), "batch", "check", cwd, place) as guard:
            argv = [str(program), *check.command[1:]]
            code, text = run_supervised(guard, partial(_carry_out, argv, check.timeout, cwd, place, is_cancelled))
    elif "/" in check.command[0]:
        code, text = CANNOT_START, f"acp-launch: {program.message}\n"
    else:
        raise StateError(f"the {called} cannot run: {program.message}", fix=program.fix)
    return CheckResult(command=check.command, exit_code=code, seconds=round(time.monotonic() - begun, 3)), text


def find_absence(check: CheckCommand, place: Place, cwd: Path) -> tuple[str, str] | None:
    """Say why a check cannot run in a place, and the fix. What an image has is not known."""
    if isinstance(place.elsewhere, OverSsh):
        return f"the check runs where the agent does, and cannot {place.words}", "write check: {outside: true}"
    if place.elsewhere is not None:
        return None
    program = find(check.command[0], project=cwd, path=os.environ.get("PATH"))
    if isinstance(program, CannotRun) or program.is_relative_to(cwd):
        return None
    if all(shows(place, each) for each in (real(program.parent) / program.name, real(program))):
        return None
    what = f"the check runs in the place of the confined agent, where {program} is not"
    return what, "name it under runtime.confined.read, or write check: {outside: true}"


async def _carry_out(
    argv: Sequence[str],
    timeout: float,
    cwd: Path,
    place: Place | None,
    is_cancelled: Callable[[], bool],
    interrupts: Interrupts,
) -> tuple[int | None, str]:
    """Return the exit code, None after the time-out, and what was printed."""
    is_client = place is not None and place.elsewhere is not None
    outer = inherited(os.environ, "all")
    env = outer if place is None else inherited(os.environ, () if is_client else "minimal")
    if place is not None:
        labels = label_arguments() if is_client else ()
        argv, env = enclose(argv, env, cwd, place, labels=labels, outer=keep_path(outer))
    try:
        terminal = Terminal(
            argv,
            env=env,
            cwd=cwd,
            name="check",
            limit=MAX_OUTPUT_BYTES,
            is_boxed=place is not None,
            is_client=is_client,
            said=lambda text: None,
            ended=lambda exit: None,
        )
    except AgentError as error:
        return CANNOT_START, f"acp-launch: {error.message}\n"
    terminal.hurry = interrupts.hurry
    has_ended = False
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await interrupts.watch(_wait(terminal, is_cancelled, interrupts))
                has_ended = True
    finally:
        try:
            await terminal.end()
        finally:
            terminal.drop()
    text, is_cut = terminal.output()
    head = f"acp-launch: only the last {MAX_OUTPUT_BYTES // 2**20} MiB follow\n" if is_cut else ""
    if not has_ended or terminal.exit is None:
        return None, f"{head}{text}\nacp-launch: the check did not end within {seconds(timeout)}\n"
    status, signal_number = terminal.exit.status, terminal.exit.signal
    return 128 + signal_number if signal_number is not None else status, head + text


async def _wait(terminal: Terminal, is_cancelled: Callable[[], bool], interrupts: Interrupts) -> None:
    while terminal.exit is None:
        if is_cancelled():
            interrupts.interrupt()
        await first_of(terminal.wait(), within=POLL_SECONDS)
