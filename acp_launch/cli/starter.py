"""
The starter of a host: a process that has imported what a front needs, and is forked for each (light.py).

The host forks it before there are secrets, threads or an event loop, so none of them is in a front. It has no terminal
and waits without a clock. What it forks gets streams, directory, environment and umask of the process that asks, which
must be our user's and see the same files; then it runs the command line as any process of ours does. It only waits for
hosts: anything else it declines. The starter reports how a front that cannot do so itself has ended, kills one whose
asking process has died, and ends with the host and the fronts.
"""

import asyncio
import gc
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple, NoReturn

from acp_launch import __version__, leave
from acp_launch.bridge.seat import SOCKET, directory, peer_uid
from acp_launch.cli import light
from acp_launch.process import prepare
from acp_launch.process.guard import disown_guards
from acp_launch.process.guardian import keep_only
from acp_launch.process.spawn import rename
from acp_launch.profile.discover import Found

MOST = 256  # fronts at the same time
BACKLOG = 256
LARGEST = 16 * 1024 * 1024  # bytes of a request; the kernel allows a command line less
LONGEST_HEAD = 200  # bytes
GOING = 2.0  # seconds for the starter to end with the host
ENDING = [getattr(signal, name) for name in light.ENDING if hasattr(signal, name)]


class Starter(NamedTuple):
    """The starter, as its host knows it."""

    socket: Path

    def note(self, profile: Found) -> bytes:
        """Return the content of the file that it is found by, with this profile."""
        is_file = profile.origin == "path"
        typed = profile.file if is_file else profile.name
        return light.note(__version__, str(typed), "/" if is_file else str(profile.project), str(self.socket))


@contextmanager
def starting(rehearse: Callable[[], object]) -> Iterator[Starter | None]:
    """Keep a starter while the block runs; None if no process can be forked, and `run` then takes the ordinary way.

    `rehearse` does what a front does before it connects: patterns are compiled then, and types known to msgspec.
    """
    if not hasattr(os, "fork") or None in (sys.stdin, sys.stdout, sys.stderr):
        yield None
        return
    _import_all()
    rehearse()
    with directory() as place, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / SOCKET))
        (place / SOCKET).chmod(0o600)  # whatever the umask takes away
        listener.listen(BACKLOG)
        ours, theirs = os.pipe()
        pid = _forked(listener, ours)
        os.close(ours)
        listener.close()
        try:
            yield Starter(place / SOCKET) if pid else None
        finally:
            os.close(theirs)
            if pid:
                _awaited(pid)


