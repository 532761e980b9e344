"""
The launcher's socket for shims (shim.py): the launcher's end of every MCP connection of the agent.

`listen_for_shims` listens on a unix socket in a private directory. It accepts a connection of our own user whose
first line holds this launch's token and the name of a server within two seconds. The shim then passes us the pipes it
was started with, or copies bytes. All other connections are closed without an answer, and `refused` gets the reason.

Each connection has a task of its own until it is accepted, so silent ones cannot block the next one.

The protocol:

    shim    acp-launch 2 TOKEN NAME and a line end; the token ends with a mark of its session
    seat    `+`; or it closes the connection
    shim    `+`, and with it its stdin and stdout; or `=`, if descriptors cannot be passed

After `+` the seat reads and writes the shim's stdin and stdout, and the connection only tells when either end closes.
After `=` the bytes of the conversation go over the connection.
"""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from itertools import count
from pathlib import Path

from msgspec import Struct

from acp_launch.private import SOCKET, compare_digest, directory, restore
from acp_launch.process.flow import Lent, lend
from acp_launch.waits import stretch, to_beat

# The greeting. Sans-IO.

MAX_GREETING_BYTES = 4096  # with its newline
SHOWN = 80  # characters of a wrong greeting that a message repeats

ACCEPTED = b"+"

_WORD, _VERSION = b"acp-launch", b"2"


class GreetingRefused(Exception):  # noqa: N818 - not our error
    """Raised when a connection is refused; its text says why, and holds no token, not even a wrong one."""


def check_greeting(line: bytes, names: Mapping[str, Container[str]]) -> tuple[str, str, str]:
    """Check a greeting, given without its newline; `names` are those of the servers behind each token.

    Return the token, the name of the server it asks for, and the token with the mark of its session.

    Raises:
        GreetingRefused: the greeting is wrong, or there is no such server.
    """
    word, _, rest = line.partition(b" ")
    version, _, rest = rest.partition(b" ")
    shown, separator, asked = rest.partition(b" ")
    given = shown.partition(b".")[0]
    if word != _WORD:
        raise GreetingRefused("its first line is not a shim's greeting")
    if version != _VERSION:
        what = f"its shim speaks version {_shown(version)}, this acp-launch version 2"
        raise GreetingRefused(f"{what}; if acp-launch was upgraded, start the launch again")
    token = next((each for each in names if separator and compare_digest(given, each.encode())), None)
    if token is None:
        raise GreetingRefused("its token is not the one of this launch")
    name = asked.decode(errors="replace")
    if name not in names[token]:
        raise GreetingRefused(f"it asked for {_shown(asked)}, which is not a server of this launch")
    return token, name, shown.decode(errors="replace")


