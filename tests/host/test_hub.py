"""The end of a host that nothing uses (docs/up.md)."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import Raw

from acp_launch.served.connections import UnknownMethod
from acp_launch.served.host import MAX_SILENT, PAST, Host
from tests.looped import looped
from tests.patience import PATIENCE
from tests.turnedclock import turned

KEEP = 900.0  # seconds


@looped
async def test_the_oldest_silent_connection_makes_room_and_one_that_has_asked_stays() -> None:
    async with asyncio.TaskGroup() as tasks:
        launch = SimpleNamespace(context=SimpleNamespace(max_line=1000), plan=None)
        hub = Host(cast(Any, launch), cast(Any, SimpleNamespace(keep=KEEP)), tasks)
        pairs = [socket.socketpair() for _ in range(MAX_SILENT + 2)]
        for ours, its in pairs:
            ours.setblocking(False)
            its.settimeout(PATIENCE)
        hub.attach(pairs[0][0])
        with pytest.raises(UnknownMethod):
            await hub.serve(next(iter(hub.fronts)), "_unknown", {}, Raw())
        for ours, _ in pairs[1:]:
            hub.attach(ours)
        assert await asyncio.to_thread(pairs[1][1].recv, 1) == b""
        assert len(hub.fronts) in (MAX_SILENT + 1, MAX_SILENT + 2)  # its end is noticed after ours
        for _, its in pairs:
            its.close()


@turned
async def test_a_host_ends_when_it_was_without_fronts_and_turns_for_so_long() -> None:
    """A front counts that does nothing, and so does a turn without a front."""
    now = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as tasks:
        launch = SimpleNamespace(context=SimpleNamespace(max_line=1), plan=None)
        hub = Host(cast(Any, launch), cast(Any, SimpleNamespace(keep=KEEP)), tasks)
        ending = tasks.create_task(hub._until_idle())
        front, busy = cast(Any, object()), cast(Any, SimpleNamespace(is_busy=True, exit=lambda front: None))
        hub.fronts[front] = [busy]
        await asyncio.sleep(10 * KEEP)
        hub.agent.sessions.append(busy)
        hub.on_gone(front)
        await asyncio.sleep(10 * KEEP)
        assert not ending.done()
        busy.is_busy, since = False, now()
        await ending
        assert KEEP - 1 <= now() - since <= KEEP + 1


@looped
async def test_of_past_sessions_those_go_first_whose_end_a_front_has() -> None:
    async with asyncio.TaskGroup() as tasks:
        launch = SimpleNamespace(context=SimpleNamespace(max_line=1), plan=None)
        hub = Host(cast(Any, launch), cast(Any, SimpleNamespace(keep=KEEP)), tasks)
        for number in range(PAST + 2):
            session = SimpleNamespace(
                name=f"s{number}",
                lifetime="over" if number in (2, 3) else "turn",
                has_begun=True,
                end=lambda: None,
            )
            hub._end(cast(Any, session))
        assert list(hub.past) == ["s0", "s1", "s4", "s5", "s6"]
