"""
A launch in small, in a process of its own: `launch.py STATE ARGV...`, each ARGV in JSON, is started under a guard.

Says as JSON on stdout what it is, and what is noted. A line on stdin: `look` lists descendants at once, and is
answered, as is `spawn ARGV`, which starts another child, and `guards`, which names the living ones, the lower one
first; `end` ends everything as a run does. With NO_CGROUP in the environment the launch has no control group, as on
most machines. With ENGINE, a container engine's program, what is started runs in containers of it; IMAGE has the
words before the command.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from acp_launch.engine.loop import guard_informed
from acp_launch.process import guard_client as guard_module
from acp_launch.process.containers import ContainerEngine, label_arguments
from acp_launch.process.guard_client import Guard
from acp_launch.process.records import LaunchRecord
from acp_launch.process.spawn import Spawned, spawn
from acp_launch.process.tree import end_all_now


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


async def run(guard: Guard) -> None:
    async with guard_informed(guard):
        while (line := (await asyncio.to_thread(sys.stdin.readline)).strip()) != "end" and line:
            verb, _, argv = line.partition(" ")
            if verb == "spawn":
                say(start(argv).pid)
            elif verb == "guards":
                assert guard.guards is not None
                say([process.pid for process in guard.guards.known()])
            else:
                guard.look()
                say("looked")


def start(argv: str, number: int = 0) -> Spawned:
    words = json.loads(argv)
    if engine:
        words = [engine, "run", "-i", "--rm", *label_arguments(), *image.split(), *words]
    return spawn(
        words, env=dict(os.environ), cwd=Path("/"), name=f"child{number}", restarts=number, is_client=bool(engine)
    )


if os.environ.pop("NO_CGROUP", ""):
    setattr(guard_module, "of_launch", lambda launch: None)  # noqa: B010
engine, image = os.environ.pop("ENGINE", ""), os.environ.pop("IMAGE", "image")
state, *argvs = sys.argv[1:]
record = LaunchRecord(Path(state), say)
guard = Guard(record, say)
record.begin("run", "some profile")
guard.start()
if engine:
    guard.use_engine(ContainerEngine(engine, dict(os.environ)))
children = [start(argv, number) for number, argv in enumerate(argvs)]
assert guard.guards is not None
say(
    {
        "pid": os.getpid(),
        "guards": [process.pid for process in guard.guards.known()],
        "cgroup": str(guard.guards.cgroup.path) if guard.guards.cgroup else "",
        "children": [child.pid for child in children],
    }
)
asyncio.run(run(guard))
end_all_now()
guard.dismiss()
record.remove()
