"""A user of a remote server's connection: writes lines, reads lines, and sees how it ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from acp_launch.mcp.http.wire import Limits
from acp_launch.mcp.program import RemoteProgram
from acp_launch.mcp.remote import Remote
from acp_launch.process.lifecycle import Ended
from acp_launch.protocol.jsonrpc import Envelope
from tests.patience import PATIENCE

from .children import Tempered, tempered

Json = dict[str, Any]
VERSION = "io.modelcontextprotocol/protocolVersion"
META: Json = {VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
HELLO: Json = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def remote(url: str, **settings: Any) -> RemoteProgram:
    limits = Limits(**settings.pop("limits", {}))
    return RemoteProgram(**{"name": "docs", "type": "http", "url": url, "limits": limits, **settings})


class Peer:
    """One connection; every message from the server is kept in `heard`."""

    def __init__(self, connection: Remote) -> None:
        self.remote = connection
        self.heard: list[Json] = []
        self.logged = b""
        self._news = asyncio.Event()
        self._numbers = 0
        connection.listen(self._hear)

    def write(self, message: Json) -> None:
        self.remote.send(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode())

    def ask(self, method: str, params: Json | None = None, *, id: Any = None) -> Any:
        """Send a request; return its id."""
        self._numbers += 1
        id = self._numbers if id is None else id
        self.write({"id": id, "method": method, **({} if params is None else {"params": params})})
        return id

    def ask_modern(self, method: str, params: Json | None = None, *, id: Any = None) -> Any:
        return self.ask(method, {**(params or {}), "_meta": META}, id=id)

    def tell(self, method: str, params: Json | None = None) -> None:
        self.write({"method": method, **({} if params is None else {"params": params})})

    async def answer(self, id: Any) -> Json:
        """The answer to a request; the connection must not end before."""
        return await self.until(lambda message: message.get("id") == id and "method" not in message)

    async def call(self, method: str, params: Json | None = None) -> Json:
        return await self.answer(self.ask(method, params))

    async def tool(self, name: str, **arguments: Any) -> Json:
        return await self.call("tools/call", {"name": name, "arguments": arguments})

    async def until(self, holds: Callable[[Json], bool]) -> Json:
        async with asyncio.timeout(PATIENCE):
            while True:
                for message in self.heard:
                    if holds(message):
                        return message
                assert self.remote.end is None, f"it ended: {self.remote.end}"
                self._news.clear()
                news, end = asyncio.ensure_future(self._news.wait()), asyncio.ensure_future(self.remote.wait())
                await asyncio.wait({news, end}, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                end.cancel()
                await asyncio.sleep(0)

    def answers(self, id: Any) -> list[Json]:
        return [message for message in self.heard if message.get("id") == id and "method" not in message]

    async def shake_hands(self, version: str = "2025-11-25") -> Json:
        answer = await self.call("initialize", {**HELLO, "protocolVersion": version})
        self.tell("notifications/initialized")
        return answer

    async def rejected(self) -> Ended:
        """Shake hands in vain; how the connection ends."""
        self.ask("initialize", HELLO)
        return await self.ended()

    async def ended(self) -> Ended:
        async with asyncio.timeout(PATIENCE):
            return await self.remote.wait()

    @property
    def unsent(self) -> list[Json]:
        return [json.loads(line) for line in self.remote.unsent]

    def close(self) -> None:
        self.remote.close()

    def _hear(self, line: bytes, message: Envelope | None) -> None:
        self.heard.append(json.loads(line))
        self._news.set()


@asynccontextmanager
async def connected(program: RemoteProgram) -> AsyncIterator[Peer]:
    logged: list[bytes] = []
    async with program.begin(restarts=0, log=logged.append) as connection:
        peer = Peer(connection)
        try:
            yield peer
        finally:
            peer.logged = b"".join(logged)
            peer.close()


@asynccontextmanager
async def met(**temper: Any) -> AsyncIterator[tuple[Tempered, Peer]]:
    """A server, and a connection to it after the handshake."""
    with tempered(**temper) as server:
        async with connected(remote(server.url)) as peer:
            await peer.shake_hands()
            yield server, peer


async def asked(server: Tempered, method: str, times: int = 1) -> None:
    """Wait until the server was asked this so often."""
    async with asyncio.timeout(PATIENCE):
        while (await asyncio.to_thread(server.methods)).count(method) < times:
            pass


def error(answer: Mapping[str, Any]) -> str:
    return str(answer["error"]["message"])
