"""
The one place that starts a process; and the one place that reaps what it started.

Synchronous and free of asyncio, so that an agent can be starting while asyncio is still being imported. A child gets
its own session and process group, its pipes, and nothing else of ours: no inherited descriptor, no preexec_fn.
Whoever spawns must see to it that `stop.stop` or `kill.end_now` is called.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from acp_launch.errors import MachineError
from acp_launch.problem import Problem
from acp_launch.process import marker, prepare
from acp_launch.process.failure import explain
from acp_launch.process.identity import Process
from acp_launch.process.remains import VARIABLE

Stream = Literal["stdin", "stdout", "stderr"]

STATUS_LOST = -1  # somebody else reaped our child

_known: dict[int, "Spawned"] = {}


class Spawned(Struct, eq=False):
    """A started process: our ends of its pipes (non-blocking; -1 once closed) and its raw wait status once reaped.

    `started` together with `pid` is its identity (see `identity.Process`).
    """

    pid: int
    stdin: int
    stdout: int
    stderr: int
    started: float
    status: int | None = None
    is_awaited_elsewhere: bool = False  # a thread sits in waitpid for it and will set `status`
    is_ended: bool = False  # its whole tree is gone, or given up on
    name: str = ""  # what `ps` calls it
    restarts: int = 0
    mark: str = ""  # what its environment, and that of most of its descendants, carries; see marker.py
    is_aside: bool = False  # belongs to the launch and to none of its trees: the guard

    @property
    def process(self) -> Process:
        """It leads a session and a group of its own."""
        return Process(self.pid, self.started, os.getpid(), self.pid, self.pid)

    def poll(self) -> int | None:
        """The wait status, reaping the process if it has died; None while it lives."""
        if self.status is None and not self.is_awaited_elsewhere:
            self.settle(_reap(self.pid))
        return self.status

    def settle(self, status: int | None) -> None:
        """Note the status somebody's wait has brought."""
        self.status = status
        self._forget_when_over()

    def close(self, stream: Stream) -> None:
        """Close our end; a second time is nothing."""
        descriptor: int = getattr(self, stream)
        if descriptor >= 0:
            setattr(self, stream, -1)
            os.close(descriptor)

    def close_all(self) -> None:
        for stream in ("stdin", "stdout", "stderr"):
            self.close(stream)

    def mark_ended(self) -> None:
        """Its tree has been dealt with: there is nothing more to signal."""
        if not self.is_ended and not self.is_aside:
            for witness in witnesses:
                witness.ended(self)
        self.is_ended = True
        self._forget_when_over()

    def _forget_when_over(self) -> None:
        if self.is_ended and self.status is not None:
            _known.pop(self.pid, None)


class Witness(Protocol):
    """Is told of every start and every end, on the thread where it happens; must neither block nor raise."""

    def began(self, spawned: Spawned) -> None: ...

    def ended(self, spawned: Spawned) -> None:
        """Its whole tree has."""


witnesses: list[Witness] = []


def live() -> list[Spawned]:
    """What was spawned and not yet ended, oldest first; nothing that is aside."""
    return [spawned for spawned in list(_known.values()) if not spawned.is_ended and not spawned.is_aside]


def is_aside(process: Process) -> bool:
    """Whether `process` is one that was started by `spawn_aside`."""
    spawned = _known.get(process.pid)
    return spawned is not None and spawned.is_aside and spawned.started == process.started


def is_unreaped(process: Process) -> bool:
    """Whether `process` is one we spawned whose wait status is still to be fetched: by its owner alone."""
    spawned = _known.get(process.pid)
    return spawned is not None and spawned.status is None and spawned.started == process.started


