"""
A TCP proxy on 127.0.0.1 that breaks connections. Standard library only.

    python -I -S tests/servers/http_cutter.py '{"to": PORT}'

The first line on stdout is `{"port"}`; a line of stdin is one of `COMMANDS`. It ends with its stdin.
tests/remote/children.py starts it.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers.http_wire import Message, say


@dataclass(eq=False)
class Pair:
    """One connection on both sides."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter

    def end(self) -> None:
        self.client.close()
        self.server.close()


class Cutter:
    def __init__(self, to: int) -> None:
        self.to, self.port = to, 0
        self.pairs: set[Pair] = set()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.site: asyncio.Server | None = None

    async def open(self) -> int:
        """Listen; return the port."""
        self.site = await asyncio.start_server(self.connected, "127.0.0.1", self.port)
        self.port = self.site.sockets[0].getsockname()[1]
        return self.port

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, server = await asyncio.open_connection("127.0.0.1", self.to)
        except ConnectionError:
            return
        pair = Pair(writer, server)
        self.pairs.add(pair)
        try:
            await self.both(pair, reader, there)
        finally:
            self.pairs.discard(pair)
            pair.end()

    async def both(self, pair: Pair, reader: asyncio.StreamReader, there: asyncio.StreamReader) -> None:
        ways = {
            asyncio.ensure_future(self.pump(reader, pair.server)),
            asyncio.ensure_future(self.pump(there, pair.client)),
        }
        _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.flowing.wait()
            writer.write(data)
            await writer.drain()
        await self.flowing.wait()  # a half-open connection does not end either


def cut(cutter: Cutter, said: Message) -> object:
    """End every connection now."""
    pairs = list(cutter.pairs)
    for pair in pairs:
        pair.end()
    return len(pairs)


def hold(cutter: Cutter, said: Message) -> object:
    """Half-open: every connection stays, and nothing passes any more in either direction."""
    cutter.flowing.clear()
    return True


def flow(cutter: Cutter, said: Message) -> object:
    cutter.flowing.set()
    return True


def refuse(cutter: Cutter, said: Message) -> object:
    """Take no new connection from now on; those there are stay."""
    assert cutter.site is not None
    cutter.site.close()
    return True


async def accept(cutter: Cutter, said: Message) -> object:
    """Take new connections again."""
    await cutter.open()
    return True


COMMANDS: dict[str, Callable[[Cutter, Message], object]] = {
    "cut": cut,
    "hold": hold,
    "flow": flow,
    "refuse": refuse,
    "accept": accept,
}


async def main() -> None:
    cutter = Cutter(json.loads(sys.argv[1])["to"])
    say(port=await cutter.open())
    stdin = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    while line := await stdin.readline():
        said: dict[str, Any] = json.loads(line)
        done = COMMANDS[said["do"]](cutter, said)
        say(done=await done if isinstance(done, Awaitable) else done)
    os._exit(0)  # whatever still flows


if __name__ == "__main__":
    asyncio.run(main())
