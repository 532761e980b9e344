"""
A batch of instant items against `xargs` with the same runs: `python -m tests.benchmarks.batch [N]` (200 by default).

Both run two at once. The budget is 1.2x here, and 1.5x with `--engine dask`, which is measured if it is installed.
Besides the time it prints that of the processors, which a machine that others use too changes less.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.run import US, agent, environment

JOBS = 2


def measure(words: Sequence[str], place: Path, env: Mapping[str, str], given: str = "") -> tuple[float, float]:
    """Return the seconds that a command takes, and those of the processors."""
    began, used = time.perf_counter(), count_used()
    ended = subprocess.run(
        words,
        cwd=place,
        env=env,
        input=given,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode not in (0, 9):  # an instant item is empty
        raise SystemExit(f"{words} ended with {ended.returncode}: {ended.stderr}")
    return time.perf_counter() - began, count_used() - used


def count_used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(number: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        command, *args = agent(scratch)
        env = {**environment(scratch), "PATH": os.environ["PATH"]}
        (scratch / "instant.yaml").write_text(f"version: 1\nagent: {{command: {command}, args: {json.dumps(args)}}}\n")
        tasks = [{"id": f"t{each}", "prompt": "hi"} for each in range(number)]
        batch = {"version": 1, "profiles": ["./instant.yaml"], "tasks": tasks, "limits": {"jobs": JOBS}}
        (scratch / "batch.yaml").write_text(json.dumps(batch))
        run = [*US, "run", "--trust", "--output", "json", "./instant.yaml", "hi"]
        xargs = ["xargs", f"-P{JOBS}", "-I{}", *run]
        floor, least = measure(xargs, scratch, env, "\n".join(map(str, range(number))))
        print(f"{number} runs by xargs: {floor:.1f} s, {least:.1f} s of processors")
        for engine in ((), ("--engine", "dask")) if find_spec("distributed") else ((),):
            words = [*US, "batch", "run", "batch.yaml", "--trust", "--out", f"out{len(engine)}", *engine]
            took, used = measure(words, scratch, env)
            ratios = f"{took:.1f} s, {took / floor:.2f}x; {used:.1f} s of processors, {used / least:.2f}x"
            print(f"{number} items by {engine[-1] if engine else 'the local engine'}: {ratios}")


if __name__ == "__main__":
    main(int("".join(sys.argv[1:2]) or 200))
