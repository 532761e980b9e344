"""
`serve` between an editor and an agent, as ratios to the agent directly: `python -m tests.benchmarks.serve [N]`.

A B A B …, as in tests.benchmarks.run. The editor reads each line as JSON, as editors do, and is the same for both. One
agent answers at once; the other is in Python. What is measured is the editor's: from the start of its command to the
first answer, and from a prompt to its answer.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.run import HERE, PYTHON, US, agent, environment

UPDATES = 100_000
FLOOD = [PYTHON, "-I", "-S", str(HERE / "instant.py"), str(UPDATES), "150"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds; of the command's own process seconds of CPU in the turn, and MiB at its most, where they can be read."""

    first: float
    opened: float
    turn: float
    cpu: float
    peak: float


class Editor:
    """The shortest honest editor."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd="/")
        self.next = 0
        self.updates = 0

    def call(self, method: str, params: object) -> "dict[str, str]":
        assert self.process.stdin
        assert self.process.stdout
        message = {"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            said = json.loads(line)
            if said.get("id") == self.next:
                self.next += 1
                return dict(said["result"])
            self.updates += 1
        raise EOFError

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def measure(command: Sequence[str], env: Mapping[str, str], updates: int) -> Measured:
    """Hold one conversation with a turn of so many updates."""
    began = time.perf_counter()
    editor = Editor(command, env)
    editor.call("initialize", {"protocolVersion": 1})
    first = time.perf_counter()
    session = editor.call("session/new", {"cwd": "/", "mcpServers": []})["sessionId"]
    asked, spent = time.perf_counter(), cpu(editor.process.pid)
    editor.call("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]})
    done = time.perf_counter()
    most, used = peak(editor.process.pid), cpu(editor.process.pid) - spent
    editor.end()
    if editor.updates != updates:
        raise SystemExit(f"{command} brought {editor.updates} updates")
    return Measured(first - began, asked - first, done - asked, used, most)


def cpu(pid: int) -> float:
    """The CPU that a process has used, in seconds, without its children."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    return sum(map(int, stat.rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def peak(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def profile(scratch: Path, name: str, command: Sequence[str], **sections: object) -> list[str]:
    """The command that serves this agent."""
    file = scratch / f"{name}.yaml"
    file.write_text(json.dumps({"version": 1, "agent": {"command": command[0], "args": command[1:]} | sections}))
    return [*US, "serve", "--trust", str(file)]


def compared(
    what: str, budgets: Sequence[str], ours: Sequence[str], floor: Sequence[str], env: Mapping[str, str], pairs: int
) -> None:
    """Print the rows of one agent."""
    count = UPDATES if str(UPDATES) in floor else 1
    measure(ours, env, count), measure(floor, env, count)  # warm caches, compiled modules
    both = [(measure(ours, env, count), measure(floor, env, count)) for _ in range(pairs)]
    rows: list[tuple[str, str, Callable[[Measured], float]]] = [
        ("first answer", budgets[0], lambda each: each.first),
        ("session/new", "-", lambda each: each.opened),
        ("turn", budgets[1], lambda each: each.turn),
    ]
    for figure, budget, of in rows:
        ratios = [of(one) / of(other) for one, other in both]
        more = statistics.median(of(one) - of(other) for one, other in both)
        times = " | ".join(f"{statistics.median(of(pair[side]) for pair in both) * 1000:.1f} ms" for side in (0, 1))
        ratio = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
        print(f"| {what}, {figure} | {budget} | {ratio} | {more:+.3f} s | {times} |", flush=True)
    used = [statistics.median(pair[side].cpu for pair in both) * 1000 for side in (0, 1)]
    print(f"| {what}, CPU of the command in the turn | - | | | {used[0]:.0f} ms | {used[1]:.0f} ms |")
    print(f"| {what}, memory | {budgets[2]} | | | {max(one.peak for one, _ in both):.1f} MiB | |", flush=True)


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        env = environment(scratch)
        env |= {f"ACP_LAUNCH_SECRET_S{number}": f"sk-{os.urandom(18).hex()}" for number in range(10)}
        secrets = {"env": {f"NAME{number}": f"${{secret:s{number}}}" for number in range(10)}}
        one = agent(scratch)
        many = [*one, str(UPDATES)]
        print("| what | budget | ratio, median (range) | more | through serve | directly |")
        print("|---|---|---|---|---|---|")
        compared("one update", ["+0.25 s", "-", "35 MiB"], profile(scratch, "one", one), one, env, pairs)
        few, usual = max(3, pairs // 3), ["+0.25 s", "1.3x", "35 MiB"]
        compared("100,000 updates", usual, profile(scratch, "many", many), many, env, few)
        compared("the same, agent in Python", usual, profile(scratch, "flood", FLOOD), FLOOD, env, few)
        rest = ["+0.25 s", "-", "35 MiB"]
        compared("100,000, ten secrets", rest, profile(scratch, "secret", many, **secrets), many, env, few)


if __name__ == "__main__":
    main()
