"""
The first rows of DESIGN §9, as ratios against a floor measured in the same run: `python -m tests.benchmarks.run [N]`.

A B A B …: each pair runs back to back, and what is quoted is the median of the pairs' ratios. Machines are shared
and noisy; nothing here is a test, and nothing here asserts.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = sys.executable
SCRIPT = Path(PYTHON).parent / "acp-launch"  # what people type
SLOWING = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}  # which nobody who has installed us is subject to
US = [str(SCRIPT)] if SCRIPT.exists() else [PYTHON, "-m", "acp_launch"]


@dataclass(frozen=True, slots=True)
class Run:
    wall: float
    cpu: float
    peak: float  # MiB, the largest single process


def run(command: Sequence[str], env: Mapping[str, str]) -> Run:
    """One process from start to end, as the kernel accounts for it (its children's CPU included)."""
    began = time.perf_counter()
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env
    )
    assert child.stderr
    words = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stderr.close()
    if child.returncode:
        raise SystemExit(f"{command} ended with {child.returncode}: {words.decode(errors='replace')}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    against: str
    budget: str
    figure: Callable[[Run], float]
    ours: Sequence[str]
    floor: Sequence[str]
    pairs: int


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


def rows(scratch: Path, pairs: int) -> list[Row]:
    instant = agent(scratch)
    bare = [PYTHON, "-I", "-c", "pass"]
    raw = [PYTHON, str(HERE / "raw.py")]
    usual = profile(scratch, instant)
    many, long = profile(scratch, instant, "100000", "200"), profile(scratch, instant, "line", "48")
    uncached = ["env", "ACP_LAUNCH_CACHE_DIR=/dev/null/none", *US]
    few = max(3, pairs // 4)
    return [
        Row("--version, CPU", "python -I -c pass", "2x", cpu, [*US, "--version"], bare, pairs),
        Row("--help, CPU", "python -I -c pass", "-", cpu, [*US, "--help"], bare, pairs),
        Row(
            "validate, 60 lines, first time, CPU",
            "python -I -c pass",
            "9x",
            cpu,
            [*uncached, "validate", usual],
            bare,
            pairs,
        ),
        Row(
            "validate, 60 lines, checked before, CPU",
            "python -I -c pass",
            "5.5x",
            cpu,
            [*US, "validate", usual],
            bare,
            pairs,
        ),
        Row(
            "run, one shot, wall",
            "raw client",
            "2.5x",
            wall,
            [*US, "run", "--trust", usual, "hi"],
            [*raw, *instant],
            pairs,
        ),
        Row(
            "run --agent, wall",
            "raw client",
            "2.5x",
            wall,
            [*US, "run", "--agent", " ".join(instant), "hi"],
            [*raw, *instant],
            pairs,
        ),
        *(
            Row(
                f"100,000 updates of 200 B, {output}, wall",
                "raw client",
                "1.5x",
                wall,
                [*US, "run", "--trust", "-o", output, many, "hi"],
                [*raw, *instant, "100000", "200"],
                few,
            )
            for output in ("json", "quiet", "text")
        ),
        Row(
            "one 48 MB line, json, wall",
            "raw client",
            "linear",
            wall,
            [*US, "run", "--trust", "-o", "json", long, "hi"],
            [*raw, *instant, "line", "48"],
            few,
        ),
    ]


def ten_secrets(pairs: int, env: Mapping[str, str]) -> str:
    """A row: the lookup within a process, against one session of the Secret Service that `env` leads to."""

    def seconds(side: str) -> float:
        command = [PYTHON, "-m", "tests.benchmarks.secrets", side]
        return float(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)

    seconds("set"), seconds("ours"), seconds("floor")
    both = [(seconds("ours"), seconds("floor")) for _ in range(pairs)]
    ratios = [ours / floor for ours, floor in both]
    ours, floor = (statistics.median(side) * 1000 for side in zip(*both, strict=True))
    ratio = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
    return f"| ten secrets, wall | one Secret Service session | 1.5x | {ratio} | {ours:.0f} ms | {floor:.0f} ms | - |"


def wall(run: Run) -> float:
    return run.wall


def cpu(run: Run) -> float:
    return run.cpu


def measured(row: Row, env: Mapping[str, str]) -> str:
    run(row.ours, env), run(row.floor, env)  # warm caches, compiled modules
    pairs = [(run(row.ours, env), run(row.floor, env)) for _ in range(row.pairs)]
    ratios = [row.figure(ours) / row.figure(floor) for ours, floor in pairs]
    ours, floor = (statistics.median(row.figure(pair[side]) for pair in pairs) * 1000 for side in (0, 1))
    peak = max(pair[0].peak for pair in pairs)
    ratio = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
    return f"| {row.what} | {row.against} | {row.budget} | {ratio} | {ours:.0f} ms | {floor:.0f} ms | {peak:.0f} MiB |"


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        env = {name: value for name, value in os.environ.items() if name not in SLOWING}
        env |= {"HOME": directory, "NO_COLOR": "1"}
        env |= {f"ACP_LAUNCH_{kind}_DIR": str(scratch / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}
        print("| what | against | budget | ratio, median (range) | ours | floor | our peak |")
        print("|---|---|---|---|---|---|---|")
        for row in rows(scratch, pairs):
            print(measured(row, env), flush=True)
        # Imported late: what is loaded here counts as the peak of small children, until they become another program.
        from tests.secret.bus import missing_programs, session_bus

        if missing := missing_programs():
            print(f"| ten secrets | | | not measured: {' and '.join(missing)} not installed | | | |")
        else:
            with session_bus() as desktop:
                desktop.start_keyring()
                print(ten_secrets(pairs, env | desktop.environ))
        print("\nMCP, through the seat:", flush=True)
        subprocess.run([PYTHON, "-m", "tests.benchmarks.seat"], env=env, cwd=HERE.parents[1], check=True)


if __name__ == "__main__":
    main()
