"""
MCP servers behind shim and seat, as ratios to the same calls without us: `python -m tests.benchmarks.servers [PAIRS]`.

Measured as in tests.benchmarks.pairs. A program is compared with direct stdio, a remote server with the
same POST by the same HTTP library. With `host JSON` this is the process
that runs servers as a launch does, `{name: entry}` as tests.realservers.host takes them.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from acp_launch.bridge import shim
from acp_launch.bridge.offer import ShimCommand, entries
from acp_launch.bridge.servers import ServerNeeds, running
from tests.benchmarks.pairs import HEAD, HERE, PYTHON, compared, fact, row, run, wanted
from tests.bridge.observing import Silent
from tests.realservers.host import plan
from tests.remote.children import tempered

ECHO = [PYTHON, "-I", "-S", str(HERE / "echo.py")]
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
CALL = {"name": "echo", "arguments": {"text": "x"}}
CALLS, MANY, AT_ONCE = 300, 3000, 32
EVENTS = 100_000
LATE = {"do": "slow", "piece": 100, "pause": 0.05}  # an answer that takes a few hundred milliseconds
Json = dict[str, Any]


class Client:
    """Speaks MCP with a process, as simply as can be: what is measured is what is between."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0)
        assert self.process.stdin and self.process.stdout
        self._out, self._in = self.process.stdin, self.process.stdout.fileno()
        self._rest = b""
        self._id = 0
        self.answered(self.ask("initialize", INITIALIZE))
        self.ready = time.perf_counter() - began
        self._out.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, method: str, params: Json) -> int:
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
        return self.answered(self.ask("tools/call", {**CALL, "name": tool}))

    def one_by_one(self) -> float:
        """The median call, in seconds."""
        took = []
        for _ in range(CALLS):
            began = time.perf_counter()
            self.call()
            took.append(time.perf_counter() - began)
        return statistics.median(took)

    def in_flight(self) -> float:
        """Calls a second; answers may come in any order."""
        began = time.perf_counter()
        asked = {self.ask("tools/call", CALL) for _ in range(AT_ONCE)}
        for number in range(MANY):
            asked.remove(json.loads(self.next_line())["id"])
            if number < MANY - AT_ONCE:
                asked.add(self.ask("tools/call", CALL))
        return MANY / (time.perf_counter() - began)

    def events(self) -> float:
        """Events a second of one stream."""
        began = time.perf_counter()
        last, count, read = b'"id":%d,' % self.ask("tools/call", {**CALL, "name": "flood"}), 0, b""
        while last not in read.replace(b" ", b""):
            *lines, self._rest = (self._rest + os.read(self._in, 1 << 20)).split(b"\n")
            count, read = count + len(lines), lines[-1] if lines else b""
        assert count == EVENTS + 1, count
        return count / (time.perf_counter() - began)

    def close(self) -> None:
        self._out.close()
        self.process.wait(10)
        assert self.process.stdout
        self.process.stdout.close()


