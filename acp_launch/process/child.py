"""
A running child: its output, its input, its last words, its exit. Lives inside `async with attach(spawned)`, and does
not outlive it: a tree that was not stopped by then is killed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from acp_launch.process import orphans, watch
from acp_launch.process.exit import Exit, from_wait_status
from acp_launch.process.kill import end_now, kill_tree
from acp_launch.process.outcome import Outcome
from acp_launch.process.pipes import Errors, Input, Output
from acp_launch.process.spawn import Spawned
from acp_launch.process.tree import Tree


class Child:
    """Made by `attach` only."""

    def __init__(self, spawned: Spawned, log: Callable[[bytes], None] | None) -> None:
        self.spawned = spawned
        self.hurry = asyncio.Event()  # set: whoever is stopping it goes straight to the kill
        self.ending: asyncio.Task[Outcome] | None = None  # the one stop there is; see stop.py
        self._exited = asyncio.Event()
        self._output = Output(spawned)
        self._input = Input(spawned)
        self._errors = Errors(spawned, log)
        self._unwatch = watch.on_exit(spawned, self._died)

    @property
    def pid(self) -> int:
        return self.spawned.pid

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it runs. Not a word about its descendants."""
        status = self.spawned.status
        return None if status is None else from_wait_status(status)

    async def wait(self) -> Exit:
        """Until the process itself has ended, whoever still holds its pipes (C-14)."""
        await self._exited.wait()
        assert self.spawned.status is not None
        return from_wait_status(self.spawned.status)

    async def read(self) -> bytes:
        """The next chunk of stdout as it comes, at most 64 KiB; b"" at the end.

        The end is the pipe's end, or half a second after the process's death when something else holds it open.
        """
        return await self._output.read()

    async def write(self, payload: bytes) -> None:
        """Return when the pipe has taken all of it; concurrent writes queue and never mix.

        Raises:
            BrokenPipeError: the child, or we, closed its stdin.
        """
        await self._input.write(payload)

    def close_stdin(self) -> None:
        """A write under way fails; a second time is nothing."""
        self._input.close()

    def stderr_tail(self) -> list[str]:
        """The last 50 lines it wrote to stderr, each cut at 2,000 bytes."""
        return self._errors.tail.lines()

    async def discard_output(self) -> None:
        """Read stdout into nothing unless somebody is reading it: a child stuck in a full pipe sees no end of stdin."""
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

    Leaving kills what is left of the tree; bounded by `kill.BOUND`, cancelled or not.
    """
    try:
        child = Child(spawned, log)
        with orphans.reaped():
            try:
                yield child
            finally:
                await _leave(child)
    finally:
        end_now(spawned)  # nothing, unless even the leaving was torn away from us


async def _leave(child: Child) -> None:
    try:
        if child.ending is not None or not child.spawned.is_ended:
            child.hurry.set()
            await _see_through(child.ending or asyncio.create_task(_kill(child)))
    finally:
        child.close()


async def _kill(child: Child) -> None:
    await kill_tree(Tree(child.spawned))
    child.spawned.mark_ended()


async def _see_through(task: "asyncio.Task[Outcome] | asyncio.Task[None]") -> None:
    """Wait for `task` even while being cancelled; pass the cancellation on afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
