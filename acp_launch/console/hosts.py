"""Hosts in words: what came up, and what runs there."""

from collections.abc import Iterator

from acp_launch.console.stderr import harmless
from acp_launch.console.stream.text import stands
from acp_launch.host.place import HostNote
from acp_launch.host.wire import HostStatus
from acp_launch.waits import seconds


def came_up(note: HostNote, status: HostStatus, took: float) -> Iterator[str]:
    """Yield the lines of `up`."""
    yield harmless(f"acp-launch: {note.called} is up after {seconds(round(took, 1))} (pid {note.pid})", keep="")
    yield harmless(f"  agent: {status.agent}", keep="")
    for server in status.servers:
        yield f"  mcp server: {stands(server)}"
