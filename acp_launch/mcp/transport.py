"""
The transport of a verb to a server whose era may not be ours.

Our own client begins with a handshake. A server that has none gets an `EraAdapter` in front of it.
"""

from typing import TYPE_CHECKING

from msgspec import UNSET

from acp_launch.mcp.adapter import EraAdapter
from acp_launch.mcp.message import INITIALIZE, pinned_era, suggests_stateless
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import LineFramer
from acp_launch.rpc import Transport

if TYPE_CHECKING:
    pass


class TranslatedTransport:
    """A transport with an adapter in front of it, if the server needs one. Lines of more than `max_line` bytes end it.

    `era` is what the server has shown, in the profile's words: `legacy`, `modern`, or empty.
    """

    def __init__(self, inner: Transport, server: str, protocol: str, *, max_line: int) -> None:
        """`protocol` is the profile's key."""
        self.era = ""
        self._inner, self._server = inner, server
        self._knowledge = pinned_era(protocol)
        self._adapter: EraAdapter | None = None
        self._hello = b""  # our handshake, until it is answered
        self._framer = LineFramer(limit=max_line)
        self._up: list[bytes] = []
        self._down: list[bytes] = []
        if self._knowledge.server == "modern":
            self._adapt()

    async def read(self) -> bytes:
        while not self._up:
            chunk = await self._inner.read()
            if not chunk:
                return chunk
            for line in self._framer.feed(chunk):
                if line[:1] not in jsonrpc.STARTS:  # quick: a program that is not a server may write millions of lines
                    self._up.append(line)
                elif self._adapter is not None:
                    self._adapter.from_server(line)
                elif not self._hello or not self._is_refusal(line):
                    self._up.append(line)
                else:
                    self._adapt().introduce(self._hello, line)
            await self._flush()
        lines, self._up = self._up, []
        return b"\n".join([*lines, b""])

    async def write(self, data: bytes) -> None:
        for line in data.splitlines():  # whole messages
            if not self.era and (message := jsonrpc.decode(line)) is not None and message.method == INITIALIZE:
                self._hello = line
            if self._adapter is not None:
                self._adapter.from_agent(line)
            else:
                self._down.append(line)
        await self._flush()

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        return await self._inner.describe_end()

    def _is_refusal(self, line: bytes) -> bool:
        message, hello = jsonrpc.decode(line), jsonrpc.decode(self._hello)
        if message is None or hello is None or message.method is not UNSET or message.id != hello.id:
            return False
        if message.result is not UNSET:
            self.era, self._hello = "legacy", b""
        return message.error is not UNSET and suggests_stateless(message.error)

    def _adapt(self) -> "EraAdapter":
        self.era = "modern"
        self._adapter = EraAdapter(self._server, self, self._knowledge)
        return self._adapter

    # Ports of the adapter.

    def to_agent(self, line: bytes) -> None:
        self._up.append(line)

    def to_server(self, line: bytes) -> None:
        self._down.append(line)

    async def _flush(self) -> None:
        lines, self._down = self._down, []
        if lines:
            await self._inner.write(b"\n".join([*lines, b""]))
