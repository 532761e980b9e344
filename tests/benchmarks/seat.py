"""
The MCP rows of docs/internals.md: a call through the seat against the same over direct stdio, in one run, in turns.

`python -m tests.benchmarks.seat [N]`; nothing here asserts.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
ECHO = [sys.executable, "-I", "-S", str(HERE / "echo.py")]
HOPS = [
    "/bin/sh",
    "-c",
    'cat | cat | "$@" | cat | cat',
    "sh",
    *ECHO,
]  # as many pipes and processes as a shim and we are
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class Client:
    """Speaks MCP with a process, as simply as can be: what is measured is what is between."""

    def __init__(self, argv: Sequence[str], env: dict[str, str] | None = None) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0)
        assert self.process.stdin and self.process.stdout
        self._out, self._in = self.process.stdin, self.process.stdout.fileno()
        self._rest = b""
        self._id = 0
        self.answered(self.ask("initialize", INITIALIZE))
        self.ready = time.perf_counter() - self.began
        self._out.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, method: str, params: dict[str, Any]) -> int:
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self._out.write(json.dumps(message).encode() + b"\n")
        return self._id

    def answered(self, id: int) -> bytes:
        """The next line, which must be the answer to `id`."""
        line = self.next_line()
        assert f'"id":{id}'.encode() in line.replace(b" ", b""), line
        return line

    def next_line(self) -> bytes:
        while b"\n" not in self._rest:
            self._rest += os.read(self._in, 1 << 16)
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def call(self, tool: str = "echo") -> bytes:
        return self.answered(self.ask("tools/call", {"name": tool, "arguments": {}}))

    def close(self) -> None:
        self._out.close()
        self.process.wait(10)
        assert self.process.stdout
        self.process.stdout.close()


def one_by_one(client: Client, count: int) -> float:
    """The median call, in µs."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        client.call()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def in_flight(client: Client, count: int, at_once: int = 32) -> float:
    """Calls a second."""
    began = time.perf_counter()
    waiting = [client.ask("tools/call", {"name": "echo"}) for _ in range(at_once)]
    for _ in range(count - at_once):
        client.answered(waiting.pop(0))
        waiting.append(client.ask("tools/call", {"name": "echo"}))
    for id in waiting:
        client.answered(id)
    return count / (time.perf_counter() - began)


@contextmanager
def seats(count: int) -> Iterator[dict[str, Any]]:
    host = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.seats", str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=HERE.parents[1],
    )
    assert host.stdin and host.stdout
    try:
        yield {**json.loads(host.stdout.readline()), "pid": host.pid}
    finally:
        host.stdin.close()
        host.wait(20)
        host.stdout.close()


def through(entry: dict[str, Any]) -> Client:
    env = {pair["name"]: pair["value"] for pair in entry["env"]}
    return Client([entry["command"], *entry["args"]], env)


def compared(pairs: int) -> None:
    with seats(1) as host:
        direct, hops, ours = Client(ECHO), Client(HOPS), through(host["entries"][0])
        rounds = [[one_by_one(client, 300) for client in (ours, direct, hops)] for _ in range(pairs)]
        row("tools/call through the seat, p50", "3×", "µs", rounds)
        rounds = [[in_flight(client, 3000) for client in (ours, direct, hops)] for _ in range(pairs)]
        row("the same, 32 in flight", "0.65×", "/s", rounds)
        memory = psutil.Process(ours.process.pid).memory_full_info()
        print(
            f"shim                                {memory.uss / 2**20:.1f} MiB of its own, {memory.pss / 2**20:.1f} PSS"
        )
        deaths(ours)
        for client in (direct, hops, ours):
            client.close()


def row(what: str, budget: str, unit: str, rounds: list[list[float]]) -> None:
    """The round whose ratio to direct stdio is the median, and its ratio to as many hops through `cat`."""
    ours, direct, hops = sorted(rounds, key=lambda figures: figures[0] / figures[1])[len(rounds) // 2]
    against = (
        f"direct {direct:.0f}: {ours / direct:.2f}× (budget {budget}), through cats {hops:.0f}: {ours / hops:.2f}×"
    )
    print(f"{what:34} {ours:7.0f} {unit}, {against}")


def deaths(client: Client) -> None:
    began = time.perf_counter()
    died = client.call("die")
    error = time.perf_counter() - began
    client.call()
    good = time.perf_counter() - began
    assert b'"error"' in died, died
    own = Client(ECHO)
    own.close()
    print(
        f"error to a call in flight          {error * 1000:6.1f} ms (budget 100 ms), next good call after "
        f"{good * 1000:.0f} ms, 200 of them the profile's pause (a start alone: {own.ready * 1000:.0f} ms)"
    )


def shim_cpu(count: int) -> None:
    """From exec to the end, refused: all that a shim costs but its traffic."""
    from acp_launch.bridge import shim

    def cpu(argv: list[str]) -> float:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        return (usage.ru_utime + usage.ru_stime) * 1000

    pairs = [
        (
            cpu([sys.executable, "-I", "-S", str(shim.__file__), "/nowhere", "x"]),
            cpu([sys.executable, "-I", "-S", "-c", "pass"]),
        )
        for _ in range(count)
    ]
    ours, floor = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"shim, CPU from start to end         {ours:7.1f} ms, python -I -S {floor:.1f} ms  (budget 12 ms)")


def several() -> None:
    for count in (1, 10, 50):
        seconds, rss = plainly(count)
        with seats(count) as host:
            tree = psutil.Process(host["pid"]).children(recursive=True)
            each = statistics.median(process.memory_info().rss for process in tree) / 2**20
            ours = f"{host['seconds'] * 1000:6.0f} ms to all up, {host['MiB']:.1f} MiB of ours, {each:.1f} MiB a server"
            print(
                f"{count:2} servers                         {ours}; plainly {seconds * 1000:.0f} ms, {rss:.1f} MiB each"
            )


def plainly(count: int) -> tuple[float, float]:
    """Seconds from the first start to the last answer of as many servers that nobody looks after, and MiB of each."""
    began = time.perf_counter()
    servers = [subprocess.Popen(ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) for _ in range(count)]
    for server in servers:
        assert server.stdin
        server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    for server in servers:
        assert server.stdout
        assert os.read(server.stdout.fileno(), 1 << 16)
    seconds = time.perf_counter() - began
    rss = statistics.median(psutil.Process(server.pid).memory_info().rss for server in servers) / 2**20
    for server in servers:
        server.communicate()
    return seconds, rss


def main(pairs: int) -> None:
    compared(pairs)
    shim_cpu(15)
    several()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
