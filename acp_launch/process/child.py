"""
A running child: its output, its input, its last stderr lines, its exit, and the ladder that stops it.

`attach` gives a `Child` for the length of its block; a tree that was not stopped by then is killed. `Child.stop` climbs
the ladder once. `Output`, `Input` and `Errors` are our ends of its pipes.
"""

import asyncio
import errno
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Literal

from acp_launch.process import watch
from acp_launch.process.lifecycle import Ended
from acp_launch.process.spawn import Spawned
from acp_launch.process.table import living
from acp_launch.process.tree import (
    Exit,
    StopOutcome,
    Tree,
    end_now,
    from_wait_status,
    kill_tree,
    reap_adopted,
    terminate,
)
from acp_launch.process.watch import until_gone
from acp_launch.secret.redact import StreamRedactor
from acp_launch.waits import first_of, stretch

# The last lines that a process wrote to stderr, in bounded memory.


STDERR_LINES = 50
MAX_LINE_BYTES = 2_000


class Tail:
    """The last lines of a byte stream. A carriage return ends a line as well, because of progress bars."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=STDERR_LINES)
        self._open = b""  # the line without an end so far

    def feed(self, chunk: bytes) -> None:
        *whole, rest = (self._open + chunk).replace(b"\r", b"\n").split(b"\n")
        self._lines.extend(line[:MAX_LINE_BYTES] for line in whole[-STDERR_LINES * 2 :] if line.strip())
        self._open = rest[:MAX_LINE_BYTES]

    def lines(self) -> list[str]:
        """Return the last 50 lines, oldest first, each cut at 2,000 bytes, without line ends and empty lines."""
        last = [self._open] if self._open.strip() else []
        return [line.decode(errors="replace") for line in [*self._lines, *last][-STDERR_LINES:]]


# Our ends of a child's pipes, in the event loop.
#
# Raw os.read and os.write, because asyncio's streams stop at 64 KiB lines and its subprocess transports wait for pipes
# to end. Nothing is read ahead: unread data stays in the pipe, so a slow reader slows the writer down instead of
# filling our memory. stderr is the exception, it is always read (C-2).


CHUNK_BYTES = 64 * 1024  # the size of a pipe, and less than makes malloc ask the kernel for memory each time
LINGER_SECONDS = 0.5  # a pipe may stay silent and open after the child's death; a grandchild may hold it for ever
MAX_LEFTOVER_BYTES = 1024 * 1024  # still read after that: more than a pipe holds, less than a flood
REAP_TIMEOUT = stretch(1.0)  # between the end of its output and its exit status; normally microseconds
WORD = stretch(
    5.0
)  # seconds for the guard that is its parent to say how a dead process ended; a busy machine needs some
TURN_CHUNKS = 8  # read before the rest of the event loop has a turn


class _Pipe:
    """Our end of a pipe, for one reader or writer at a time, which waits until it is ready."""

    def __init__(self, spawned: Spawned) -> None:
        self._spawned = spawned
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._waiter: asyncio.Future[None] | None = None

    async def _ready(self, stream: Literal["stdin", "stdout"]) -> None:
        add, remove = (
            (self._loop.add_writer, self._loop.remove_writer)
            if stream == "stdin"
            else (self._loop.add_reader, self._loop.remove_reader)
        )
        self._waiter = self._loop.create_future()
        add(getattr(self._spawned, stream), self._wake)
        try:
            await self._waiter
        finally:
            if (descriptor := getattr(self._spawned, stream)) >= 0:  # otherwise its number may be another file's by now
                remove(descriptor)

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Output(_Pipe):
    """The child's stdout, read chunk by chunk."""

    def __init__(self, spawned: Spawned) -> None:
        super().__init__(spawned)
        self._giving_up: asyncio.TimerHandle | None = None
        self._leftover: int | None = None  # bytes; counted once the end is near
        self._in_a_row = 0

    @property
    def has_reader(self) -> bool:
        return self._lock.locked()

    async def read(self) -> bytes:
        """Return the next chunk, at most 64 KiB; b"" at the end.

        The end is the pipe's end, or half a second after the process's death if something else holds the pipe open.
        """
        async with self._lock:
            while (chunk := self._take()) is None:
                self._in_a_row = 0
                await self._ready("stdout")
            self._in_a_row += 1
            if self._in_a_row % TURN_CHUNKS == 0:
                await asyncio.sleep(0)
            return chunk

    def child_died(self) -> None:
        self._giving_up = self._loop.call_later(LINGER_SECONDS, self._give_up)

    def close(self) -> None:
        if self._giving_up:
            self._giving_up.cancel()
        if self._spawned.stdout >= 0:
            self._loop.remove_reader(self._spawned.stdout)
        self._spawned.close("stdout")
        self._wake()

    def _take(self) -> bytes | None:
        """Return a chunk, b"" at the end, or None if the caller must wait."""
        if self._spawned.stdout < 0 or (self._leftover is not None and self._leftover <= 0):
            return b""
        try:
            chunk = os.read(self._spawned.stdout, CHUNK_BYTES)
        except BlockingIOError:
            return None if self._leftover is None else b""
        if self._leftover is not None:
            self._leftover -= len(chunk)
        return chunk

    def _give_up(self) -> None:
        self._leftover = MAX_LEFTOVER_BYTES
        self._wake()


