"""
The client of an MCP server: its messages, its connection, and the requests that verbs make.

`Client` is sans-IO: lines in, events out. It answers `ping` and `roots/list`, the only capability it declares; other
requests of a server (sampling, elicitation) get -32601. Batches of 2025-03-26 are read, but never sent. `Connection`
ties a client to a server's process. `shake_hands` does the handshake, `list_items` reads a list, `call_tool` calls a
tool, and `survey` collects all that can be learned without using the server.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import PurePath
from typing import Any, Protocol, Self

from msgspec import Raw, Struct

from acp_launch.errors import LaunchError, ProtocolError, RemoteProtocolError, ServerError, ServerRefused, WaitExpired
from acp_launch.mcp import message
from acp_launch.mcp.message import (
    LISTS,
    PAGES,
    LogMessage,
    Progress,
    ServerInfo,
    Tool,
    read_server,
    read_tools,
    roots_result,
)
from acp_launch.problem import count
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping, sequence, text
from acp_launch.protocol.conversation import Reply
from acp_launch.protocol.jsonrpc import Answered, Call, Called, Junk, Notified, Peer
from acp_launch.rpc import Pump, Transport, details
from acp_launch.waits import awaited, stretch

NOISE = Junk("a line that is not a JSON-RPC message")


Event = Answered | Junk | Reply | Progress | LogMessage


class McpClient:
    """The client's side of the protocol. Sans-IO."""

    def __init__(self, directories: Sequence[PurePath], *, declares_roots: bool = False) -> None:
        """`directories` are the roots. A server that asks gets them whether declared or not, as in a launch.

        Some servers offer more to a client that declares roots, which most agents do not.
        """
        self.roots_asked = 0
        self._capabilities = message.ROOTS_CAPABILITY if declares_roots else {}
        self._roots = roots_result(directories)
        self._peer = Peer()
        self.call, self.recover = self._peer.call, self._peer.recover

    def initialize(self) -> Call:
        return self.call("initialize", {**message.HELLO, "capabilities": self._capabilities})

    def cancel(self, number: int, reason: str) -> bytes:
        """Build the cancellation of request `number`, whose answer may still come."""
        return jsonrpc.as_line(jsonrpc.notification("notifications/cancelled", {"requestId": number, "reason": reason}))

    def receive(self, line: bytes) -> Iterator[Event]:
        """Read one of the messages of a line (`messages`)."""
        if line[:1] not in jsonrpc.STARTS:
            yield NOISE
            return
        incoming = self._peer.receive(line)
        if isinstance(incoming, Called):
            yield Reply(self._reply(incoming))
        elif isinstance(incoming, Notified):
            yield from _news(incoming)
        else:
            yield incoming

    def _reply(self, asked: Called) -> bytes:
        if asked.method == "ping":
            return self._peer.respond(asked.id, {})
        if asked.method == "roots/list":
            self.roots_asked += 1
            return self._peer.respond(asked.id, self._roots)
        return self._peer.refuse(asked.id, jsonrpc.METHOD_NOT_FOUND, f"acp-launch does not offer {asked.method}")


def messages(line: bytes) -> Sequence[bytes]:
    """Split a line into its messages: one, or a batch."""
    return (line[:1] in jsonrpc.STARTS and jsonrpc.batch(line)) or (line,)


def _news(told: Notified) -> Iterator[Event]:
    if told.method == "notifications/progress":
        yield message.read_progress(told.params)
    elif told.method == "notifications/message":
        yield message.read_log_message(told.params)


# The connection to a server's process. Every wait has a deadline.

Waiting = Callable[[str, float, float], None]
FLOOD_BYTES = 1024 * 1024  # on stdout without a message among them


class ServerListener(Protocol):
    """Shows a server's notifications; must not block."""

    def progress(self, progress: Progress) -> None: ...
    def said(self, said: LogMessage) -> None: ...
    def note(self, text: str) -> None: ...


