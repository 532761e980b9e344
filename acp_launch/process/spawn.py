"""
The only place that starts a process, and the only place that reaps what it started.

A launch starts its processes through its guards (guard_client.py), which are their parents; without guards we are.
This module is synchronous and free of asyncio, so that an agent can start while asyncio is still being imported. A
child gets its own session and process group, its pipes, and nothing else from us: no inherited descriptor, no
preexec_fn. The caller must ensure that `child.stop` or `tree.end_now` is called.
"""

import errno
import os
import signal
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field

from acp_launch import shutdown
from acp_launch.errors import AgentError, Exhausted
from acp_launch.process import prepare
from acp_launch.process.seccomp import make_filter
from acp_launch.process.table import Process
from acp_launch.waits import is_asking

if TYPE_CHECKING:
    from acp_launch.process.code import CodeFile

# Why a process could not be started, as a sentence that names the place to look at.


FILES = "no file descriptors are left", "raise the limit with `ulimit -n`"
PROCESSES = "no more processes are allowed", "raise the limit with `ulimit -u`"


def explain(error: Exception, argv: Sequence[str], cwd: Path) -> AgentError:
    """Return the error to raise instead of `error`, which occurred while starting `argv` in `cwd`."""
    command = argv[0] if argv else ""
    if not isinstance(error, OSError):  # ValueError: a NUL byte, or '=' in a variable's name
        return AgentError(f"{command!r} could not be started: {error}")
    if error.filename is not None and os.fspath(error.filename) == os.fspath(cwd) != command:
        return AgentError(
            f"{command} could not be started in {cwd}: {_reason(error)}", fix="create the directory, or choose another"
        )
    reason, fix = _exec_failure(error, Path(command))
    return AgentError(f"{command} could not be started: {reason}", fix=fix)