class Input(_Pipe):
    """The child's stdin. Whole writes never mix: a cancelled one is completed by the next."""

    def __init__(self, spawned: Spawned) -> None:
        super().__init__(spawned)
        self._owed = spawned.opening  # the rest of a write that was cancelled half way
        self._beating = self._loop.call_later(spawned.beat, self._beat) if spawned.beat else None

    async def write(self, payload: bytes) -> None:
        """Write everything; returns when the pipe has taken it. Concurrent writes queue.

        Raises:
            BrokenPipeError: no process reads it any more, or we closed it.
        """
        async with self._lock:
            if self._owed:
                await self._write_all(self._owed, owed=len(self._owed))
            await self._write_all(payload, owed=0)

    def close(self) -> None:
        """Close it. A write under way fails; closing it again does nothing."""
        if self._beating is not None:
            self._beating.cancel()
        if self._spawned.stdin >= 0:
            self._loop.remove_writer(self._spawned.stdin)
        self._spawned.close("stdin")
        self._wake()

    def _beat(self) -> None:
        """Write a sign of life, unless there is more to come anyway."""
        self._beating = self._loop.call_later(self._spawned.beat, self._beat)
        if not (self._owed or self._lock.locked()):
            with suppress(BrokenPipeError):
                self._put(memoryview(b"\0"))

    async def _write_all(self, payload: bytes, *, owed: int) -> None:
        """Write the payload. If we are cancelled before the child has seen any of it, nothing of it is owed."""
        rest = memoryview(payload)
        self._owed = b""
        try:
            while rest:
                if (taken := self._put(rest)) == 0:
                    await self._ready("stdin")
                rest = rest[taken:]
        except asyncio.CancelledError:
            if owed or len(rest) < len(payload):
                self._owed = bytes(rest)
            raise

    def _put(self, rest: memoryview) -> int:
        if self._spawned.stdin < 0:
            raise BrokenPipeError(errno.EPIPE, "its stdin is closed")
        try:
            return os.write(self._spawned.stdin, rest)
        except BlockingIOError:
            return 0


