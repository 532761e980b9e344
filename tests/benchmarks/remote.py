"""
The rows of docs/internals.md about remote MCP servers: `python -m tests.benchmarks.remote [N]`; nothing here asserts.

A call through shim and seat is measured against the same POST with the same HTTP library, in one run, in turns.
`python -m tests.benchmarks.remote host URL…` is the process with the seats.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

from acp_launch.bridge import shim
from acp_launch.bridge.offer import ShimCommand, entries
from acp_launch.bridge.servers import ServerNeeds, running
from tests.benchmarks.seat import Client, one_by_one
from tests.benchmarks.seats import HERE, Saying
from tests.realservers.host import plan
from tests.remote.children import Tempered, tempered

CALLS = 300
MANY = 2000
LATE = {"do": "slow", "piece": 100, "pause": 0.05}  # an answer that takes a few hundred milliseconds


class Direct:
    """The same calls without us: a session, and one POST for each call."""

    def __init__(self, url: str) -> None:
        self._url, self._id = url, 0
        self._runner = asyncio.Runner()
        self._client = httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_connections=None))
        about = {"name": "bench", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        answer = self._runner.run(self._post("initialize", params))
        self._headers |= {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}

    async def _post(self, method: str, params: dict[str, Any]) -> httpx2.Response:
        self._id += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        answer = await self._client.post(self._url, content=body, headers=self._headers)
        assert answer.status_code == 200, answer
        return answer

    async def _call(self) -> None:
        await self._post("tools/call", {"name": "echo", "arguments": {"text": "x"}})

    def one_by_one(self, count: int) -> float:
        """The median call, in µs."""

        async def calls() -> float:
            took = []
            for _ in range(count):
                began = time.perf_counter()
                await self._call()
                took.append(time.perf_counter() - began)
            return statistics.median(took) * 1e6

        return self._runner.run(calls())

    def in_flight(self, count: int, at_once: int = 32) -> float:
        """Calls a second."""

        async def several(number: int) -> None:
            for _ in range(number):
                await self._call()

        async def calls() -> float:
            began = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(several(count // at_once))
            return count // at_once * at_once / (time.perf_counter() - began)

        return self._runner.run(calls())

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()


class Speaking(Client):
    """Through the shim; the tool wants a text."""

    def ask(self, method: str, params: dict[str, Any]) -> int:
        return super().ask(method, params | {"arguments": {"text": "x"}} if method == "tools/call" else params)

    def in_flight(self, count: int, at_once: int = 32) -> float:
        """Calls a second; answers may come in any order."""
        began = time.perf_counter()
        asked = {self.ask("tools/call", {"name": "echo"}) for _ in range(at_once)}
        for number in range(count):
            asked.remove(json.loads(self.next_line())["id"])
            if number < count - at_once:
                asked.add(self.ask("tools/call", {"name": "echo"}))
        return count / (time.perf_counter() - began)


@contextmanager
def seats(*urls: str) -> Iterator[dict[str, Any]]:
    argv = [sys.executable, "-m", "tests.benchmarks.remote", "host", *urls]
    host = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE.parents[1])
    assert host.stdin and host.stdout
    try:
        yield {**json.loads(host.stdout.readline()), "pid": host.pid}
    finally:
        host.stdin.close()
        host.wait(20)
        host.stdout.close()


def compared(pairs: int) -> None:
    for answers in ("json", "sse"):
        with tempered(answers=answers) as server, seats(server.url) as host:
            entry = host["entries"][0]
            env = {pair["name"]: pair["value"] for pair in entry["env"]}
            direct, ours = Direct(server.url), Speaking([entry["command"], *entry["args"]], env)
            rounds = [(one_by_one(ours, CALLS), direct.one_by_one(CALLS)) for _ in range(pairs)]
            row(f"tools/call over HTTP ({answers}), p50", "at most 1.5×", "µs", rounds)
            rates = [(ours.in_flight(MANY), direct.in_flight(MANY)) for _ in range(pairs)]
            row("the same, 32 in flight", "at least 0.7×", "/s", rates)
            direct.close()
            ours.close()


def row(what: str, budget: str, unit: str, rounds: list[tuple[float, float]]) -> None:
    """The round whose ratio to the HTTP client alone is the median."""
    ours, direct = sorted(rounds, key=lambda figures: figures[0] / figures[1])[len(rounds) // 2]
    print(f"{what:34} {ours:7.0f} {unit}, direct {direct:.0f}: {ours / direct:.2f}× (budget {budget})")


def several(pairs: int) -> None:
    """Ten servers that are slow to answer, against one of them."""
    with ExitStack() as stack:
        servers: list[Tempered] = [stack.enter_context(tempered(faults=[LATE])) for _ in range(10)]
        urls = [server.url for server in servers]
        rounds = []
        for _ in range(pairs):
            with seats(*urls) as ten, seats(urls[0]) as one:
                rounds.append((ten["seconds"] * 1000, one["seconds"] * 1000))
                each = (ten["MiB"] - one["MiB"]) / 9
        row("ten slow remote servers up", "at most 1.3×", "ms", rounds)
        print(f"{'memory for each remote server':34} {each:7.2f} MiB (budget 1 MiB)")


async def host(urls: list[str]) -> None:
    """As tests/benchmarks/seats.py, for remote servers."""
    plans = [plan(f"remote{number}", {"url": url, "env": {}, "cwd": str(HERE)}) for number, url in enumerate(urls)]
    needs = ServerNeeds(secrets={}, directories=(HERE,), max_line=1 << 26, hurry=asyncio.Event())
    began = time.perf_counter()
    async with running(plans, needs, Saying()) as ours:
        assert all(await asyncio.gather(*(ours.servers.up(each) for each in plans)))
        took = time.perf_counter() - began
        way = ShimCommand(Path(sys.executable), Path(shim.__file__), ours.seat.path, ours.seat.token)
        memory = psutil.Process().memory_full_info().uss / 2**20
        print(json.dumps({"entries": entries(plans, {}, way), "seconds": took, "MiB": memory}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    if sys.argv[1:2] == ["host"]:
        asyncio.run(host(sys.argv[2:]))
    else:
        compared(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
        several(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