def exhausted(error: BaseException) -> Exhausted | None:
    """Return the fault for `error` if it only means that a limit of this process or its user is reached, else None."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return Exhausted(f"{FILES[0]} for acp-launch", fix=FILES[1])
    if isinstance(error, RuntimeError) and "start new thread" in str(error):  # ulimit -u, or a container's limit
        return Exhausted("no more threads are allowed for acp-launch", fix=PROCESSES[1])
    if isinstance(error, BlockingIOError) and error.filename is None and error.errno == errno.EAGAIN:
        return Exhausted(f"{PROCESSES[0]} for acp-launch", fix=PROCESSES[1])
    return None


def _exec_failure(error: OSError, command: Path) -> tuple[str, str]:
    match error.errno:
        case errno.ENOENT if not command.exists():
            return "there is no such file", "check that it is still installed"
        case errno.ENOENT:
            return "its interpreter, or the loader it was built for, does not exist", "install a build for this system"
        case errno.ENOEXEC:
            return "it is not a program for this machine, and not a script with a #! line", "name its interpreter first"
        case errno.E2BIG:
            return "its arguments and environment together are too long", "pass fewer variables with inherit_env"
        case errno.EMFILE | errno.ENFILE:
            return FILES
        case errno.EAGAIN:
            return PROCESSES
        case _:
            return _reason(error), ""


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


Stream = Literal["stdin", "stdout", "stderr"]

STATUS_LOST = -1  # another process reaped our child
BOXED_SIGNALS = range(129, 129 + 64)  # exit statuses of bubblewrap

_known: dict[tuple[int, float], "Spawned"] = {}  # by pid and time of start


class Spawned(Struct, eq=False):
    """A started process: our ends of its pipes (non-blocking; -1 once closed), and its raw wait status once reaped.

    `started` together with `pid` is its identity (see `table.Process`).
    """

    pid: int
    stdin: int
    stdout: int
    stderr: int
    started: float
    status: int | None = None
    is_fostered: bool = False  # a guard is its parent and reports its status
    is_ended: bool = False  # its whole tree has ended, or could not be killed
    name: str = ""  # its name in `ps`
    restarts: int = 0
    mark: str = ""  # in its environment and most of its descendants'; see `prepare`
    heard: list[Callable[[], None]] = field(default_factory=list)  # called once: `status` is set, or we are its parent
    is_boxed: bool = False  # bubblewrap, which kills all that is in its box when it ends
    is_killed: bool = False  # by a signal: itself, not what it leads to
    is_client: bool = False  # of a container engine, whose container may outlive it
    cidfile: Path | None = None  # of an engine's client, until the engine has written a container's id into it
    code: "Sequence[CodeFile]" = ()  # of a server, as it was at its start
    opening: bytes = b""  # of its input, before all that is written
    beat: float = 0  # seconds; so often its input, a line that may fall silent, gets a NUL
    is_missing: bool = False  # it was gone at the last look, and its guard has not reported a status

    @property
    def process(self) -> Process:
        """Return its identity. It leads its own session and group."""
        return Process(self.pid, self.started, os.getpid(), self.pid, self.pid)

    def poll(self) -> int | None:
        """Return the wait status, reaping the process if it has died; None while it lives."""
        if self.status is None and self.is_fostered and parent is not None:
            parent.drain()
        if self.status is None and not self.is_fostered:
            self.settle(_reap(self.pid))
        return self.status

    def settle(self, status: int | None) -> None:
        """Record the status that a wait returned. bubblewrap exits with 128 and the number of the signal that killed
        its program."""
        self.is_killed = status is not None and status >= 0 and os.WIFSIGNALED(status)
        if self.is_boxed and status is not None and status >= 0 and os.WIFEXITED(status):
            status = os.WEXITSTATUS(status) - 128 if os.WEXITSTATUS(status) in BOXED_SIGNALS else status
        self.status = status
        self._forget_when_over()
        if status is not None:
            self.tell()

    def tell(self) -> None:
        """Call the callbacks in `heard`, once."""
        while self.heard:
            self.heard.pop()()

    def awaits_container(self) -> bool:
        """Whether it is the client of an engine that has not made the container yet."""
        if self.cidfile is not None and self.cidfile.exists() and self.cidfile.stat().st_size:
            self.cidfile = None
        return self.cidfile is not None

    def close(self, stream: Stream) -> None:
        """Close our end of a pipe. Closing it again does nothing."""
        descriptor: int = getattr(self, stream)
        if descriptor >= 0:
            setattr(self, stream, -1)
            os.close(descriptor)

    def close_all(self) -> None:
        for stream in ("stdin", "stdout", "stderr"):
            self.close(stream)

    def mark_ended(self) -> None:
        """Note that its tree has been ended: nothing is left to signal."""
        if not self.is_ended:
            for observer in observers:
                observer.ended(self)
        self.is_ended = True
        self._forget_when_over()

    def _forget_when_over(self) -> None:
        if self.is_ended and self.status is not None:
            _known.pop((self.pid, self.started), None)


class SpawnObserver(Protocol):
    """Observes every start and every end, on the thread where it happens. Must neither block nor raise."""

    def began(self, spawned: Spawned) -> None: ...

    def ended(self, spawned: Spawned) -> None:
        """Note that its whole tree has ended."""

    def connected(self, name: str, state: str, restarts: int) -> None:
        """Note the state of the connection to a remote server, which has no process."""


observers: list[SpawnObserver] = []


class Parent(Protocol):
    """The guards of this process, as the parent of its children."""

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, streams: Sequence[int], *, leads: bool
    ) -> Spawned | None:
        """Start a child of the guards, registered and without pipes. Returns None if no guard is left.

        Raises:
            OSError, ValueError: it could not be started.
        """

    def drain(self) -> None:
        """Call `settle` for every child that has died."""

    def await_word(self, spawned: Spawned, *, within: float) -> None:
        """Have `settle` called for a dead child whose end may not have been reported yet."""

    def pids(self) -> list[int]:
        """Return the pids of the living guards."""


parent: Parent | None = None


def settle(pid: int, status: int) -> None:
    """Record the status that a guard reports. Processes that were not spawned here are ignored."""
    for spawned in list(_known.values()):
        if spawned.pid == pid and spawned.is_fostered and spawned.status is None:
            spawned.settle(status)


def inherit(*, is_all: bool = True) -> None:
    """Take over the children of guards that have died: those that have come to us, or all after the last guard."""
    table = prepare.table()
    for spawned in [each for each in _known.values() if each.is_fostered]:
        seen = None if is_all else table.read(spawned.pid)
        if is_all or (seen is not None and seen == spawned.process and seen.parent == os.getpid()):
            spawned.is_fostered = False
            spawned.tell()


def settle_lost() -> None:
    """Give up the status of processes that a guard reaped but did not live to report: gone at two looks in a row."""
    table = prepare.table()
    for spawned in list(_known.values()):
        if spawned.is_fostered and spawned.status is None:
            seen = table.read(spawned.pid)
            is_gone = seen is None or seen.started != spawned.started
            if is_gone and spawned.is_missing:
                spawned.settle(STATUS_LOST)
            spawned.is_missing = is_gone


def live() -> list[Spawned]:
    """Return what was spawned and has not ended, oldest first."""
    return [spawned for spawned in list(_known.values()) if not spawned.is_ended]


def is_unreaped(process: Process) -> bool:
    """Whether we spawned `process` and its wait status is not fetched yet. Only its parent can fetch it."""
    spawned = _known.get((process.pid, process.started))
    return spawned is not None and spawned.status is None


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    name: str = "",
    restarts: int = 0,
    is_output_only: bool = False,
    is_boxed: bool = False,
    is_client: bool = False,
    code: "Sequence[CodeFile]" = (),
    opening: bytes = b"",
    beat: float = 0,
) -> Spawned:
    """Start `argv` (its first element an absolute path) with exactly `env` and our mark.

    `name` is its name in `ps` (`agent`, `github#2`), `restarts` the number of processes before this one. With
    `is_output_only` it has no stdin to read, and its stderr goes where its stdout goes, in the order it writes.
    `is_boxed`: the program is bubblewrap, or leads to one that ends with it in the same way; `is_client`: it is a
    container engine's, which `Guard.use_engine` was told. `code` is what it is started from, for `ps`. `opening` is
    written to its stdin before the first that is written there; then comes a NUL every `beat` seconds.

    Raises:
        AgentError: it could not be started; nothing is left behind.
    """
    with _explained(argv, cwd), ExitStack() as undo:
        theirs, ours = _output_pipe(undo) if is_output_only else _pipes(undo)
        named = name or Path(argv[0]).name
        spawned = _begin(
            argv,
            env,
            cwd,
            theirs,
            leads=True,
            name=named,
            restarts=restarts,
            is_boxed=is_boxed,
            is_client=is_client,
            code=code,
            opening=opening,
        )
        spawned.beat = beat
        for descriptor in set(theirs):
            os.close(descriptor)
        undo.pop_all()
    spawned.stdin, spawned.stdout, spawned.stderr = ours
    return spawned


def spawn_in_our_session(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    name: str,
    streams: Sequence[int],
    is_client: bool = False,
) -> Spawned:
    """Start a program in our own session and its own group, so that it can use our terminal.

    `streams` are our descriptors that become its stdin, stdout and stderr; there are no pipes. Raises as `spawn` does.
    """
    with _explained(argv, cwd):
        return _begin(argv, env, cwd, streams, leads=False, name=name, is_client=is_client)


@contextmanager
def _explained(argv: Sequence[str], cwd: Path) -> Iterator[None]:
    """Prepare this process for children, and explain why the one of the block cannot be started."""
    prepare.prepare()
    try:
        yield
    except (OSError, ValueError) as error:
        raise explain(error, argv, cwd) from error


def _begin(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    streams: Sequence[int],
    *,
    leads: bool,
    name: str,
    restarts: int = 0,
    is_boxed: bool = False,
    is_client: bool = False,
    code: "Sequence[CodeFile]" = (),
    opening: bytes = b"",
) -> Spawned:
    """Start it, by a guard if there is one. `leads` a session, or only a group in our own session."""
    mark = prepare.fresh_mark()
    env = {**env, prepare.MARK_VARIABLE: mark}
    with _open_filter(argv) as filters:
        all_streams = [*streams, *filters]
        spawned = parent.start(argv, env, cwd, all_streams, leads=leads) if parent is not None else None
        pid = _start(argv, env, cwd, all_streams, leads=leads) if spawned is None else 0
    if spawned is None:
        seen = prepare.table().read(pid)  # it exists, at least as a zombie: only we can reap it
        prepare.give_back_limit(pid)
        spawned = register(pid, seen.started if seen else 0, is_fostered=False)
    spawned.name, spawned.mark, spawned.restarts = name, mark, restarts
    spawned.is_boxed, spawned.is_client, spawned.code, spawned.opening = is_boxed, is_client, code, opening
    for observer in observers:
        observer.began(spawned)
    return spawned


@contextmanager
def _open_filter(argv: Sequence[str]) -> Iterator[list[int]]:
    """Give what a command line of bubblewrap reads its filter of system calls from, its descriptor 3; else nothing."""
    if "--seccomp" not in argv:
        yield []
        return

    reading, writing = os.pipe()
    try:
        os.write(writing, make_filter())  # less than a pipe holds
        os.close(writing)
        yield [reading]
    finally:
        os.close(reading)


def _pipes(undo: ExitStack) -> tuple[list[int], list[int]]:
    """Create both sides of stdin, stdout and stderr. Pipes are created non-inheritable."""
    theirs, ours = [], []
    for stream in range(3):
        pair = os.pipe()
        for end in pair:
            undo.callback(os.close, end)
        theirs.append(pair[0] if stream == 0 else pair[1])
        ours.append(pair[1] if stream == 0 else pair[0])
    for end in ours:
        os.set_blocking(end, False)
    return theirs, ours


def _output_pipe(undo: ExitStack) -> tuple[list[int], list[int]]:
    """Create one pipe for stdout and stderr. stdin is /dev/null: ripgrep and
    others would read a pipe instead of searching."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    undo.callback(os.close, nothing)
    ours, theirs = os.pipe()
    for end in (ours, theirs):
        undo.callback(os.close, end)
    os.set_blocking(ours, False)
    return [nothing, theirs, theirs], [-1, ours, -1]