def require_platform() -> None:
    """Say at once where no agent can be run.

    Raises:
        MachineError: this is such a platform.
    """
    if sys.platform == "win32":
        raise MachineError([_not_on_windows()])


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    name: str = "",
    restarts: int = 0,
    is_output_only: bool = False,
) -> Spawned:
    """Start `argv` (its first element an absolute path) with exactly `env` and our mark.

    `name` is what `ps` calls it (`agent`, `github#2`), `restarts` how many processes it had before this one. One that
    `is_output_only` has nothing to read, and its stderr goes where its stdout goes, in the order it writes.

    Raises:
        AgentError: it could not be started; nothing is left behind.
        MachineError: this platform cannot run agents at all.
    """
    mark = marker.fresh()
    spawned = _spawn(argv, {**env, VARIABLE: mark}, cwd, is_output_only=is_output_only)
    spawned.restarts = restarts
    return _introduced(spawned, name or Path(argv[0]).name, mark)


def spawn_beside_us(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, name: str, streams: Sequence[int]
) -> Spawned:
    """Start a program in our own session, so that it can have our terminal; its group is its own.

    `streams` are descriptors of ours, to be its stdin, stdout and stderr; there are no pipes. Raises as `spawn` does.
    """
    require_platform()
    prepare.prepare()
    mark = marker.fresh()
    try:
        pid = _start(argv, {**env, VARIABLE: mark}, cwd, streams, is_beside_us=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise explain(error, argv, cwd) from error
    return _introduced(_register(pid, [-1, -1, -1]), name, mark)


def _introduced(spawned: Spawned, name: str, mark: str) -> Spawned:
    spawned.name, spawned.mark = name, mark
    for witness in witnesses:
        witness.began(spawned)
    return spawned


def spawn_aside(argv: Sequence[str], *, cwd: Path) -> Spawned:
    """Start a program that is in no tree, ends with none, and has nothing in its environment.

    Whoever does this must see to its end. Raises as `spawn` does.
    """
    spawned = _spawn(argv, {}, cwd)
    spawned.is_aside = True
    return spawned


def _spawn(argv: Sequence[str], env: Mapping[str, str], cwd: Path, *, is_output_only: bool = False) -> Spawned:
    require_platform()
    prepare.prepare()
    with ExitStack() as undo:
        try:
            theirs, ours = _output_pipe(undo) if is_output_only else _pipes(undo)
            pid = _start(argv, env, cwd, theirs)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise explain(error, argv, cwd) from error
        for descriptor in set(theirs):
            os.close(descriptor)
        undo.pop_all()
    return _register(pid, ours)


def _pipes(undo: ExitStack) -> tuple[list[int], list[int]]:
    """Both sides of stdin, stdout and stderr; pipes are born non-inheritable."""
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
    """One for stdout and stderr; stdin is /dev/null, since ripgrep and others read a pipe instead of searching."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    undo.callback(os.close, nothing)
    ours, theirs = os.pipe()
    for end in (ours, theirs):
        undo.callback(os.close, end)
    os.set_blocking(ours, False)
    return [nothing, theirs, theirs], [-1, ours, -1]


def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, theirs: Sequence[int], *, is_beside_us: bool = False
) -> int:
    stdin, stdout, stderr = theirs
    started = subprocess.Popen(  # vfork, and exec errors come back as OSError
        list(argv),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=dict(env),
        cwd=cwd,
        start_new_session=not is_beside_us,
        process_group=0 if is_beside_us else None,
    )
    # We reap it ourselves. A Popen that believes its process is over never waits, warns or reaps.
    started.returncode = 0
    return started.pid


def _register(pid: int, ours: list[int]) -> Spawned:
    stdin, stdout, stderr = ours
    seen = prepare.table().read(pid)  # there, if only as a zombie: nobody but us can reap it
    spawned = Spawned(pid, stdin, stdout, stderr, started=seen.started if seen else 0)
    _known[pid] = spawned
    prepare.give_back_limit(pid)
    return spawned


def _reap(pid: int) -> int | None:
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return STATUS_LOST
    return status if reaped else None


def _not_on_windows() -> Problem:
    return Problem("", 0, 0, "", "running agents is not supported on Windows yet", "run it inside WSL")
