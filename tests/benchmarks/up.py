"""
Prompts to a host that is up, as ratios: `python -m tests.benchmarks.up [N]`, measured as in tests.benchmarks.run.

The agent answers at once, so what is left is ours: Python's start, the front, and the host.
"""

import json
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from acp_launch.protocol.jsonrpc import as_line, request
from acp_launch.served.wire import FOLLOW, META
from tests.benchmarks.interactive import READY, terminal
from tests.benchmarks.run import PYTHON, US, Row, agent, cpu, environment, measured, profile, wall
from tests.benchmarks.run import run as timed

FIFTY = 50
EVENTS = 10_000
UPDATES = 100_000


@contextmanager
def host(file: str, env: Mapping[str, str]) -> Iterator[int]:
    """A host of the profile; gives its pid."""
    subprocess.run([*US, "up", "--trust", file], env=env, check=True, capture_output=True)
    try:
        (note,) = Path(env["ACP_LAUNCH_STATE_DIR"], "hosts").glob("*.json")
        yield int(note.read_text().partition('"pid":')[2].partition(",")[0])
    finally:
        subprocess.run([*US, "down", "--all"], env=env, check=True, capture_output=True)


def rows(usual: str, cold: str, pairs: int) -> list[Row]:
    bare = [PYTHON, "-I", "-c", "pass"]
    prompt, own = ([*US, "run", "--trust", file, "hi"] for file in (usual, cold))
    few = max(3, pairs // 4)
    return [
        Row("a prompt to a host, wall", "a run of its own", "0.6x", wall, prompt, own, pairs),
        Row("a prompt to a host, CPU of the command", "a run of its own", "-", cpu, prompt, own, pairs),
        Row("a prompt to a host, wall", "python -I -c pass", "-", wall, prompt, bare, few),
    ]


def fifty(usual: str, env: Mapping[str, str]) -> str:
    """A row: prompts to one session, one after the other."""
    one = [timed([*US, "run", "--trust", usual, "hi", "-s", "one"], env).wall for _ in range(FIFTY)]
    figures = f"{statistics.median(one) * 1000:.0f} ms ({min(one) * 1000:.0f}-{max(one) * 1000:.0f})"
    return f"| fifty prompts to one session, each | - | 100 ms | {figures} | | | |"


def attach(env: Mapping[str, str], pairs: int) -> str:
    """A row: a terminal attaches to a session with many events, beside one to a session with few."""
    env = {name: value for name, value in env.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
    for session, prompt in (("few", "add 1 1"), ("many", f"flood {EVENTS}")):
        subprocess.run([*US, "run", "demo", prompt, "-s", session], env=env, check=True, capture_output=True)

    def one(session: str) -> tuple[float, float]:
        began = time.perf_counter()
        with terminal(env, Path.cwd(), "attach", session) as (pty, process):
            pty.until(READY)
            times = process.cpu_times()
            return time.perf_counter() - began, times.user + times.system

    both = [(one("many"), one("few")) for _ in range(pairs)]
    walls, used = ([many[side] - few[side] for many, few in both] for side in (0, 1))
    figures = f"{statistics.median(walls) * 1000:.0f} ms; {statistics.median(used) * 1000:.0f} ms"
    figures += f" (wall {min(walls) * 1000:.0f}-{max(walls) * 1000:.0f})"
    return f"| attach to {EVENTS:,} events, beside few; its CPU | - | 200 ms | {figures} | | | |"


@contextmanager
def watching(env: Mapping[str, str]) -> Iterator[socket.socket]:
    """A front of the host's session `work`, which has shown its history."""
    (note,) = Path(env["ACP_LAUNCH_STATE_DIR"], "hosts").glob("*.json")
    with socket.socket(socket.AF_UNIX) as line, line.makefile("rb") as answers:
        line.connect(json.loads(note.read_bytes())["socket"])
        meta = {META: {"name": "work", "can_ask": False}}
        opening: dict[str, object] = {"sessionId": "-", "cwd": "/", "mcpServers": [], "_meta": meta}
        starting: dict[str, object] = {"protocolVersion": 1}
        asked: list[tuple[str, dict[str, object]]]
        asked = [("initialize", starting), ("session/resume", opening), (FOLLOW, {})]
        for number, (method, params) in enumerate(asked, 1):
            line.sendall(as_line(request(number, method, params)))
            while b'"id":%d' % number not in answers.readline():
                pass
        yield line


def drained(fronts: Sequence[socket.socket]) -> None:
    """Read until each has had the end of the turn."""
    left, tails = {*fronts}, dict.fromkeys(fronts, b"")
    while left:
        for front in select.select([*left], [], [])[0]:
            tails[front] = tails[front][-100:] + front.recv(1 << 20)
            if b'"name":"idle"' in tails[front]:
                left.discard(front)


def watched(env: Mapping[str, str], scratch: Path, pairs: int) -> str:
    """A row: CPU of the host for a turn of many updates that ten watch, against one that one watches."""
    flood = Path(__file__).parents[1] / "agents" / "flood.py"
    folder = scratch / "watched"
    folder.mkdir()
    wanted = profile(folder, [PYTHON, "-I", "-S", str(flood)], str(UPDATES))

    run_it = [*US, "run", "--trust", wanted, "hi", "-s", "work", "-o", "quiet", "-d"]

    def one(count: int, pid: int) -> float:
        with ExitStack() as stack:
            fronts = [stack.enter_context(watching(env)) for _ in range(count)]
            before = psutil.Process(pid).cpu_times()
            subprocess.run(run_it, env=env, check=True, capture_output=True)
            drained(fronts)
            after = psutil.Process(pid).cpu_times()
        return after.user + after.system - before.user - before.system

    with host(wanted, env) as pid:
        subprocess.run([*run_it[:-1]], env=env, check=True, capture_output=True)
        both = [(one(10, pid), one(1, pid)) for _ in range(pairs)]
    ratios = [ten / alone for ten, alone in both]
    figures = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
    ours, floor = (f"{statistics.median(pair[side] for pair in both) * 1000:.0f} ms" for side in (0, 1))
    return f"| ten watch {UPDATES:,} updates, CPU of the host | one watches | 1.3x | {figures} | {ours} | {floor} | |"


def memory(pid: int) -> str:
    """A row: what the host and its guards hold; without the agent."""
    every = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    ours = [each for each in every if each.pid == pid or each.name().startswith("acp_launch-guar")]
    held = [each.memory_full_info().pss / 2**20 for each in ours]
    return f"| memory of host and guards (PSS) | - | 40 MiB | {sum(held):.0f} MiB ({held[0]:.0f} + guards) | | | |"


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        env = environment(scratch)
        env |= {"ACP_DEMO_HOME": f"{directory}/demo", "PYTHONPATH": str(Path(__file__).parents[2])}
        usual = profile(scratch, agent(scratch))
        cold = str(scratch / "cold.yaml")
        Path(cold).write_text(Path(usual).read_text())
        print("| what | against | budget | ratio, median (range) | ours | floor | our peak |")
        print("|---|---|---|---|---|---|---|")
        with host(usual, env) as pid:
            for row in rows(usual, cold, pairs):
                print(measured(row, env), flush=True)
            print(memory(pid), flush=True)
            print(fifty(usual, env), flush=True)
        with host("demo", env):
            print(attach(env, max(5, pairs // 3)), flush=True)
        print(watched(env, scratch, max(3, pairs // 5)))


if __name__ == "__main__":
    main()