def register(pid: int, began: float, *, is_fostered: bool) -> Spawned:
    """Register a process that was just started, by a guard if `is_fostered`. The caller adds its pipes."""
    spawned = Spawned(pid, -1, -1, -1, started=began, is_fostered=is_fostered)
    _known[pid, spawned.started] = spawned
    return spawned


def start_process(
    argv: list[str] | list[bytes],
    env: Mapping[str, str] | Mapping[bytes, bytes],
    streams: Sequence[int],
    *,
    leads: bool,
    defaults: Sequence[int],
) -> int:
    """Start a program in our own directory with these descriptors, from 0 on. `defaults` are signals to restore."""
    group: dict[str, Any] = {"setsid": True} if leads else {"setpgroup": 0}
    actions = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]
    return os.posix_spawn(argv[0], argv, env, file_actions=actions, setsigdef=defaults, **group)


def _start(argv: Sequence[str], env: Mapping[str, str], cwd: Path, streams: Sequence[int], *, leads: bool) -> int:
    if len(streams) > 3:  # bubblewrap, which enters the directory itself
        return start_process([*argv], env, streams, leads=leads, defaults=(signal.SIGPIPE, signal.SIGXFSZ))
    import subprocess  # 14 ms; with a guard the agent starts meanwhile

    stdin, stdout, stderr = streams
    started = subprocess.Popen(  # vfork, and exec errors come back as OSError
        list(argv),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=dict(env),
        cwd=cwd,
        start_new_session=leads,
        process_group=None if leads else 0,
    )
    # We reap it ourselves. A Popen with a return code never waits, warns or reaps.
    started.returncode = 0
    return started.pid


