"""Keeping the guard alive and informed, for as long as the event loop runs."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from acp_launch.process import prepare
from acp_launch.process.guard import Guard
from acp_launch.process.watch import on_exit

# Seconds between two looks at what our children have started: what detaches itself, scrubs its environment and loses
# its parents in less is not known to the guard. Without /proc a look costs a pass over the whole machine.
EVERY = 0.5
EVERY_PORTABLY = 2.0


async def keep(guard: Guard) -> None:
    """Never returns: cancel it. A guard that dies is replaced at once; `guard.look()` looks now."""
    while True:
        with _death_of(guard) as died:
            while not died.is_set():
                guard.look()
                await _for(died, EVERY if prepare.IS_LINUX else EVERY_PORTABLY)
        guard.replace()


@asynccontextmanager
async def kept(guard: Guard) -> AsyncIterator[None]:
    """Keep the guard for as long as the block runs."""
    vigil = asyncio.create_task(keep(guard))
    try:
        yield
    finally:
        vigil.cancel()
        await asyncio.wait({vigil})
    if not vigil.cancelled():
        vigil.result()  # a bug of ours, which must not be silent


@contextmanager
def _death_of(guard: Guard) -> Iterator[asyncio.Event]:
    """Never set when there is no guard."""
    died = asyncio.Event()
    if guard.spawned is None:
        yield died
        return
    unwatch = on_exit(guard.spawned, died.set)
    try:
        yield died
    finally:
        unwatch()


async def _for(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
