"""What the servers of http_tempers.py answer: the eras of MCP over HTTP, their streams, and a box of tools."""

import asyncio
import base64
import hashlib
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.servers.http_wire import Message, Request, Wire, say

MODERN = "2026-07-28"
JSON, STREAM = "application/json", "text/event-stream"
PREFIX = "io.modelcontextprotocol/"
SERVER = {"name": "http-tempers", "version": "1.0.0"}
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}, "prompts": {}}


class RefusedError(Exception):
    def __init__(self, code: int, text: str, data: object = None) -> None:
        super().__init__(text)
        self.code, self.text, self.data = code, text, data


class Stream:
    """Events of one response, or of one session's GET; they are kept, to be sent again from any of them on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: list[Message] = []
        self.is_done = False
        self.hung_up = 0  # how often its followers were told to leave
        self._news = asyncio.Event()

    def send(self, message: Message) -> None:
        self.log.append(message)
        self._wake()

    def finish(self) -> None:
        self.is_done = True
        self._wake()

    def hang_up(self) -> None:
        """Its followers stop; it goes on."""
        self.hung_up += 1
        self._wake()

    def news(self) -> Awaitable[bool]:
        """What is sent from this call on; not only from when it is awaited."""
        return self._news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class State:
    """One server: its sessions, streams and what its tools know."""

    def __init__(self, settings: Message) -> None:
        self.settings = settings
        self.sessions: dict[str, Stream] = {}  # by id, each with its stream for GET
        self.streams: dict[str, Stream] = {}
        self.state: Message = {"calls": 0, "initialized": 0, "sessions": 0, "connections": 0, "level": None}
        self.waiting: list[asyncio.Event] = []
        self.asked: dict[str, asyncio.Future[Message]] = {}
        self.listeners: list[tuple[object, Stream]] = []  # of `subscriptions/listen`
        self.tasks: set[asyncio.Task[None]] = set()

    def stream(self) -> Stream:
        stream = Stream(f"s{len(self.streams) + 1}")
        self.streams[stream.name] = stream
        return stream

    def open_session(self) -> str:
        self.state["sessions"] += 1
        id = f"session-{os.getpid()}-{self.state['sessions']}"
        self.sessions[id] = self.stream()
        return id

    def background(self, work: Awaitable[None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def ask(self, stream: Stream, method: str, params: Message, id: str) -> Message:
        """Send the client a request and wait for its response."""
        asked: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.asked[id] = asked
        stream.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return await asked


@dataclass
class Exchange:
    """One HTTP request and its answer."""

    server: State
    wire: Wire
    request: Request
    session: str | None = None
    extra: list[tuple[str, str]] = field(default_factory=list)  # headers of the answer

    @property
    def settings(self) -> Message:
        return self.server.settings

    @property
    def id(self) -> object:
        return self.request.message.get("id")

    async def follow(self, stream: Stream, begin: int = 0, *, is_priming: bool = False) -> None:
        """Write the stream's events from this one on, until it ends or is told to hang up."""
        await self.wire.head(200, STREAM, *self.extra, ("Transfer-Encoding", "chunked"))
        if self.settings["bom"]:
            await self.wire.chunk("\ufeff".encode())
        if is_priming and self.settings["ids"]:
            await self.wire.chunk(self._priming(stream).encode())
        mark, number = stream.hung_up, begin
        while stream.hung_up == mark:
            if self.wire.events is not None and number >= self.wire.events:
                break
            if number < len(stream.log):
                number += 1
                await self.wire.chunk(self.event(stream.log[number - 1], stream, number).encode())
            elif stream.is_done:
                break
            else:
                await self._news(stream)
        await self.wire.end_chunks()

    async def _news(self, stream: Stream) -> None:
        """Wait for more; a client that has gone away ends the wait."""
        news = asyncio.ensure_future(stream.news())
        gone = asyncio.ensure_future(_closed(self.wire))
        try:
            await asyncio.wait({news, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ConnectionResetError("the client left its stream")
        finally:
            for task in (news, gone):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def _priming(self, stream: Stream) -> str:
        retry = self.settings["retry"]
        end = self.settings["line_end"]
        pause = "" if retry is None else f"retry: {retry}{end}"
        return f"id: {stream.name}:0{end}{pause}data:{end}{end}"

    def event(self, message: Message, stream: Stream, number: int) -> str:
        end = self.settings["line_end"]
        text = json.dumps(message, ensure_ascii=False, indent=1 if self.settings["multi_line"] else None)
        lines = [f"data: {line}" for line in text.split("\n")]
        if self.settings["ids"]:
            lines.insert(0, f"id: {stream.name}:{number}")
        if self.settings["comments"]:
            lines[:0] = [": a comment", "event: message", "unknown: field"]
        return str(end).join([*lines, "", ""])


async def _closed(wire: Wire) -> None:
    """Until the client hangs up."""
    early = await wire.reader.read(1)
    assert not early, "a request before the answer to the last one"


# -- which era


async def answer(exchange: Exchange) -> None:
    era = exchange.settings["era"]
    is_modern = isinstance(exchange.request.message, dict) and PREFIX + "protocolVersion" in exchange.request.meta
    if era == "sse":
        await older(exchange)
    elif exchange.request.verb in ("GET", "DELETE") and era != "modern":
        await (get(exchange) if exchange.request.verb == "GET" else delete(exchange))
    elif exchange.request.verb != "POST":
        await exchange.wire.reply(405, "", b"", ("Allow", "POST"))
    elif is_modern and era != "legacy":
        await modern(exchange)
    elif era == "modern":
        data = {"supported": [MODERN]}
        await exchange.wire.refuse(400, -32022, "unsupported protocol version", exchange.id, data)
    else:
        await legacy(exchange)


# -- 2025-03-26 to 2025-11-25


async def legacy(exchange: Exchange) -> None:
    server, request, wire = exchange.server, exchange.request, exchange.wire
    if request.method == "initialize":
        if exchange.settings["sessions"]:
            exchange.session = server.open_session()
            exchange.extra.append(("Mcp-Session-Id", exchange.session))
    elif not await _is_known(exchange):
        return
    if request.method == "response" or "id" not in request.message:
        noted(server, request.message)
        await wire.reply(202)
        return
    stream = server.stream()
    server.background(perform(exchange, stream, legacy_results()))
    if exchange.settings["answers"] == "sse":
        await exchange.follow(stream, is_priming=True)
        return
    await in_json(exchange, stream)


async def _is_known(exchange: Exchange) -> bool:
    if not exchange.settings["sessions"]:
        return True
    id = exchange.request.header("Mcp-Session-Id")
    if id is None:
        text = "Bad Request: Missing session ID"
        await exchange.wire.refuse(400, -32600, text, None)
    elif id not in exchange.server.sessions:
        await exchange.wire.refuse(404, -32600, "Session not found", None)
    else:
        exchange.session = id
        return True
    return False


async def in_json(exchange: Exchange, stream: Stream) -> None:
    """The answer alone; what else was said goes to the GET stream."""
    while not stream.is_done:
        await stream.news()
    *others, last = stream.log
    for message in others:
        if exchange.session:
            exchange.server.sessions[exchange.session].send(message)
    await exchange.wire.reply(200, JSON, json.dumps(last, ensure_ascii=False).encode(), *exchange.extra)


async def get(exchange: Exchange) -> None:
    server, request = exchange.server, exchange.request
    if exchange.settings["get"] != "stream":
        await exchange.wire.reply(exchange.settings["get"])
        return
    if not await _is_known(exchange):
        return
    last = request.header("Last-Event-ID")
    if last is None:
        stream, number = server.sessions.get(exchange.session or "") or Stream("none"), 0
        number = len(stream.log) if stream.log and exchange.settings["ids"] else 0
        await exchange.follow(stream, number, is_priming=True)
        return
    name, _, number_text = last.partition(":")
    if name not in server.streams:
        await exchange.wire.refuse(400, -32600, f"no event {last}")
        return
    await exchange.follow(server.streams[name], int(number_text))


async def delete(exchange: Exchange) -> None:
    status = exchange.settings["delete"]
    if await _is_known(exchange):
        if exchange.session and status < 300:
            exchange.server.sessions.pop(exchange.session).finish()
        await exchange.wire.reply(status)


# -- 2024-11-05


async def older(exchange: Exchange) -> None:
    """One stream for all answers, opened by GET; POSTs go where its first event says."""
    server, request, wire = exchange.server, exchange.request, exchange.wire
    if request.verb == "GET":
        await _endpoint(exchange)
        return
    id = request.path.rpartition("=")[2]
    if request.verb != "POST" or request.path == "/sse":
        await wire.reply(405)
    elif id not in server.sessions:
        await wire.reply(404, "text/plain", b"Could not find session")
    else:
        await wire.reply(202, "text/plain", b"Accepted")
        if request.method == "response" or "id" not in request.message:
            noted(server, request.message)
        else:
            work = perform(exchange, server.sessions[id], legacy_results(), is_last=False)
            server.background(work)


async def _endpoint(exchange: Exchange) -> None:
    server = exchange.server
    id = server.open_session()
    stream = server.sessions[id]
    end = exchange.settings["line_end"]
    uri = exchange.settings["endpoint"] + id
    exchange.server.settings["ids"] = False
    begin = f"event: endpoint{end}data: {uri}{end}{end}"
    await exchange.wire.head(200, STREAM, ("Transfer-Encoding", "chunked"))
    await exchange.wire.chunk(begin.encode())
    number = 0
    try:
        while not stream.is_done:
            if number < len(stream.log):
                number += 1
                await exchange.wire.chunk(exchange.event(stream.log[number - 1], stream, number).encode())
            else:
                await exchange._news(stream)
        await exchange.wire.end_chunks()
    finally:
        server.sessions.pop(id, None)


# -- 2026-07-28


async def modern(exchange: Exchange) -> None:
    request, wire = exchange.request, exchange.wire
    fault = wrong_header(request)
    if fault is not None:
        await wire.refuse(400, -32020, fault, exchange.id)
    elif request.meta[PREFIX + "protocolVersion"] not in [MODERN]:
        data = {"supported": [MODERN], "requested": request.meta[PREFIX + "protocolVersion"]}
        await wire.refuse(400, -32022, "unsupported protocol version", exchange.id, data)
    elif PREFIX + "clientCapabilities" not in request.meta:
        await wire.refuse(400, -32602, "no client capabilities in _meta", exchange.id)
    elif request.method not in modern_results():
        await wire.refuse(404, -32601, f"no method {request.method}", exchange.id)
    else:
        await _modern_answer(exchange)


async def _modern_answer(exchange: Exchange) -> None:
    """Closing the stream cancels the work."""
    stream = exchange.server.stream()
    exchange.settings["ids"] = exchange.settings["ids"] and exchange.settings["era"] == "dual"
    task = exchange.server.background(perform(exchange, stream, modern_results()))
    is_listening = exchange.request.method == "subscriptions/listen"
    try:
        if exchange.settings["answers"] == "json" and not is_listening:
            await in_json(exchange, stream)
        else:
            await exchange.follow(stream)
    finally:
        if not task.done():
            task.cancel()
            say(event="cancelled", method=exchange.request.method)


def wrong_header(request: Request) -> str | None:
    """What of the headers does not equal the body."""
    if request.header("MCP-Protocol-Version") != request.meta[PREFIX + "protocolVersion"]:
        return "MCP-Protocol-Version differs from _meta"
    if request.header("Mcp-Method") != request.method:
        return "Mcp-Method differs from the method"
    named = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(request.method)
    if named and decoded(request.header("Mcp-Name")) != request.params.get(named):
        return "Mcp-Name differs from the body"
    return None


def decoded(text: str | None) -> str | None:
    if text is not None and text.startswith("=?base64?") and text.endswith("?="):
        return base64.b64decode(text[9:-2]).decode()
    return text


# -- what is done for a request

Result = Callable[[Exchange, Stream], Awaitable[Message]]
Tool = Callable[[Exchange, Stream, Message], Awaitable[object]]


async def perform(exchange: Exchange, stream: Stream, results: dict[str, Result], *, is_last: bool = True) -> None:
    """Do it and put the answer on the stream."""
    id, method = exchange.id, exchange.request.method
    try:
        if method not in results:
            raise RefusedError(-32601, f"no method {method}")
        stream.send({"jsonrpc": "2.0", "id": id, "result": await results[method](exchange, stream)})
    except RefusedError as refused:
        error: Message = {"code": refused.code, "message": refused.text}
        stream.send(
            {
                "jsonrpc": "2.0",
                "id": id,
                "error": error | ({} if refused.data is None else {"data": refused.data}),
            }
        )
    if is_last:
        stream.finish()


def noted(server: State, message: Message) -> None:
    if "method" not in message:
        waiter = server.asked.get(str(message.get("id")))
        if waiter is not None and not waiter.done():
            waiter.set_result(message)
    elif message["method"] == "notifications/initialized":
        server.state["initialized"] += 1


def legacy_results() -> dict[str, Result]:
    return {
        "initialize": initialize,
        "ping": empty,
        "logging/setLevel": level,
        "resources/list": resources,
        "resources/subscribe": empty,
        "resources/unsubscribe": empty,
        "prompts/list": prompts,
        "tools/list": tools,
        "tools/call": call,
    }


def modern_results() -> dict[str, Result]:
    listed: dict[str, Result] = {"tools/list": tools, "resources/list": resources, "prompts/list": prompts}
    cached = {method: modernised(result, ttlMs=0, cacheScope="private") for method, result in listed.items()}
    return {
        "server/discover": modernised(discover, ttlMs=0, cacheScope="private"),
        "subscriptions/listen": listen,
        "tools/call": modernised(call),
        **cached,
    }


def modernised(result: Result, **more: object) -> Result:
    async def act(exchange: Exchange, stream: Stream) -> Message:
        return (
            {"resultType": "complete", "_meta": {PREFIX + "serverInfo": SERVER}}
            | more
            | (await result(exchange, stream))
        )

    return act


async def initialize(exchange: Exchange, stream: Stream) -> Message:
    version = exchange.request.params["protocolVersion"]
    return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER}


async def discover(exchange: Exchange, stream: Stream) -> Message:
    versions = [MODERN]
    return {"supportedVersions": versions, "capabilities": CAPABILITIES, "instructions": "Be kind."}


async def empty(exchange: Exchange, stream: Stream) -> Message:
    return {}


async def level(exchange: Exchange, stream: Stream) -> Message:
    exchange.server.state["level"] = exchange.request.params["level"]
    return {}


async def resources(exchange: Exchange, stream: Stream) -> Message:
    return {"resources": [{"uri": "test://one", "name": "one"}]}


async def prompts(exchange: Exchange, stream: Stream) -> Message:
    return {"prompts": []}


async def listen(exchange: Exchange, stream: Stream) -> Message:
    """Until the client leaves."""
    server, id = exchange.server, exchange.id
    meta = {PREFIX + "subscriptionId": id}
    wanted = exchange.request.params.get("notifications", {})
    stream.send(
        {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": wanted, "_meta": meta},
        }
    )
    server.listeners.append((id, stream))
    try:
        await asyncio.Event().wait()
    finally:
        server.listeners.remove((id, stream))
    raise AssertionError


async def tools(exchange: Exchange, stream: Stream) -> Message:
    listed: list[Message] = [
        {"name": name, "description": f"the tool {name}", "inputSchema": {"type": "object"}} for name in TOOLS
    ]
    return {"tools": listed}


async def call(exchange: Exchange, stream: Stream) -> Message:
    params = exchange.request.params
    exchange.server.state["calls"] += 1
    if params["name"] not in TOOLS:
        raise RefusedError(-32602, f"no tool {params['name']}")
    value = await TOOLS[params["name"]](exchange, stream, params.get("arguments") or {})
    if isinstance(value, dict) and value.get("resultType") == "input_required":
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return {"content": [{"type": "text", "text": text}]}


# -- tools


async def echo(exchange: Exchange, stream: Stream, arguments: Message) -> object:
    return arguments["text"]


async def add(exchange: Exchange, stream: Stream, arguments: Message) -> object:
    return arguments["a"] + arguments["b"]


async def big(exchange: Exchange, stream: Stream, arguments: Message) -> object:
    """So many characters, not all of one byte."""
    return "mä" * (arguments["size"] // 2)


async def headers(exchange: Exchange, stream: Stream, arguments: Message) -> object:
    """The names of this request's headers as they came, each with a digest of its value: values may be secret."""
    return {name: hashlib.sha256(value.encode()).hexdigest() for name, value in exchange.request.headers}


async def wait(exchange: Exchange, stream: Stream, arguments: Message) -> object:
    """Until the test says `release`; it is told "waiting"."""
    event = asyncio.Event()
    exchange.server.waiting.append(event)
    say(event="waiting", id=exchange.id)
    await event.wait()
    return "released"


async def ask(exchange: Exchange, stream: Stream, arguments: Message) -> object:
    """Ask the client something, in the way of the era, and give its response."""
    method, params = arguments["method"], arguments.get("params", {})
    if PREFIX + "protocolVersion" not in exchange.request.meta:
        return await exchange.server.ask(stream, method, params, str(arguments.get("id", f"ask-{exchange.id}")))
    answers = exchange.request.params.get("inputResponses")
    if answers:
        return answers["asked"] | {"requestState": exchange.request.params.get("requestState")}
    wanted = {"asked": {"method": method, "params": params}}
    return {"resultType": "input_required", "inputRequests": wanted, "requestState": "a state: ä%"}


TOOLS: dict[str, Tool] = {
    "echo": echo,
    "add": add,
    "big": big,
    "headers": headers,
    "wait": wait,
    "ask": ask,
}
