"""A session that writes to a file how it ended, for when there is no terminal to say it on."""

import asyncio
import signal
import sys
from pathlib import Path

from acp_launch.interactive.session import choose_front
from acp_launch.interactive.terminal import Status


async def main(history: Path) -> str:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    seat = choose_front(history)
    seat.status(Status(agent="agent", session="fix-42", phase="idle"))
    async with asyncio.TaskGroup() as group:
        group.create_task(seat.run())
        event = await seat.events.get()
        seat.close()
    return type(event).__name__


Path(sys.argv[2]).write_text(asyncio.run(main(Path(sys.argv[1]))))
