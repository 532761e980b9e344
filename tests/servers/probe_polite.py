"""
An MCP server that shows what its client gave it, and says everything a server may say.

argv: the protocol version it answers (default 2025-11-25), and a file where it writes down the id of a cancelled call.
It asks for the roots as soon as it is initialized, with a string id as GoMCP does.
"""

import base64
import json
import os
import sys
from collections.abc import Callable

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

VERSION = sys.argv[1] if len(sys.argv) > 1 else "2025-11-25"
CANCELLED = sys.argv[2] if len(sys.argv) > 2 else ""
client: script.Message = {}
roots: list[script.Message] = []


def text(said: object, *, failed: bool = False) -> script.Message:
    shown = said if isinstance(said, str) else json.dumps(said)
    return {"content": [{"type": "text", "text": shown}], "isError": failed}


def kinds(arguments: script.Message, request: script.Message) -> script.Message:
    data = base64.b64encode(b"12345").decode()
    return {
        "content": [
            {"type": "image", "mimeType": "image/png", "data": data},
            {"type": "audio", "mimeType": "audio/wav", "data": data},
            {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "héllo"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": data}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
            {"type": "hologram"},
        ],
        "structuredContent": {"answer": 42},
    }


def progress(arguments: script.Message, request: script.Message) -> script.Message:
    token = request["params"]["_meta"]["progressToken"]
    for done in (1, 2):
        told = {"progressToken": token, "progress": done, "total": 2, "message": f"step {done}"}
        script.send({"method": "notifications/progress", "params": told})
    script.send({"method": "notifications/message", "params": {"level": "info", "logger": "db", "data": {"rows": 3}}})
    script.complain("probe_polite: working")
    return text("done")


def ask(arguments: script.Message, request: script.Message) -> script.Message:
    asked = ("sampling/createMessage", "elicitation/create", "ping")
    return text([script.ask(method, {}, identity=f"q{method}") for method in asked])


def junk(arguments: script.Message, request: script.Message) -> script.Message:
    script.write(b"now working\n\n")
    return text("done")


def die(arguments: script.Message, request: script.Message) -> script.Message:
    script.complain("probe_polite: last words")
    raise SystemExit(7)


TOOLS: dict[str, Callable[[script.Message, script.Message], object]] = {
    "env": lambda arguments, request: text(dict(os.environ)),
    "roots": lambda arguments, request: text(roots),
    "client": lambda arguments, request: text(client),
    "cwd": lambda arguments, request: text(os.getcwd()),  # noqa: PTH109
    "echo": lambda arguments, request: text(arguments),
    "fail": lambda arguments, request: text("it cannot be done", failed=True),
    "big": lambda arguments, request: text("x" * arguments["size"]),
    "structured": lambda arguments, request: {"content": [], "structuredContent": {"answer": 42}},
    "escape": lambda arguments, request: text("\x1b[31mred\ud83d"),
    "wait": lambda arguments, request: None,
    "list": lambda arguments, request: [],
    "kinds": kinds,
    "progress": progress,
    "ask": ask,
    "junk": junk,
    "die": die,
}
ECHO = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "note": {"type": "string"}, "tags": {"$ref": "#/$defs/tags"}},
    "$defs": {"tags": {"anyOf": [{"type": "array"}, {"type": "null"}]}},
}


def initialize(request: script.Message) -> None:
    client.update(request["params"])
    offered: script.Message = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
    about = {"name": "polite", "title": "The Polite One", "version": "1.2"}
    said = {"capabilities": offered, "serverInfo": about, "instructions": "Be polite.\nAlways."}
    script.answer(request, {"protocolVersion": VERSION, **said})


def initialized(message: script.Message) -> None:
    roots.extend(script.ask("roots/list", {}, identity="roots-request-1")["result"]["roots"])


def listed(request: script.Message) -> None:
    described = {"description": "Says something.\nAnd more."}
    tools = [
        {"name": name, "inputSchema": ECHO if name == "echo" else {"type": "object"}, **described} for name in TOOLS
    ]
    script.answer(request, {"tools": tools})


def call(request: script.Message) -> None:
    params = request["params"]
    if params["name"] not in TOOLS:
        script.refuse(request, -32602, f"no tool {params['name']}")
        return
    result = TOOLS[params["name"]](params.get("arguments", {}), request)
    if result is not None:
        script.answer(request, result)


def cancelled(message: script.Message) -> None:
    with open(CANCELLED, "w") as file:  # noqa: PTH123
        json.dump(message["params"], file)


script.serve(
    {
        "initialize": initialize,
        "notifications/initialized": initialized,
        "notifications/cancelled": cancelled,
        "ping": lambda request: script.answer(request, {}),
        "tools/list": listed,
        "tools/call": call,
        "resources/list": lambda request: script.answer(request, {"resources": [{"uri": "file:///a", "name": "a"}]}),
        "prompts/list": lambda request: script.refuse(request, -32603, "the prompts are lost"),
    }
)
