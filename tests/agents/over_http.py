"""Calls a tool of the one server it is given, over HTTP or as a program: a prompt is `TOOL JSON`."""

import json
import os
import subprocess
import sys
import urllib.request

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

servers: list[script.Message] = []
SHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def new(request: script.Message) -> None:
    servers[:] = request["params"]["mcpServers"]
    script.new(request)


def exchange(messages: list[script.Message]) -> script.Message:
    """The answer to the last message."""
    (server,) = servers
    lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    if "command" in server:
        env = {**os.environ, **{pair["name"]: pair["value"] for pair in server["env"]}}
        with subprocess.Popen([server["command"], *server["args"]], stdin=-1, stdout=-1, env=env) as shim:
            assert shim.stdin is not None
            assert shim.stdout is not None
            for line, message in zip(lines, messages, strict=True):
                shim.stdin.write(line + b"\n")
                shim.stdin.flush()
                answer = shim.stdout.readline() if "id" in message else b""
            shim.stdin.close()
        return dict(json.loads(answer))
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    headers |= {pair["name"]: pair["value"] for pair in server["headers"]}
    for line in lines:
        with urllib.request.urlopen(urllib.request.Request(server["url"], line, headers)) as response:
            if session := response.headers["Mcp-Session-Id"]:
                headers["Mcp-Session-Id"] = session
            answer = response.read()
    return dict(json.loads(answer.partition(b"data:")[2] or answer))


def prompt(request: script.Message) -> None:
    tool, _, arguments = script.said(request).partition(" ")
    call = {"name": tool, "arguments": json.loads(arguments or "{}")}
    answer = exchange(
        [
            {"id": 1, "method": "initialize", "params": SHAKE},
            {"method": "notifications/initialized", "params": {}},
            {"id": 2, "method": "tools/call", "params": call},
        ]
    )
    script.say(script.session_of(request), answer["result"]["content"][0]["text"])
    script.end(request)


def initialize(request: script.Message) -> None:
    script.initialize(request, mcpCapabilities={"http": True})


script.serve({"initialize": initialize, "session/new": new, "session/prompt": prompt})