class McpConnection:
    """A connection to a server. `waiting` hears of a long wait: its purpose, the seconds so far, and its limit."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        client: McpClient,
        listener: ServerListener,
        waiting: Waiting,
        *,
        max_line: int,
        is_remote: bool = False,
    ) -> None:
        self.name, self.is_remote = name, is_remote
        self.label = f'the MCP server "{name}"'
        self.client = client
        self._listener, self._said_waiting = listener, waiting
        self._clock = asyncio.get_running_loop().time
        self._junk_bytes = 0  # since its last message
        self._progressed = self._opened = self._clock()
        self._asked_for_roots = asyncio.Event()
        self.pump = Pump(
            transport, self._receive, self, self.label, recover=client.recover, max_line=max_line, split=messages
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Connect while the block runs; errors are raised as themselves, not in a group."""
        async with self.pump.running():
            yield self
            await self.pump.flush()

    def note_open(self) -> None:
        """Note that the handshake is done."""
        self.pump.is_open = True
        self._opened = self._clock()

    async def roots_asked(self, *, within: float) -> int:
        """Return how often the server has asked for the roots, after at most `within` seconds from the handshake."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._opened + within):
                await self._asked_for_roots.wait()
        return self.client.roots_asked

    def last_progress(self) -> float:
        """Return the loop time of the last request or progress."""
        return self._progressed

    async def ask(
        self, call: Call, *, what: str, limit: float, knob: str, since: Callable[[], float] | None = None
    ) -> Raw:
        """Send a request and wait for its answer; `knob` names the setting that prolongs the wait.

        After a time-out or a cancellation, the request is cancelled at the server (except `initialize`; MCP
        "cancellation").

        Raises:
            ServerError: the server ended first.
            ServerRefused: it answered with an error.
            RemoteProtocolError: it broke the protocol.
            WaitExpired: it did not answer in time.
        """
        self._progressed = self._clock()
        with self.pump.asking(call) as future:
            try:
                named = f"{what} from {self.label}"
                answer = await awaited(future, what=named, limit=limit, since=since, waiting=self._said_waiting)
            except WaitExpired as error:
                error.fix = f"if it needs longer: {knob}"
                await self._withdraw(call, "it took too long")
                raise
            except asyncio.CancelledError:
                await self._withdraw(call, "the user stopped it")
                raise
        if answer.fault is not None:
            said = f"{self.label} answered {call.method} with an error: {answer.fault.message} ({answer.fault.code})"
            raise ServerRefused(said, code=answer.fault.code, detail=details(answer.fault))
        return answer.result

    # Events of the pump.

    def on_event(self, event: Progress | LogMessage) -> None:
        if isinstance(event, Progress):
            self._progressed = self._clock()
            self._listener.progress(event)
        else:
            self._listener.said(event)

    def note(self, text: str) -> None:
        self._listener.note(text)

    def died(self, how: str, last_words: tuple[str, ...], method: str) -> LaunchError:
        return ServerError(f"{self.label} {how} before it answered {method}")

    async def drain(self) -> None:
        """Return at once, as there is always room."""

    def _receive(self, line: bytes) -> Iterator[Event]:
        """Read a message.

        Raises:
            RemoteProtocolError: the server floods its stdout with lines that are not messages.
        """
        for event in self.client.receive(line):
            self._junk_bytes = self._junk_bytes + len(line) + 1 if isinstance(event, Junk) else 0
            if self._junk_bytes > FLOOD_BYTES:
                raise RemoteProtocolError(
                    f"{self.label} wrote more than 1 MiB to stdout that is not JSON-RPC", fix=STDIO
                )
            yield event
            if self.client.roots_asked:
                self._asked_for_roots.set()

    async def _withdraw(self, call: Call, reason: str) -> None:
        if call.method == "initialize":
            return
        self.pump.send(self.client.cancel(call.number, reason))
        await self.pump.flush()


# The handshake: `initialize`, then `notifications/initialized`.

ANSWER = "answer to initialize"
REMOTE = "check mcp_servers.{name}.url"
STDIO = "is the command right? some servers speak MCP on stdio only with a flag or a subcommand"


def silent(name: str, limit: float, *, is_remote: bool = False) -> ServerError:
    """Build the error of a server that has not answered the handshake within `limit` seconds, for every verb."""
    first = REMOTE.format(name=name) if is_remote else STDIO
    return ServerError(
        f'no {ANSWER} from the MCP server "{name}" within {limit:.3g} s',
        fix=f"{first}; if it needs longer: mcp_servers.{name}.timeouts.start in the profile",
    )


async def shake_hands(
    connection: McpConnection, *, limit: float, since: Callable[[], float] | None = None
) -> ServerInfo:
    """Do the handshake; the server has `limit` seconds for its answer, counted as for `awaited`.

    Raises:
        ServerError: the server ended, or is not an MCP server: it printed text and did not answer in time.
        RemoteProtocolError: it does not support our versions, or refused.
        WaitExpired: it did not answer in time.
    """
    call = connection.client.initialize()
    try:
        result = await connection.ask(call, what=ANSWER, limit=limit, knob="", since=since)
    except WaitExpired as error:
        told = silent(connection.name, limit, is_remote=connection.is_remote)
        error.message, error.fix = told.message, told.fix
        raise error if connection.is_remote else _explain(error, connection.pump.noise) from None
    except LaunchError as error:
        raise error if connection.is_remote else _explain(error, connection.pump.noise) from None
    server = read_server(connection.label, result)
    connection.note_open()
    connection.pump.send(jsonrpc.as_line(jsonrpc.notification("notifications/initialized", {})))
    return server


def _explain(error: LaunchError, noise: list[str]) -> LaunchError:
    """Add the most likely reason to an error: a program that is not an MCP server on stdio."""
    printed = [f"it printed: {line}" for line in noise]
    if noise and isinstance(error, WaitExpired):
        return ServerError(
            f"this is not an MCP server: it printed text, and {error.message}", fix=STDIO, detail=printed
        )
    error.detail = (*printed, *error.detail)
    if not isinstance(error, ProtocolError | WaitExpired):
        error.fix = f"{STDIO}; {error.fix}" if error.fix else STDIO
    return error


# Lists, page after page (MCP "pagination").


async def list_items(connection: McpConnection, method: str, *, limit: float) -> list[dict[str, Any]]:
    """Read the items of all pages, with `limit` seconds for each page.

    Raises:
        ServerRefused: the server answered with an error.
        RemoteProtocolError: a page is malformed, or the list has too many pages.
    """
    items: list[dict[str, Any]] = []
    params: dict[str, str] = {}
    for _ in range(PAGES):
        found, cursor = await _page(connection, method, params, limit)
        items += found
        if cursor is None:
            return items
        params = {"cursor": cursor}
    raise RemoteProtocolError(f"the answer of {connection.label} to {method} has more than {PAGES} pages")


async def _page(
    connection: McpConnection, method: str, params: dict[str, str], limit: float
) -> tuple[list[dict[str, Any]], str | None]:
    call = connection.client.call(method, params)
    knob = f"mcp_servers.{connection.name}.timeouts.start in the profile"
    page = decoded(await connection.ask(call, what=f"answer to {method}", limit=limit, knob=knob))
    listed = mapping(page).get(LISTS[method][1])
    if not isinstance(listed, list):
        raise RemoteProtocolError(f"{connection.label} answered {method} without a list of {LISTS[method][1]}")
    found = [item for item in sequence(listed) if isinstance(item, dict)]
    return found, text(mapping(page).get("nextCursor")) or None


async def tools(connection: McpConnection, server: ServerInfo, *, limit: float) -> list[Tool]:
    """List the server's tools; empty if it does not offer any."""
    if not server.offers("tools"):
        return []
    return list(read_tools(await list_items(connection, "tools/list", limit=limit)))


