"""Both sides of an adapter in one test: what the agent and the server say, and what each of them hears."""

import json
from typing import Any

from acp_launch.mcp.adapter import EraAdapter
from acp_launch.mcp.message import SERVER, ProtocolInfo
from tests.bridge.talker import answer, ask, tell

Json = dict[str, Any]
VERSION = "2026-07-28"
CLIENT = {"name": "agent", "version": "7"}
ABLE: Json = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
ABOUT = {"name": "s", "version": "1"}
OFFERS = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
    "prompts": {},
}


def line(message: Any) -> bytes:
    return json.dumps(message).encode()


def refuse(id: Any, code: int, message: str = "no", **data: Any) -> Json:
    error = {"code": code, "message": message} | ({"data": data} if data else {})
    return {"jsonrpc": "2.0", "id": id, "error": error}


class Eras:
    """Implements the adapter's `Ports`, and remembers what each side has not read yet."""

    def __init__(self, knowledge: ProtocolInfo | None = None) -> None:
        self.knowledge = knowledge or ProtocolInfo()
        self.agent: list[bytes] = []
        self.server: list[bytes] = []
        self.adapter = EraAdapter("github", self, self.knowledge)

    def to_agent(self, line: bytes) -> None:
        self.agent.append(line)

    def to_server(self, line: bytes) -> None:
        self.server.append(line)

    def refuses(self, refusal: Any) -> "Eras":
        """The server has refused the agent's handshake, which was sent as it is."""
        self.adapter.introduce(line(INITIALIZE), line(refusal))
        return self

    def says(self, *messages: Any) -> "Eras":
        """The agent sends messages."""
        for message in messages:
            self.adapter.from_agent(message if isinstance(message, bytes) else line(message))
        return self

    def hears(self, *messages: Any) -> "Eras":
        """The server sends messages."""
        for message in messages:
            self.adapter.from_server(message if isinstance(message, bytes) else line(message))
        return self

    def at_agent(self) -> list[Json]:
        """What came to the agent since the last look."""
        got, self.agent = self.agent, []
        return [json.loads(each) for each in got]

    def at_server(self) -> list[Json]:
        got, self.server = self.server, []
        return [json.loads(each) for each in got]

    def answers(self, result: Any) -> "Eras":
        """The server answers the last request that it got."""
        return self.hears(answer(self.asked()["id"], result))

    def asked(self) -> Json:
        """The last message at the server."""
        return dict(json.loads(self.server[-1]))


INITIALIZE = ask("i", "initialize", protocolVersion="2025-06-18", capabilities=ABLE, clientInfo=CLIENT)
INITIALIZED = tell("notifications/initialized")
DISCOVERED: Json = {
    "resultType": "complete",
    "supportedVersions": [VERSION],
    "capabilities": OFFERS,
    "instructions": "Use it.",
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {SERVER: ABOUT},
}
HELLO: Json = {
    "protocolVersion": "2025-11-25",
    "capabilities": OFFERS | {"tasks": {}},
    "serverInfo": ABOUT,
    "instructions": "Use it.",
}


def upgraded(able: Json = ABLE) -> Eras:
    """An agent on a stateless server, after the handshake."""
    eras = Eras(ProtocolInfo("modern"))
    params = INITIALIZE["params"] | {"capabilities": able}
    eras.says(INITIALIZE | {"params": params}).answers(DISCOVERED).says(INITIALIZED)
    eras.at_server()
    eras.at_agent()
    return eras
