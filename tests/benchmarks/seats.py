"""
A process that runs N servers as a launch does, for tests.benchmarks.seat: `python -m tests.benchmarks.seats N`.

Writes one JSON line with the way to each, and another when all have shown a sign of life: the seconds that took since
the process began, and the memory of it and its servers. Lives until its stdin ends.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import psutil

from acp_launch.bridge import shim
from acp_launch.bridge.offer import ShimCommand, entries
from acp_launch.bridge.servers import ServerNeeds, running
from acp_launch.plan.model import Origin, StdioPlan, Value
from tests.bridge.observing import Silent

HERE = Path(__file__).parent


class Saying(Silent):
    def note(self, text: str) -> None:
        print(text, file=sys.stderr)


async def main(count: int) -> None:
    echo = tuple(Value((arg,), Origin("bench")) for arg in ("-I", "-S", str(HERE / "echo.py")))
    plans = [
        StdioPlan(name=f"echo{number}", command=Path(sys.executable), args=echo, env={}, cwd=HERE)
        for number in range(count)
    ]
    needs = ServerNeeds(
        secrets={},
        directories=(HERE,),
        max_line=1 << 26,
        hurry=asyncio.Event(),
    )
    began = time.perf_counter()
    async with running(plans, needs, Saying()) as ours:
        up = await asyncio.gather(*(ours.servers.up(plan) for plan in plans))
        assert all(up)
        took = time.perf_counter() - began
        way = ShimCommand(Path(sys.executable), Path(shim.__file__), ours.seat.path, ours.seat.token)
        memory = psutil.Process().memory_info().rss / 2**20
        print(json.dumps({"entries": entries(plans, {}, way), "seconds": took, "MiB": memory}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