# Calls of tools, and their results.

SILENCE_TIMEOUT = 60.0  # if no limit is set


class Limit(Struct, frozen=True):
    """The seconds of a wait for the answer, or with `of_silence` for the answer or the next progress."""

    seconds: float
    of_silence: bool
    knob: str  # the setting that prolongs it


class ToolResult(Struct, frozen=True):
    """The result of a tool. `parts` are its texts, and a line about each part that is not text."""

    parts: tuple[str, ...]
    is_error: bool
    raw: Raw


async def call_tool(connection: McpConnection, tool: str, arguments: Raw, limit: Limit) -> ToolResult:
    """Call a tool.

    Raises:
        LaunchError: as `Connection.ask`.
        RemoteProtocolError: the answer has no result.
    """
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
    result = await connection.ask(
        connection.client.call("tools/call", params),
        what=f'result of "{tool}"',
        limit=limit.seconds,
        knob=limit.knob,
        since=connection.last_progress if limit.of_silence else None,
    )
    body = decoded(result)
    if not isinstance(body, dict):
        raise RemoteProtocolError(f"{connection.label} answered tools/call without a result")
    return read_result(result.copy(), body)


def read_result(raw: Raw, body: dict[str, object]) -> ToolResult:
    """Read a result; structured content is shown only if there is no text, which repeats it."""
    content = [mapping(item) for item in sequence(body.get("content"))]
    parts = [_part(item) for item in content]
    if "structuredContent" in body and not any(item.get("type") == "text" for item in content):
        parts.append(json.dumps(body["structuredContent"], indent=2, ensure_ascii=False))
    return ToolResult(tuple(parts), body.get("isError") is True, raw)


