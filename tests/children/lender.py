"""
Lends its terminal: `lender.py STATE ARGV`, ARGV in JSON, is run in the foreground under a guard. SIGTERM cancels that.

Says as JSON on a line of its own how that ended and what the terminal is like, then `in front` once it is.
"""

import asyncio
import json
import os
import signal
import sys
import termios
from pathlib import Path

from acp_launch.engine.loop import guard_informed
from acp_launch.errors import LaunchError
from acp_launch.process.foreground import foreground
from acp_launch.process.guard_client import Guard
from acp_launch.process.program import LocalProgram
from acp_launch.process.records import LaunchRecord


def children() -> list[int]:
    text = "".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return [int(pid) for pid in text.split()]


async def lend(argv: list[str]) -> str:
    program = LocalProgram(name="login", argv=tuple(argv), env=dict(os.environ), cwd=Path("/"))
    task = asyncio.create_task(foreground(program))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with guard_informed(guard):
            return str(await task)
    except asyncio.CancelledError:
        return "cancelled"
    except LaunchError as error:
        return str(error)


state, argv = sys.argv[1], json.loads(sys.argv[2])
record = LaunchRecord(Path(state), print)
guard = Guard(record, print)
record.begin("login", "p")
guard.start()
before = termios.tcgetattr(0) if os.isatty(0) else None
how = asyncio.run(lend(argv))
guard.dismiss()
record.remove()
after = termios.tcgetattr(0) if os.isatty(0) else None
in_front = os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
print(json.dumps({"how": how, "same": before == after, "in front": in_front, "left": children()}), flush=True)