def _forked(listener: socket.socket, lifeline: int) -> int:
    """Fork it; 0 if that is not possible."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        pid = os.fork()
    except OSError:
        return 0
    if not pid:
        try:
            _Serving(listener, lifeline).serve()
        finally:
            os._exit(1)
    return pid


def _awaited(pid: int) -> None:
    """Wait for its end, but not long: a front whose output nothing reads cannot end either."""
    from acp_launch.process.pidfd import block_until_gone

    seen = prepare.table().read(pid)
    if seen is not None:
        block_until_gone([seen], within=GOING)
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


# What a front needs.
NEEDED = (
    *(f"acp_launch.cli.{name}" for name in ("fronting", "job", "main", "run", "session_needs", "verb")),
    *(f"acp_launch.console.{name}" for name in ("failure", "stream.ndjson", "stream.outlet", "stream.text")),
    "acp_launch.document.cache",
    *(f"acp_launch.host.{name}" for name in ("door", "front")),
    *(f"acp_launch.profile.{name}" for name in ("load", "trust")),
    *("acp_launch.plan.resolve", "hashlib"),
    *(f"acp_launch.launch.{name}" for name in ("loop", "run")),
    *(f"acp_launch.session.{name}" for name in ("attachments", "store")),
    *("asyncio", "encodings.utf_8_sig", "pwd", "sqlite3", "threading"),
)


def _import_all() -> None:
    for name in NEEDED:
        with suppress(ImportError):  # `pwd`, where there is none
            import_module(name)


# The starter.


class _Serving:
    """The work of the starter."""

    def __init__(self, listener: socket.socket, lifeline: int) -> None:
        """Leave the host's terminal and descriptors. `lifeline` ends with the host."""
        gc.disable()  # a collection would write to memory that is shared
        for number in (*ENDING, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        disown_guards()
        leave.begin_anew()
        os.setsid()
        self._listener, self._lifeline = listener, lifeline
        self._woken, wakes = os.pipe()
        for end in (self._woken, wakes):
            os.set_blocking(end, False)
        self._ours = [listener.fileno(), lifeline, self._woken, wakes]
        keep_only({*self._ours})
        rename(f"acp_launch-starter {os.getppid()}")
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._fronts: dict[int, socket.socket] = {}  # by pid, until they are reaped
        self._next: tuple[int, socket.socket] | None = None  # the pid of one that waits for its line, and the way to it
        self._poll = select.poll()
        for descriptor in (listener.fileno(), lifeline, self._woken):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self) -> NoReturn:
        """Give every connection a front, until the host has ended and with it all fronts."""
        self._prepare()
        is_open = True
        while is_open or self._fronts:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            for pid, line in self._fronts.items():
                if line.fileno() in ready:  # the process that asked has ended
                    self._poll.unregister(line)
                    os.kill(pid, signal.SIGKILL)
            if self._lifeline in ready:
                is_open = False
                self._close()
            elif self._listener.fileno() in ready:
                self._accept()
        os._exit(0)

    def _close(self) -> None:
        self._poll.unregister(self._lifeline)
        self._poll.unregister(self._listener)
        self._listener.close()
        if self._next is not None:
            pid = self._next[0]
            self._forget_next()
            os.waitpid(pid, 0)  # it ends at once, and nothing of a host outlives it

    def _forget_next(self) -> None:
        if self._next is not None:
            self._next[1].close()  # it ends
            self._next = None

    def _reap(self) -> None:
        """Fetch how fronts have ended, and report it."""
        for pid, line in [*self._fronts.items()]:
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            code = os.waitstatus_to_exitcode(status)
            with suppress(OSError):  # the process that asked knows it already, or has ended
                line.sendall(b"=%d\n" % code if code >= 0 else b"!%d\n" % -code)
            with suppress(KeyError):  # it has ended
                self._poll.unregister(line)
            del self._fronts[pid]
            line.close()
        if self._next is not None and os.waitpid(self._next[0], os.WNOHANG)[0]:
            self._forget_next()

    def _accept(self) -> None:
        """Give the next connection to a front."""
        try:
            line, _ = self._listener.accept()
        except OSError:  # it has gone, or descriptors run out
            return
        line.setblocking(True)
        if not (self._admits(line) and self._given(line)):
            line.close()
        self._prepare()

    def _admits(self, line: socket.socket) -> bool:
        return len(self._fronts) < MOST and peer_uid(line) in (None, os.geteuid())

    def _given(self, line: socket.socket) -> bool:
        """Give the line to the front that waits for one."""
        self._prepare()
        if self._next is None:
            return False
        pid, way = self._next
        self._next = None
        with way:
            try:
                socket.send_fds(way, [b"."], [line.fileno()])
            except OSError:  # it was killed
                os.waitpid(pid, 0)
                return False
        self._fronts[pid] = line
        self._poll.register(line, 0)  # its end is always reported
        return True

    def _prepare(self) -> None:
        """Fork the next front: that takes longer than all else here, and is done before it is asked for."""
        if self._next is not None:
            return
        ours, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return
        if not pid:
            _be_front(theirs, [*self._ours, ours.fileno(), *(each.fileno() for each in self._fronts.values())])
        theirs.close()
        self._next = pid, ours


# A front.


class _Asked(NamedTuple):
    """What a process asks for. `streams` are stdin, stdout and stderr."""

    streams: list[int]
    directory: bytes
    umask: int
    ignored: list[int]
    arguments: list[str]
    variables: dict[bytes, bytes]