def _part(item: dict[str, object]) -> str:
    kind = text(item.get("type"))
    if kind == "text":
        return text(item.get("text"))
    if kind == "resource":
        resource = mapping(item.get("resource"))
        held = resource.get("text")
        data = held.encode(errors="replace") if isinstance(held, str) else None
        size = _size(resource.get("blob")) if data is None else count(len(data), "byte")
        return _line("resource", [text(resource.get("uri")), text(resource.get("mimeType")), size])
    if kind == "resource_link":
        facts = [text(item.get("uri")), text(item.get("name")), text(item.get("mimeType"))]
    else:
        facts = [text(item.get("mimeType")), _size(item.get("data"))]
    return _line(kind or "something without a type", facts)


def _line(kind: str, facts: list[str]) -> str:
    return f"[{', '.join(filter(None, [kind, *facts]))}]"


def _size(base64: object) -> str:
    return count(len(base64.rstrip("=")) * 3 // 4, "byte") if isinstance(base64, str) else ""


# Surveys: all that can be learned of a server without using it.

PING_TIMEOUT = stretch(5.0)  # a server that needs longer for `{}` does not answer
ROOTS = 0.5  # seconds from the handshake to the first request for roots; server-everything asks after 0.35


class Survey(Struct, frozen=True, kw_only=True):
    """The result of a survey. `counts`, `timings` (seconds) and `refused` (reasons) are by method.

    Methods that the server does not offer are in none of them. `tool_names` are the server's, before any policy.
    `roots_asked` is how often it asked for the roots.
    """

    server: ServerInfo
    counts: Mapping[str, int]
    timings: Mapping[str, float]
    refused: Mapping[str, str]
    tool_names: tuple[str, ...]
    answers_ping: bool
    roots_asked: int


async def survey(connection: McpConnection, server: ServerInfo, *, limit: float) -> Survey:
    """Read every list that the server offers, then `ping`, with `limit` seconds for each answer.

    Raises:
        ServerError: the server died.
        RemoteProtocolError: it broke the protocol; a refused list is part of the result.
        WaitExpired: it did not answer in time.
    """
    clock = asyncio.get_running_loop().time
    counts: dict[str, int] = {}
    timings: dict[str, float] = {}
    refused: dict[str, str] = {}
    names: tuple[str, ...] = ()
    for method, (capability, _) in LISTS.items():
        if not server.offers(capability):
            continue
        begun = clock()
        try:
            items = await list_items(connection, method, limit=limit)
        except ServerRefused as error:
            if error.code != jsonrpc.METHOD_NOT_FOUND:
                refused[method] = error.message
            continue
        counts[method], timings[method] = len(items), clock() - begun
        if method == "tools/list":
            names = tuple(str(item.get("name")) for item in items)
    return Survey(
        server=server,
        counts=counts,
        timings=timings,
        refused=refused,
        tool_names=names,
        answers_ping=await _answers_ping(connection),
        roots_asked=await connection.roots_asked(within=ROOTS),
    )


async def _answers_ping(connection: McpConnection) -> bool:
    call = connection.client.call("ping", {})
    try:
        await connection.ask(call, what="answer to ping", limit=PING_TIMEOUT, knob="")
    except (ServerRefused, WaitExpired):
        return False
    return True
