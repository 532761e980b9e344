"""
An interactive session under 100,000 updates, against `run --output text` into a pipe, in CPU.

`python -m tests.benchmarks.interactive [PAIRS]`. Both are the real program with the demo agent (`flood 100000`). The
clock is the CPU of acp-launch and of all it started but the agent. It runs over the turn alone on the interactive side,
from Enter to the end of the answer; over the whole run on the other, whose start is measured with `flood 1` and taken
off. The pty is read as fast as can be, and nothing is drawn of it. Pairs run back to back, A B A B …; what is quoted is
the median of their ratios. Nothing here asserts.
"""

import fcntl
import os
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.benchmarks.run import US
from tests.cli.terminal import BECOME

COUNT = 100_000
COLUMNS, ROWS = 100, 40
READY = b"\x1b]2;ready: "  # the window's title: of the screen only what changes is written
USED = b" of 100,000 tokens"  # the last line of a turn
PATIENCE = 120.0  # seconds
AGENT = "acp_launch.demo.agent"
CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Pty:
    """Reads a terminal and looks for words; draws nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._tail = b""  # not looked through yet
        self.size = 0  # bytes so far

    def until(self, expected: bytes) -> None:
        """Read on until it was written, anew since the last time."""
        deadline = time.monotonic() + PATIENCE
        while expected not in (shown := CONTROL.sub(b"", self._tail)):
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise SystemExit(f"{expected!r} was never written; the last was {self._tail[-500:]!r}")
            try:
                piece = os.read(self._descriptor, 1 << 16)
            except OSError:  # how a pty tells the end
                raise SystemExit(f"it ended before {expected!r}: {self._tail.decode(errors='replace')}") from None
            self.size += len(piece)
            self._tail = self._tail[-8192:] + piece
        self._tail = shown.split(expected, 1)[1]

    def types(self, text: str) -> None:
        os.write(self._descriptor, text.encode())


@contextmanager
def terminal(env: Mapping[str, str], cwd: Path, *words: str) -> Iterator[tuple[Pty, psutil.Process]]:
    """Run `run demo`, or the command `words`, on a terminal."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    argv = [sys.executable, "-c", BECOME, *US, *(words or ("run", "demo"))]
    child = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd, start_new_session=True)
    os.close(theirs)
    pty = Pty(ours)
    try:
        yield pty, psutil.Process(child.pid)
        pty.types("\x04")
        child.wait(PATIENCE)
    finally:
        child.kill()
        child.wait()
        os.close(ours)


def cpu(process: psutil.Process) -> float:
    """Of it and all that it started, without the agent."""
    return sum(_seconds(each) for each in [process, *process.children(recursive=True)])


def _seconds(process: psutil.Process) -> float:
    try:
        if AGENT in process.cmdline():
            return 0.0
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def interactive(env: Mapping[str, str], cwd: Path) -> tuple[float, float, int]:
    """CPU, wall seconds and bytes written, of one turn."""
    with terminal(env, cwd) as (pty, process):
        pty.until(READY)
        pty.types("add 1 1\r")  # the servers have been looked for, and everything is imported
        pty.until(USED)
        pty.until(READY)
        before, began, size = cpu(process), time.perf_counter(), pty.size
        pty.types(f"flood {COUNT}\r")
        pty.until(USED)
        pty.until(READY)
        return cpu(process) - before, time.perf_counter() - began, pty.size - size


def piped(count: int, env: Mapping[str, str], cwd: Path) -> float:
    """CPU of a whole run, without the agent: looked at when the answer is there, before anybody has ended."""
    argv = [*US, "run", "demo", "--output", "text", f"flood {count}"]
    nowhere = subprocess.DEVNULL
    child = subprocess.Popen(argv, stdin=nowhere, stdout=subprocess.PIPE, stderr=nowhere, env=env, cwd=cwd)
    assert child.stdout
    process = psutil.Process(child.pid)
    tail, used = b"", 0.0
    while piece := os.read(child.stdout.fileno(), 1 << 16):
        tail = tail[-32:] + piece
        if tail.rstrip().endswith(str(count).encode()):
            used = cpu(process)
    child.stdout.close()
    if child.wait(PATIENCE) or not used:
        raise SystemExit(f"run ended with {child.returncode}")
    return used


def to_prompt(pairs: int, env: Mapping[str, str], cwd: Path) -> tuple[list[float], list[float]]:
    """Wall seconds until the first prompt of `run demo` can be typed, and of one whole `run demo hello`."""
    drawn, whole = [], []
    env = {**env, "TERM": "xterm-256color", "ACP_DEMO_HOME": str(cwd / "demo")}
    for _ in range(pairs + 1):
        began = time.perf_counter()
        with terminal(env, cwd) as (pty, _):
            pty.until(READY)
            drawn.append(time.perf_counter() - began)
        began = time.perf_counter()
        subprocess.run([*US, "run", "demo", "hello"], env=env, cwd=cwd, capture_output=True, check=True)
        whole.append(time.perf_counter() - began)
    return drawn[1:], whole[1:]  # the first pair warms caches


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        env = {**os.environ, "HOME": directory, "TERM": "xterm-256color", "ACP_DEMO_HOME": str(scratch / "demo")}
        env |= {f"ACP_LAUNCH_{kind}_DIR": str(scratch / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}
        both = []
        for _ in range(pairs):
            drawn, wall, size = interactive(env, scratch)
            plain = piped(COUNT, env, scratch) - piped(1, env, scratch)
            both.append((drawn / plain, drawn, plain, wall, size))
    ratios, drawn_all, plain_all, walls, sizes = zip(*both, strict=True)
    print(f"| {COUNT:,} updates | ratio of CPU, median (range) | interactive | --output text |")
    print("|---|---|---|---|")
    ratio = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
    print(
        f"| `flood {COUNT}` | {ratio} | {statistics.median(drawn_all):.2f} s | {statistics.median(plain_all):.2f} s |"
    )
    print(f"\nThe turn took {statistics.median(walls):.1f} s and wrote {statistics.median(sizes) / 2**20:.1f} MiB.")


if __name__ == "__main__":
    main()