def _be_front(way: socket.socket, others: Sequence[int]) -> NoReturn:
    """Wait for a line on `way`, do in this forked process what the process at its other end would do, and end so."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in others:
            os.close(descriptor)
        _warm_up()
        if (begun := _met(way)) is None:
            os._exit(0)
        line, arguments = begun
        light.decline = lambda: _decline(line)
        code = _carried_out(arguments)
        with suppress(OSError):
            line.sendall(b"=%d\n" % code)
        leave.finish(code)
    finally:
        os._exit(code)


def _met(way: socket.socket) -> tuple[socket.socket, list[str]] | None:
    """Take a line and what is asked for on it; None if the process at its other end is to take the ordinary way."""
    _, lines, _, _ = socket.recv_fds(way, 1, 1)
    way.close()
    if not lines:  # the starter has ended
        return None
    line = socket.socket(fileno=lines[0])
    line.set_inheritable(False)
    line.settimeout(light.PATIENCE)
    try:
        asked = _asked(line)
        if asked is None or not _sees_the_same(line):
            return None
        _take_over(asked)
        line.sendall(b"+%d\n" % os.getpid())
        if line.recv(1) != b".":
            return None
    except OSError:  # it has gone, or is slow
        return None
    line.settimeout(None)
    return line, asked.arguments


def _warm_up() -> None:
    """Write to memory that each front writes to, while it is not waited for: the kernel copies it now."""
    asyncio.run(asyncio.sleep(0))


def _decline(line: socket.socket) -> NoReturn:
    with suppress(OSError):
        line.sendall(b"-")
    os._exit(0)


def _asked(line: socket.socket) -> _Asked | None:
    said, streams, _, _ = socket.recv_fds(line, LONGEST_HEAD, 3)
    head, _, rest = said.partition(b"\n")
    version, _, length = head.removeprefix(light.GREETING).partition(b" ")
    if not head.startswith(light.GREETING) or version != __version__.encode() or len(streams) != 3:
        return None
    wanted = int(length)
    if not 0 < wanted <= LARGEST:
        return None
    request = bytearray(rest)
    while len(request) < wanted:
        if not (more := line.recv(wanted - len(request))):
            return None
        request += more
    where, umask, ignored, count, *words = bytes(request).split(b"\0")[:-1]
    arguments, variables = words[: int(count)], words[int(count) :]
    return _Asked(
        [*streams],
        where,
        int(umask),
        [int(number) for number in ignored.split(b",") if number],
        [os.fsdecode(word) for word in arguments],
        {name: value for name, _, value in (each.partition(b"=") for each in variables)},
    )


def _sees_the_same(line: socket.socket) -> bool:
    """Whether the process at the other end has our files: one in a sandbox must not read through us."""
    if not prepare.IS_LINUX:
        return True
    pid, _, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return all(os.readlink(f"/proc/{pid}/{each}") == os.readlink(f"/proc/self/{each}") for each in ("ns/mnt", "root"))  # noqa: PTH115


def _take_over(asked: _Asked) -> None:
    """Be as the asking process is at its start.

    Raises:
        OSError: its directory cannot be entered.
    """
    os.setpgid(0, 0)
    os.chdir(asked.directory)
    os.umask(asked.umask)
    for number, stream in enumerate(asked.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environb.clear()
    os.environb.update(asked.variables)
    time.tzset()
    sys.stdin, sys.stdout, sys.stderr = _stream(0, "r"), _stream(1, "w"), _stream(2, "w")
    sys.argv = ["acp-launch", *asked.arguments]
    for number in asked.ignored:
        signal.signal(number, signal.SIG_IGN)
    leave.begin_anew()
    leave.listen()
    rename("acp_launch-front")


def _stream(number: int, mode: str) -> TextIOWrapper:
    """Return a standard stream as Python makes it at its start."""
    like = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[number]
    assert isinstance(like, TextIOWrapper)
    is_direct = like.write_through  # PYTHONUNBUFFERED
    binary = open(number, f"{mode}b", buffering=0 if is_direct else -1, closefd=False)  # noqa: SIM115
    return TextIOWrapper(
        binary,
        like.encoding,
        like.errors,
        newline="\n",
        line_buffering=number == 2 or binary.isatty(),
        write_through=is_direct,
    )


def _carried_out(arguments: list[str]) -> int:
    """Run the command line, as `__main__` does."""
    try:
        return int(sys.modules["acp_launch.cli.main"].run(arguments))  # by name: it leads back here
    except BaseException:
        if leave.is_due():  # a signal may have surfaced as any exception
            leave.at_once(leave.code())
        sys.excepthook(*sys.exc_info())
        return 1
