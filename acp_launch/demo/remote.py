"""
The network MCP servers of a session: "Streamable HTTP" (`http`), and the older "HTTP with SSE" (`sse`).

Each request has its own thread and connection, which is closed when the call is withdrawn or the session ends.
Redirections are not followed, because the headers of an entry may contain a credential.
"""

import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urljoin, urlsplit

from acp_launch.demo.toolbox import HANDSHAKE, Server, receive
from acp_launch.demo.wire import INTERNAL_ERROR, Call, Message, RpcError, Wire, aside, decode

JSON, STREAM = "application/json", "text/event-stream"
FAREWELL = 0.12  # seconds to tell a server that its session has ended
LISTENING = -1  # instead of a call, for the stream without one


class Remote(Server):
    """An MCP server over the network."""

    def __init__(self, entry: Message) -> None:
        self._web = _EventWire(entry) if entry["type"] == "sse" else _WebWire(entry)
        self._farewell: threading.Thread | None = None
        super().__init__(entry)

    def close_input(self) -> None:
        self._web.lose(f"{self.name} was stopped")
        with suppress(RpcError):  # no thread for the goodbye: the server will notice
            self._farewell = aside(self._web.leave)

    def wait(self, deadline: float) -> None:
        if self._farewell is not None:
            self._farewell.join(max(0.0, deadline - time.monotonic()))

    def _connect(self) -> Wire:
        self._web.enter()
        return self._web


class _WebWire(Wire):
    """Sends every message as its own POST, and reads the answers from its response."""

    def __init__(self, entry: Message) -> None:
        super().__init__(-1)
        self._url: str = entry["url"]
        self._to = self._url  # the address for our messages
        self._headers: dict[str, str] = entry["headers"]
        self._of_session: dict[str, str] = {}  # headers given by the server
        self._open: dict[int, socket.socket] = {}  # by waiting call
        self._changing = threading.Lock()

    def enter(self) -> None:
        """Connect before the first message."""

    def leave(self) -> None:
        """Close all connections, and say goodbye."""
        with self._changing:
            sockets, self._open = [*self._open.values()], {}
        for each in sockets:
            _hang_up(each)
        if "Mcp-Session-Id" in self._of_session:
            with suppress(RpcError):  # servers need not support it
                self._tell("DELETE", self._url, None, FAREWELL)

    def send(self, message: Message) -> None:
        """Send a message. A request is answered later; anything else is done when this returns.

        Raises:
            RpcError: the server did not accept it.
        """
        body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
        if "method" in message and "id" in message:
            aside(lambda: self._ask(message, body))
        else:
            self._tell("POST", self._to, body, HANDSHAKE)

    def forget(self, call: Call) -> None:
        super().forget(call)
        with self._changing:
            line = self._open.pop(call.identity, None)
        if line is not None:
            _hang_up(line)

    def _ask(self, message: Message, body: bytes) -> None:
        """Run the thread of a request. It always delivers an answer."""
        identity, why = message["id"], "it closed the response without an answer"
        try:
            for answer in self._answers(identity, body):
                if message["method"] == "initialize":
                    self._agreed(answer.get("result"))
                receive(self, answer)
        except (RpcError, OSError, HTTPException) as error:
            why = _said(error)
        self.deliver(
            {"id": identity, "error": {"code": INTERNAL_ERROR, "message": why}}
        )  # ignored if there was an answer

    def _agreed(self, result: object) -> None:
        if isinstance(result, dict) and isinstance(result.get("protocolVersion"), str):
            self._of_session["MCP-Protocol-Version"] = result["protocolVersion"]

    def _answers(self, identity: int, body: bytes) -> Iterator[Message]:
        with self._request("POST", self._url, body, identity) as response:
            if session := response.getheader("Mcp-Session-Id"):
                self._of_session["Mcp-Session-Id"] = session
            is_stream = response.headers.get_content_type() == STREAM
            texts = (data for _, data in events(response)) if is_stream else iter([response.read()])
            yield from filter(None, map(decode, texts))

    def _tell(self, method: str, url: str, body: bytes | None, limit: float) -> None:
        """Send a request whose response is only an acceptance."""
        self._request(method, url, body, limit=limit).close()

    def _request(
        self, method: str, url: str, body: bytes | None, call: int | None = None, *, limit: float = HANDSHAKE
    ) -> HTTPResponse:
        """Send a request. `limit` is for the connection, and for the response unless a `call` waits for it."""
        where = ""
        try:
            parts = urlsplit(url)
            where = parts.netloc.rpartition("@")[2]
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection = kind(parts.hostname or "", parts.port, timeout=limit)
            connection.request(method, target, body, self._sent(method))
            if call is not None:
                self._wait_on(connection.sock, call)
            return _accepted(connection.getresponse())
        except (OSError, HTTPException) as error:
            raise RpcError(INTERNAL_ERROR, f"{where}: {_said(error)}") from None
        except ValueError:  # its text contains the value of a header
            raise RpcError(INTERNAL_ERROR, "its url is not valid, or one of its headers cannot be sent") from None

    def _wait_on(self, line: socket.socket, call: int) -> None:
        if call != LISTENING:
            line.settimeout(None)  # the caller has its own timeout, and then closes the connection
        with self._changing:
            self._open[call] = line

    def _sent(self, method: str) -> dict[str, str]:
        how = {"Accept": f"{JSON}, {STREAM}", "Content-Type": JSON} if method == "POST" else {"Accept": STREAM}
        return {**self._headers, **how, **self._of_session}


class _EventWire(_WebWire):
    """Reads one stream with everything the server sends; its first event is the address for our messages."""

    def enter(self) -> None:
        response = self._request("GET", self._url, None, LISTENING)
        heard = events(response)
        kind, data = next(heard, ("", b""))
        to = urljoin(self._url, data.decode(errors="replace"))
        if kind != "endpoint" or urlsplit(to)[:2] != urlsplit(self._url)[:2]:
            raise RpcError(INTERNAL_ERROR, "it does not name an address for messages on its own host")
        self._to = to
        with self._changing:
            if line := self._open.get(LISTENING):
                line.settimeout(None)
        aside(lambda: self._listen(response, heard))

    def _ask(self, message: Message, body: bytes) -> None:
        try:
            self._tell("POST", self._to, body, HANDSHAKE)
        except RpcError as error:
            self.deliver({"id": message["id"], "error": {"code": INTERNAL_ERROR, "message": str(error)}})

    def _listen(self, response: HTTPResponse, heard: Iterable[tuple[str, bytes]]) -> None:
        why = "it ended its stream"
        try:
            with response:
                for _, data in heard:
                    self._heard(data)
        except (OSError, HTTPException) as error:
            why = _said(error)
        self.lose(why)

    def _heard(self, data: bytes) -> None:
        with suppress(RpcError):  # noise, or an answer of ours that was not accepted: the connection continues
            message = decode(data)
            if message is not None:
                receive(self, message)


def events(lines: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield type and data of each event of a stream."""
    kind, data = "message", list[bytes]()
    for line in lines:
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            kind = value.strip().decode(errors="replace")
        elif not (name or value):
            if data:
                yield kind, b"\n".join(data)
            kind, data = "message", []


def _accepted(response: HTTPResponse) -> HTTPResponse:
    if 200 <= response.status < 300:
        return response
    response.close()
    raise RpcError(INTERNAL_ERROR, f"it answered {response.status} {response.reason}")


def _said(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):  # closed already
        line.shutdown(socket.SHUT_RDWR)
