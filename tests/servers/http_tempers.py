"""
An MCP server over HTTP whose temper its argument says. Standard library only, on 127.0.0.1.

    python -I -S tests/servers/http_tempers.py '{"era": "legacy", "faults": [{"on": "tools/call", "do": "drop"}]}'

The keys, with their defaults, are `DEFAULTS`; what a fault can do is in `FAULTS`. The first line on stdout is
`{"url", "port"}`; the others tell what happens (`{"event": …}`) or answer a line of stdin (`{"done": …}`), which are
`COMMANDS`. It ends with its stdin. tests/remote/tempered.py starts it.

A fault holds for the method `on`: a JSON-RPC method, `response`, `GET`, `DELETE`, or `*`. It passes over the first
`skip` of these and ends after `times` of them.
"""

import asyncio
import gzip
import json
import os
import sys
from collections.abc import Awaitable, Callable

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers.http_tools import STREAM, Exchange, State, answer
from tests.servers.http_wire import CutError, Message, Request, Wire, read_request, say

DEFAULTS: Message = {
    "era": "legacy",  # or modern, dual, sse (2024-11-05)
    "answers": "sse",  # or json: how a POST is answered
    "sessions": True,  # whether `initialize` gives a session id
    "get": "stream",  # or a status: what a GET is answered with
    "delete": 200,
    "ids": True,  # whether events have ids, and a broken stream can be resumed
    "retry": None,  # milliseconds, in the priming event
    "line_end": "\n",  # of events
    "bom": False,  # before the first event
    "comments": False,  # before each event
    "multi_line": False,  # each line of a message that is written on several
    "piece": None,  # bytes written at a time
    "endpoint": "/messages?session=",  # of the older transport; the session's id is appended
    "bearer": None,  # the only token it lets in; anything else is 401
    "challenge": "Bearer",  # of that 401
    "port": 0,
    "faults": [],
}


class Server(State):
    def __init__(self, settings: Message) -> None:
        super().__init__(DEFAULTS | settings)
        self.faults: list[Message] = [dict(fault) for fault in self.settings["faults"]]
        self.requests: list[Message] = []
        self.wires: set[Wire] = set()

    # -- connections

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        self.state["connections"] += 1
        self.wires.add(wire)
        try:
            while (request := await read_request(reader)) is not None:
                wire.reset()
                wire.piece = self.settings["piece"]
                self.record(request)
                await self.serve(wire, request)
        except CutError:
            say(event="cut")
            wire.cut()
        except ConnectionError:
            say(event="gone")  # the client is
        finally:
            self.wires.discard(wire)
            writer.close()

    def record(self, request: Request) -> None:
        entry = {"verb": request.verb, "path": request.path, "headers": request.headers, "message": request.message}
        self.requests.append(entry)

    async def serve(self, wire: Wire, request: Request) -> None:
        fault = self.fault(request)
        if fault is not None:
            say(event=fault["do"], method=request.method)
            if await FAULTS[fault["do"]](self, wire, request, fault):
                return
        if self.settings["bearer"] and request.header("Authorization") != f"Bearer {self.settings['bearer']}":
            await wire.reply(401, "text/plain", b"who are you?", ("WWW-Authenticate", self.settings["challenge"]))
            return
        await answer(Exchange(self, wire, request))

    def fault(self, request: Request) -> Message | None:
        for fault in self.faults:
            if fault.get("on", "*") not in ("*", request.method):
                continue
            fault["seen"] = fault.get("seen", 0) + 1
            number = fault["seen"] - fault.get("skip", 0)
            if number > 0 and number <= fault.get("times", number):
                return fault
        return None


# -- what the test may have done


def release(server: Server, said: Message) -> object:
    """The calls of `wait` go on."""
    for event in server.waiting:
        event.set()
    count, server.waiting = len(server.waiting), []
    return count


def forget(server: Server, said: Message) -> object:
    """No session is known any more; their streams end."""
    for stream in server.sessions.values():
        stream.finish()
    server.sessions.clear()
    return True


def change(server: Server, said: Message) -> object:
    """Other settings and faults from now on."""
    server.settings |= said.get("settings", {})
    server.faults = [dict(fault) for fault in said.get("faults", [])]
    return True


def push(server: Server, said: Message) -> object:
    """A message on the GET stream of each session, and to each listener of the modern era."""
    for stream in server.sessions.values():
        stream.send(said["message"])
    for id, stream in server.listeners:
        params = said["message"].get("params", {})
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        stream.send(said["message"] | {"params": params | {"_meta": meta}})
    return True


def cut(server: Server, said: Message) -> object:
    """Every connection ends."""
    for wire in list(server.wires):
        wire.is_reset = said.get("reset", False)
        wire.cut()
    return True


