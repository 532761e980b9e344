"""Our HTTP server with a scripted server behind it, and a client that writes bytes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from acp_launch.bridge.http.gate import ServerKey
from acp_launch.bridge.http.server import HttpLimits, LoopbackServer, http_server
from acp_launch.bridge.seat import ShimConnection
from tests.patience import PATIENCE

Json = dict[str, Any]
KEY = ServerKey("/a-path", "a-token")
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Behind:
    """One conversation as a server sees it. `initialize` is answered by itself; the rest is the test's."""

    def __init__(self, shim: ShimConnection, answers: Callable[["Behind", Json], None]) -> None:
        self._shim, self._answers = shim, answers
        self.heard: asyncio.Queue[Json] = asyncio.Queue()
        self.is_left = asyncio.Event()
        self._task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(sock=self._shim.line, limit=1 << 26)
        while line := await self._reader.readline():
            message = json.loads(line)
            if message.get("method") == "initialize":
                self.say(id=message["id"], result={"protocolVersion": message["params"]["protocolVersion"]})
                continue
            self.heard.put_nowait(message)
            self._answers(self, message)
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()
        self.is_left.set()

    def say(self, **message: object) -> None:
        self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def drained(self) -> None:
        """Wait until nearly everything that it said has been read."""
        await asyncio.wait_for(self._writer.drain(), PATIENCE)

    def leave(self) -> None:
        self._writer.close()

    async def hears(self) -> Json:
        return await asyncio.wait_for(self.heard.get(), PATIENCE)


def silent(server: Behind, message: Json) -> None:
    """Leave the answers to the test."""


def echoing(server: Behind, message: Json) -> None:
    if "id" in message and "method" in message:
        server.say(id=message["id"], result={"echo": message.get("params")})


class Fronted:
    def __init__(self, running: LoopbackServer, notes: list[str], behind: "asyncio.Queue[Behind]") -> None:
        self.http, self.notes, self._behind = running, notes, behind
        self.wires: list[Wire] = []

    async def server(self) -> Behind:
        """The next conversation that was begun."""
        return await asyncio.wait_for(self._behind.get(), PATIENCE)

    async def connect(self) -> "Wire":
        opened = await asyncio.open_connection("127.0.0.1", self.http.port, limit=1 << 26)
        self.wires.append(Wire(*opened, self.http.port))
        return self.wires[-1]

    async def session(self) -> str:
        """Open a session; its id."""
        wire = await self.connect()
        answer = await wire.post(INITIALIZE)
        wire.close()
        assert answer.status == 200, answer
        return answer.headers["mcp-session-id"]


@asynccontextmanager
async def fronted(
    answers: Callable[[Behind, Json], None] = echoing,
    *,
    max_line: int = 1 << 24,
    limits: HttpLimits | None = None,
) -> AsyncIterator[Fronted]:
    notes: list[str] = []
    behind: asyncio.Queue[Behind] = asyncio.Queue()
    begun: list[Behind] = []

    def on_shim(shim: ShimConnection) -> None:
        begun.append(Behind(shim, answers))
        behind.put_nowait(begun[-1])

    async with asyncio.timeout(60):
        async with http_server({"server": KEY}, on_shim, notes.append, max_line=max_line, limits=limits) as running:
            found = Fronted(running, notes, behind)
            yield found
        for wire in found.wires:
            wire.close()
            with suppress(ConnectionError):
                await wire.writer.wait_closed()
        for server in begun:
            await server.is_left.wait()


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self) -> str:
        return f"Answer({self.status}, {self.headers}, {self.body!r})"

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[Json]:
        """What came, as JSON or as events."""
        if self.headers.get("content-type") == "application/json":
            return [self.json]
        return [json.loads(event["data"]) for event in events(self.body) if event.get("data")]


def events(body: bytes) -> list[dict[str, str]]:
    found = []
    for block in body.decode().split("\n\n"):
        lines = [line.partition(":") for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            found.append({name: value.lstrip() for name, _, value in lines})
    return found


class Wire:
    """One HTTP connection, written by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.reader, self.writer, self._port = reader, writer, port

    def close(self) -> None:
        self.writer.close()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def request(self, method: str, body: bytes = b"", *, path: str | None = KEY.path, **headers: str | None) -> bytes:
        """Keyword arguments replace headers, `None` leaves one out; `_` stands for `-`."""
        plain: dict[str, str | None] = {
            "host": f"127.0.0.1:{self._port}",
            "authorization": f"Bearer {KEY.token}",
            "accept": "application/json, text/event-stream",
        }
        if method == "POST":
            plain |= {"content-type": "application/json", "content-length": str(len(body))}
        plain |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}\r\n" for name, value in plain.items() if value is not None]
        return f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode() + body

    async def post(self, message: object, **headers: str | None) -> Answer:
        self.begin(message, **headers)
        return await self.answer()

    def begin(self, message: object, **headers: str | None) -> None:
        self.send(self.request("POST", json.dumps(message).encode(), **headers))

    def modern(self, id: object, method: str, params: Json | None = None, **headers: str | None) -> None:
        """Send a request of 2026-07-28."""
        params = {"_meta": META, **(params or {})}
        named = {"mcp_name": str(params.get("name") or params.get("uri") or "") or None}
        plain = {"mcp_protocol_version": "2026-07-28", "mcp_method": method, **named, **headers}
        self.begin({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, **plain)

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(PATIENCE):
            first, *rest = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in rest if line)
        return int(first.split()[1]), headers

    async def answer(self) -> Answer:
        status, headers = await self.head()
        async with asyncio.timeout(PATIENCE):
            if headers.get("transfer-encoding") == "chunked":
                return Answer(status, headers, b"".join([chunk async for chunk in self.chunks()]))
            return Answer(status, headers, await self.reader.readexactly(int(headers.get("content-length", 0))))

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readuntil(b"\r\n")

    async def event(self) -> dict[str, str]:
        """The next event of a stream; each is written in one chunk."""
        async with asyncio.timeout(PATIENCE):
            while True:
                size = int(await self.reader.readuntil(b"\r\n"), 16)
                assert size, "the stream has ended"
                found = events((await self.reader.readexactly(size + 2))[:-2])
                if found:
                    return found[0]

    async def ended(self) -> bytes:
        """What still comes until the connection is closed."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""
