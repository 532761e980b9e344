"""
A launch in small that starts a browser: `visitor.py STATE AGENT BROWSER`, the last two argvs in JSON.

Says as JSON on stdout what starting the browser gave; a line on stdin, and everything is ended as a run does.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from acp_launch.engine.loop import guard_informed
from acp_launch.process import child as orphans
from acp_launch.process import detached
from acp_launch.process.guard_client import Guard
from acp_launch.process.records import LaunchRecord
from acp_launch.process.spawn import spawn
from acp_launch.process.tree import end_all_now


async def visit(guard: Guard) -> None:
    with orphans.reaped():
        async with guard_informed(guard):
            said = detached.start(json.loads(sys.argv[3]), os.environ)
            guard.look()
            upper = guard.guards.known()[-1].pid if guard.guards else None
            print(json.dumps({"said": said, "guard": upper}), flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            guard.look()


record = LaunchRecord(Path(sys.argv[1]), print)
guard = Guard(record, print)
record.begin("run", "some profile")
guard.start()
spawn(json.loads(sys.argv[2]), env=dict(os.environ), cwd=Path("/"), name="agent")
asyncio.run(visit(guard))
end_all_now()
guard.dismiss()
record.remove()
