"""The end of a host that nothing uses (docs/up.md)."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from acp_launch.host.hub import Hub
from tests.turnedclock import run

KEEP = 900.0  # seconds


def test_a_host_ends_when_it_was_without_fronts_and_turns_for_so_long() -> None:
    """A front counts that does nothing, and so does a turn without a front."""

    async def story() -> None:
        now = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as tasks:
            launch = SimpleNamespace(context=SimpleNamespace(max_line=1), plan=None)
            hub = Hub(cast(Any, launch), cast(Any, SimpleNamespace(keep=KEEP)), tasks)
            ending = tasks.create_task(hub._until_idle())
            front, busy = cast(Any, object()), cast(Any, SimpleNamespace(is_busy=True, exit=lambda front: None))
            hub.fronts[front] = [busy]
            await asyncio.sleep(10 * KEEP)
            hub.sessions["work"] = busy
            hub.gone(front)
            await asyncio.sleep(10 * KEEP)
            assert not ending.done()
            busy.is_busy, since = False, now()
            await ending
            assert KEEP - 1 <= now() - since <= KEEP + 1

    run(story)