def _reap(pid: int) -> int | None:
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return STATUS_LOST
    return status if reaped else None


# The user's terminal, for ssh, which has none (`bridge.askpass`).


def find_terminal() -> dict[str, str]:
    """Return the variables with which ssh can ask the user; none if we have no terminal, or are in its background."""
    try:
        is_ours = os.isatty(2) and os.tcgetpgrp(0) == os.getpgrp()
        return {"ACP_LAUNCH_TERMINAL": os.ttyname(0), "ACP_LAUNCH_JOB": str(os.getpgrp())} if is_ours else {}
    except OSError:  # stdin is no terminal, or not ours
        return {}


def restore_after_question() -> None:
    """Restore the modes of our terminal at exit, if a question of ssh was killed."""
    before = termios.tcgetattr(2)
    shutdown.at_exit(lambda: termios.tcsetattr(2, termios.TCSANOW, before) if is_asking() else None)


# What other processes can see of this one, as far as the kernel lets us decide (Linux).


_SET_DUMPABLE, _SET_NAME = 4, 15  # prctl(2)
# Fields of /proc/PID/stat, counted after the name (proc(5)): where each begins; the next field is its end.
_ARGUMENTS, _ENVIRONMENT = 45, 47


def hide() -> None:
    """Prevent core dumps, ptrace, and access to /proc/PID/environ and mem by other processes of this user.

    Root keeps access. Children are not affected, because exec resets it. Linux only. Agents run as the same user, and
    the variables that hold secrets are in our environment.
    """
    prepare.prctl(_SET_DUMPABLE, 0)


def rename(title: str) -> None:
    """Change our name in ps(1) and for pkill(1), instead of the name of the process that forked us."""
    if prepare.IS_LINUX:
        import ctypes

        text = title.encode()
        prepare.prctl(_SET_NAME, text)  # takes 15 bytes of it
        begin, end = _block(_ARGUMENTS)
        if 0 < begin < end:
            ctypes.memset(begin, 0, end - begin)
            ctypes.memmove(begin, text, min(len(text), end - begin - 1))


def forget_environment() -> None:
    """Empty our environment, and the block that exec made of it: /proc/PID/environ of a forked process shows it too."""
    os.environ.clear()
    if prepare.IS_LINUX:
        import ctypes

        begin, end = _block(_ENVIRONMENT)
        if 0 < begin < end:
            ctypes.memset(begin, 0, end - begin)


def _block(which: int) -> tuple[int, int]:
    """Return where our arguments, or our environment, are in our memory: /proc/PID/cmdline and environ show that."""
    with open("/proc/self/stat", "rb", buffering=0) as file:  # noqa: PTH123
        text = file.readall()
    fields = text[text.rindex(b")") + 2 :].split()
    return int(fields[which]), int(fields[which + 1])
