"""
The demo MCP server over HTTP, started as `python3 -m acp_launch.demo.web [PORT] [--token TOKEN]`: the same notes.

It listens on 127.0.0.1 only, on a free port without PORT, and prints its address ("Streamable HTTP"). With a token,
every request needs `Authorization: Bearer TOKEN`. Each request is a line on stderr, without its headers. It uses the
standard library only, and runs until Ctrl-C.
"""

import argparse
import json
import sys
import uuid
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from acp_launch.demo.server import answer
from acp_launch.demo.wire import Message, RpcError, decode

SESSION = "Mcp-Session-Id"


class Web(ThreadingHTTPServer):
    """The sessions of all clients."""

    daemon_threads = True

    def __init__(self, port: int, token: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.token = token
        self.sessions: set[str] = set()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say in one line that a client went away."""
        print(f"{type(sys.exception()).__name__}: a client went away", file=sys.stderr)


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the head and the body of an answer are two writes
    server: Web

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if not self._is_refused():
            try:
                self._receive(decode(body) or {})
            except RpcError as error:
                self._reply(400, {"id": None, "error": error.members()})

    def do_GET(self) -> None:
        if not self._is_refused():
            self._reply(405)  # this server says nothing on its own

    def do_DELETE(self) -> None:
        if not self._is_refused():
            session = self.headers.get(SESSION, "")
            is_known = session in self.server.sessions
            self.server.sessions.discard(session)  # before the answer, after which it may be asked for
            self._reply(204 if is_known else 404)

    def _is_refused(self) -> bool:
        """Refuse a request for another address, or without the token."""
        is_known = not self.server.token or self.headers.get("Authorization") == f"Bearer {self.server.token}"
        if is_known and self.path == "/mcp":
            return False
        self._reply(404 if is_known else 401)
        return True

    def _receive(self, message: Message) -> None:
        identity = self.headers.get(SESSION)
        if message.get("method") == "initialize" and identity is None:
            identity = uuid.uuid4().hex
            self.server.sessions.add(identity)
        if identity not in self.server.sessions:
            self._reply(400 if identity is None else 404)
        else:
            response = answer(message)
            self._reply(200 if response else 202, response, session=str(identity))

    def _reply(self, status: int, message: Message | None = None, *, session: str = "") -> None:
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if session:
            self.send_header(SESSION, session)
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(prog="acp_launch.demo.web", description="The demo MCP server over HTTP.")
    parser.add_argument("port", nargs="?", type=int, default=0, help="the port on 127.0.0.1; a free one if not given")
    parser.add_argument("--token", default="", help="refuse requests without `Authorization: Bearer TOKEN`")
    given = parser.parse_args()
    try:
        web = Web(given.port, given.token)
    except (OSError, OverflowError) as error:
        parser.error(f"cannot listen on port {given.port}: {getattr(error, 'strerror', None) or error}")
    with web:
        print(f"http://127.0.0.1:{web.server_address[1]}/mcp", flush=True)
        try:
            web.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()
