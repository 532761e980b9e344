"""
What every benchmark here measures with: pairs, and a table of their ratios.

A B A B …: each pair runs back to back, and what is quoted is the median of the pairs' ratios. Machines are shared
and noisy; nothing here is a test, and nothing here asserts.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).parent
PYTHON = sys.executable
SCRIPT = Path(PYTHON).parent / "acp-launch"  # what people type
SLOWING = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}  # which nobody who has installed us is subject to
US = [str(SCRIPT)] if SCRIPT.exists() else [PYTHON, "-m", "acp_launch"]
BARE = [PYTHON, "-I", "-c", "pass"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds, and MiB of the largest single process."""

    wall: float
    cpu: float
    peak: float = 0.0


def run(
    command: Sequence[str], env: Mapping[str, str], *, ends: Sequence[int] = (0,), given: bytes = b"", cwd: str = "."
) -> Run:
    """One process from start to end, as the kernel accounts for it (its children's CPU included)."""
    began = time.perf_counter()
    nowhere, pipe = subprocess.DEVNULL, subprocess.PIPE
    child = subprocess.Popen(command, stdout=nowhere, stderr=pipe, stdin=pipe if given else nowhere, env=env, cwd=cwd)
    assert child.stderr
    if child.stdin:
        child.stdin.write(given)
        child.stdin.close()
    words = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stderr.close()
    if child.returncode not in ends:
        raise SystemExit(f"{command} ended with {child.returncode}: {words.decode(errors='replace')}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def wall(run: Run) -> float:
    return run.wall


def cpu(run: Run) -> float:
    return run.cpu


def peak(run: Run) -> float:
    return run.peak


def compared(ours: Callable[[], T], floor: Callable[[], T], pairs: int, *, warm: bool = True) -> list[tuple[T, T]]:
    """Measure both in turns; a first pair, which is not counted, fills caches and compiles modules."""
    if warm:
        ours(), floor()
    return [(ours(), floor()) for _ in range(pairs)]


HEAD = """\
| what | against | budget | ratio, median (range) | ours | floor | our peak |
|---|---|---|---|---|---|---|"""
SCALES = {"ms": 1000.0, "µs": 1e6}  # of seconds


def row(
    what: str, against: str, budget: str, pairs: Sequence[tuple[float, float]], unit: str = "ms", most: float = 0.0
) -> str:
    ratios = [one / other for one, other in pairs]
    scale = SCALES.get(unit, 1.0)
    ratio = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
    ours, floor = (f"{statistics.median(side) * scale:.0f} {unit}" for side in zip(*pairs, strict=True))
    return f"| {what} | {against} | {budget} | {ratio} | {ours} | {floor} | {f'{most:.0f} MiB' if most else '-'} |"


def fact(what: str, budget: str, text: str) -> str:
    """A row of what has no floor."""
    return f"| {what} | - | {budget} | - | {text} | - | - |"


@dataclass(frozen=True, slots=True)
class Row:
    """Two commands."""

    what: str
    against: str
    budget: str
    figure: Callable[[Run], float]
    ours: Sequence[str]
    floor: Sequence[str]
    pairs: int
    unit: str = "ms"

    def measured(self, env: Mapping[str, str]) -> str:
        both = compared(lambda: run(self.ours, env), lambda: run(self.floor, env), self.pairs)
        figures = [(self.figure(ours), self.figure(floor)) for ours, floor in both]
        return row(self.what, self.against, self.budget, figures, self.unit, max(ours.peak for ours, _ in both))


def agent(scratch: Path) -> list[str]:
    """The instant agent: compiled where there is a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return [PYTHON, "-I", "-S", str(HERE / "instant.py")]
    binary = scratch / "instant"
    subprocess.run([compiler, "-O2", "-o", str(binary), str(HERE / "instant.c")], check=True)
    return [str(binary)]


def profile(scratch: Path, instant: Sequence[str], *arguments: str) -> str:
    """A 60-line profile that starts the instant agent."""
    name = f"bench{'-'.join(arguments)}.yaml"
    servers = "".join(
        f"  server{number}:\n    command: {PYTHON}\n    args: [-V]\n    bridge: false\n"
        f"    env:\n      NAME: value{number}\n"
        for number in range(8)
    )
    agent_lines = f"  command: {instant[0]}\n  args: [{', '.join([*instant[1:], *(repr(a) for a in arguments)])}]\n"
    head = "# A profile of a usual size\nversion: 1\ndescription: benchmark\nagent:\n"
    (scratch / name).write_text(
        f"{head}{agent_lines}  inherit_env: all\npermissions:\n  default: deny\nmcp_servers:\n{servers}"
    )
    return str(scratch / name)


def environment(scratch: Path) -> dict[str, str]:
    """The environment of what is measured, with a home of its own."""
    env = {name: value for name, value in os.environ.items() if name not in SLOWING}
    env |= {"HOME": str(scratch), "NO_COLOR": "1", "ACP_DEMO_HOME": str(scratch / "demo")}
    return env | {f"ACP_LAUNCH_{kind}_DIR": str(scratch / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}


def wanted(default: int) -> int:
    """How many pairs, as the first argument says."""
    return int(sys.argv[1]) if len(sys.argv) > 1 else default
