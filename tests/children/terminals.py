"""
An agent's commands in small, in a launch of its own with a guard: `terminals.py STATE ARGV...`, each ARGV in JSON.

Says as JSON on stdout what it is, as launch.py does, and waits for the end of its stdin.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from acp_launch.engine.loop import guard_informed
from acp_launch.process.guard_client import Guard
from acp_launch.process.records import LaunchRecord
from acp_launch.process.spawn import live
from acp_launch.session.events import TerminalEvent
from acp_launch.session.terminals import Terminals


async def allowed(call: dict[str, Any]) -> str:
    return ""


def tell(step: TerminalEvent) -> None:
    assert step.terminal_id


async def run(guard: Guard, argvs: list[list[str]]) -> None:
    terminals = Terminals(Path("/"), dict(os.environ), allowed=allowed, tell=tell)
    async with guard_informed(guard):
        for program, *args in argvs:
            await terminals.services()["terminal/create"]({"command": program, "args": args})
        pids = [spawned.pid for spawned in live()]
        assert guard.guards is not None
        guards = [process.pid for process in guard.guards.known()]
        print(json.dumps({"pid": os.getpid(), "guards": guards, "cgroup": "", "children": pids}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await terminals.close()


state, *given = sys.argv[1:]
record = LaunchRecord(Path(state), print)
guard = Guard(record, print)
record.begin("run", "some profile")
guard.start()
asyncio.run(run(guard, [json.loads(argv) for argv in given]))
guard.dismiss()
record.remove()
