"""
Waits for the end of processes, in the event loop.

The news comes from the guard that is their parent, or through their pid; never through their pipes, which a grandchild
may hold open. With pidfds every wait ends within microseconds of the fact; without, our children are polled.
"""

import asyncio
import os
from collections.abc import Callable, Iterable

from acp_launch.process.spawn import Spawned
from acp_launch.process.table import NO_PIDFD, POLL_SECONDS, Process, living, open_all, open_pid


def on_exit(spawned: Spawned, call: Callable[[], None]) -> Callable[[], None]:
    """Call `call` once, in the running loop, when `spawned` has died; `spawned.status` is set by then.

    Returns a function that removes the watch.
    """
    if spawned.is_fostered and spawned.status is None:
        return _wait_for_word(spawned, call)
    descriptor = open_pid(spawned.pid) if spawned.status is None else None  # unreaped: the pid is certainly its own
    if descriptor == NO_PIDFD:
        return _look_every_now_and_then(spawned, call)
    if descriptor is None:
        return asyncio.get_running_loop().call_soon(call).cancel
    return _wait_in_loop(spawned, descriptor, call)


def _wait_for_word(spawned: Spawned, call: Callable[[], None]) -> Callable[[], None]:
    """Wait for its guard's report. If the guard dies first, we are the parent and wait ourselves."""
    loop = asyncio.get_running_loop()
    undo: list[Callable[[], None]] = []
    is_wanted = True

    def forget() -> None:
        nonlocal is_wanted
        is_wanted = False
        for each in undo:
            each()

    def in_loop() -> None:
        if is_wanted:
            undo.append(on_exit(spawned, call))

    def heard() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(in_loop)

    spawned.heard.append(heard)
    return forget


def _wait_in_loop(spawned: Spawned, descriptor: int, call: Callable[[], None]) -> Callable[[], None]:
    loop = asyncio.get_running_loop()
    left = [descriptor]

    def forget() -> None:
        while left:
            loop.remove_reader(left[0])
            os.close(left.pop())

    def ended() -> None:
        if spawned.poll() is not None:
            forget()
            call()

    loop.add_reader(descriptor, ended)
    return forget


def _look_every_now_and_then(spawned: Spawned, call: Callable[[], None]) -> Callable[[], None]:
    loop = asyncio.get_running_loop()
    wanted = [True]

    def look() -> None:
        if not wanted:
            return
        if spawned.poll() is not None:
            call()
        else:
            loop.call_later(POLL_SECONDS, look)

    loop.call_soon(look)
    return wanted.clear


async def until_gone(processes: Iterable[Process], *, within: float) -> bool:
    """Wait until all of them have died, at most `within` seconds. Returns whether they have."""
    with open_all(processes) as (descriptors, unwatchable):
        try:
            async with asyncio.timeout(within):
                await _all_readable(descriptors)
                while living(unwatchable):  # noqa: ASYNC110 - nothing would set an event
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            return False
        return True


async def _all_readable(descriptors: list[int]) -> None:
    loop = asyncio.get_running_loop()
    left = set(descriptors)
    done = loop.create_future()

    def readable(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        left.discard(descriptor)
        if not left and not done.done():
            done.set_result(None)

    for descriptor in descriptors:
        loop.add_reader(descriptor, readable, descriptor)
    try:
        if descriptors:
            await done
    finally:
        for descriptor in left:
            loop.remove_reader(descriptor)
