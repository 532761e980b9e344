"""
What a user and an editor wait for, as ratios: a session on a terminal, a host, and `serve` for an editor.

`python -m tests.benchmarks.fronts [PAIRS]`, measured as in tests.benchmarks.pairs. The terminal is read as fast as can
be, and nothing is drawn of it; the editor reads each line as JSON, as editors do. The agent answers at once, so what is
left is ours.
"""

import fcntl
import json
import os
import re
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from acp_launch.protocol.jsonrpc import as_line, request
from acp_launch.served.wire import FOLLOW, META
from tests.benchmarks.pairs import (
    BARE,
    HEAD,
    HERE,
    PYTHON,
    US,
    Row,
    agent,
    compared,
    cpu,
    environment,
    fact,
    profile,
    row,
    run,
    wall,
    wanted,
)
from tests.cli.terminal import BECOME

COUNT = 100_000  # updates of a turn
EVENTS = 10_000  # of a session that is attached to
COLUMNS, ROWS = 100, 40
READY = b"\x1b]2;ready: "  # the window's title: of the screen only what changes is written
USED = b" of 100,000 tokens"  # the last line of a turn
PATIENCE = 120.0  # seconds
FLOODING = HERE.parent / "agents" / "demo.py"  # the demo agent, which knows `flood` there
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
    env = {name: value for name, value in env.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
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


# A session on a terminal.


def used(process: psutil.Process) -> float:
    """CPU of it and all that it started, without the agent."""
    return sum(_seconds(each) for each in [process, *process.children(recursive=True)])


def _seconds(process: psutil.Process) -> float:
    try:
        if str(FLOODING) in process.cmdline():
            return 0.0
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def typed(demo: str, env: Mapping[str, str], cwd: Path) -> float:
    """CPU of one turn, from Enter to the end of the answer."""
    with terminal(env, cwd, "run", "--trust", demo) as (pty, process):
        pty.until(READY)
        pty.types("hello\r")  # the servers have been looked for, and everything is imported
        pty.until(USED)
        pty.until(READY)
        before = used(process)
        pty.types(f"flood {COUNT}\r")
        pty.until(USED)
        pty.until(READY)
        return used(process) - before


def piped(demo: str, count: int, env: Mapping[str, str], cwd: Path) -> float:
    """CPU of a whole run, without the agent: looked at when the answer is there, before anybody has ended."""
    argv = [*US, "run", "--trust", demo, "--output", "text", f"flood {count}"]
    nowhere = subprocess.DEVNULL
    child = subprocess.Popen(argv, stdin=nowhere, stdout=subprocess.PIPE, stderr=nowhere, env=env, cwd=cwd)
    assert child.stdout
    process = psutil.Process(child.pid)
    tail, spent = b"", 0.0
    while piece := os.read(child.stdout.fileno(), 1 << 16):
        tail = tail[-32:] + piece
        if tail.rstrip().endswith(str(count).encode()):
            spent = max(spent, used(process))  # nothing, of a process that has just ended
    child.stdout.close()
    if child.wait(PATIENCE) or not spent:
        raise SystemExit(f"run ended with {child.returncode}")
    return spent


def turn(demo: str, env: Mapping[str, str], cwd: Path, pairs: int) -> str:
    """A row: a turn of many updates, against the same into a pipe, without its start."""
    both = compared(
        lambda: typed(demo, env, cwd),
        lambda: piped(demo, COUNT, env, cwd) - piped(demo, 1, env, cwd),
        pairs,
        warm=False,
    )
    return row(f"a turn of {COUNT:,} updates on a terminal, CPU", "into a pipe", "-", both)


def to_prompt(pairs: int, env: Mapping[str, str], cwd: Path) -> str:
    """A row: an interactive session, until it can be typed into, against a whole one-shot run."""

    def drawn() -> float:
        began = time.perf_counter()
        with terminal(env, cwd) as (pty, _):
            pty.until(READY)
            return time.perf_counter() - began

    both = compared(drawn, lambda: run([*US, "run", "demo", "hello"], env, cwd=str(cwd)).wall, pairs)
    return row("run demo to the prompt, wall", "run demo hello", "1.5x", both)


# A host, and who comes to it.


@contextmanager
def host(file: str, env: Mapping[str, str]) -> Iterator[int]:
    """A host of the profile; gives its pid."""
    subprocess.run([*US, "up", "--trust", file], env=env, check=True, capture_output=True)
    try:
        (note,) = Path(env["ACP_LAUNCH_STATE_DIR"], "hosts").glob("*.json")
        yield int(note.read_text().partition('"pid":')[2].partition(",")[0])
    finally:
        subprocess.run([*US, "down", "--all"], env=env, check=True, capture_output=True)


def prompts(usual: str, cold: str, env: Mapping[str, str], pairs: int) -> Iterator[str]:
    """Rows: a prompt to a host; fifty to one session, one after the other."""
    prompt, own = ([*US, "run", "--trust", file, "hi"] for file in (usual, cold))
    for each in (
        Row("a prompt to a host, wall", "a run of its own", "0.6x", wall, prompt, own, pairs),
        Row("a prompt to a host, CPU of the command", "a run of its own", "-", cpu, prompt, own, pairs),
        Row("a prompt to a host, wall", "python -I -c pass", "-", wall, prompt, BARE, max(3, pairs // 4)),
    ):
        yield each.measured(env)
    one = [run([*prompt, "-s", "one"], env).wall * 1000 for _ in range(50)]
    figures = f"{statistics.median(one):.0f} ms ({min(one):.0f}-{max(one):.0f})"
    yield fact("fifty prompts to one session, each", "100 ms", figures)


def attach(demo: str, env: Mapping[str, str], pairs: int) -> str:
    """A row: a terminal attaches to a session with many events, beside one to a session with few."""
    for session, prompt in (("few", "hello"), ("many", f"flood {EVENTS}")):
        subprocess.run([*US, "run", "--trust", demo, prompt, "-s", session], env=env, check=True, capture_output=True)

    def one(session: str) -> tuple[float, float]:
        began = time.perf_counter()
        with terminal(env, Path.cwd(), "attach", session) as (pty, process):
            pty.until(READY)
            times = process.cpu_times()
            return time.perf_counter() - began, times.user + times.system

    both = compared(lambda: one("many"), lambda: one("few"), pairs, warm=False)
    walls, spent = ([(many[side] - few[side]) * 1000 for many, few in both] for side in (0, 1))
    figures = f"{statistics.median(walls):.0f} ms ({min(walls):.0f}-{max(walls):.0f})"
    figures += f", CPU {statistics.median(spent):.0f} ms"
    return fact(f"attach to {EVENTS:,} events, beside few", "200 ms", figures)


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
            if b'"isIdle"' in tails[front]:
                left.discard(front)


def watched(env: Mapping[str, str], scratch: Path, pairs: int) -> str:
    """A row: CPU of the host for a turn of many updates that ten watch, against one that one watches."""
    flood = HERE.parent / "agents" / "flood.py"
    folder = scratch / "watched"
    folder.mkdir()
    busy = profile(folder, [PYTHON, "-I", "-S", str(flood)], str(COUNT))
    prompt = [*US, "run", "--trust", busy, "hi", "-s", "work", "-o", "quiet"]

    def one(count: int, pid: int) -> float:
        with ExitStack() as stack:
            fronts = [stack.enter_context(watching(env)) for _ in range(count)]
            before = psutil.Process(pid).cpu_times()
            subprocess.run([*prompt, "-d"], env=env, check=True, capture_output=True)
            drained(fronts)
            after = psutil.Process(pid).cpu_times()
        return float(after.user + after.system - before.user - before.system)

    with host(busy, env) as pid:
        subprocess.run(prompt, env=env, check=True, capture_output=True)
        both = compared(lambda: one(10, pid), lambda: one(1, pid), pairs, warm=False)
    return row(f"ten watch {COUNT:,} updates, CPU of the host", "one watches", "1.3x", both)


def memory(pid: int) -> str:
    """A row: what the host and its guards hold; without the agent."""
    every = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    ours = [each for each in every if each.pid == pid or each.name().startswith("acp_launch-guar")]
    held = [each.memory_full_info().pss / 2**20 for each in ours]
    return fact("memory of host and guards (PSS)", "40 MiB", f"{sum(held):.0f} MiB ({held[0]:.0f} + guards)")


# `serve`, between an editor and an agent.


@dataclass(frozen=True, slots=True)
class Served:
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


def served(command: Sequence[str], env: Mapping[str, str], updates: int) -> Served:
    """Hold one conversation with a turn of so many updates."""
    began = time.perf_counter()
    editor = Editor(command, env)
    process = psutil.Process(editor.process.pid)
    editor.call("initialize", {"protocolVersion": 1})
    first = time.perf_counter()
    session = editor.call("session/new", {"cwd": "/", "mcpServers": []})["sessionId"]
    asked, spent = time.perf_counter(), sum(process.cpu_times()[:2])
    editor.call("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]})
    done = time.perf_counter()
    most, took = peak(process.pid), sum(process.cpu_times()[:2]) - spent
    editor.end()
    if editor.updates != updates:
        raise SystemExit(f"{command} brought {editor.updates} updates")
    return Served(first - began, asked - first, done - asked, took, most)


def peak(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def editors(scratch: Path, env: Mapping[str, str], pairs: int) -> Iterator[str]:
    """Rows: `serve` with agents of each kind, against the agent itself."""
    env = {**env, **{f"ACP_LAUNCH_SECRET_S{number}": f"sk-{os.urandom(18).hex()}" for number in range(10)}}
    secrets = {"env": {f"NAME{number}": f"${{secret:s{number}}}" for number in range(10)}}
    one = agent(scratch)
    many, flood = [*one, str(COUNT)], [PYTHON, "-I", "-S", str(HERE / "instant.py"), str(COUNT), "150"]
    few = max(3, pairs // 3)
    for what, budget, command, sections, count in (
        ("one update", "-", one, {}, pairs),
        (f"{COUNT:,} updates", "1.3x", many, {}, few),
        ("the same, agent in Python", "1.3x", flood, {}, few),
        (f"{COUNT:,}, ten secrets", "-", many, secrets, few),
    ):
        file = scratch / f"{what}.yaml"
        file.write_text(json.dumps({"version": 1, "agent": {"command": command[0], "args": command[1:]} | sections}))
        yield from compared_to_agent(what, budget, [*US, "serve", "--trust", str(file)], command, env, count)


def compared_to_agent(
    what: str, budget: str, ours: Sequence[str], floor: Sequence[str], env: Mapping[str, str], pairs: int
) -> Iterator[str]:
    updates = COUNT if str(COUNT) in floor else 1
    both = compared(lambda: served(ours, env, updates), lambda: served(floor, env, updates), pairs)
    figures: list[tuple[str, str, Callable[[Served], float]]] = [
        ("first answer", "+250 ms", lambda each: each.first),
        ("session/new", "-", lambda each: each.opened),
        ("turn", budget, lambda each: each.turn),
        ("CPU of the command in the turn", "-", lambda each: each.cpu or 1e-3),
    ]
    most = max(one.peak for one, _ in both)
    for figure, most_of_it, of in figures:
        pairs_of = [(of(one), of(other)) for one, other in both]
        yield row(f"serve: {what}, {figure}", "the agent", most_of_it, pairs_of, most=most)


def main() -> None:
    pairs = wanted(15)
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        env = environment(scratch) | {"PYTHONPATH": str(HERE.parents[1])}
        usual, cold = profile(scratch, agent(scratch)), scratch / "cold.yaml"
        cold.write_text(Path(usual).read_text())
        demo = str(scratch / "demo.yaml")
        Path(demo).write_text(f"version: 1\nagent: {{command: {PYTHON}, args: [-P, {FLOODING}], inherit_env: all}}\n")
        print(HEAD)
        print(turn(demo, env, scratch, max(1, pairs // 3)), flush=True)
        with host(usual, env) as pid:
            for each in prompts(usual, str(cold), env, pairs):
                print(each, flush=True)
            print(memory(pid), flush=True)
        with host(demo, env):
            print(attach(demo, env, max(1, pairs // 3)), flush=True)
        print(watched(env, scratch, max(1, pairs // 5)), flush=True)
        for each in editors(scratch, env, max(1, pairs // 2)):
            print(each, flush=True)


if __name__ == "__main__":
    main()