class Errors:
    """The child's stderr, always drained, into a tail and, if given, a log.

    Neither ever gets a secret: the redactor comes before the tail cuts lines and the log takes chunks.
    """

    def __init__(self, spawned: Spawned, log: Callable[[bytes], None] | None) -> None:
        self.tail = Tail()
        self._spawned = spawned
        self._log = log
        self._redacting = StreamRedactor()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(spawned.stderr, self._take)

    def child_died(self) -> None:
        """Read the child's last bytes now: all it wrote is in the pipe.

        The stream does not end here, because grandchildren may continue to write to it.
        """
        taken = 0
        while taken < MAX_LEFTOVER_BYTES and (got := self._take()):
            taken += got
        self._keep(self._redacting.cover())

    def close(self) -> None:
        if self._spawned.stderr >= 0:
            self._loop.remove_reader(self._spawned.stderr)
        self._spawned.close("stderr")
        self._keep(self._redacting.end())

    def _take(self) -> int:
        """Read and return the number of bytes."""
        if self._spawned.stderr < 0:
            return 0
        try:
            chunk = os.read(self._spawned.stderr, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if chunk:
            self._keep(self._redacting.feed(chunk))
        else:
            self.close()
        return len(chunk)

    def _keep(self, chunk: bytes) -> None:
        self.tail.feed(chunk)
        if self._log is None or not chunk:
            return
        try:
            self._log(chunk)
        except (OSError, ValueError) as error:  # the disk is full, the file is closed: draining matters more
            self._log = None
            self.tail.feed(f"\nacp-launch: the log stops here: cannot write it: {error}\n".encode())


# Adopted orphans are reaped while we run, as init would do. Otherwise a program that waits for a daemon to vanish would
# wait for ever.


_users = 0


@contextmanager
def reaped() -> Iterator[None]:
    """Reap orphans for the length of the block.

    Needs Linux, the main thread, and a SIGCHLD without another handler. Otherwise orphans are reaped only when their
    tree is stopped.
    """
    global _users
    if not _users and not _can_listen():
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, reap_adopted)
    _users += 1
    try:
        yield
    finally:
        _users -= 1
        if not _users:
            loop.remove_signal_handler(signal.SIGCHLD)


def _can_listen() -> bool:
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


class Child:
    """A running child. Only `attach` creates one."""

    def __init__(self, spawned: Spawned, log: Callable[[bytes], None] | None) -> None:
        self.spawned = spawned
        self.hurry = asyncio.Event()  # set: the stop under way goes straight to the kill
        self.ending: asyncio.Task[StopOutcome] | None = None  # the one stop there is
        self._exited = asyncio.Event()
        self._output, self._input, self._errors = Output(spawned), Input(spawned), Errors(spawned, log)
        self.read, self.write, self.close_stdin = self._output.read, self._input.write, self._input.close
        self.stderr_tail = self._errors.tail.lines
        self._unwatch = watch.on_exit(spawned, self._died)

    @property
    def pid(self) -> int:
        return self.spawned.pid

    @property
    def exit(self) -> Exit | None:
        """Return how it ended; None while it runs. Says nothing about its descendants."""
        status = self.spawned.status
        return None if status is None else from_wait_status(status)

    @property
    def lines(self) -> None:
        """None: its lines come and go through descriptors."""

    @property
    def source(self) -> int:
        return self.spawned.stdout

    @property
    def sink(self) -> int:
        return self.spawned.stdin

    @property
    def end(self) -> Ended | None:
        """Return how it ended, in words, for the policy of restarts; None while it runs."""
        exit = self.exit
        return None if exit is None else Ended(str(exit), is_clean=exit.status == 0)

    @property
    def is_dead(self) -> bool:
        return not living([self.spawned.process])

    @property
    def unsent(self) -> Sequence[bytes]:
        """Nothing: what a dead process did with the lines in its pipe is unknown."""
        return ()

    async def wait(self) -> Exit:
        """Wait until the process itself has ended, whatever else holds its pipes (C-14)."""
        await self._exited.wait()
        assert self.spawned.status is not None
        return from_wait_status(self.spawned.status)

    async def wait_within(self, seconds: float) -> Exit | None:
        """Wait until it is known how the process itself has ended; return None if that takes longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self.wait()
        return self.exit

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        """Return how it ended, as a verb phrase ("was killed by SIGKILL"), and its last stderr lines."""
        exit = await self.wait_within(REAP_TIMEOUT)
        if exit is None and self.is_dead:
            exit = await self.wait_within(WORD)
        how = "closed its output but is still running" if exit is None else str(exit)
        return how, tuple(self.stderr_tail())

    async def stop(self, *, grace: float) -> StopOutcome:
        """Climb the ladder, once however often this is called; later callers get the same outcome.

        Cancelling the caller does not cancel the climb: leaving the child's context completes it, in a hurry.
        """
        if self.ending is None:
            self.ending = asyncio.create_task(_terminate_tree(self, grace))
        return await asyncio.shield(self.ending)

    async def discard_output(self) -> None:
        """Read stdout into nothing, unless it has a reader: a child blocked on
        a full pipe would not see the end of stdin."""
        if self._output.has_reader:
            return
        while await self._output.read():
            pass

    def close(self) -> None:
        """Close every pipe; readers see the end, writers a BrokenPipeError."""
        self._unwatch()
        for pipe in (self._input, self._output, self._errors):
            pipe.close()

    def _died(self) -> None:
        self._errors.child_died()
        self._output.child_died()
        self._exited.set()


@asynccontextmanager
async def attach(spawned: Spawned, *, log: Callable[[bytes], None] | None = None) -> AsyncIterator[Child]:
    """Take `spawned` into the running loop. `log` gets every chunk of stderr.

    Leaving the block kills the rest of the tree, within `tree.BOUND` seconds, cancelled or not.
    """
    try:
        child = Child(spawned, log)
        with reaped():
            try:
                yield child
            finally:
                try:
                    if child.ending is not None or not child.spawned.is_ended:
                        child.hurry.set()
                        await wait_shielded(child.ending or asyncio.create_task(_kill(child)))
                finally:
                    child.close()
    finally:
        end_now(spawned)  # does nothing, unless even the leaving was interrupted


async def _kill(child: Child) -> None:
    await kill_tree(Tree(child.spawned))
    child.spawned.mark_ended()


async def wait_shielded(*tasks: "asyncio.Task[Any]", cancelling: Callable[[], None] = lambda: None) -> None:
    """Wait for `tasks` even while being cancelled, with a call of `cancelling`; pass the cancellation on afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            cancelled = error
            cancelling()
    if cancelled is not None:
        raise cancelled
    for task in tasks:
        task.result()


