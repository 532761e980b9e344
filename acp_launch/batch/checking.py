"""
The check of an item: a command in its directory after the agent's turn, which alone decides whether the item passed.

It is started as everything is: below guards, so that its whole tree ends with it, after its time-out, and with us. It
is over when its process has ended. No shell is involved, stdin is /dev/null, and no secret is in its environment.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from acp_launch.batch.model import CheckResult
from acp_launch.cli.start import record_and_guard
from acp_launch.cli.verb import load_settings
from acp_launch.errors import AgentError, StateError
from acp_launch.launch.loop import Interrupts, run_supervised
from acp_launch.plan.environment import inherited
from acp_launch.plan.executable import CannotRun, find
from acp_launch.private import replace
from acp_launch.process.child import first_of
from acp_launch.process.terminal import Terminal
from acp_launch.waits import seconds

OUTPUT = 10 * 1024 * 1024  # bytes: the end is kept, where test runners sum up
LOOK_EVERY = 0.5  # seconds
CANNOT_START = 127  # as in a shell


def find_missing(command: Sequence[str], environ: Mapping[str, str]) -> CannotRun | None:
    """Say why the program of a check cannot be found on PATH; None if it can, or is a path, which the item decides."""
    if "/" in command[0]:
        return None
    found = find(command[0], project=Path("/"), path=environ.get("PATH"))
    return found if isinstance(found, CannotRun) else None


def run_check(
    command: Sequence[str],
    timeout: float,
    cwd: Path,
    output_file: Path,
    environ: Mapping[str, str],
    *,
    look: Callable[[], None] = lambda: None,
) -> CheckResult:
    """Run the check, and write what it printed. `look` is called twice a second; what it raises ends the check.

    A program given as a path that cannot be started is a check that failed: the agent may have removed it.

    Raises:
        StateError: its program is not on PATH, or the output cannot be written.
        Stopped: a signal came.
    """
    begun = time.monotonic()
    if missing := find_missing(command, environ):
        raise StateError(f"the check cannot run: {missing.message}", fix=missing.fix)
    program = find(command[0], project=cwd, path=environ.get("PATH"))
    if isinstance(program, CannotRun):
        code, text = _explain(program.message)
    else:
        with record_and_guard(load_settings(), "batch", "check", cwd) as guard:
            argv = [str(program), *command[1:]]
            story = partial(_carry_out, argv, timeout, cwd, inherited(environ, "all"), look)
            code, text = run_supervised(guard, story)
    try:
        replace(output_file, text.encode(errors="replace"))
    except OSError as error:
        raise StateError(f"cannot write {output_file}: {error.strerror}") from None
    return CheckResult(command=tuple(command), exit_code=code, seconds=round(time.monotonic() - begun, 3))


def _explain(message: str) -> tuple[int | None, str]:
    return CANNOT_START, f"acp-launch: {message}\n"


async def _carry_out(
    argv: Sequence[str],
    timeout: float,
    cwd: Path,
    env: Mapping[str, str],
    look: Callable[[], None],
    interrupts: Interrupts,
) -> tuple[int | None, str]:
    """Return the exit code, None after the time-out, and what was printed."""
    try:
        terminal = Terminal(
            argv, env=env, cwd=cwd, name="check", limit=OUTPUT, said=lambda text: None, ended=lambda exit: None
        )
    except AgentError as error:
        return _explain(error.message)
    terminal.hurry = interrupts.hurry
    try:
        try:
            has_ended = await interrupts.watch(_wait(terminal, timeout, look))
        finally:
            await terminal.end()
    finally:
        terminal.drop()
    text, is_cut = terminal.output()
    head = f"acp-launch: only the last {OUTPUT // 2**20} MiB follow\n" if is_cut else ""
    if not has_ended or terminal.exit is None:
        return None, f"{head}{text}\nacp-launch: the check did not end within {seconds(timeout)}\n"
    status, signal_number = terminal.exit.status, terminal.exit.signal
    return 128 + signal_number if signal_number is not None else status, head + text


async def _wait(terminal: Terminal, timeout: float, look: Callable[[], None]) -> bool:
    """Wait for the end of the check; False if the time-out came first."""
    try:
        async with asyncio.timeout(timeout):
            while terminal.exit is None:
                look()
                await first_of(terminal.wait(), within=LOOK_EVERY)
    except TimeoutError:
        return False
    return True