class Direct:
    """The same calls to a remote server without us: a session, and one POST for each call."""

    def __init__(self, url: str) -> None:
        self._url, self._id = url, 0
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._open())
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        answer = self._runner.run(self._post("initialize", INITIALIZE))
        self._headers |= {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}

    async def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def _post(self, method: str, params: Json) -> aiohttp.ClientResponse:
        self._id += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}).encode()
        async with self._client.post(self._url, data=body, headers=self._headers) as answer:
            assert answer.status == 200, answer
            await answer.read()
        return answer

    def events(self) -> float:
        """Events a second of one stream, line by line, each of them read as JSON."""

        async def flood() -> int:
            call = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {**CALL, "name": "flood"}}
            async with self._client.post(self._url, json=call, headers=self._headers) as answer:
                lines = [json.loads(line[6:]) async for line in answer.content if line.startswith(b"data: ")]
            return len(lines)

        began = time.perf_counter()
        assert self._runner.run(flood()) == EVENTS + 1
        return EVENTS / (time.perf_counter() - began)

    async def _calls(self, number: int) -> list[float]:
        took = []
        for _ in range(number):
            began = time.perf_counter()
            await self._post("tools/call", CALL)
            took.append(time.perf_counter() - began)
        return took

    def one_by_one(self) -> float:
        return statistics.median(self._runner.run(self._calls(CALLS)))

    def in_flight(self) -> float:
        async def calls() -> float:
            began = time.perf_counter()
            await asyncio.gather(*(self._calls(MANY // AT_ONCE) for _ in range(AT_ONCE)))
            return MANY // AT_ONCE * AT_ONCE / (time.perf_counter() - began)

        return self._runner.run(calls())

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


def program() -> Json:
    return {"argv": ECHO, "env": {}, "cwd": str(HERE)}


@contextmanager
def seats(*servers: Json) -> Iterator[Json]:
    """Servers of a host; gives what it tells: `entries`, `seconds` to all up, and `MiB` of its own; and its `pid`."""
    asked = json.dumps({f"server{number}": server for number, server in enumerate(servers)})
    argv = [PYTHON, "-m", "tests.benchmarks.servers", "host", asked]
    host = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE.parents[1])
    assert host.stdin and host.stdout
    try:
        yield {**json.loads(host.stdout.readline()), "pid": host.pid}
    finally:
        host.stdin.close()
        host.wait(20)
        host.stdout.close()


class Saying(Silent):
    def note(self, text: str) -> None:
        print(text, file=sys.stderr)


async def host(servers: Json) -> None:
    """Lives until its stdin ends."""
    plans = [plan(name, server) for name, server in servers.items()]
    needs = ServerNeeds(secrets={}, directories=(HERE,), max_line=1 << 26, hurry=asyncio.Event())
    began = time.perf_counter()
    async with running(plans, needs, Saying()) as ours:
        assert all(await asyncio.gather(*(ours.servers.up(each) for each in plans)))
        took = time.perf_counter() - began
        way = ShimCommand(Path(sys.executable), Path(shim.__file__), ours.listener.path, ours.listener.token)
        memory = psutil.Process().memory_full_info().uss / 2**20
        print(json.dumps({"entries": entries(plans, {}, way), "seconds": took, "MiB": memory}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def through(entry: Json) -> Client:
    return Client([entry["command"], *entry["args"]], {pair["name"]: pair["value"] for pair in entry["env"]})


def programs(pairs: int) -> Iterator[str]:
    with seats(program()) as host:
        direct, ours = Client(ECHO), through(host["entries"][0])
        both = compared(ours.one_by_one, direct.one_by_one, pairs)
        yield row("tools/call through the seat, p50", "direct stdio", "3x", both, "µs")
        both = compared(ours.in_flight, direct.in_flight, pairs)
        yield row("the same, 32 in flight", "direct stdio", "0.65x", both, "/s")
        memory = psutil.Process(ours.process.pid).memory_full_info()
        yield fact("a shim", "-", f"{memory.uss / 2**20:.1f} MiB of its own, {memory.pss / 2**20:.1f} PSS")
        yield deaths(ours)
        for client in (direct, ours):
            client.close()


def deaths(client: Client) -> str:
    began = time.perf_counter()
    died = client.call("die")
    error = (time.perf_counter() - began) * 1000
    client.call()
    good = (time.perf_counter() - began) * 1000
    assert b'"error"' in died, died
    own = Client(ECHO)
    own.close()
    told = f"{error:.1f} ms; next good call after {good:.0f} ms, 200 of them the profile's pause"
    return fact("error to a call in flight", "100 ms", f"{told} (a start alone: {own.ready * 1000:.0f} ms)")


def shim_cpu(pairs: int) -> str:
    """A row: from exec to the end, refused: all that a shim costs but its traffic."""
    bare = [PYTHON, "-I", "-S"]
    both = compared(
        lambda: run([*bare, str(shim.__file__), "/nowhere", "x"], os.environ, ends=range(256)).cpu,
        lambda: run([*bare, "-c", "pass"], os.environ).cpu,
        pairs,
    )
    return row("a shim, CPU from start to end", "python -I -S", "12 ms", both)


def remotes(pairs: int) -> Iterator[str]:
    for answers in ("json", "sse"):
        with tempered(answers=answers) as server, seats({"url": server.url}) as host:
            direct, ours = Direct(server.url), through(host["entries"][0])
            both = compared(ours.one_by_one, direct.one_by_one, pairs)
            yield row(f"tools/call over HTTP ({answers}), p50", "the HTTP client", "1.5x", both, "µs")
            both = compared(ours.in_flight, direct.in_flight, pairs)
            yield row("the same, 32 in flight", "the HTTP client", "0.7x", both, "/s")
            direct.close()
            ours.close()
    with ExitStack() as stack:
        slow = [{"url": stack.enter_context(tempered(faults=[LATE])).url} for _ in range(10)]
        rounds = []
        for _ in range(pairs):
            with seats(*slow) as ten, seats(slow[0]) as one:
                rounds.append((ten["seconds"], one["seconds"]))
                each = (ten["MiB"] - one["MiB"]) / 9
        yield row("ten slow remote servers up", "one", "1.3x", rounds)
        yield fact("memory for each remote server", "1 MiB", f"{each:.2f} MiB")


def streams(pairs: int) -> Iterator[str]:
    """Rows: an event stream, and another program between stdio and HTTP, with a server that costs little."""
    command = [PYTHON, "-I", "-S", str(HERE / "stream.py"), str(EVENTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
        with seats({"url": url}) as host:
            direct, ours = Direct(url), through(host["entries"][0])
            both = compared(ours.events, direct.events, pairs)
            yield row(f"{EVENTS:,} events of one stream", "the HTTP client", "0.7x", both, "/s")
            if gateway := shutil.which("supergateway"):
                quiet = ["/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh", gateway]
                other = Client([*quiet, "--streamableHttp", url, "--outputTransport", "stdio", "--logLevel", "none"])
                both = compared(ours.in_flight, other.in_flight, pairs)
                yield row("tools/call over HTTP, 32 in flight", "supergateway", "2x", both, "/s")
                other.close()
            else:
                yield "| tools/call over HTTP | | | not measured: supergateway not installed | | | |"
            direct.close()
            ours.close()
        server.kill()


def main() -> None:
    if sys.argv[1:2] == ["host"]:
        asyncio.run(host(json.loads(sys.argv[2])))
        return
    pairs = wanted(5)
    print(HEAD)
    for rows in (programs(pairs), [shim_cpu(3 * pairs)], remotes(pairs), streams(pairs)):
        for each in rows:
            print(each, flush=True)


if __name__ == "__main__":
    main()
