"""
A launch in small, in a process of its own: `launch.py STATE ARGV...`, each ARGV in JSON, is started under a guard.

Says as JSON on stdout what it is, then the new guard's pid whenever the guard was replaced. A line on stdin: `look`
lists descendants at once, and is answered; `end` ends everything as a run does.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from acp_launch.process.guard import Guard
from acp_launch.process.kill import end_all_now
from acp_launch.process.records import LaunchRecord
from acp_launch.process.spawn import spawn
from acp_launch.process.vigil import keep


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


class Telling(Guard):
    def replace(self) -> None:
        super().replace()
        say(self.spawned.pid if self.spawned else None)


async def run(guard: Guard) -> None:
    keeping = asyncio.create_task(keep(guard))
    while (await asyncio.to_thread(sys.stdin.readline)).strip() == "look":
        guard.look()
        say("looked")
    keeping.cancel()
    await asyncio.wait({keeping})


state, *argvs = sys.argv[1:]
record = LaunchRecord(Path(state), say)
guard = Telling(record, say)
record.begin("run", "some profile")
guard.start()
children = [
    spawn(json.loads(argv), env=dict(os.environ), cwd=Path("/"), name=f"child{number}", restarts=number)
    for number, argv in enumerate(argvs)
]
say(
    {
        "pid": os.getpid(),
        "guard": guard.spawned.pid if guard.spawned else None,
        "children": [child.pid for child in children],
    }
)
asyncio.run(run(guard))
end_all_now()
guard.dismiss()
record.remove()
