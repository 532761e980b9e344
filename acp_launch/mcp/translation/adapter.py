"""
The adapter between an agent of one era of MCP and a server of the other. Sans-IO: lines in, lines out.

One `Adapter` stands between a conversation and one process of the server. The agent's first request goes to a server of
unknown era as it is, and the answer shows the server's era. When both sides are of one era the adapter is not needed
any more; else `LegacyAgent` or `ModernAgent` translates all that follows.
"""

from collections.abc import Callable, Iterable

from msgspec import UNSET, Raw

from acp_launch.mcp import era
from acp_launch.mcp.era import Crossing, is_modern
from acp_launch.mcp.message import CLIENT_INFO
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.ids import key
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.protocol.written import written


class Adapter(Crossing):
    """Stands between a conversation and one process of the server, as long as it `is_needed`."""

    def from_agent(self, line: bytes) -> None:
        if self._translator is None:
            self._contain("the agent", self._agent_says, line)
            return
        for part in jsonrpc.batch(line) or (line,):
            self._contain("the agent", self._agent_says, part)

    def from_server(self, line: bytes) -> None:
        if line[:1] not in jsonrpc.STARTS:  # quick, as a program that is not a server may write millions of lines
            self.up(line)
            return
        parts = (self._translator and jsonrpc.batch(line)) or (line,)
        for part in parts:
            self._contain(f"the MCP server {self.name}", self._server_says, part)

    def ended(self, unsent: Iterable[bytes] = ()) -> list[bytes]:
        """Note the end of the process; return the agent's messages that the next process must get.

        `unsent` are lines of ours that never reached the server.
        """
        self._timers.clear()
        self._own.clear()
        again = [*self._translator.unsent(unsent)] if self._translator is not None else [*unsent]
        return again + [line for _, line in self.take_held()]

    # Private.

    def _contain(self, whose: str, handle: Callable[[bytes], None], line: bytes) -> None:
        """Handle a message; if we fail, the side that waits for its result is told."""
        try:
            handle(line)
        except Exception as error:
            self._ports.broke(whose, error)
            self._tell_of_failure(jsonrpc.decode(line), is_of_agent=whose == "the agent")

    def _tell_of_failure(self, message: Envelope | None, *, is_of_agent: bool) -> None:
        if message is None or message.id is UNSET:
            return
        if message.method is UNSET and is_of_agent:
            return
        told = jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, jsonrpc.BROKEN)
        self.up(told) if is_of_agent or message.method is UNSET else self.down(told)

    def _agent_says(self, line: bytes) -> None:
        message = jsonrpc.decode(line)
        if message is None or not self.is_needed:
            self.down(line)
            return
        if self._translator is None and message.method is not UNSET and message.id is not UNSET:
            self._begin(message, line)
        elif self._translator is None:
            self.down(line)
        else:
            self._translator.from_agent(message, line)

    def _begin(self, message: Envelope, line: bytes) -> None:
        """Take a request while the agent's era is unknown."""
        if is_modern(message.params):
            if self.knowledge.server == "modern":
                self.leave("modern")
                self.down(line)
                return
            from acp_launch.mcp.translation.modernagent import ModernAgent

            self._translator = agent = ModernAgent(self)
            agent.begin(message, line)
        elif message.method == era.INITIALIZE:
            from acp_launch.mcp.translation.legacyagent import LegacyAgent

            self._translator = newer = LegacyAgent(self)
            newer.begin(message, line)
        elif message.method == era.PING and self.knowledge.server == "modern":
            self.check(message, era.meta(self.version(), Raw(written(CLIENT_INFO)), Raw(b"{}")))
        else:
            self.was_pinged = True
            self.down(line)

    def _server_says(self, line: bytes) -> None:
        message = jsonrpc.decode(line)
        if message is None or not self.is_needed:
            self.up(line)
            return
        self._is_kept = True
        if message.method is UNSET and message.id is not UNSET and (take := self._own.pop(key(message.id), None)):
            take(message, line)
        elif self._translator is not None:
            self._translator.from_server(message, line)
        else:
            self.up(line)
        if self._is_kept:
            self._ports.heard()
