"""
The MCP servers of a session that are reached over the network: "Streamable HTTP" (`http`), and the older "HTTP with
SSE" (`sse`).

Each request has a thread and a connection of its own, which is closed when the call is withdrawn or the session ends.
No redirection is followed: the headers of an entry may hold a credential.
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
FAREWELL = 0.12  # seconds for a server to be told that its session is over
LISTENING = -1  # in the place of a call, for the stream that belongs to none


class Remote(Server):
    def __init__(self, entry: Message) -> None:
        self._web = _EventWire(entry) if entry["type"] == "sse" else _WebWire(entry)
        self._farewell: threading.Thread | None = None
        super().__init__(entry)

    def close_input(self) -> None:
        self._web.lose(f"{self.name} was stopped")
        with suppress(RpcError):  # no thread for it: the server will find out
            self._farewell = aside(self._web.leave)

    def wait(self, deadline: float) -> None:
        if self._farewell is not None:
            self._farewell.join(max(0.0, deadline - time.monotonic()))

    def _connect(self) -> Wire:
        self._web.enter()
        return self._web


class _WebWire(Wire):
    """Every message is a POST of its own; what comes back are the answers to it."""

    def __init__(self, entry: Message) -> None:
        super().__init__(-1)
        self._url: str = entry["url"]
        self._to = self._url  # where our messages go
        self._headers: dict[str, str] = entry["headers"]
        self._of_session: dict[str, str] = {}  # headers that the server has given us
        self._open: dict[int, socket.socket] = {}  # by the call that waits there
        self._changing = threading.Lock()

    def enter(self) -> None:
        """Do what comes before the first message."""

    def leave(self) -> None:
        """Close what is open, and say goodbye."""
        with self._changing:
            sockets, self._open = [*self._open.values()], {}
        for each in sockets:
            _hang_up(each)
        if "Mcp-Session-Id" in self._of_session:
            with suppress(RpcError):  # it need not offer that
                self._tell("DELETE", self._url, None, FAREWELL)

    def send(self, message: Message) -> None:
        """A request is answered later; anything else is over when this returns.

        Raises:
            RpcError: it was not taken.
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
        """The thread of a request: whatever happens, there is an answer to it."""
        identity, why = message["id"], "it ended its answer before there was one"
        try:
            for answer in self._answers(identity, body):
                if message["method"] == "initialize":
                    self._agreed(answer.get("result"))
                receive(self, answer)
        except (RpcError, OSError, HTTPException) as error:
            why = _said(error)
        self.deliver({"id": identity, "error": {"code": INTERNAL_ERROR, "message": why}})  # unless there was one

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
        """A request whose answer says no more than that it was taken."""
        self._request(method, url, body, limit=limit).close()

    def _request(
        self, method: str, url: str, body: bytes | None, call: int | None = None, *, limit: float = HANDSHAKE
    ) -> HTTPResponse:
        """`limit` is for the connection, and for its answer where no `call` waits for that."""
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
        except ValueError:  # its words hold the value of a header
            raise RpcError(INTERNAL_ERROR, "its url is no address, or one of its headers cannot be sent") from None

    def _wait_on(self, line: socket.socket, call: int) -> None:
        if call != LISTENING:
            line.settimeout(None)  # whoever asked waits no longer than it wants to, and hangs up
        with self._changing:
            self._open[call] = line

    def _sent(self, method: str) -> dict[str, str]:
        how = {"Accept": f"{JSON}, {STREAM}", "Content-Type": JSON} if method == "POST" else {"Accept": STREAM}
        return {**self._headers, **how, **self._of_session}


class _EventWire(_WebWire):
    """One stream brings whatever comes from the server, and says first where our messages go to."""

    def enter(self) -> None:
        response = self._request("GET", self._url, None, LISTENING)
        heard = events(response)
        kind, data = next(heard, ("", b""))
        to = urljoin(self._url, data.decode(errors="replace"))
        if kind != "endpoint" or urlsplit(to)[:2] != urlsplit(self._url)[:2]:
            raise RpcError(INTERNAL_ERROR, "it does not say where on its own host messages go to")
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
        with suppress(RpcError):  # noise, or an answer of ours that was not taken: neither ends the connection
            message = decode(data)
            if message is not None:
                receive(self, message)


def events(lines: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Type and data of each event of a stream."""
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
    with suppress(OSError):  # it is over already
        line.shutdown(socket.SHUT_RDWR)
