"""Takes batches and answers them as one (MCP 2025-03-26); its tool `batch` makes it send one of two log messages."""

import json
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox


def element(message: script.Message) -> list[script.Message]:
    if "id" not in message:
        return []
    result = {"tools": toolbox.listed(toolbox.TOOLS)} if message["method"] == "tools/list" else {}
    return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]


def batch(arguments: script.Message) -> str:
    logged = {"jsonrpc": "2.0", "method": "notifications/message"}
    script.send([{**logged, "params": {"level": "info", "data": number}} for number in (1, 2)])
    return "sent"


script.hello(script.name("batcher"))
answers = toolbox.answers(batch=batch)
while (found := script.read()) is not None:
    message, line = found
    if isinstance(message, list):
        script.write(json.dumps([part for one in message for part in element(one)]).encode() + b"\n")
    else:
        script.take(script.with_line(message, line), answers)
