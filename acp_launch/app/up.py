"""
The process of a host, from its checks on the terminal to its end.

Its command is read without typer, whose memory the host would keep.
"""

import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from acp_launch.app.spec import RunSpec
from acp_launch.errors import StateError
from acp_launch.process import prepare
from acp_launch.process.table import block_until_gone
from acp_launch.process.tree import send
from acp_launch.served.registry import HostNote, find
from acp_launch.waits import stretch

DOWN_TIMEOUT = stretch(15.0)  # for a host to end its agent and servers


class Begun(NamedTuple):
    """What became of a host: its exit code if it has ended; its pid, 0 in the host itself; seconds until it was up."""

    code: int
    pid: int = 0
    took: float = 0.0


def start(request: RunSpec) -> Begun:
    """Start a host in the background, and return when it is up, or has failed. In the host, return at its end."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.close(writing)
        return _wait_until_up(child, reading)
    os.close(reading)
    return Begun(be_host(request, writing))


def _wait_until_up(child: int, reading: int) -> Begun:
    """Wait until the host is up, or has ended. Ctrl-C ends it."""
    said = b""
    try:
        while not said.endswith(b"\n") and (more := os.read(reading, 100)):
            said += more
    except KeyboardInterrupt:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(reading)
    if said.endswith(b"\n"):
        return Begun(0, child, float(said))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return Begun(code if code >= 0 else 128 - code, child)


def end(note: HostNote, state: Path) -> None:
    """End a host, and wait until it has ended; one that does not is killed, and its guards end the rest. `state` has
    its place."""
    host = prepare.table().read(note.pid)
    present = find(state, note.project, note.profile)
    if host is None or present is None or present.pid != note.pid:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        send(host, number)
        send(host, signal.SIGCONT)  # a stopped process cannot act on it
        block_until_gone([host], within=DOWN_TIMEOUT)
        left = prepare.table().read(note.pid)
        if left is None or left != host or left.is_dead:  # where init does not fetch its status it stays in the table
            return
    raise StateError(f"the host of {note.called} (pid {note.pid}) does not end")


def be_host(request: RunSpec, pipe: int | None = None) -> int:
    """Be the host of a profile until it ends, as `run_host`; its guards are forked before more is imported."""
    from acp_launch.app.planning import prepare_launch

    prepare_launch()
    from acp_launch.app.host_start import run_host

    return run_host(request, pipe)
