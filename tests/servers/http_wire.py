"""
HTTP/1.1 over asyncio, by hand, for MCP servers that must be able to misbehave on the wire. Standard library only.

A `Wire` is one connection. What it writes can be cut after so many bytes, or go out in small pieces.
"""

import asyncio
import json
import os
import socket
import struct
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
REASONS = {200: "OK", 202: "Accepted", 307: "Temporary Redirect", 400: "Bad Request", 404: "Not Found"}


class CutError(Exception):
    """This connection was ended in the midst of an answer, as the test wished."""


@dataclass
class Request:
    verb: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    message: Any = None  # the body as JSON

    def header(self, name: str) -> str | None:
        for each, value in self.headers:
            if each.lower() == name.lower():
                return value
        return None

    @property
    def method(self) -> str:
        """What a fault is looked up by: the JSON-RPC method, `response`, or the verb of a request without a body."""
        if not isinstance(self.message, dict):
            return self.verb
        return str(self.message.get("method", "response"))

    @property
    def params(self) -> Message:
        return dict(self.message.get("params") or {})

    @property
    def meta(self) -> Message:
        return dict(self.params.get("_meta") or {})


@dataclass(eq=False)
class Wire:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    cut_after: int | None = None  # bytes of this answer
    is_reset: bool = False  # the cut is a reset, not an end
    piece: int | None = None  # bytes written at a time
    pause: float = 0.0  # seconds between pieces
    events: int | None = None  # a stream ends cleanly after so many
    sent: int = 0

    def reset(self) -> None:
        """Forget what the last answer wanted."""
        self.cut_after, self.piece, self.pause = None, None, 0.0
        self.is_reset, self.events, self.sent = False, None, 0

    async def write(self, data: bytes) -> None:
        if self.cut_after is not None and self.sent + len(data) >= self.cut_after:
            await self._put(data[: self.cut_after - self.sent])
            raise CutError
        self.sent += len(data)
        await self._put(data)

    async def _put(self, data: bytes) -> None:
        size = self.piece or max(1, len(data))
        for begin in range(0, len(data), size):
            self.writer.write(data[begin : begin + size])
            await self.writer.drain()
            if self.piece:
                await asyncio.sleep(self.pause)

    def cut(self) -> None:
        """End the connection at once."""
        if self.is_reset:
            plug: socket.socket = self.writer.get_extra_info("socket")
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        else:
            self.writer.close()

    async def head(self, status: int, kind: str, *headers: tuple[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
        pairs = [*([("Content-Type", kind)] if kind else []), *headers]
        lines += [f"{name}: {value}" for name, value in pairs]
        await self.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def reply(self, status: int, kind: str = "", body: bytes = b"", *headers: tuple[str, str]) -> None:
        """A whole answer."""
        await self.head(status, kind, *headers, ("Content-Length", str(len(body))))
        if body:
            await self.write(body)

    async def refuse(self, status: int, code: int, text: str, id: object = None, data: object = None) -> None:
        """An HTTP error with a JSON-RPC error in it."""
        error: Message = {"code": code, "message": text} | ({} if data is None else {"data": data})
        body = json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode()
        await self.reply(status, "application/json", body)

    async def chunk(self, data: bytes) -> None:
        await self.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end_chunks(self) -> None:
        await self.write(b"0\r\n\r\n")


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    verb, path, _ = first.split(" ", 2)
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    request = Request(verb, path, headers)
    try:
        request.body = await _body(reader, request)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    if request.body:
        request.message = json.loads(request.body)
    return request


async def _body(reader: asyncio.StreamReader, request: Request) -> bytes:
    if (request.header("Transfer-Encoding") or "").lower() != "chunked":
        return await reader.readexactly(int(request.header("Content-Length") or 0))
    whole = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        whole += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return whole


def say(**line: object) -> None:
    """One line to the test; os.write, so that it has left us whatever happens next."""
    os.write(1, json.dumps(line).encode() + b"\n")