def end_streams(server: Server, said: Message) -> object:
    """Every GET stream ends cleanly; the sessions live."""
    for stream in server.sessions.values():
        stream.hang_up()
    return True


COMMANDS: dict[str, Callable[[Server, Message], object]] = {
    "release": release,
    "forget": forget,
    "change": change,
    "push": push,
    "cut": cut,
    "end streams": end_streams,
    "requests": lambda server, said: server.requests,
    "state": lambda server, said: server.state | {"open": len(server.wires), "known": len(server.sessions)},
}

# -- faults: True once the request is done with, False to go on with what was changed


async def slow(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    """Small pieces with a pause of so many seconds."""
    wire.piece, wire.pause = fault.get("piece", 1), fault.get("pause", 0.001)
    return False


async def drop(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    """End the connection after so many bytes of the answer; `reset` to end it harder."""
    wire.cut_after, wire.is_reset = fault.get("after", 0), fault.get("reset", False)
    if wire.cut_after == 0:
        raise CutError
    return False


async def status(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    headers = [(str(name), str(value)) for name, value in fault.get("headers", {}).items()]
    body = str(fault.get("body", "")).encode()
    await wire.reply(fault["status"], fault.get("type", "text/plain" if body else ""), body, *headers)
    return True


async def rpc_error(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    """An HTTP error with a JSON-RPC error in it."""
    id = request.message.get("id") if isinstance(request.message, dict) and not fault.get("no_id") else None
    await wire.refuse(fault.get("status", 400), fault.get("code", -32600), fault.get("text", "no"), id)
    return True


async def html(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    """The page of a hotel's network, or of a wrong address."""
    page = b"<!doctype html><title>Welcome</title><p>Please accept our terms."
    await wire.reply(fault.get("status", 200), "text/html; charset=utf-8", page)
    return True


async def zipped(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    """A JSON answer in gzip; `broken` in something that only says so."""
    body = json.dumps({"jsonrpc": "2.0", "id": request.message.get("id"), "result": fault.get("result", {})}).encode()
    data = b"this is not gzip" if fault.get("broken") else gzip.compress(body)
    await wire.reply(200, "application/json", data, ("Content-Encoding", "gzip"))
    return True


async def redirect(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    """To `to`; on the same origin the request is served at any path."""
    await wire.reply(fault.get("status", 307), "", b"", ("Location", fault["to"]))
    return True


async def garbage(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    """Not HTTP."""
    await wire.write(str(fault.get("text", "220 mail.example.com ESMTP\r\n")).encode())
    raise CutError


async def bad_json(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    await wire.reply(200, "application/json", str(fault.get("text", '{"jsonrpc": "2.0", ')).encode())
    return True


async def endless_stream(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    """Comments for ever; with `data` one event that never ends."""
    await wire.head(200, STREAM, ("Transfer-Encoding", "chunked"))
    text = b"data: " + b"x" * 60_000 + b"\n" if fault.get("data") else b": still here\n\n"
    while True:
        await wire.chunk(text)
        await asyncio.sleep(0 if fault.get("data") else 0.01)


async def endless_body(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    await wire.head(200, "application/json", ("Transfer-Encoding", "chunked"))
    await wire.chunk(b'{"jsonrpc": "2.0", "result": "')
    while True:
        await wire.chunk(b"x" * 60_000)


async def hang_up(server: Server, wire: Wire, request: Request, fault: Message) -> bool:
    """Answer with a stream that ends cleanly after `events` events; the rest comes to the GET that resumes it."""
    wire.events = fault.get("events", 0)
    return False


FAULTS: dict[str, Callable[[Server, Wire, Request, Message], Awaitable[bool]]] = {
    "slow": slow,
    "drop": drop,
    "status": status,
    "rpc error": rpc_error,
    "html": html,
    "zipped": zipped,
    "redirect": redirect,
    "garbage": garbage,
    "bad json": bad_json,
    "endless stream": endless_stream,
    "endless body": endless_body,
    "hang up": hang_up,
}


async def commands(server: Server, reader: asyncio.StreamReader) -> None:
    while line := await reader.readline():
        said = json.loads(line)
        say(done=COMMANDS[said["do"]](server, said))


async def main() -> None:
    server = Server(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    site = await asyncio.start_server(server.connected, "127.0.0.1", server.settings["port"], limit=1 << 24)
    port = site.sockets[0].getsockname()[1]
    say(url=f"http://127.0.0.1:{port}{'/sse' if server.settings['era'] == 'sse' else '/mcp'}", port=port)
    stdin = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    await commands(server, stdin)
    os._exit(0)  # whatever its clients still hold open


if __name__ == "__main__":
    asyncio.run(main())
