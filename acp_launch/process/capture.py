"""
One program run to its end, with its output: by `capture` without an event loop and from any thread, by `captured` in
the event loop, which must not share its processes with threads.

It is over when the program has exited, even if a descendant holds its pipes open; at the deadline; or when it printed
more than `MAX_STDOUT_BYTES`. Then its whole tree is killed, so that nothing survives, daemons included. It is also
killed when this process exits while an abandoned thread is still here.
"""

import asyncio
import os
import select
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch import shutdown
from acp_launch.errors import LaunchError
from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.written import refuse_written
from acp_launch.process.child import Tail, attach
from acp_launch.process.spawn import STATUS_LOST, Spawned, spawn
from acp_launch.process.tree import Exit, end_now, from_wait_status
from acp_launch.secret.value import MAX_VALUE

MAX_STDOUT_BYTES = MAX_VALUE + len("\r\n") + 1  # more than a secret, with or without its line end
CHUNK_BYTES = 64 * 1024  # a pipe's size
POLL_SECONDS = 0.01  # until it has exited
LEFTOVER_CHUNKS = 16  # of stderr read after the end: more than a pipe holds, less than a flood

# A listing of our children (every kill makes some) must not meet a process that is started but not yet registered, nor
# one that is being reaped: it would take either for an orphan.
_one_at_a_time = threading.Lock()
_running: list[Spawned] = []
_is_over = False


class CaptureResult(Struct, frozen=True):
    """The result. `err` is the end of stderr, line by line. `out` is stdout, at most `MAX_STDOUT_BYTES`."""

    ending: Exit
    out: bytes
    err: tuple[str, ...]
    timed_out: bool

    def __repr__(self) -> str:
        return f"CaptureResult({self.ending})"  # the output is usually a secret

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("ending", str(self.ending))]


def capture(argv: Sequence[str], limit: float, *, env: Mapping[str, str], cwd: Path) -> CaptureResult:
    """Run `argv` with exactly `env`, nothing on stdin, for at most `limit` seconds. Its program is looked up on PATH.

    Raises:
        LaunchError: it could not be started.
    """
    argv = [str(_program(argv, env, cwd)), *argv[1:]]
    spawned = _begin(argv, env, cwd)
    deadline = time.monotonic() + limit
    heard = _OutputReader(spawned)
    try:
        spawned.close("stdin")
        timed_out = not heard.listen(deadline)
    finally:
        with _one_at_a_time:
            end_now(spawned)
            _running.remove(spawned)
    status = STATUS_LOST if spawned.status is None else spawned.status
    return CaptureResult(from_wait_status(status), heard.out, tuple(heard.err.lines()), timed_out)


async def captured(argv: Sequence[str], limit: float, *, env: Mapping[str, str], cwd: Path) -> CaptureResult:
    """Do the same in the running event loop. Cancelling it kills the program.

    Raises:
        LaunchError: it could not be started.
    """
    spawned = spawn([str(_program(argv, env, cwd)), *argv[1:]], env=env, cwd=cwd)
    out, timed_out = b"", False
    async with attach(spawned) as child:
        child.close_stdin()
        try:
            async with asyncio.timeout(limit):
                while len(out) < MAX_STDOUT_BYTES and (chunk := await child.read()):
                    out += chunk[: MAX_STDOUT_BYTES - len(out)]
                if len(out) < MAX_STDOUT_BYTES:
                    await child.wait()
        except TimeoutError:
            timed_out = True
    return CaptureResult(child.exit or from_wait_status(STATUS_LOST), out, tuple(child.stderr_tail()), timed_out)


def _begin(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Spawned:
    with _one_at_a_time:
        if _is_over:
            raise LaunchError("acp-launch is ending")
        spawned = spawn(argv, env=env, cwd=cwd)
        _running.append(spawned)
        return spawned


def end_all() -> None:
    """End all programs at the exit of this process, while abandoned threads may still be at work."""
    global _is_over
    with _one_at_a_time:
        _is_over = True
        for spawned in _running:
            end_now(spawned)


shutdown.at_exit(end_all)


def _program(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Path:
    found = find(argv[0], project=cwd, path=env.get("PATH"))
    if isinstance(found, CannotRun):
        raise LaunchError(found.message, fix=found.fix)
    refuse_written(found)
    return found


class _OutputReader:
    def __init__(self, spawned: Spawned) -> None:
        self._spawned = spawned
        self.out = b""
        self.err = Tail()

    def listen(self, deadline: float) -> bool:
        """Read until the program has exited or printed enough; False if the deadline came first."""
        poll = select.poll()
        for descriptor in (self._spawned.stdout, self._spawned.stderr):
            poll.register(descriptor, select.POLLIN)
        while len(self.out) < MAX_STDOUT_BYTES:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for descriptor, _ in poll.poll(1000 * min(left, POLL_SECONDS)):
                if not self._read(descriptor):
                    poll.unregister(descriptor)
            with _one_at_a_time:
                has_exited = self._spawned.poll() is not None
            if has_exited:
                self._read_leftover()
                break
        return True

    def _read(self, descriptor: int) -> bool:
        """Read until nothing more is there now; False at the end too."""
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            if _is_over:  # it was closed while we listened
                return False
            raise
        if descriptor == self._spawned.stdout:
            self.out += chunk[: MAX_STDOUT_BYTES - len(self.out)]
        else:
            self.err.feed(chunk)
        return bool(chunk)

    def _read_leftover(self) -> None:
        """Read the program's own output, which is in the pipes by now. The output of others is not awaited."""
        while len(self.out) < MAX_STDOUT_BYTES and self._read(self._spawned.stdout):
            pass
        for _ in range(LEFTOVER_CHUNKS):
            if not self._read(self._spawned.stderr):
                break
