"""
The socket of a host: the host listens, a front connects.

It lies in a directory that no other user may enter, and the kernel says who connects. Another version of acp-launch is
refused in words, because what the two say to each other may have changed.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec

from acp_launch import __version__
from acp_launch.errors import StateError
from acp_launch.host.place import HostNote
from acp_launch.host.wire import GREETING, LONGEST_GREETING, STATUS, HostStatus, understood
from acp_launch.problem import ours
from acp_launch.protocol import jsonrpc
from acp_launch.waits import stretch

PATIENCE = stretch(3.0)  # seconds for the host's answer to a greeting, and for the greeting of a front
BACKLOG = 256
MOST = 256  # fronts at the same time
OWN = f"{__version__}".encode()


@asynccontextmanager
async def listen(attach: Callable[[socket.socket], None]) -> AsyncIterator[Path]:
    """Listen for fronts while the block runs; `attach` takes the line of each that has greeted.

    Raises:
        StateError: there is no place for the socket.
    """
    from acp_launch.bridge.seat import SOCKET, directory

    acceptor = _Acceptor(attach)
    with directory() as place, socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        listener.bind(str(place / SOCKET))
        (place / SOCKET).chmod(0o600)  # whatever the umask takes away
        listener.listen(BACKLOG)
        acceptor.open(listener)
        try:
            yield place / SOCKET
        finally:
            acceptor.close()


class _Acceptor:
    """Accepts lines, and holds them until they have greeted."""

    def __init__(self, attach: Callable[[socket.socket], None]) -> None:
        self._attach = attach
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None

    def open(self, listener: socket.socket) -> None:
        self._listener = listener
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
        for task in self._waiting:
            task.cancel()

    def _accept(self) -> None:
        from acp_launch.bridge.seat import peer_uid

        assert self._listener is not None
        try:
            line, _ = self._listener.accept()
        except OSError:  # it has gone, or descriptors run out: the next one is tried then
            return
        line.setblocking(False)
        if peer_uid(line) not in (None, os.geteuid()) or len(self._waiting) >= MOST:
            line.close()
            return
        task = self._loop.create_task(self._greet(line))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _greet(self, line: socket.socket) -> None:
        is_welcome = False
        try:
            async with asyncio.timeout(PATIENCE):
                is_welcome = await _is_welcome(line)
        except (TimeoutError, OSError):
            return
        finally:
            if not is_welcome:
                line.close()
        self._attach(line)


async def _is_welcome(line: socket.socket) -> bool:
    loop = asyncio.get_running_loop()
    said = b""
    while not said.endswith(b"\n") and len(said) < LONGEST_GREETING:
        more = await loop.sock_recv(line, 1)  # what follows it belongs to the conversation
        if not more:
            return False
        said += more
    if not said.startswith(GREETING):
        return False
    if said[len(GREETING) : -1] != OWN:
        await loop.sock_sendall(line, b"-" + OWN + b"\n")
        return False
    await loop.sock_sendall(line, b"+\n")
    return True


def connect(note: HostNote) -> socket.socket:
    """Connect to a host, and return the line.

    Raises:
        StateError: it is of another version, does not answer, or its socket is gone.
    """
    down = ours("down", note.called)
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(PATIENCE)
    try:
        line.connect(note.socket)
        line.sendall(GREETING + OWN + b"\n")
        answer = b""
        while not answer.endswith(b"\n") and len(answer) < LONGEST_GREETING:
            if not (more := line.recv(1)):
                raise ConnectionResetError
            answer += more
    except TimeoutError:
        line.close()
        raise StateError(
            f"the host of {note.called} (pid {note.pid}) does not answer", fix=_free_advice(note)
        ) from None
    except OSError as error:
        line.close()
        why = error.strerror or "it closed the connection"
        raise StateError(f"cannot reach the host of {note.called} (pid {note.pid}): {why}", fix=down) from None
    if answer == b"+\n":
        return line
    line.close()
    other = answer[1:-1].decode(errors="replace")
    raise StateError(
        f"the host of {note.called} is of version {other}, this acp-launch is {__version__}",
        fix=f"{down}, and up again",
    )


def read_status(note: HostNote) -> HostStatus:
    """Ask a host for its state.

    Raises:
        StateError: it cannot be reached, or does not answer.
    """
    return msgspec.json.decode(call(note, STATUS, {}), type=HostStatus)


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
    error = understood(fault) if fault is not None else None
    raise error or StateError(f"the host of {note.called} (pid {note.pid}) does not answer as it should")


def _free_advice(note: HostNote) -> str:
    return f"it may be stopped: kill -CONT {note.pid}; or end it: {ours('down', note.called)}"
