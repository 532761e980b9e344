"""
The last rung, which nothing survives: STOP everything, so that nobody can fork a replacement; KILL everything; reap;
look again. Round by round until a listing is empty, because the dead hand their orphans over to us (Linux) and those
show up in the next one.

`end_now` does it without an event loop, for a `finally` that may run at any moment.
"""

import signal
import time
from collections.abc import Iterator
from typing import Protocol

from acp_launch.process import prepare, spawn
from acp_launch.process.identity import Process
from acp_launch.process.pidfd import block_until_gone
from acp_launch.process.signalling import kill_groups, send, stop_groups
from acp_launch.process.spawn import Spawned, live
from acp_launch.process.tree import Tree

BOUND = 5.0  # seconds for all rounds; SIGKILL itself takes microseconds, uninterruptible sleep may take for ever
ROUND = 0.25  # seconds for one round's dead to be dead
_LISTINGS = 20  # a fork bomb may outrun a few STOP waves, not this many


class Killable(Protocol):
    """A tree, or what a launch has left."""

    @property
    def leader(self) -> int:
        """The group it was started as; 0 when there is none."""

    def alive(self) -> list[Process]: ...

    def alive_for_sure(self) -> list[Process]:
        """Like `alive`; believes in an empty list only when it sees it twice."""

    def reap(self) -> None: ...


def rounds(tree: Killable) -> Iterator[list[Process]]:
    """Each step kills all that is alive and gives what to wait for; the end means an empty tree."""
    tree.reap()
    while tree.alive_for_sure():
        stopped = _freeze(tree)
        for process in stopped:
            send(process, signal.SIGKILL)
        if not prepare.IS_LINUX:
            kill_groups(stopped, tree.leader)
        yield stopped
        tree.reap()


def _freeze(tree: Killable) -> list[Process]:
    """Stop everything, parents first, until a listing shows no new process."""
    stopped: dict[Process, None] = {}
    for _ in range(_LISTINGS):
        fresh = [process for process in tree.alive() if process not in stopped]
        if not fresh:
            break
        stop_groups(fresh)
        for process in fresh:
            send(process, signal.SIGSTOP)
            stopped[process] = None
    return list(stopped)


async def kill_tree(tree: Tree) -> list[Process]:
    """Run the rounds in the event loop; the last act before returning is a listing, whose survivors are returned."""
    from acp_launch.process.watch import until_gone

    deadline = time.monotonic() + BOUND
    for killed in rounds(tree):
        if time.monotonic() > deadline:
            return tree.alive()
        await until_gone(killed, within=ROUND)
    return []


def end_now(spawned: Spawned) -> list[Process]:
    """Kill the whole tree, reap and close everything, at once; at most `BOUND` seconds. Nothing when already ended.

    Returns the survivors, if the kernel would not let go of some.
    """
    if spawned.is_ended:
        return []
    survivors = _kill_blocking(Tree(spawned))
    if spawned.is_fostered and spawned.status is None and spawn.parent is not None and not survivors:
        spawn.parent.await_word(spawned, within=BOUND)
    spawned.mark_ended()
    spawned.close_all()  # not sooner: whoever ends with its stdin would be gone before we listed its descendants
    return survivors


def end_all_now() -> None:
    """`end_now` for whatever was spawned and has not been ended."""
    for spawned in live():
        end_now(spawned)


def _kill_blocking(tree: Tree) -> list[Process]:
    deadline = time.monotonic() + BOUND
    for killed in rounds(tree):
        if time.monotonic() > deadline:
            return tree.alive()
        block_until_gone(killed, within=ROUND)
    return []
