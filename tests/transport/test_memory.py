"""The memory transport behaves like two pipes."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from acp_launch.rpc import Transport, TransportClosed
from tests.patience import PATIENCE
from tests.transport.memory import PIPE, MemoryTransport, pair

Use = Callable[[MemoryTransport, MemoryTransport], Awaitable[None]]


def with_pair(use: Use) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE):
            await use(*pair())

    asyncio.run(run())


async def everything(end: Transport) -> bytes:
    chunks = []
    while chunk := await end.read():
        chunks.append(chunk)
    return b"".join(chunks)


def test_what_one_end_writes_the_other_reads_both_ways() -> None:
    async def use(here: MemoryTransport, there: MemoryTransport) -> None:
        await here.write(b"ping")
        await there.write(b"pong")
        assert (await there.read(), await here.read()) == (b"ping", b"pong")

    with_pair(use)


def test_closing_ends_one_direction_only_and_what_was_written_still_arrives() -> None:
    async def use(here: MemoryTransport, there: MemoryTransport) -> None:
        await here.write(b"last")
        await here.close()
        await here.close()
        assert await everything(there) == b"last"
        assert await there.read() == b""
        await there.write(b"answer")
        assert await here.read() == b"answer"
        with pytest.raises(TransportClosed):
            await here.write(b"more")
        assert await there.describe_end() == ("closed its end", ())

    with_pair(use)


def test_a_full_buffer_makes_the_writer_wait_for_the_reader() -> None:
    async def use(here: MemoryTransport, there: MemoryTransport) -> None:
        await here.write(bytes(PIPE))
        waiting = asyncio.create_task(here.write(b"x"))
        done, _ = await asyncio.wait({waiting}, timeout=0)
        assert not done
        assert len(await there.read()) == PIPE
        await waiting
        assert await there.read() == b"x"

    with_pair(use)


def test_concurrent_writes_larger_than_the_buffer_never_mix() -> None:
    async def use(here: MemoryTransport, there: MemoryTransport) -> None:
        async def write_all() -> None:
            await asyncio.gather(*(here.write(letter * 3 * PIPE) for letter in (b"a", b"b", b"c")))
            await here.close()

        writing = asyncio.create_task(write_all())
        assert await everything(there) == b"".join(letter * 3 * PIPE for letter in (b"a", b"b", b"c"))
        await writing

    with_pair(use)


def test_a_death_ends_both_directions_wakes_writers_and_tells_the_other_end_how() -> None:
    async def use(here: MemoryTransport, there: MemoryTransport) -> None:
        writing = asyncio.create_task(here.write(bytes(2 * PIPE)))
        await asyncio.wait({writing}, timeout=0)
        await there.die("was killed by SIGKILL", ("last words",))
        with pytest.raises(TransportClosed):
            await writing
        assert await here.read() == b""
        assert await here.describe_end() == ("was killed by SIGKILL", ("last words",))

    with_pair(use)
