"""
The transport of a verb to a server whose era may not be ours: every message passes the adapter between the eras.

Our own client speaks the handshake versions; `Adapter` finds out what the server speaks, and translates if need be.
"""

import asyncio
from collections.abc import Callable

from acp_launch.mcp.era import pinned
from acp_launch.mcp.translation.adapter import Adapter
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import LineFramer
from acp_launch.protocol.mishap import Mishaps
from acp_launch.rpc import Transport


class TranslatedTransport:
    """A transport with an adapter in front of it. Lines of more than `max_line` bytes end it."""

    def __init__(
        self,
        inner: Transport,
        server: str,
        protocol: str,
        note: Callable[[str], None],
        *,
        is_stdio: bool,
        max_line: int,
    ) -> None:
        """`protocol` is the profile's key; `note` shows a line to the user."""
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._knowledge = pinned(protocol)
        self._adapter = Adapter(server, self, self._knowledge, is_stdio=is_stdio, gives_roots=True)
        self._heard, self._said = LineFramer(limit=max_line), LineFramer(limit=max_line)
        self._up: list[bytes] = []
        self._down: list[bytes] = []
        self._news = asyncio.Event()  # set: there is something to read, or a timer to look at
        self._reading: asyncio.Task[bytes] | None = None
        self.broke = Mishaps(note).add

    @property
    def era(self) -> str:
        """The era that the server has shown: `legacy`, `modern`, or empty."""
        return self._knowledge.seen or ""

    async def read(self) -> bytes:
        while not self._up:
            if await self._arrived():
                assert self._reading is not None
                chunk, self._reading = self._reading.result(), None
                if not chunk:
                    return chunk
                for line in self._heard.feed(chunk):
                    if line[:1] in jsonrpc.STARTS and self._adapter.is_needed:
                        self._adapter.from_server(line)
                    else:  # quick, as a program that is not a server may write millions of lines
                        self._up.append(line)
            self._adapter.tick()
            await self._flush()
        lines, self._up = self._up, []
        return b"\n".join([*lines, b""])

    async def write(self, data: bytes) -> None:
        for line in self._said.feed(data):
            if self._adapter.is_needed:
                self._adapter.from_agent(line)
            else:
                self._down.append(line)
        self._news.set()
        await self._flush()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        await self._inner.close()

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        return await self._inner.describe_end()

    # Ports of the adapter.

    def to_agent(self, line: bytes) -> None:
        self._up.append(line)

    def to_server(self, line: bytes) -> None:
        self._down.append(line)

    def heard(self) -> None:
        """Do nothing: only the end of the server matters here."""

    def now(self) -> float:
        return self._loop.time()

    async def _arrived(self) -> bool:
        """Wait for a chunk, for something of the adapter, or for its timer; return whether it was a chunk."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._inner.read())
        news = asyncio.create_task(self._news.wait())
        due = self._adapter.due
        limit = None if due is None else max(0.0, due - self.now())
        try:
            await asyncio.wait({self._reading, news}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._reading.cancel()
            raise
        finally:
            news.cancel()
            self._news.clear()
        return self._reading.done()

    async def _flush(self) -> None:
        lines, self._down = self._down, []
        if lines:
            await self._inner.write(b"\n".join([*lines, b""]))
