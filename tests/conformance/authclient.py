"""
A client for the auth scenarios of the suite: `python -m tests.conformance.authclient URL`.

It sends requests of its own to the server at this address, and logs in with our code when one of them is refused. The
browser is a request that follows no redirect but the last: to us.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import httpx2

from acp_launch.mcp.http.wire import read_challenges
from acp_launch.oauth.flow import LoginFlow, Wanted
from acp_launch.oauth.grant import Grant
from acp_launch.secret.value import Secret
from tests.oauth.authority import Browser
from tests.patience import PATIENCE

Json = dict[str, Any]
DOCUMENT = "https://conformance-test.local/client-metadata.json"  # the suite expects this one
MODERN = "2026-07-28"
LOGINS = 3  # in a row, for one request


class Session:
    """Requests to one server, each with the newest token."""

    def __init__(self, wanted: Wanted, version: str) -> None:
        self._wanted, self._version = wanted, version
        self._grant: Grant | None = None
        self._number = 0
        self._session = ""

    async def ask(self, method: str, params: Json) -> None:
        self._number += 1
        await self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})

    async def send(self, message: Json) -> None:
        """Send a message; log in as often as the server wants, within bounds, and send it again."""
        for _ in range(LOGINS):
            answer = await self._posted(message)
            challenge = read_challenges(", ".join(answer.headers.get_list("www-authenticate")))
            if answer.status_code != 401 and not (answer.status_code == 403 and challenge.wants_more):
                answer.raise_for_status()
                self._session = answer.headers.get("mcp-session-id", self._session)
                return
            held = self._grant.scopes if self._grant else ()
            more = (*held, *challenge.scopes) if challenge.wants_more else ()
            flow = LoginFlow(self._wanted, Browser(), confirm=agree)
            self._grant, _ = await flow.log_in(challenge, more=more, registered=self._grant)
        raise SystemExit("the server wants a login again and again")

    async def _posted(self, message: Json) -> httpx2.Response:
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": self._version}
        if self._version == MODERN and "id" in message:
            named = message["params"].get("name")
            headers |= {"Mcp-Method": message["method"], **({"Mcp-Name": named} if named else {})}
            message = {**message, "params": {**message["params"], "_meta": self._meta()}}
        if self._grant is not None:
            headers["Authorization"] = f"Bearer {self._grant.access.expose()}"
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            return await client.post(self._wanted.url, json=message, headers=headers)

    def _meta(self) -> Mapping[str, Any]:
        about = {"protocolVersion": MODERN, "clientInfo": {"name": "test", "version": "1"}, "clientCapabilities": {}}
        return {f"io.modelcontextprotocol/{name}": value for name, value in about.items()}


async def agree(what: str, question: str) -> bool:
    return True


async def main(url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
    secret = context.get("client_secret")
    wanted = Wanted(
        name="server",
        url=url,
        client_id=context.get("client_id", ""),
        client_secret=Secret(secret) if secret else None,
        client_metadata_url=DOCUMENT,
    )
    session = Session(wanted, version)
    if version != MODERN:
        about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        await session.ask("initialize", about)
        await session.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await session.ask("tools/list", {})
    await session.ask("tools/call", {"name": "test-tool", "arguments": {}})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
