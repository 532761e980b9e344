"""Listening to the guards, and keeping the record of what runs, for as long as the event loop runs."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from acp_launch.process import prepare
from acp_launch.process.guard import Guard, Guards

# Seconds between two looks at what our children have started, which `reap` is to know should the guards be killed too.
# Without /proc a look costs a pass over the whole machine.
EVERY = 0.5
EVERY_PORTABLY = 2.0


async def keep(guard: Guard) -> None:
    """Never returns: cancel it."""
    while True:
        guard.look()
        await asyncio.sleep(EVERY if prepare.IS_LINUX else EVERY_PORTABLY)


@asynccontextmanager
async def kept(guard: Guard) -> AsyncIterator[None]:
    """Listen to the guards, and keep the record of what runs, for as long as the block runs."""
    with listening(guard.guards):
        vigil = asyncio.create_task(keep(guard))
        try:
            yield
        finally:
            vigil.cancel()
            await asyncio.wait({vigil})
    if not vigil.cancelled():
        vigil.result()  # a bug of ours, which must not be silent


@contextmanager
def listening(guards: Guards | None) -> Iterator[None]:
    """Hear of each death as soon as a guard tells of it."""
    loop = asyncio.get_running_loop()
    posts = guards.living if guards else []
    for post in posts:
        assert guards is not None
        descriptor = post.line.fileno()
        loop.add_reader(descriptor, guards.drain)
        post.forget = partial(loop.remove_reader, descriptor)
    try:
        yield
    finally:
        for post in posts:
            post.forget()
            post.forget = lambda: None
