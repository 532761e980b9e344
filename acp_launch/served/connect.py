"""
The socket of a host: the host listens, a front connects; both have a `SocketTransport` on it.

It lies in a directory that no other user may enter, and the kernel says who connects. A front of another version of
acp-launch than the host's does not connect, because what the two say to each other may have changed.
"""

import asyncio
import json
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from acp_launch import __version__
from acp_launch.errors import StateError
from acp_launch.private import is_running
from acp_launch.problem import ours
from acp_launch.protocol import jsonrpc
from acp_launch.rpc import TransportClosed
from acp_launch.served.registry import HostNote, hosts, server_host_state
from acp_launch.served.wire import (
    CANCEL,
    COMPARE,
    READY,
    STATUS,
    HostStatus,
    ServerHostStatus,
    SharedLikeness,
    SharedStanding,
    read_own_error,
)
from acp_launch.waits import stretch

GREETING_TIMEOUT = stretch(3.0)  # for the host to greet a front, and to answer one request
POLL_SECONDS = 0.05  # until its socket is there
CHUNK_BYTES = 256 * 1024  # of a read


def connect(note: HostNote) -> socket.socket:
    """Connect to a host, and return the line.

    Raises:
        StateError: it is of another version, does not answer, or its socket is gone.
    """
    if note.version != __version__:
        what = f"the host of {note.called} is of version {note.version}, this acp-launch is {__version__}"
        raise StateError(what, fix=f"{_way_down(note)}, and up again")
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(GREETING_TIMEOUT)
    try:
        _reach(line, note)
        if line.recv(len(READY), socket.MSG_WAITALL) != READY:
            raise ConnectionResetError
    except TimeoutError:
        line.close()
        fix = f"it may be stopped: kill -CONT {note.pid}; or end it: {_way_down(note)}"
        raise StateError(f"the host of {note.called} (pid {note.pid}) does not answer", fix=fix) from None
    except (FileNotFoundError, NotADirectoryError):
        line.close()
        what = f"cannot reach the host of {note.called} (pid {note.pid}), which goes on: {note.socket} was removed"
        above = Path(note.socket).parents[1]
        again = f"make {above} again, as a login does with a runtime directory"
        raise StateError(what, fix=f"{again}; to end the host and its work: {_way_down(note)}") from None
    except OSError as error:
        line.close()
        why = error.strerror or "it closed the connection"
        what = f"cannot reach the host of {note.called} (pid {note.pid}): {why}"
        raise StateError(what, fix=_way_down(note)) from None
    return line


def _reach(line: socket.socket, note: HostNote) -> None:
    """Connect to a host, which makes a socket that was removed again within a second."""
    until = time.monotonic() + GREETING_TIMEOUT
    while True:
        try:
            line.connect(note.socket)
            return
        except (FileNotFoundError, NotADirectoryError):
            if time.monotonic() >= until or not is_running(note.pid):
                raise
            time.sleep(POLL_SECONDS)


def _way_down(note: HostNote) -> str:
    return ours("down", *([note.called] if note.project else ["--servers", "--force"]))


def stall_reason(note: HostNote) -> StateError | None:
    """Return why a host is silent, if it is stopped."""
    from acp_launch.process import prepare

    process = prepare.table().read(note.pid)
    if process is None or not process.is_stopped:
        return None
    fix = f"kill -CONT {note.pid}; or end it: {_way_down(note)}"
    return StateError(f"the host of {note.called} (pid {note.pid}) is stopped (SIGSTOP)", fix=fix)


def read_status(note: HostNote) -> HostStatus:
    """Ask a host for its state.

    Raises:
        StateError: it cannot be reached, or does not answer.
    """
    return msgspec.json.decode(call(note, STATUS, {}), type=HostStatus)


def shared_servers(state: Path) -> list[SharedStanding]:
    """Return the processes that this user's launches share, of hosts that answer."""
    found: list[SharedStanding] = []
    for note in hosts(server_host_state(state)):
        with suppress(StateError):
            found += read_shared(note)
    return found


def compare_shared(note: HostNote, server: Mapping[str, object]) -> Sequence[SharedLikeness]:
    """Ask a server host what keeps its processes of this name, or with these words, apart from a server.

    Raises:
        StateError: as `read_status`.
    """
    answer = call(note, COMPARE, {"server": json.dumps(server)})
    return msgspec.json.decode(answer, type=tuple[SharedLikeness, ...])


def read_shared(note: HostNote) -> Sequence[SharedStanding]:
    """Ask a server host for its processes.

    Raises:
        StateError: as `read_status`.
    """
    return msgspec.json.decode(call(note, STATUS, {}), type=ServerHostStatus).servers


def call(note: HostNote, method: str, params: Mapping[str, object], *, within: float | None = None) -> msgspec.Raw:
    """Return the answer of a host to one request. It has 3 s, or as many as `within` says.

    Raises:
        StateError: it cannot be reached, or does not answer.
        LaunchError: its own error.
    """
    with closing(connect(note)) as line, line.makefile("rb") as answers:
        if within is not None:
            line.settimeout(within)
        try:
            line.sendall(jsonrpc.as_line(jsonrpc.request(0, method, params)))
            answer = jsonrpc.decode(answers.readline())
        except TimeoutError:
            raise StateError(f"the host of {note.called} (pid {note.pid}) does not answer") from None
    if answer is not None and isinstance(answer.result, msgspec.Raw):
        return answer.result
    fault = jsonrpc.fault(answer.error) if answer is not None and answer.error is not msgspec.UNSET else None
    error = read_own_error(fault) if fault is not None else None
    raise error or StateError(f"the host of {note.called} (pid {note.pid}) does not answer as it should")


def cancel_turn(note: HostNote, name: str) -> bool:
    """Let a host cancel the turn of a session; return whether one was running."""
    return bool(msgspec.json.decode(call(note, CANCEL, {"name": name})))


class SocketTransport:
    """A connected unix socket as a `Transport`; it belongs to its caller."""

    def __init__(self, line: socket.socket, ended: str) -> None:
        """`ended` says how the other side ended, after "the agent"."""
        line.setblocking(False)
        self._line, self._ended = line, ended
        self._loop = asyncio.get_running_loop()
        self._writing = asyncio.Lock()

    async def read(self) -> bytes:
        try:
            return await self._loop.sock_recv(self._line, CHUNK_BYTES)
        except OSError:  # it was reset
            return b""

    async def write(self, data: bytes) -> None:
        async with self._writing:
            try:
                await self._loop.sock_sendall(self._line, data)
            except OSError as error:
                raise TransportClosed(f"nothing more can be sent: {error.strerror}") from error

    async def close(self) -> None:
        try:
            self._line.shutdown(socket.SHUT_WR)
        except OSError:  # the other side is gone
            return

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        return self._ended, ()