def _shown(said: bytes) -> str:
    """Make received bytes fit for a terminal."""
    text = said.decode(errors="replace")
    return ascii(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


# The user at the other end of a unix socket, as the kernel reports it.

PLATFORM: str = sys.platform
LOCAL_PEERCRED = 1  # <sys/un.h> of macOS and FreeBSD, at level 0
XUCRED = 76  # bytes: version, user, number of groups, 16 groups


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user id of the other end; None if the kernel does not report it, or (macOS) the end is closed."""
    if PLATFORM == "linux":
        return _second(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))  # struct ucred: pid, uid, gid
    if PLATFORM == "darwin" or PLATFORM.startswith("freebsd"):
        try:
            return _second(connection.getsockopt(0, LOCAL_PEERCRED, XUCRED))
        except OSError:
            return None
    return None


def _second(numbers: bytes) -> int:
    return int(struct.unpack_from("2I", numbers)[1])


GREETING_TIMEOUT = stretch(2.0)  # a shim sends it as soon as it connects
MAX_BACKLOG = 256  # connections that wait in the kernel; more than an agent has servers
HUNG_UP = "it closed the connection before it sent a greeting"
ACCEPT_PAUSE = 1.0  # seconds, when descriptors or memory run out
POLL_SECONDS = 1.0  # whether the socket is there

_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class ShimListener(Struct, frozen=True):
    """The socket's path and the token that shims must send; both are for the agent alone."""

    path: Path
    token: str

    def session_token(self, session: str) -> str:
        return f"{self.token}.{session.encode(errors='replace').hex()}"

    def __repr__(self) -> str:
        return f"ShimListener({self.path})"


class ShimConnection(Struct, eq=False):
    """An accepted connection of a shim; the receiver must close it.

    `line` does not block. The agent's bytes come from `source`, and bytes for the agent go to `sink`. Both are pipes of
    the shim, while `line` only tells of its end; or both are `line` itself.
    """

    name: str
    line: socket.socket
    lent: tuple[Lent, Lent] | None = None
    token: str = ""  # that it has shown

    @property
    def source(self) -> int | Lent:
        return self.lent[0] if self.lent else self.line.fileno()

    @property
    def sink(self) -> int | Lent:
        return self.lent[1] if self.lent else self.line.fileno()

    def __repr__(self) -> str:
        return f"ShimConnection({self.name})"

    def close(self) -> None:
        for end in self.lent or ():
            end.close()
        self.line.close()


@asynccontextmanager
async def listen_for_shims(
    names: Container[str],
    on_shim: Callable[[ShimConnection], None],
    refused: Callable[[str], None],
    within: Path | None = None,
    state: Path | None = None,
) -> AsyncIterator[ShimListener]:
    """Listen for shims that ask for one of `names`; `refused` gets the reason for each refused connection.

    Leaving closes the socket and all connections without a greeting; accepted connections stay open. The socket is in a
    directory of its own, below the user's directory `state` if possible; or `within` one that is made already, where it
    is shared by all that listen there.

    Raises:
        LaunchError: there is no usable directory for the socket.
    """
    user = _User(os.urandom(24).hex(), names, on_shim, refused)
    with directory(state) if within is None else nullcontext(within) as place:
        while (door := _doors.get(place)) is not None and not door.users:  # it is being closed
            await door.closed.wait()
        door = door or await _open(place)
        door.users[user.token] = user
        try:
            yield ShimListener(door.path, user.token)
        finally:
            del door.users[user.token]
            if not door.users:
                await door.close()


class _User(Struct, frozen=True, eq=False):
    """The servers of one session, by the parameters of `listen_for_shims`."""

    token: str
    names: Container[str]
    on_shim: Callable[[ShimConnection], None]
    refused: Callable[[str], None]


class _Door(Struct, frozen=True, eq=False):
    """The only socket of a directory, as ssh forwards no other; a shim's token tells which of its `users` it wants."""

    path: Path
    users: dict[str, _User]  # by token
    closing: AsyncExitStack
    closed: asyncio.Event

    async def close(self) -> None:
        """Close it; until then its directory has no other."""
        try:
            await self.closing.aclose()
        finally:
            del _doors[self.path.parent]
            self.closed.set()


_doors: dict[Path, _Door] = {}  # of this process, by their directories


async def _open(place: Path) -> _Door:
    """Listen in a directory until the last user leaves."""
    users, tasks = dict[str, _User](), set[asyncio.Task[None]]()

    async def meet(connection: socket.socket) -> None:
        try:
            async with asyncio.timeout(GREETING_TIMEOUT):
                user, shim = await _admit(connection, door, peer_uid(connection))
        except (GreetingRefused, OSError) as why:
            late = f"it sent no greeting within {GREETING_TIMEOUT:g} s"
            refused(late if isinstance(why, TimeoutError) else HUNG_UP if isinstance(why, OSError) else str(why))
        else:
            asyncio.get_running_loop().call_soon(_hand_over, shim, user, users)

    def accept(connection: socket.socket) -> None:
        tasks.add(meeting := asyncio.create_task(meet(connection)))
        meeting.add_done_callback(tasks.discard)

    def refused(why: str) -> None:
        for user in list(users.values())[-1:]:  # the newest
            user.refused(why)

    closing = AsyncExitStack()
    closing.push_async_callback(lambda: _cancel_all(*tasks))
    path = await closing.enter_async_context(listening(place, accept, refused))
    door = _doors[place] = _Door(path, users, closing, asyncio.Event())
    return door


@asynccontextmanager
async def listening(
    place: Path, accept: Callable[[socket.socket], None], delayed: Callable[[str], None] = lambda why: None
) -> AsyncIterator[Path]:
    """Listen on the first free name of a directory while the block runs; `accept` takes each connection, and `delayed`
    hears why they have to wait.

    If the socket or directories above it are removed (by a logout, the end of a batch job, a cleaner of
    /tmp), they are made again at the same path, which others know: within a second, or once that is possible.
    """
    path = next(path for path in (place / f"{number or SOCKET}" for number in count()) if not path.exists())
    loop, listener = asyncio.get_running_loop(), _bind(path)

    async def serve() -> None:
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:  # EMFILE, ENOMEM: the connection stays pending
                delayed(f"it must wait: {error.strerror}")
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            loop.call_soon(accept, connection)
            await asyncio.sleep(0)  # those that are accepted come first; accepting from a full backlog does not wait

    serving = asyncio.create_task(serve())

    async def watch() -> None:
        nonlocal listener, serving
        while True:
            await asyncio.sleep(to_beat(loop.time(), POLL_SECONDS))
            try:
                if path.is_socket():
                    continue
                restore(place)
                old, listener = listener, _bind(path)
            except OSError:  # it is tried again at the next look
                continue
            try:
                await _cancel_all(serving)
            finally:
                old.close()
            serving = asyncio.create_task(serve())

    watching = asyncio.create_task(watch())
    try:
        yield path
    finally:
        await _cancel_all(watching)
        await _cancel_all(serving)
        listener.close()
        path.unlink(missing_ok=True)


def _bind(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.setblocking(False)
        listener.bind(str(path))
        path.chmod(0o600)  # whatever the umask takes away
        listener.listen(MAX_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


async def _cancel_all(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _admit(connection: socket.socket, door: _Door, uid: int | None) -> tuple[_User, ShimConnection]:
    """Receive the greeting, and then how the shim passes the conversation; else close the connection.

    Raises:
        GreetingRefused: it is not a shim of this launch.
        OSError: the connection has failed.
    """
    try:
        if uid not in (None, os.geteuid()):  # None is accepted because the directory is private
            raise GreetingRefused(f"it came from user {uid}, not from user {os.geteuid()}")
        line = await _greeting(connection)
        token, name, shown = check_greeting(line, {token: user.names for token, user in door.users.items()})
        user = door.users[token]
        connection.send(ACCEPTED)
        return user, ShimConnection(name, connection, await _lent(connection), shown)
    except BaseException:
        connection.close()
        raise


def _hand_over(shim: ShimConnection, user: _User, users: Container[str]) -> None:
    try:
        if user.token in users:
            user.on_shim(shim)
        else:
            shim.close()
    except BaseException:
        shim.close()
        raise


async def _greeting(connection: socket.socket) -> bytes:
    heard = b""
    while b"\n" not in heard:
        if len(heard) >= MAX_GREETING_BYTES:
            raise GreetingRefused(f"its first line is longer than {MAX_GREETING_BYTES} bytes")
        chunk = await asyncio.get_running_loop().sock_recv(connection, MAX_GREETING_BYTES - len(heard))
        if not chunk:
            raise GreetingRefused(HUNG_UP)
        heard += chunk
    line, _, rest = heard.partition(b"\n")
    if rest:
        raise GreetingRefused("it did not wait for an answer")
    return line


async def _lent(connection: socket.socket) -> tuple[Lent, Lent] | None:
    """Receive the shim's pipes; None if it passes the conversation byte by byte."""
    readable, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    word, descriptors, _, _ = socket.recv_fds(connection, 1, 2, _CLOSE_ON_EXEC)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # for kernels that lack MSG_CMSG_CLOEXEC
    lent = [lend(descriptor, reads=not number) for number, descriptor in enumerate(descriptors)]
    match word, lent:
        case (b"+", [Lent() as source, Lent() as sink]):
            return source, sink
        case (b"=", []):
            return None
    for end in filter(None, lent):
        end.close()
    raise GreetingRefused("it passed neither its pipes nor the mark for copying" if word else HUNG_UP)