# The ladder. Each rung is bounded, and the next is taken only if something of the tree is left:
#
# 1. List the whole tree, before parents die and their children are lost.
# 2. Close stdin, which ACP defines as the end. Wait `grace` for the process, then a moment for the rest to follow.
# 3. TERM every group of the tree once, and CONT the stopped ones, so that they can obey. Wait `grace`.
# 4. STOP, KILL, reap, look again, until nothing is left (tree.py). At most 5 s, in practice milliseconds.
#
# `hurry` goes to rung 4 at once, from any rung. Without a subreaper (macOS), a daemon that left both its parents and
# its group before step 1 is not found.


GRACE_SECONDS = 2.0  # for each polite rung, as in the MCP SDK and acp-tck; codex with a stubborn server needs 7
HASTY_GRACE_SECONDS = 0.6  # for a child that does not react any more, and after a run has failed
FOLLOW_SECONDS = stretch(0.25)  # for the rest of the tree to end by itself after the process did
STATUS_TIMEOUT = stretch(1.0)  # until the wait status of a killed process must have arrived


async def _terminate_tree(child: Child, grace: float) -> StopOutcome:
    if child.spawned.is_ended:
        return StopOutcome(child.exit, (), ())
    tree, steps = Tree(child.spawned), ["stdin closed"]
    tree.alive()
    await _ask(child, tree, grace)
    if not child.hurry.is_set() and (left := tree.alive_for_sure()):
        steps.append("SIGTERM")
        terminate(left)
        await first_of(until_gone(left, within=grace), child.hurry.wait(), within=grace)
    if tree.alive_for_sure():
        steps.append("SIGKILL")
    survivors = await kill_tree(tree)
    # No await between the last listing and this: of two trees that end together, the later takes unclaimed orphans.
    child.spawned.mark_ended()
    return StopOutcome(await child.wait_within(STATUS_TIMEOUT), tuple(steps), tuple(survivors))


async def _ask(child: Child, tree: Tree, grace: float) -> None:
    child.close_stdin()
    discard = asyncio.create_task(child.discard_output())
    try:
        await first_of(_all_follow(child, tree), child.hurry.wait(), within=grace)
    finally:
        discard.cancel()
        await asyncio.wait({discard})


async def _all_follow(child: Child, tree: Tree) -> None:
    await child.wait()
    await until_gone(tree.alive_for_sure(), within=FOLLOW_SECONDS)
