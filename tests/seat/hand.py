"""acp-launch with a person's hand on its servers: `:restart SERVER`, without the terminal it is typed at.

argv: the command that this becomes, `PYTHON -m acp_launch WORDS…`. It says `hand PID` on the liveness line, and for
each line that is a server's name there it has that one restarted and says `done`.
"""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from acp_launch.__main__ import main
from acp_launch.engine import servers


def held(line: socket.socket) -> None:
    """Take the hand's lines whenever servers are running."""
    begin = servers.launch_servers

    @asynccontextmanager
    async def launch_servers(*args: Any, **options: Any) -> AsyncIterator[servers.LaunchServers]:
        async with begin(*args, **options) as story:
            asyncio.get_running_loop().add_reader(line, obey, story, line)
            yield story

    servers.launch_servers = launch_servers


def obey(story: servers.LaunchServers, line: socket.socket) -> None:
    said = line.recv(1000)
    assert said.endswith(b"\n"), "half a line, or the test is gone"
    for name in said.decode().splitlines():
        story.restart(name)
        line.sendall(b"done\n")


if __name__ == "__main__":
    hand = socket.create_connection(("127.0.0.1", int(os.environ["LIVENESS"])), timeout=10)
    hand.sendall(f"hand {os.getpid()}\n".encode())
    held(hand)
    sys.argv[1:] = sys.argv[4:]
    main()
