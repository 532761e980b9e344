"""
The demo MCP server over HTTP, started as `python3 -m acp_launch.demo.web [PORT] [--token TOKEN]`: the same notes.

It listens on 127.0.0.1 only, on a free port without PORT, and prints its addresses: `/mcp` is "Streamable HTTP", `/sse`
the older "HTTP with SSE". With a token, every request needs `Authorization: Bearer TOKEN`. Each request is a line on
stderr, without its headers. It uses the standard library only, and runs until Ctrl-C.
"""

import argparse
import hmac
import json
import sys
import threading
import uuid
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from urllib.parse import parse_qs, urlsplit

from acp_launch.demo.server import Server
from acp_launch.demo.wire import Message, RpcError, decode

JSON, STREAM = "application/json", "text/event-stream"
LONGEST = 1024 * 1024  # bytes of a request
KEEP_ALIVE = 15.0  # seconds between two comments on an event stream, which find out whether the client is still there


class Session:
    """A client that has introduced itself; `outbox` is the event stream of the older transport."""

    def __init__(self) -> None:
        self.identity = uuid.uuid4().hex
        self.server = Server()
        self.outbox: SimpleQueue[bytes] = SimpleQueue()

    def answer(self, message: Message) -> bytes:
        """Return the answer to a message; b"" if it needs none."""
        if "method" not in message or "id" not in message:
            return b""
        try:
            answered: Message = {"result": self.server.answer(message)}
        except RpcError as error:
            answered = {"error": {"code": error.code, "message": str(error)}}
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], **answered}, separators=(",", ":")).encode()


class Web(ThreadingHTTPServer):
    """The sessions of all clients."""

    daemon_threads = True

    def __init__(self, port: int, token: str) -> None:
        super().__init__(("127.0.0.1", port), Visit)
        self.token = token
        self.sessions: dict[str, Session] = {}
        self._changing = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def begin(self) -> Session:
        session = Session()
        with self._changing:
            self.sessions[session.identity] = session
        return session

    def end(self, identity: str) -> bool:
        with self._changing:
            return self.sessions.pop(identity, None) is not None

    def handle_error(self, request: object, client_address: object) -> None:
        """Say in one line that a client went away."""
        print(f"{type(sys.exception()).__name__}: a client went away", file=sys.stderr)


class Visit(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the head and the body of an answer are two writes
    server: Web

    def do_POST(self) -> None:
        if (message := self._message()) is None:
            return
        path, query = self._where()
        if path == "/mcp":
            self._streamable(message)
        elif path == "/messages" and (session := self.server.sessions.get(query)):
            session.outbox.put(session.answer(message))
            self._reply(202)
        else:
            self._reply(404)

    def do_GET(self) -> None:
        if not self._is_welcome():
            return
        path, _ = self._where()
        if path == "/sse":
            self._listen()
        else:
            self._reply(405 if path == "/mcp" else 404)  # this server says nothing on its own

    def do_DELETE(self) -> None:
        if self._is_welcome():
            self._reply(204 if self.server.end(self.headers.get("Mcp-Session-Id", "")) else 404)

    def log_message(self, format: str, *args: object) -> None:
        print(format % args, file=sys.stderr)

    def _where(self) -> tuple[str, str]:
        """Return the path, and the session that the older transport names in the query."""
        parts = urlsplit(self.path)
        return parts.path, parse_qs(parts.query).get("session", [""])[0]

    def _is_welcome(self) -> bool:
        said = self.headers.get("Authorization", "").encode()
        if not self.server.token or hmac.compare_digest(said, f"Bearer {self.server.token}".encode()):
            return True
        self._reply(401)
        return False

    def _message(self) -> Message | None:
        """Read the message of a POST; None if it was refused."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST:
            self.close_connection = True
            self._reply(413 if length.isdecimal() else 411)
            return None
        body = self.rfile.read(int(length))
        if not self._is_welcome():
            return None
        try:
            return decode(body) or {}
        except RpcError as error:
            fault = {"jsonrpc": "2.0", "id": None, "error": {"code": error.code, "message": str(error)}}
            self._reply(400, JSON, json.dumps(fault).encode())
            return None

    def _streamable(self, message: Message) -> None:
        known = self.headers.get("Mcp-Session-Id")
        session = self.server.sessions.get(known or "")
        if session is None and message.get("method") == "initialize":
            session = self.server.begin()
        if session is None:
            self._reply(400 if known is None else 404)
            return
        answer = session.answer(message)
        if answer:
            self._reply(200, JSON, answer, session=session.identity)
        else:
            self._reply(202)

    def _listen(self) -> None:
        """Send a client of the older transport everything that is for it, until it goes away."""
        session = self.server.begin()
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", STREAM)
        self.end_headers()
        try:
            self._event(b"event: endpoint\ndata: /messages?session=" + session.identity.encode())
            while True:
                self._event(self._next(session))
        except OSError:
            return
        finally:
            self.server.end(session.identity)

    def _next(self, session: Session) -> bytes:
        try:
            return b"event: message\ndata: " + session.outbox.get(timeout=KEEP_ALIVE)
        except Empty:
            return b": still here"

    def _event(self, lines: bytes) -> None:
        self.wfile.write(lines + b"\n\n")

    def _reply(self, status: int, kind: str = "", body: bytes = b"", *, session: str = "") -> None:
        self.send_response(status)
        challenge = "Bearer" if status == HTTPStatus.UNAUTHORIZED else ""
        for name, value in (("Content-Type", kind), ("Mcp-Session-Id", session), ("WWW-Authenticate", challenge)):
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="acp_launch.demo.web", description="The demo MCP server over HTTP.")
    parser.add_argument("port", nargs="?", type=int, default=0, help="the port on 127.0.0.1; a free one if not given")
    parser.add_argument("--token", default="", help="refuse requests without `Authorization: Bearer TOKEN`")
    given = parser.parse_args(words)
    try:
        web = Web(given.port, given.token)
    except (OSError, OverflowError) as error:
        parser.error(f"cannot listen on port {given.port}: {getattr(error, 'strerror', None) or error}")
    with web:
        print(f"{web.address}/mcp\n{web.address}/sse", flush=True)
        try:
            web.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()
