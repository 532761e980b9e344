"""An agent that does not wait for its http MCP servers, like qwen: its first prompt knows the tools of others only.

It reads the tools of the stdio servers before it answers session/new, and those of the http servers after its first
answer. A prompt is answered with the names of all tools that it knows by then.
"""

import json
import sys
import urllib.request

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script
from tests.agents.mcp_connection import Server
from tests.agents.script import Message

known: list[str] = []
later: list[Message] = []


def session(request: Message) -> None:
    for entry in request["params"]["mcpServers"]:
        if "command" not in entry:
            later.append(entry)
            continue
        server = Server(entry)
        server.begin()
        server.finish()
        line = server.answer(server.request("tools/list", {}))
        known.extend(tool["name"] for tool in json.loads(line or b"{}")["result"]["tools"])
    script.new(request)


def prompt(request: Message) -> None:
    script.say(script.session_of(request), " ".join(known) or "no tools")
    script.end(request, "end_turn")
    while later:
        known.extend(tools(later.pop()))


def tools(entry: Message) -> list[str]:
    """Ask an http server without sessions, which needs no handshake."""
    headers = {pair["name"]: pair["value"] for pair in entry["headers"]} | {"Content-Type": "application/json"}
    asking = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'
    with urllib.request.urlopen(urllib.request.Request(entry["url"], asking, headers, method="POST")) as answer:
        return [tool["name"] for tool in json.loads(answer.read())["result"]["tools"]]


def initialize(request: Message) -> None:
    script.initialize(request, mcpCapabilities={"http": True})


script.serve({"initialize": initialize, "session/new": session, "session/prompt": prompt})
