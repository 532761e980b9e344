"""
A program in the user's own terminal: it talks with the user while we wait, and afterwards everything is restored.

It gets our stdin and stderr, and its own process group, which is then the terminal's foreground group. So Ctrl-C
reaches only the program, and Ctrl-Z suspends it and us with it, as a shell expects of one job.
"""

import asyncio
import os
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from acp_launch import shutdown
from acp_launch.errors import MachineError
from acp_launch.problem import Problem
from acp_launch.process import prepare
from acp_launch.process.child import GRACE_SECONDS, reaped
from acp_launch.process.program import LocalProgram
from acp_launch.process.spawn import spawn_in_our_session
from acp_launch.process.table import block_until_gone
from acp_launch.process.tree import Exit, Tree, from_wait_status, rounds, terminate
from acp_launch.process.watch import on_exit, until_gone
from acp_launch.waits import first_of

STDIN, STDOUT, STDERR = 0, 1, 2
POLL_SECONDS = 0.2  # until we notice that it was suspended, which some platforms do not report
ROUNDS, ROUND = 20, 0.25  # of the last kill, and seconds for each; one is enough, in microseconds
# Programs may leave behind: the alternate screen, a hidden cursor, mouse, focus and paste reports, and colours. If none
# is on, this changes nothing: unlike 1049, 47 moves no cursor.
REPORTS = (1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004)
TIDY = b"\x1b[?47l\x1b[?25h" + b"".join(b"\x1b[?%dl" % report for report in REPORTS) + b"\x1b[0m"


async def foreground(program: LocalProgram) -> Exit:
    """Run it to its end, however long that takes.

    The caller has stopped using the terminal and has left it in its usual mode. Afterwards its mode and its foreground
    group are restored, and nothing of the program's tree is left. Being cancelled ends it.

    Raises:
        AgentError: it could not be started.
        MachineError: stdin is not our terminal, or stderr is not shown on one.
    """
    if not available():
        message = "this needs a terminal on stdin and stderr"
        raise MachineError([Problem("", 0, 0, "", message, "run it in a terminal, without redirecting them")])
    terminal = _Terminal()
    streams = (STDIN, STDOUT if os.isatty(STDOUT) else STDERR, STDERR)
    tree: Tree | None = None
    with terminal.taken_back():
        try:
            with shutdown.critical_section():  # a signal in between would leave a program that is not known yet
                spawned = spawn_in_our_session(
                    program.argv,
                    env=program.env,
                    cwd=program.cwd,
                    name=program.name,
                    streams=streams,
                    is_client=program.is_client,
                )
                tree = Tree(spawned)
            with reaped():
                ended = await _until_over(tree, terminal)
        finally:
            if tree is not None:
                try:
                    left = tree.alive_for_sure()
                    terminate(left)
                    await until_gone(left, within=GRACE_SECONDS)
                finally:
                    for _, killed in zip(range(ROUNDS), rounds(tree), strict=False):
                        block_until_gone(killed, within=ROUND)
                    tree.spawned.mark_ended()
        terminal.is_at_line_start = ended.signal is None
        return ended


def available() -> bool:
    """Whether stdin is our controlling terminal, and stderr is shown on a terminal."""
    try:
        return os.isatty(STDERR) and os.tcgetpgrp(STDIN) > 0
    except OSError:  # it is not a terminal, or not ours
        return False


class _Terminal:
    """The terminal on stdin, and its former state."""

    def __init__(self) -> None:
        self._modes: list[Any] = termios.tcgetattr(STDIN)
        self.is_at_line_start = False  # the last program has ended in order

    def give(self, group: int) -> None:
        """Let `group` read from it and get its signals. From the background, this suspends us until `fg`."""
        try:
            os.tcsetpgrp(STDIN, group)
            os.killpg(group, signal.SIGCONT)  # it may have been stopped for reading too early
        except OSError:
            return  # the group or the terminal is gone already; the wait for the program shows it

    def suspend_with(self, group: int) -> None:
        """Suspend us, because `group` was suspended, until the shell continues us.

        Does nothing without such a shell.
        """
        modes: list[Any] = termios.tcgetattr(STDIN)
        self._take_back()
        os.kill(0, signal.SIGTSTP)  # the whole of our job
        termios.tcsetattr(STDIN, termios.TCSANOW, modes)
        self.give(group)

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """Restore the terminal after the block to its state when this object was created."""
        try:
            yield
        finally:
            tidying = b"" if os.environ.get("TERM", "dumb") == "dumb" else TIDY
            self._take_back(tidying + (b"" if self.is_at_line_start else b"\n"))

    def _take_back(self, tidying: bytes = b"") -> None:
        # We are in the background now, where this would suspend us.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            os.tcsetpgrp(STDIN, os.getpgrp())
            termios.tcsetattr(STDIN, termios.TCSANOW, self._modes)
            os.write(STDERR, tidying)
        except (OSError, termios.error):
            return  # it hung up: nothing to restore
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _until_over(tree: Tree, terminal: _Terminal) -> Exit:
    spawned = tree.spawned
    terminal.give(spawned.pid)
    over = asyncio.Event()
    forget = on_exit(spawned, over.set)
    try:
        while True:
            await first_of(over.wait(), within=POLL_SECONDS)
            if over.is_set():
                break
            if prepare.IS_LINUX:
                tree.alive()  # remembers those that leave its group, clean their environment and lose their parents
            now = prepare.table().read(spawned.pid)
            if now is not None and now.is_stopped:
                terminal.suspend_with(spawned.pid)
    finally:
        forget()
    assert spawned.status is not None
    return from_wait_status(spawned.status)
