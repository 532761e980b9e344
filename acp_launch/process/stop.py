"""
The ladder. Each rung is bounded, and the next is taken only if something of the tree is left:

1. List the whole tree, before anything is disturbed and parents die over their children.
2. Close stdin: what ACP calls the end. Wait `grace` for the process, then a moment for the rest to follow it.
3. TERM every group of the tree once (and CONT what is stopped, or it could not obey). Wait `grace`.
4. STOP, KILL, reap, look again, until nothing is left (kill.py). At most 5 s, in practice milliseconds.

`hurry` goes to rung 4 at once, from wherever we are. Where there is no subreaper (macOS) a daemon that left both its
parents and its group before step 1 is not found.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from acp_launch.process.child import Child
from acp_launch.process.exit import Exit
from acp_launch.process.kill import kill_tree
from acp_launch.process.outcome import Outcome, Rung
from acp_launch.process.signalling import terminate
from acp_launch.process.tree import Tree
from acp_launch.process.watch import until_gone

GRACE = 2.0  # seconds for each polite rung: what the MCP SDK and acp-tck wait; codex with a stubborn server needs 7
HASTY = 0.6  # the same for what does not react any more, and where a run has failed already
FOLLOW = 0.25  # seconds for the rest of the tree to end by itself after the process did
LAST_STATUS = 1.0  # seconds until the wait status of a killed process must have come


async def stop(child: Child, *, grace: float = GRACE, hurry: asyncio.Event | None = None) -> Outcome:
    """Climb the ladder, once however often this is called; later callers get the same outcome.

    Cancelling the caller does not cancel the climb: the context of the child sees it through, in a hurry.
    """
    if child.ending is None:
        child.ending = asyncio.create_task(_climb(child, grace))
    if hurry is None:
        return await asyncio.shield(child.ending)
    hasten = asyncio.create_task(_pass_on(hurry, child))
    try:
        return await asyncio.shield(child.ending)
    finally:
        hasten.cancel()


async def _pass_on(hurry: asyncio.Event, child: Child) -> None:
    await hurry.wait()
    child.hurry.set()


class _Ladder:
    """Remembers which rungs were taken, and when."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self.rungs: list[Rung] = []

    def take(self, name: str) -> None:
        self.rungs.append(Rung(name, self._clock() - self._began))


async def _climb(child: Child, grace: float) -> Outcome:
    ladder = _Ladder()
    if child.spawned.is_ended:
        return Outcome(child.exit, (), ())
    tree = Tree(child.spawned)
    tree.alive()
    await _ask(child, tree, grace, ladder)
    if not child.hurry.is_set() and (left := tree.alive_for_sure()):
        ladder.take("SIGTERM")
        terminate(left)
        await _unless_hurried(child, until_gone(left, within=grace), within=grace)
    if tree.alive_for_sure():
        ladder.take("SIGKILL")
    survivors = await kill_tree(tree)
    # No await between the last listing and this: of two trees that end together, the later takes unclaimed orphans.
    child.spawned.mark_ended()
    return Outcome(await _last_status(child), tuple(ladder.rungs), tuple(survivors))


async def _ask(child: Child, tree: Tree, grace: float, ladder: _Ladder) -> None:
    ladder.take("stdin closed")
    child.close_stdin()
    discard = asyncio.create_task(child.discard_output())
    try:
        await _unless_hurried(child, _all_follow(child, tree), within=grace)
    finally:
        discard.cancel()
        await asyncio.wait({discard})


async def _all_follow(child: Child, tree: Tree) -> None:
    await child.wait()
    await until_gone(tree.alive_for_sure(), within=FOLLOW)


async def _unless_hurried(child: Child, work: Coroutine[Any, Any, object], *, within: float) -> None:
    """Until `work` is done, time is up, or somebody is in a hurry."""
    tasks = {asyncio.create_task(work), asyncio.create_task(child.hurry.wait())}
    try:
        done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


async def _last_status(child: Child) -> Exit | None:
    try:
        async with asyncio.timeout(LAST_STATUS):
            return await child.wait()
    except TimeoutError:
        return child.exit
