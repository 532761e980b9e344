"""
A launcher in small, in a process of its own: spawns `argv[2:]`, waits for a word on stdin, and ends it by argv[1]:

now        end_now in a `finally`, no event loop ever
cancel     attach, then a cancellation while the context is being used
stop       attach, then the ladder
Prints as JSON the children it has left, whether asyncio was imported, and how it was before and after.
"""

import json
import os
import sys
from pathlib import Path

from acp_launch.process.spawn import Spawned, spawn
from acp_launch.process.tree import end_now

GRACE = 0.05


def children() -> list[int]:
    text = "".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return [int(pid) for pid in text.split()]


def descriptors() -> int:
    """Those of a library that maps its own file again, as some builds of libffi do, are not ours."""
    return sum(".so" not in _target(path) for path in Path("/proc/self/fd").iterdir())


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # the one that listed them
        return ""


def now(spawned: Spawned) -> None:
    try:
        sys.stdin.readline()
    finally:
        end_now(spawned)
        end_now(spawned)


def in_loop(spawned: Spawned, how: str) -> None:
    import asyncio

    from acp_launch.process.child import attach
    from acp_launch.process.program import stop

    async def use() -> None:
        async with attach(spawned) as child:
            await asyncio.to_thread(sys.stdin.readline)
            if how == "stop":
                await stop(child, grace=GRACE)
            else:
                await asyncio.Event().wait()

    async def cancelled() -> None:
        task = asyncio.create_task(use())
        await asyncio.to_thread(sys.stdin.readline)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(use() if how == "stop" else cancelled())


how, *argv = sys.argv[1:]
before = descriptors()
spawned = spawn(argv, env=dict(os.environ), cwd=Path.cwd())
now(spawned) if how == "now" else in_loop(spawned, how)
print(
    json.dumps(
        {
            "children": children(),
            "asyncio": "asyncio" in sys.modules,
            "psutil": "psutil" in sys.modules,
            "descriptors_leaked": descriptors() - before,
        }
    )
)
