"""Two transports, back to back in one process: what one writes the other reads. For tests; behaves like two pipes."""

import asyncio

from acp_launch.rpc import TransportClosed

PIPE = 64 * 1024  # bytes either direction holds before its writer has to wait, as on Linux


class _Pipe:
    """One direction."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._is_closed = False
        self._changed = asyncio.Condition()
        self._turn = asyncio.Lock()

    async def read(self) -> bytes:
        async with self._changed:
            await self._changed.wait_for(lambda: self._held or self._is_closed)
            chunk = bytes(self._held)
            self._held.clear()
            self._changed.notify_all()
            return chunk

    async def write(self, data: bytes) -> None:
        rest = memoryview(data)
        async with self._turn, self._changed:
            while rest:
                await self._changed.wait_for(lambda: len(self._held) < PIPE or self._is_closed)
                if self._is_closed:
                    raise TransportClosed("nothing more can be sent: the other end is closed")
                room = PIPE - len(self._held)
                self._held += rest[:room]
                rest = rest[room:]
                self._changed.notify_all()

    async def close(self) -> None:
        async with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class MemoryTransport:
    """One end; made by `pair`."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe, ends: "list[tuple[str, tuple[str, ...]]]") -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._ends = ends

    async def read(self) -> bytes:
        return await self._incoming.read()

    async def write(self, data: bytes) -> None:
        await self._outgoing.write(data)

    async def close(self) -> None:
        await self._outgoing.close()

    async def die(self, how: str, last_words: tuple[str, ...] = ()) -> None:
        """End both directions at once, as a process does that was killed; the other end describes it so."""
        self._ends.append((how, last_words))
        await self._outgoing.close()
        await self._incoming.close()

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        return self._ends[-1] if self._ends else ("closed its end", ())


def pair() -> tuple[MemoryTransport, MemoryTransport]:
    """Two ends that are each other's other side."""
    there, back = _Pipe(), _Pipe()
    ends: list[tuple[str, tuple[str, ...]]] = []
    return MemoryTransport(back, there, ends), MemoryTransport(there, back, ends)
