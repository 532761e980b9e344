"""
The server of tests.soak.test_shared, run with -I -S: one thread, which answers in order.

Tools: `echo` {text} tells it as progress first, if that is wanted; `hold` {} is not answered; `log` {level, text};
`touch` {uri} updates that resource, if it is subscribed to; `state` {} is the level and what is subscribed to.
"""

import json
import sys
from typing import Any

CAPABILITIES = {"tools": {}, "logging": {}, "resources": {"subscribe": True}}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES, "serverInfo": {"name": "busy", "version": "1"}}
Json = dict[str, Any]
level = ""
subscribed: set[str] = set()


def write(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def call(params: Json) -> str | None:
    tool, given = params["name"], params["arguments"]
    if tool == "hold":
        return None
    if tool == "echo" and (token := params.get("_meta", {}).get("progressToken")) is not None:
        progress = {"progressToken": token, "progress": 1, "message": given["text"]}
        write(method="notifications/progress", params=progress)
    elif tool == "log":
        write(method="notifications/message", params={"level": given["level"], "data": given["text"]})
    elif tool == "touch" and given["uri"] in subscribed:
        write(method="notifications/resources/updated", params={"uri": given["uri"]})
    elif tool == "state":
        return json.dumps([level, sorted(subscribed)])
    return str(given.get("text", ""))


def answer(message: Json) -> Json | None:
    global level
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        return HELLO
    if method == "tools/call":
        said = call(params)
        return None if said is None else {"content": [{"type": "text", "text": said}]}
    if method == "logging/setLevel":
        level = params["level"]
    elif method == "resources/subscribe":
        subscribed.add(params["uri"])
    elif method == "resources/unsubscribe":
        subscribed.discard(params["uri"])
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and (result := answer(message)) is not None:
        write(id=message["id"], result=result)
