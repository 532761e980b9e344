"""
A TCP proxy on 127.0.0.1 that breaks connections. Standard library only.

    python -I -S tests/servers/http_cutter.py '{"to": PORT, "cut": [1000]}'

The keys with their defaults are `SETTINGS`. The first line on stdout is `{"port"}`; a line of stdin is one of
`COMMANDS`. It ends with its stdin. tests/remote/children.py starts it.
"""

import asyncio
import json
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers.http_wire import Message, say

SETTINGS: Message = {
    "to": 0,
    "port": 0,
    "cut": [],  # the connection in which the server's Nth byte since the start passes is ended after it, for each N
    "reset": False,  # such an end is a reset
    "every": 0,  # one in so many connections is refused: accepted and ended at once
}


@dataclass(eq=False)
class Pair:
    """One connection on both sides."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter


class Cutter:
    def __init__(self, settings: Message) -> None:
        self.settings = SETTINGS | settings
        self.pairs: set[Pair] = set()
        self.passed = {"up": 0, "down": 0}
        self.connections = 0
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.site: asyncio.Server | None = None

    async def open(self) -> int:
        """Listen; return the port."""
        self.site = await asyncio.start_server(self.connected, "127.0.0.1", self.settings["port"])
        self.settings["port"] = self.site.sockets[0].getsockname()[1]
        return int(self.settings["port"])

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self.settings["every"] and self.connections % self.settings["every"] == 0:
                return
            there, server = await asyncio.open_connection("127.0.0.1", self.settings["to"])
        except ConnectionError:
            return
        finally:
            if self.settings["every"] and self.connections % self.settings["every"] == 0:
                writer.close()
        pair = Pair(writer, server)
        self.pairs.add(pair)
        try:
            await self.both(pair, reader, there)
        finally:
            self.pairs.discard(pair)
            writer.close()
            server.close()

    async def both(self, pair: Pair, reader: asyncio.StreamReader, there: asyncio.StreamReader) -> None:
        ways = {
            asyncio.ensure_future(self.pump(reader, pair.server, "up", pair)),
            asyncio.ensure_future(self.pump(there, pair.client, "down", pair)),
        }
        _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str, pair: Pair) -> None:
        while data := await reader.read(65536):
            await self.flowing.wait()
            limit = self.limit(len(data)) if way == "down" else None
            writer.write(data if limit is None else data[:limit])
            await writer.drain()
            self.passed[way] += len(data) if limit is None else limit
            if limit is not None:
                say(event="cut", at=self.passed["down"])
                self.end(pair)
                return
        await self.flowing.wait()  # a half-open connection does not end either

    def limit(self, size: int) -> int | None:
        """How many of so many bytes still pass before the next cut; None if all do."""
        passed = self.passed["down"]
        for cut in sorted(self.settings["cut"]):
            if passed < cut <= passed + size:
                self.settings["cut"].remove(cut)
                return int(cut - passed)
        return None

    def end(self, pair: Pair) -> None:
        if self.settings["reset"]:
            plug: socket.socket = pair.client.get_extra_info("socket")
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            pair.client.transport.abort()
        else:
            pair.client.close()
        pair.server.close()


def cut(cutter: Cutter, said: Message) -> object:
    """End every connection now."""
    pairs = list(cutter.pairs)
    for pair in pairs:
        cutter.end(pair)
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


def change(cutter: Cutter, said: Message) -> object:
    """Other settings; `cut` counts on from the bytes that have passed."""
    cutter.settings |= said["settings"]
    return cutter.passed["down"]


COMMANDS: dict[str, Callable[[Cutter, Message], object]] = {
    "cut": cut,
    "hold": hold,
    "flow": flow,
    "refuse": refuse,
    "accept": accept,
    "change": change,
    "passed": lambda cutter, said: {**cutter.passed, "connections": cutter.connections, "open": len(cutter.pairs)},
}


async def main() -> None:
    cutter = Cutter(json.loads(sys.argv[1]))
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
