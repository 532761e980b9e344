"""
An MCP server that spoils the handshake, each time in the way that argv[1] names.

`quits` ends with a word on stderr, `usage` with one on stdout; `prompt` prints a question and waits; `closes` closes
its stdout and lives on; `mute` reads and says nothing; `blind` never reads; `refuses` answers with an error, `modern`
as a server that has no handshake any more; `version` and `null` answer wrongly; `noisy` prints junk and a megabyte of
stderr and works; `batch` answers in a batch of 2025-03-26; `long` sends a line of 2 MiB; `floods` pings with ids of a
megabyte and never reads the answers; `late` answers a call only when it is cancelled.
"""

import json
import os
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

MODE = sys.argv[1]
GOOD = {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": {"name": MODE}}


def initialize(request: script.Message) -> None:
    spoilt = SPOILT.get(MODE)
    if spoilt:
        spoilt(request)
    else:
        script.answer(request, GOOD)


def quits(request: script.Message) -> None:
    script.complain("probe_rude: no database")
    raise SystemExit(3)


def modern(request: script.Message) -> None:
    data = {"supported": ["2026-07-28"], "requested": request["params"]["protocolVersion"]}
    error = {"code": -32022, "message": "unsupported protocol version", "data": data}
    script.send({"id": request["id"], "error": error})


def batch(request: script.Message) -> None:
    ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
    script.write(json.dumps([{"jsonrpc": "2.0", "id": request["id"], "result": GOOD}, ping]).encode() + b"\n")
    assert script.response("p")["result"] == {}


def floods(request: script.Message) -> None:
    script.answer(request, GOOD)
    for number in range(40):
        script.send({"id": f"{number} {'i' * (1 << 20)}", "method": "ping"})
    script.hang()


SPOILT: dict[str, script.Answer] = {
    "quits": quits,
    "refuses": lambda request: script.refuse(request, -32602, "who are you?"),
    "modern": modern,
    "version": lambda request: script.answer(request, {**GOOD, "protocolVersion": "1999-12-31"}),
    "null": lambda request: script.answer(request, None),
    "batch": batch,
    "floods": floods,
}


def tools(request: script.Message) -> None:
    script.answer(request, {"tools": [{"name": "one", "inputSchema": {}}]})


if MODE == "usage":
    script.write(b"usage: rude [serve]\n")
    raise SystemExit(2)
if MODE == "prompt":
    script.write(b"password: \n")
if MODE == "closes":
    os.close(1)
    script.expect("initialize")
    script.hang()
if MODE == "blind":
    script.hang()
if MODE in ("mute", "prompt"):
    while script.read() is not None:
        pass
    raise SystemExit(0)
if MODE == "noisy":
    script.write(b'Welcome!\n{"jsonrpc": 1}\n[1, 2]\n\xff\xfe\n\n')
    for number in range(10_000):
        script.complain(f"{number:05} {'e' * 100}")
if MODE == "long":
    script.write(b"x" * (2 << 20))
pending: list[script.Message] = []


def call(request: script.Message) -> None:
    """`late`: the answer to a call comes after the client has given it up, and then that to the next one."""
    if MODE != "late" or pending:
        script.answer(request, {"content": [{"type": "text", "text": "in time"}]})
    else:
        pending.append(request)


def cancelled(message: script.Message) -> None:
    assert message["params"]["requestId"] == pending[0]["id"]
    script.answer(pending[0], {"content": [{"type": "text", "text": "late"}]})


script.serve({"initialize": initialize, "tools/list": tools, "tools/call": call, "notifications/cancelled": cancelled})
