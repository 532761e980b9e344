"""
A process that runs one server as a launch does, and serves it to this machine over HTTP, as to an agent.

    python -m tests.conformance.host '{"argv": [...]}'
    python -m tests.conformance.host '{"url": "http://..."}'

The suite knows one address and no token, so that the path is `/mcp` and the token is not asked for; Host and Origin are
checked as ever. The first line on stdout is the port. It lives until its stdin ends.
"""

import asyncio
import json
import sys
from typing import Any

from acp_launch.bridge.http.gate import Head, RequestGate, RequestRefused, ServerKey
from acp_launch.bridge.http.server import http_server
from acp_launch.bridge.servers import ServerNeeds, running
from tests.bridge.observing import Complaining
from tests.cli.launcher import ROOT
from tests.realservers.host import plan

NAME, PATH = "server", "/mcp"


class OpenGate(RequestGate):
    def find(self, head: Head) -> str:
        if head.target != PATH:
            raise RequestRefused(404, "its path is not one of a server")
        return NAME


async def main(server: dict[str, Any]) -> None:
    needs = ServerNeeds(secrets={}, directories=[ROOT], max_line=1 << 26, hurry=asyncio.Event())
    observer = Complaining()
    plans = [plan(NAME, {"env": {}, "cwd": str(ROOT), **server})]
    keys = {NAME: ServerKey(PATH, "")}
    async with (
        running(plans, needs, observer) as ours,
        http_server(keys, ours.servers.on_shim, observer.note, max_line=1 << 26) as http,
    ):
        http.gate = OpenGate(keys, http.port)
        print(http.port, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
