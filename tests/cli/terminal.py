"""acp-launch on a terminal of its own: a pty that is its controlling terminal, so that Ctrl-C is a real Ctrl-C."""

import fcntl
import os
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli import forkserver
from tests.cli.launcher import MARK, trusting
from tests.patience import PATIENCE

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
# Takes the terminal on stdin as its own, then becomes the program.
BECOME = "import fcntl, os, sys, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\nos.execvp(sys.argv[1], sys.argv[1:])\n"
ACP_LAUNCH = [sys.executable, "-m", "acp_launch"]
TIOCGPTN = 0x80045430  # <asm-generic/ioctls.h>
Process = subprocess.Popen[bytes] | forkserver.Process


def yes_or_no(question: str) -> str:
    """The rows of a question that waits for one key."""
    return f"▐ {question}\n▐ [y] Yes  [n] No"


class Terminal:
    def __init__(self, descriptor: int, process: Process) -> None:
        self._descriptor = descriptor
        self.process = process
        self.raw = b""

    @property
    def text(self) -> str:
        """Everything that was written, without what moves the cursor or colours."""
        return CONTROL.sub("", self.raw.decode(errors="replace"))

    def until(self, expected: str, times: int = 1) -> None:
        """Wait until `expected` was written so often."""
        deadline = time.monotonic() + PATIENCE
        while self.text.count(expected) < times:
            left = deadline - time.monotonic()
            assert left > 0 and self._read(left), f"no {expected!r} in {self.text!r}"

    def modes(self) -> list[Any]:
        """The terminal's, as `termios` gives them."""
        return termios.tcgetattr(self._descriptor)

    @property
    def number(self) -> int:
        """Its number among the pseudo-terminals of this machine (Linux)."""
        return int.from_bytes(fcntl.ioctl(self._descriptor, TIOCGPTN, bytes(4)), sys.byteorder)

    def resizes(self, columns: int, lines: int) -> None:
        termios.tcsetwinsize(self._descriptor, (lines, columns))

    def types(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def answers(self, dialogue: Mapping[str, str]) -> None:
        """Wait for each text in turn, and type what stands beside it."""
        for text, keys in dialogue.items():
            self.until(text)
            self.types(keys)

    def ends(self) -> int:
        """Read to the end; gives the exit code."""
        while self._read(PATIENCE):
            pass
        return self.process.wait(PATIENCE)

    def _read(self, patience: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], patience)
        if not ready:
            return False
        try:
            chunk = os.read(self._descriptor, 65536)
        except OSError:  # EIO: nobody has the other side any more
            return False
        self.raw += chunk
        return bool(chunk)


@contextmanager
def on_terminal(*arguments: str, cwd: Path, env: Mapping[str, str]) -> Iterator[Terminal]:
    ours, theirs = os.openpty()
    with begun([*ACP_LAUNCH, *trusting(arguments)], theirs, cwd=cwd, env=env) as process:
        yield Terminal(ours, process)
    os.close(ours)


@contextmanager
def begun(
    argv: Sequence[str], terminal: int, *, cwd: Path, env: Mapping[str, str], stdout: int | None = None
) -> Iterator[Process]:
    """Start a program whose controlling terminal this is; what still runs afterwards is killed.

    Acp-launch, and a script in Python, come from the fork server, unless a mark in their environment is to be seen in
    `/proc`.
    """
    out = terminal if stdout is None else stdout
    script = Path(argv[1]) if argv[0] == sys.executable and argv[1].endswith(".py") else None
    if (script or [*argv[:3]] == ACP_LAUNCH) and MARK not in env and forkserver.suits(env):
        process: Process = forkserver.start(
            argv[2 if script else 3 :],
            env=env,
            cwd=cwd,
            stdin=terminal,
            stdout=out,
            stderr=terminal,
            has_terminal=True,
            program=script,
        )
    else:
        command = [sys.executable, "-I", "-S", "-c", BECOME, *argv]
        process = subprocess.Popen(
            command, stdin=terminal, stdout=out, stderr=terminal, cwd=cwd, env=dict(env), start_new_session=True
        )
    os.close(terminal)
    with process:
        try:
            yield process
        finally:
            process.kill()
